/* A hall with seats in rows, counted row by row.
   Holds: the count is the product; the invariants of both loops are nonlinear. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern void __VERIFIER_assume(int);

int main(void)
{
    int rows = __VERIFIER_nondet_int();
    int seats = __VERIFIER_nondet_int();
    int counted = 0;

    __VERIFIER_assume(rows >= 0 && rows <= 1000);
    __VERIFIER_assume(seats >= 0 && seats <= 1000);
    for (int row = 0; row != rows; row++) {
        for (int seat = 0; seat != seats; seat++)
            counted++;
    }
    assert(counted == rows * seats);
    return 0;
}
