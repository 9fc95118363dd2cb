/* Adds steps that a macro bounds until the sum reaches a limit of the same header. Holds: a step is
   at most 3, and the loop ends before the sum is LIMIT. */
#include <limits.h>
#define LIMIT 1000
#define SMALLER(a, b) ((a) < (b) ? (a) : (b))
#if LIMIT < INT_MAX
#define STEP 3
#else
#define STEP 0
#endif

int main(void) {
    int sum = 0;
    while (sum < LIMIT) {
        int step = __VERIFIER_nondet_int();
        __VERIFIER_assume(step > 0);
        sum += SMALLER(step, STEP);
    }
    assert(sum <= LIMIT + STEP - 1);
}
