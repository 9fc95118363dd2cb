/* Counts to a limit, with a guard that is true once too often.
   Fails: after the loop the counter is limit + 1; a limit of 0 shows it. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern void __VERIFIER_assume(int);

int main(void)
{
    int limit = __VERIFIER_nondet_int();
    int count = 0;

    __VERIFIER_assume(limit >= 0 && limit <= 1000);
    while (count <= limit)
        count++;
    assert(count == limit);
    return 0;
}
