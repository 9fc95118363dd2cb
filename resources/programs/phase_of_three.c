/* A phase that goes 0, 1, 2, 0, ... beside a counter.
   Holds: the phase is the remainder of the counter. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern void __VERIFIER_assume(int);

int main(void)
{
    int rounds = __VERIFIER_nondet_int();
    int phase = 0;

    __VERIFIER_assume(rounds >= 0);
    for (int i = 0; i < rounds; i++) {
        phase++;
        if (phase == 3)
            phase = 0;
    }
    assert(phase == rounds % 3);
    return 0;
}
