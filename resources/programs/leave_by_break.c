/* A loop without an end that a branch leaves.
   Holds: the branch knows why it leaves, so no invariant is needed. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);

int main(void)
{
    int signal = 0;

    while (1) {
        signal = __VERIFIER_nondet_int();
        if (signal > 10)
            break;
    }
    assert(signal > 10);
    return 0;
}
