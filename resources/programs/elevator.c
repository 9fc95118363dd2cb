/* An elevator between floor 0 and floor 9 turns round at both ends.
   Holds: it moves up only below the top, and down only above the ground. */

#include <assert.h>

extern _Bool __VERIFIER_nondet_bool(void);

int main(void)
{
    int floor = 0;
    _Bool up = 1;

    while (__VERIFIER_nondet_bool()) {
        if (up)
            floor++;
        else
            floor--;
        if (floor == 9)
            up = 0;
        if (floor == 0)
            up = 1;
    }
    assert(0 <= floor && floor <= 9);
    return 0;
}
