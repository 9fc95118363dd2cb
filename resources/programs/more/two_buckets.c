/* Seventy-five cups are poured into a bucket for thirty, then into the next.
   Holds: the second bucket gets nothing until the first is full, which is a case distinction. */

#include <assert.h>

int main(void)
{
    int poured = 0;
    int first = 0;
    int second = 0;

    while (poured < 75) {
        if (first < 30)
            first++;
        else
            second++;
        poured++;
    }
    assert(first == 30);
    assert(second == 45);
    return 0;
}
