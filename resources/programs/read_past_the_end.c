/* Looks for a negative element and believes that there is one.
   Fails: without one the search reads behind the end of the array. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern void __VERIFIER_assume(int);

int main(void)
{
    int n = __VERIFIER_nondet_int();

    __VERIFIER_assume(n >= 1);
    int a[n];
    int i = 0;
    while (a[i] >= 0)
        i++;
    assert(i >= 0);
    return 0;
}
