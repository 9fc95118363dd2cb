/* The largest element of an array.
   Holds: no element below the counter is larger than the largest so far. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern void __VERIFIER_assume(int);

int main(void)
{
    int n = __VERIFIER_nondet_int();
    int k;

    __VERIFIER_assume(n >= 1);
    int a[n];
    int largest = a[0];
    for (int i = 1; i < n; i++) {
        if (a[i] > largest)
            largest = a[i];
    }
    assert(__ESBMC_forall(&k, !(0 <= k && k < n) || a[k] <= largest));
    return 0;
}
