/* A light of three states, one of which leads to the next. Holds: every case leads to a state. */
enum state { RED, GREEN, YELLOW };

int main(void) {
    enum state light = RED;
    while (__VERIFIER_nondet_int()) {
        switch (light) {
        case RED:
            light = GREEN;
            break;
        case GREEN:
            light = YELLOW;
            break;
        default:
            light = RED;
        }
    }
    assert(light <= YELLOW);
}
