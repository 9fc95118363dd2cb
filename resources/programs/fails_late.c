/* A counter with an error that shows only after three hundred rounds.
   Fails: in round 300 the alarm goes off; no shorter run shows it. */

#include <assert.h>

int main(void)
{
    int rounds = 0;
    int alarm = 0;

    while (rounds < 400) {
        rounds++;
        if (rounds == 300)
            alarm = 1;
    }
    assert(alarm == 0);
    return 0;
}
