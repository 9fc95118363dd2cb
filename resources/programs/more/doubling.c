/* Doubles one a number of times.
   Holds over integers. Fails over 32 bits: the thirty-first doubling wraps around. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern void __VERIFIER_assume(int);

int main(void)
{
    int times = __VERIFIER_nondet_int();
    int power = 1;

    __VERIFIER_assume(times <= 40);
    for (int i = 0; i < times; i++)
        power = 2 * power;
    assert(power > 0);
    return 0;
}
