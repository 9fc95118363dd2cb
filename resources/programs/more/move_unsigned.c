/* Moves what is in one heap to another, piece by piece.
   Holds: together they stay what they were, even where the sum wraps around. */

#include <assert.h>

extern unsigned __VERIFIER_nondet_uint(void);

int main(void)
{
    unsigned from = __VERIFIER_nondet_uint();
    unsigned to = __VERIFIER_nondet_uint();
    unsigned both = from + to;

    while (from > 0) {
        from--;
        to++;
    }
    assert(to == both);
    return 0;
}
