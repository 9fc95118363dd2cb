/* An account behind a pointer to a structure that was allocated.
   Holds: the balance is what was paid in, less what was paid out, and never negative. */

#include <assert.h>
#include <stdlib.h>

extern int __VERIFIER_nondet_int(void);

struct account {
    int balance;
    int rounds;
};

int main(void)
{
    struct account *a = malloc(sizeof(struct account));

    a->balance = 0;
    a->rounds = 0;
    while (a->rounds < 100) {
        if (__VERIFIER_nondet_int())
            a->balance += 2;
        else if (a->balance > 1)
            a->balance -= 2;
        a->rounds++;
    }
    assert(a->balance >= 0 && a->balance <= 2 * a->rounds);
    free(a);
    return 0;
}
