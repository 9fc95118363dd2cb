/* A function moves one unit between two variables whose addresses it gets.
   Holds: the sum stays what it was. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern void __VERIFIER_assume(int);

static void move(int *from, int *to)
{
    (*from)--;
    *to += 1;
}

int main(void)
{
    int left = __VERIFIER_nondet_int(), right = 0, all;

    __VERIFIER_assume(left >= 0);
    all = left;
    while (left > 0)
        move(&left, &right);
    assert(right == all);
    return 0;
}
