/* Two markers walk towards each other from both ends of a row.
   Holds: the sum of their places stays the length of the row, and they pass by at most one. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern void __VERIFIER_assume(int);

int main(void)
{
    int row = __VERIFIER_nondet_int();
    int left = 0;
    int right = row;

    __VERIFIER_assume(row >= 0);
    while (left < right) {
        left++;
        right--;
    }
    assert(left + right == row);
    assert(left - right <= 1);
    return 0;
}
