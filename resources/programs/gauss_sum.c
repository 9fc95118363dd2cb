/* The sum of the numbers up to a limit.
   Holds: twice the sum is limit * (limit + 1), also where both wrap around. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern void __VERIFIER_assume(int);

int main(void)
{
    int limit = __VERIFIER_nondet_int();
    int sum = 0;
    int i = 0;

    __VERIFIER_assume(limit >= 0);
    while (i != limit) {
        i++;
        sum += i;
    }
    assert(2 * sum == limit * (limit + 1));
    return 0;
}
