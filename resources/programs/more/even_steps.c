/* Two steps at a time, up or down.
   Holds: the number stays even, also where it wraps around. */

#include <assert.h>

extern _Bool __VERIFIER_nondet_bool(void);

int main(void)
{
    int x = 0;

    while (__VERIFIER_nondet_bool()) {
        if (__VERIFIER_nondet_bool())
            x += 2;
        else
            x -= 2;
    }
    assert(x % 2 == 0);
    return 0;
}
