/* Counts from zero to a limit that is not negative.
   Holds: the counter never passes the limit. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern void __VERIFIER_assume(int);

int main(void)
{
    int limit = __VERIFIER_nondet_int();
    int count = 0;

    __VERIFIER_assume(limit >= 0);
    while (count < limit)
        count++;
    assert(count == limit);
    return 0;
}
