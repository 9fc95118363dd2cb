/* The middle of an interval as half the sum of its ends.
   Holds over integers. Fails over 32 bits: the sum of two large ends is negative. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern void __VERIFIER_assume(int);

int main(void)
{
    int low = __VERIFIER_nondet_int();
    int high = __VERIFIER_nondet_int();

    __VERIFIER_assume(0 <= low && low < high);
    while (low < high) {
        int middle = (low + high) / 2;
        assert(low <= middle && middle < high);
        low = middle + 1;
    }
    assert(low == high);
    return 0;
}
