/* Two counters, one of which grows three times as fast.
   Holds: their ratio stays, also where they wrap around. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);

int main(void)
{
    int slow = 0;
    int fast = 0;
    int rounds = __VERIFIER_nondet_int();

    while (rounds > 0) {
        slow += 2;
        fast += 6;
        rounds--;
    }
    assert(fast == 3 * slow);
    return 0;
}
