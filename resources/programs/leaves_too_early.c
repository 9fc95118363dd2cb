/* Counts all things of a row, but leaves at the first broken one.
   Fails: with a broken thing not all are counted. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern _Bool __VERIFIER_nondet_bool(void);
extern void __VERIFIER_assume(int);

int main(void)
{
    int row = __VERIFIER_nondet_int();
    int counted = 0;

    __VERIFIER_assume(row >= 0);
    while (counted < row) {
        _Bool broken = __VERIFIER_nondet_bool();
        if (broken)
            break;
        counted++;
    }
    assert(counted == row);
    return 0;
}
