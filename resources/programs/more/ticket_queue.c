/* Tickets are issued, at most a thousand, and served in order.
   Holds: no ticket is served before it was issued. */

#include <assert.h>

extern _Bool __VERIFIER_nondet_bool(void);

int main(void)
{
    int issued = 0;
    int served = 0;

    while (__VERIFIER_nondet_bool()) {
        if (__VERIFIER_nondet_bool()) {
            if (issued < 1000)
                issued++;
        } else if (served < issued) {
            served++;
        }
    }
    assert(served <= issued);
    assert(served <= 1000);
    return 0;
}
