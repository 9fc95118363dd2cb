/* The sum of all numbers below a limit.
   Holds over integers, where no number that is added is negative.
   Over 32 bits it Fails: the sum wraps around after 65536 rounds. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);

int main(void)
{
    int limit = __VERIFIER_nondet_int();
    int sum = 0;

    for (int i = 0; i < limit; i++)
        sum += i;
    assert(sum >= 0);
    return 0;
}
