/* Subtracts the smaller of two positive numbers from the larger until they are equal.
   Holds: both stay positive. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern void __VERIFIER_assume(int);

int main(void)
{
    int a = __VERIFIER_nondet_int();
    int b = __VERIFIER_nondet_int();

    __VERIFIER_assume(a > 0);
    __VERIFIER_assume(b > 0);
    while (a != b) {
        if (a > b)
            a -= b;
        else
            b -= a;
    }
    assert(a > 0);
    return 0;
}
