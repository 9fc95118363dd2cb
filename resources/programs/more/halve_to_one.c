/* Halves a number that is not zero until it is one.
   Holds: half of two or more is one or more. */

#include <assert.h>

extern unsigned __VERIFIER_nondet_uint(void);
extern void __VERIFIER_assume(int);

int main(void)
{
    unsigned x = __VERIFIER_nondet_uint();

    __VERIFIER_assume(x >= 1);
    while (x > 1)
        x = x / 2;
    assert(x == 1);
    return 0;
}
