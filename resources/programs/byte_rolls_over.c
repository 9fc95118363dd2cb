/* A byte that rolls over after 255, beside a counter that is taken modulo 256.
   Holds: they are always equal. Unsigned, so it rolls over in mathematics too. */

#include <assert.h>

extern _Bool __VERIFIER_nondet_bool(void);

int main(void)
{
    unsigned char byte = 0;
    int counter = 0;

    while (__VERIFIER_nondet_bool()) {
        byte++;
        counter = (counter + 1) % 256;
    }
    assert(byte == counter);
    return 0;
}
