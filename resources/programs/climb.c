/* Climbs by seven at a time from where it starts.
   Holds over integers. Fails over 32 bits: seven above the largest int is a negative number. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern _Bool __VERIFIER_nondet_bool(void);

int main(void)
{
    int start = __VERIFIER_nondet_int();
    int height = start;

    while (__VERIFIER_nondet_bool())
        height += 7;
    assert(height >= start);
    return 0;
}
