/* An inner loop brings one counter to the other, over and over.
   Holds: the inner counter never passes the outer one. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern void __VERIFIER_assume(int);

int main(void)
{
    int size = __VERIFIER_nondet_int();
    int outer = 0;
    int inner = 0;

    __VERIFIER_assume(size > 0 && size < 100000);
    while (outer < size) {
        outer++;
        while (inner < outer)
            inner++;
        assert(inner == outer);
    }
    assert(inner == size);
    return 0;
}
