/* Seconds of a clock that runs for forty years, and an alarm in the last of them.
   Fails: the alarm goes off after 1262304000 rounds; no shorter run shows it. */

#include <assert.h>

int main(void)
{
    int second = 0;
    int alarm = 0;

    while (second < 1262304000) {
        second++;
        if (second == 1262304000)
            alarm = 1;
    }
    assert(alarm == 0);
    return 0;
}
