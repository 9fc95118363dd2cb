/* Adds three until a limit is reached or passed.
   Holds: the guard is false after the loop, so no invariant is needed. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern void __VERIFIER_assume(int);

int main(void)
{
    int reached = 0;
    int limit = __VERIFIER_nondet_int();

    __VERIFIER_assume(limit <= 1000000);
    while (reached < limit)
        reached += 3;
    assert(reached >= limit);
    return 0;
}
