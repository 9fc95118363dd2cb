/* Two pointers to one variable: what is stored through one of them is seen through the other.
   Fails: the function expects two variables, and gets one. */

#include <assert.h>

static int stored(int *first, int *second)
{
    *first = 1;
    *second = 2;
    return *first;
}

int main(void)
{
    int one = 0, other = 0;

    assert(stored(&one, &other) == 1);
    assert(stored(&one, &one) == 1);
    return 0;
}
