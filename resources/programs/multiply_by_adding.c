/* A product as a sum.
   Holds: after i rounds the sum is i times the first factor. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern void __VERIFIER_assume(int);

int main(void)
{
    int a = __VERIFIER_nondet_int();
    int b = __VERIFIER_nondet_int();
    int product = 0;

    __VERIFIER_assume(b >= 0);
    for (int i = 0; i != b; i++)
        product += a;
    assert(product == a * b);
    return 0;
}
