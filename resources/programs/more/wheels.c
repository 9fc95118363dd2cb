/* Bicycles and tricycles arrive; their wheels are counted.
   Holds: the wheels are a linear function of the two counts. */

#include <assert.h>

extern _Bool __VERIFIER_nondet_bool(void);

int main(void)
{
    int bicycles = 0;
    int tricycles = 0;
    int wheels = 0;

    while (__VERIFIER_nondet_bool()) {
        if (__VERIFIER_nondet_bool()) {
            bicycles++;
            wheels += 2;
        } else {
            tricycles++;
            wheels += 3;
        }
    }
    assert(wheels == 2 * bicycles + 3 * tricycles);
    return 0;
}
