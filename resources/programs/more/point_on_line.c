/* A structure that a function of the file helps to move. Holds: y is moved by what x is moved. */
struct point {
    int x, y;
};

int step(int limit) {
    int drawn = __VERIFIER_nondet_int();
    return drawn > 0 && drawn < limit ? drawn : 1;
}

int main(void) {
    struct point p = {0, 7};
    while (p.x < 100) {
        int by = step(10);
        p.x += by;
        p.y += by;
    }
    assert(p.y == p.x + 7);
}
