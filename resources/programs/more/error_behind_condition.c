/* Keeps a sum even, and calls an error where it is not. Holds: what is added is even. */
extern void abort(void);
void reach_error(void) { }
void assume_abort_if_not(int condition) {
    if (!condition) {
        abort();
    }
}
_Bool even(long number) { return number % 2 == 0; }

int main(void) {
    long sum = 0;
    while (__VERIFIER_nondet_int()) {
        int added = __VERIFIER_nondet_int();
        assume_abort_if_not(0 <= added && added < 1000 && sum < 100000);
        sum += (long)added * 2;
    }
    if (!even(sum)) {
        reach_error();
    }
}
