/* A machine in one of three states, with a coin inside in two of them.
   Holds: each state knows whether there is a coin; no state alone is an invariant. */

#include <assert.h>

extern _Bool __VERIFIER_nondet_bool(void);

int main(void)
{
    int state = 0;
    int coins = 0;

    while (__VERIFIER_nondet_bool()) {
        if (state == 0) {
            coins++;
            state = 1;
        } else if (state == 1) {
            if (__VERIFIER_nondet_bool())
                state = 2;
        } else {
            coins--;
            state = 0;
        }
    }
    assert(coins >= 0);
    assert(coins <= 1);
    return 0;
}
