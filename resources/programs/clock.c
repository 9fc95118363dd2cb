/* Minutes and hours of a clock that runs for any time.
   Holds: remainders are below their divisors, and nothing is negative. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);

int main(void)
{
    int minute = 0;
    int hour = 0;

    while (__VERIFIER_nondet_int() != 0) {
        minute = (minute + 1) % 60;
        if (minute == 0)
            hour = (hour + 1) % 24;
    }
    assert(0 <= minute && minute < 60);
    assert(0 <= hour && hour < 24);
    return 0;
}
