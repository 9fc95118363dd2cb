/* Writes one value into every element of an array.
   Holds: what lies below the counter is written; the invariant is for all indices. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern void __VERIFIER_assume(int);

int main(void)
{
    int n = __VERIFIER_nondet_int();
    int k;

    __VERIFIER_assume(n >= 1);
    int a[n];
    int i = 0;
    while (i < n) {
        a[i] = 7;
        i++;
    }
    assert(__ESBMC_forall(&k, !(0 <= k && k < n) || a[k] == 7));
    return 0;
}
