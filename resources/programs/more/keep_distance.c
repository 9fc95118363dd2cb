/* Two runners take the same steps, one with a start of five.
   Holds: their distance stays five. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern void __VERIFIER_assume(int);

int main(void)
{
    int behind = __VERIFIER_nondet_int();
    int ahead;

    __VERIFIER_assume(behind >= -1000 && behind <= 0);
    ahead = behind + 5;
    while (behind < 1000) {
        int step = __VERIFIER_nondet_int();
        __VERIFIER_assume(step == 1 || step == 2);
        behind += step;
        ahead += step;
    }
    assert(ahead - behind == 5);
    assert(ahead >= 1005);
    return 0;
}
