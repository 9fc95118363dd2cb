/* Counts in the condition of the loop itself, and in a clause of a for. Holds: both counters move
   in each round, and the condition moves its own once more. */
int main(void) {
    int left = 50, up;
    for (up = 0; left-- > 0; up++, assert(up <= 50)) {
    }
    assert(up + left == 49);
}
