/* Counts by cases, one of which lacks its break. Fails: case 1 goes on into case 2. */
int main(void) {
    int kind = __VERIFIER_nondet_int();
    int ones = 0, twos = 0;
    switch (kind) {
    case 1:
        ones++;
    case 2:
        twos++;
        break;
    }
    assert(ones + twos <= 1);
}
