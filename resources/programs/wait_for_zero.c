/* Reads numbers until one is zero.
   Holds: the loop ends only there, so no invariant is needed. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);

int main(void)
{
    int x;

    do {
        x = __VERIFIER_nondet_int();
    } while (x != 0);
    assert(x == 0);
    return 0;
}
