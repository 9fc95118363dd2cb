/* Squares from the sums of odd numbers.
   Holds: the sum of the first n odd numbers is n * n, also where both wrap around. */

#include <assert.h>

extern _Bool __VERIFIER_nondet_bool(void);

int main(void)
{
    int n = 0;
    int odd = 1;
    int square = 0;

    while (__VERIFIER_nondet_bool()) {
        square += odd;
        odd += 2;
        n++;
    }
    assert(square == n * n);
    return 0;
}
