/* A walker leaves the origin in one direction and never turns round.
   Holds: away from the origin on one side or on the other, a disjunction of two bounds. */

#include <assert.h>

extern _Bool __VERIFIER_nondet_bool(void);

int main(void)
{
    int place = __VERIFIER_nondet_bool() ? 1 : -1;
    int steps = 0;

    while (steps < 1000) {
        if (place > 0)
            place++;
        else
            place--;
        steps++;
    }
    assert(place != 0);
    assert(place == 1001 || place == -1001);
    return 0;
}
