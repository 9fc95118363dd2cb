/* Tries again by a jump until a try succeeds or three have failed. Holds: each jump back counts. */
int main(void) {
    int tries = 0;
again:
    if (tries == 3) goto failed;
    tries++;
    if (__VERIFIER_nondet_int()) goto again;
    goto done;
failed:
    assert(tries == 3);
done:
    assert(tries <= 3);
}
