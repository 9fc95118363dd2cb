/* A lamp that is switched on and off, and a count of what burns.
   Holds: the count is one exactly while the lamp is on. */

#include <assert.h>

extern _Bool __VERIFIER_nondet_bool(void);

int main(void)
{
    _Bool on = 0;
    int burning = 0;

    while (__VERIFIER_nondet_bool()) {
        if (on) {
            burning--;
            on = 0;
        } else {
            burning++;
            on = 1;
        }
    }
    assert(burning == 0 || burning == 1);
    return 0;
}
