/* A counter that stops at one hundred, however often it is told to count.
   Holds: it grows only below one hundred. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);

int main(void)
{
    int count = 0;
    int told = __VERIFIER_nondet_int();

    for (int i = 0; i < told; i++) {
        if (count == 100)
            continue;
        count++;
    }
    assert(count <= 100);
    return 0;
}
