/* Fills an array but stops before its last element.
   Fails: the last element has any value. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern void __VERIFIER_assume(int);

int main(void)
{
    int n = __VERIFIER_nondet_int();

    __VERIFIER_assume(n >= 1 && n <= 20);
    int a[n];
    for (int i = 0; i < n - 1; i++)
        a[i] = 1;
    assert(a[n - 1] == 1);
    return 0;
}
