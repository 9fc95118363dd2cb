/* Quotient and remainder by repeated subtraction.
   Holds: dividend == quotient * divisor + rest all along, and the rest is not negative. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern void __VERIFIER_assume(int);

int main(void)
{
    int dividend = __VERIFIER_nondet_int();
    int divisor = __VERIFIER_nondet_int();
    int quotient = 0;
    int rest;

    __VERIFIER_assume(dividend >= 0);
    __VERIFIER_assume(divisor > 0);
    rest = dividend;
    while (rest >= divisor) {
        rest -= divisor;
        quotient++;
    }
    assert(dividend == quotient * divisor + rest);
    assert(0 <= rest && rest < divisor);
    return 0;
}
