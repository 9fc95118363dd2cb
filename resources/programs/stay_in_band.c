/* A value drifts by any amount and is pushed back between -20 and 20.
   Holds: what leaves the band is replaced by its border. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern _Bool __VERIFIER_nondet_bool(void);
extern void __VERIFIER_assume(int);

int main(void)
{
    int value = 0;

    while (__VERIFIER_nondet_bool()) {
        int drift = __VERIFIER_nondet_int();
        __VERIFIER_assume(drift > -100 && drift < 100);
        value = value + drift;
        value = value > 20 ? 20 : value;
        value = value < -20 ? -20 : value;
    }
    assert(-20 <= value && value <= 20);
    return 0;
}
