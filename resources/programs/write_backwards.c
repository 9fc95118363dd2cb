/* Writes an array from its end to its beginning.
   Holds: the place stays inside the array, which the writes need, and ends at its first element. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern void __VERIFIER_assume(int);

int main(void)
{
    int n = __VERIFIER_nondet_int();

    __VERIFIER_assume(n >= 1);
    int a[n];
    int place = n;
    while (place > 0) {
        place--;
        a[place] = place;
    }
    assert(a[0] == 0);
    return 0;
}
