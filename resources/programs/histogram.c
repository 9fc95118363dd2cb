/* Counts numbers by their remainder modulo eight.
   Holds: the remainder is a place in the array, and the total is counted along. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern void __VERIFIER_assume(int);

int main(void)
{
    int counts[8] = {0};
    int total = 0;

    while (total < 1000) {
        int number = __VERIFIER_nondet_int();
        __VERIFIER_assume(number >= 0);
        counts[number % 8] += 1;
        total++;
    }
    assert(total == 1000);
    return 0;
}
