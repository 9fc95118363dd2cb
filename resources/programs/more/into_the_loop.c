/* Jumps into the middle of a loop, past the step that the others take first. Fails: without any
   input, the first round does not count. */
int main(void) {
    int rounds = 0, counted = 0;
    if (__VERIFIER_nondet_int() == 0) goto middle;
    while (rounds < 5) {
        counted++;
    middle:
        rounds++;
    }
    assert(counted == rounds);
}
