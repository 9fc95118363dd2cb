/* Two accounts pay each other, never more than they have.
   Holds: the sum of both stays, and neither falls below zero. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern _Bool __VERIFIER_nondet_bool(void);
extern void __VERIFIER_assume(int);

int main(void)
{
    int first = __VERIFIER_nondet_int();
    int second = __VERIFIER_nondet_int();
    int sum = 0;

    __VERIFIER_assume(0 <= first && first <= 10000);
    __VERIFIER_assume(0 <= second && second <= 10000);
    sum = first + second;
    while (__VERIFIER_nondet_bool()) {
        int amount = __VERIFIER_nondet_int();
        if (amount < 0)
            continue;
        if (amount <= first && __VERIFIER_nondet_bool()) {
            first -= amount;
            second += amount;
        } else if (amount <= second) {
            second -= amount;
            first += amount;
        }
    }
    assert(first >= 0 && second >= 0);
    assert(first + second == sum);
    return 0;
}
