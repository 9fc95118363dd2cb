/* A function returns where an array has a value, or a null pointer.
   Holds: what it found is in the array, and has the value. */

#include <assert.h>
#include <stddef.h>

extern int __VERIFIER_nondet_int(void);

static int *find(int *from, int n, int value)
{
    while (n > 0) {
        if (*from == value)
            return from;
        from++;
        n--;
    }
    return NULL;
}

int main(void)
{
    int seats[20], taken = __VERIFIER_nondet_int();
    int *place = find(seats, 20, taken);

    if (place != NULL) {
        assert(*place == taken);
        assert(place - seats < 20);
    }
    return 0;
}
