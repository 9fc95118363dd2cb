/* An inner variable hides an outer one of another type. Holds: only the inner one wraps around. */
int main(void) {
    int total = 0;
    for (int i = 0; i < 300; i++) {
        unsigned char total_of_round = i;
        {
            unsigned char total = total_of_round;
            total = total + 255;
        }
        total = total + sizeof(total_of_round);
    }
    assert(total == 300);
}
