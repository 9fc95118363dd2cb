/* Fibonacci numbers.
   Holds over integers. Fails over 32 bits: the forty-sixth step wraps around. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern void __VERIFIER_assume(int);

int main(void)
{
    int steps = __VERIFIER_nondet_int();
    int a = 0;
    int b = 1;

    __VERIFIER_assume(steps <= 50);
    while (steps > 0) {
        int next = a + b;
        a = b;
        b = next;
        steps--;
    }
    assert(a <= b);
    return 0;
}
