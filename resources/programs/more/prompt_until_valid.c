/* Asks until the answer lies in a range, at least once. Holds: the loop ends with such an answer. */
int main(void) {
    int answer, asked = 0;
    do {
        answer = __VERIFIER_nondet_int();
        if (asked < 100) asked++;
    } while (answer < 1 || answer > 6);
    assert(1 <= answer && answer <= 6 && asked > 0);
}
