/* Copies an array of any length, and compares the copy with it in a second loop.
   Holds: every element below the counter is copied, and the second loop changes no element. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern void __VERIFIER_assume(int);

int main(void)
{
    int n = __VERIFIER_nondet_int();
    int i = 0;
    int j = 0;

    __VERIFIER_assume(n >= 1);
    int original[n];
    int copy[n];
    while (i < n) {
        copy[i] = original[i];
        i++;
    }
    while (j < n) {
        assert(copy[j] == original[j]);
        j++;
    }
    return 0;
}
