/* Walks over a row of things and takes some of them.
   Holds: no more are taken than were passed. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern _Bool __VERIFIER_nondet_bool(void);
extern void __VERIFIER_assume(int);

int main(void)
{
    int row = __VERIFIER_nondet_int();
    int taken = 0;
    int i;

    __VERIFIER_assume(row >= 0);
    for (i = 0; i < row; i++) {
        if (__VERIFIER_nondet_bool())
            continue;
        taken++;
    }
    assert(taken <= row);
    return 0;
}
