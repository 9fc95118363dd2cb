/* Adds up the absolute values of two numbers.
   Holds over integers. Fails over 32 bits: the smallest int has no absolute value. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);

int main(void)
{
    int total = 0;
    int seen = 0;

    while (seen < 2) {
        int x = __VERIFIER_nondet_int();
        if (x < 0)
            x = -x;
        assert(x >= 0);
        total = total + x / 2;
        seen++;
    }
    assert(total >= 0);
    return 0;
}
