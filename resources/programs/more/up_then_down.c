/* One loop counts up, the next takes back what the first has counted.
   Holds: the second loop ends where the first began. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern void __VERIFIER_assume(int);

int main(void)
{
    int rounds = __VERIFIER_nondet_int();
    int i = 0;
    int piled = 0;

    __VERIFIER_assume(rounds >= 0);
    while (i < rounds) {
        piled++;
        i++;
    }
    while (i > 0) {
        piled--;
        i--;
    }
    assert(piled == 0);
    return 0;
}
