/* Two trains on a ring that move together for as long as they like, even around the ring.
   Holds over both: what lies between them stays as it is, also where both places wrap around. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern void __VERIFIER_assume(int condition);

int main(void)
{
    int back = __VERIFIER_nondet_int();
    int front = __VERIFIER_nondet_int();

    __VERIFIER_assume(0 <= back && back <= 1);
    __VERIFIER_assume(5 <= front && front <= 6);
    while (__VERIFIER_nondet_int()) {
        back += 3;
        front += 3;
    }
    if (front == 20)
        assert(back > 13);
    return 0;
}
