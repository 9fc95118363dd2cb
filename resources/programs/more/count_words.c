/* Letters of a text are counted by a pointer that runs through memory of its own.
   Holds: what is counted is how far the pointer came, which is at most the length. */

#include <assert.h>
#include <stdlib.h>

extern int __VERIFIER_nondet_int(void);

int main(void)
{
    int length = __VERIFIER_nondet_int();
    if (length < 1)
        length = 1;
    char *text = (char *)malloc(length * sizeof(char));
    const char *letter = text;
    int count = 0;

    while (letter < text + length) {
        if (*letter == 0)
            break;
        letter++;
        count++;
    }
    assert(letter - text == count && count <= length);
    free(text);
    return 0;
}
