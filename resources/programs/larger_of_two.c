/* The larger of two numbers, without a loop.
   Holds: each branch picks the one that is not smaller. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);

int main(void)
{
    int a = __VERIFIER_nondet_int();
    int b = __VERIFIER_nondet_int();
    int larger = a > b ? a : b;

    assert(larger >= a && larger >= b);
    assert(larger == a || larger == b);
    return 0;
}
