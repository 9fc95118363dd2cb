/* Each of three rows has four seats, and every seat is taken or not.
   Holds: no seat lies outside of its row, and what was stored is found. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);

int main(void)
{
    int taken[3][4], row = __VERIFIER_nondet_int(), seat = 0;

    if (row < 0 || row > 2)
        return 0;
    while (seat < 4) {
        taken[row][seat] = 1;
        seat++;
    }
    assert(taken[row][seat - 1] == 1);
    return 0;
}
