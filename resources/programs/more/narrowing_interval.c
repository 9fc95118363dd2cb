/* An interval is halved until one place is left.
   Holds: the middle, computed without an overflow, lies inside the interval. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern _Bool __VERIFIER_nondet_bool(void);
extern void __VERIFIER_assume(int);

int main(void)
{
    int low = 0;
    int high = __VERIFIER_nondet_int();

    __VERIFIER_assume(high >= 1);
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        assert(low < middle && middle < high);
        if (__VERIFIER_nondet_bool())
            low = middle;
        else
            high = middle;
    }
    assert(low + 1 == high);
    return 0;
}
