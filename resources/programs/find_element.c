/* Searches an array for a key that is known to be in it.
   Holds: the key lies at or behind the counter; the invariant says that there is such an index. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern void __VERIFIER_assume(int);

int main(void)
{
    int n = __VERIFIER_nondet_int();
    int key = __VERIFIER_nondet_int();
    int k;

    __VERIFIER_assume(n >= 1);
    int a[n];
    __VERIFIER_assume(__ESBMC_exists(&k, 0 <= k && k < n && a[k] == key));
    int i = 0;
    while (i < n && a[i] != key)
        i++;
    assert(i < n);
    return 0;
}
