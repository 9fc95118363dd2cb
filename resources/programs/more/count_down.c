/* Counts down to zero.
   Holds: the counter never falls below zero. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);

int main(void)
{
    int left = __VERIFIER_nondet_int();

    if (left < 0)
        return 0;
    while (left > 0)
        left--;
    assert(left == 0);
    return 0;
}
