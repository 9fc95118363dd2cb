/* The sum of the numbers up to a limit, mistaken for a square.
   Fails: for a limit of 2 the sum is 3, not 4. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern void __VERIFIER_assume(int);

int main(void)
{
    int limit = __VERIFIER_nondet_int();
    int sum = 0;

    __VERIFIER_assume(limit >= 0 && limit <= 50);
    for (int i = 1; i <= limit; i++)
        sum += i;
    assert(sum == limit * limit);
    return 0;
}
