/* Steps of two, and now and then a step of three.
   Fails: one step of three makes the number odd. */

#include <assert.h>

extern _Bool __VERIFIER_nondet_bool(void);

int main(void)
{
    int x = 0;

    while (__VERIFIER_nondet_bool()) {
        if (__VERIFIER_nondet_bool())
            x += 2;
        else
            x += 3;
    }
    assert(x % 2 == 0);
    return 0;
}
