/* Adds two ints and stores the sum in a wider type. Fails over 32 bits: the sum is computed in an
   int, and wraps around before it is stored. Holds over mathematical integers. */
int main(void) {
    int a = __VERIFIER_nondet_int(), b = __VERIFIER_nondet_int();
    __VERIFIER_assume(a > 0 && b > 0);
    long sum = a + b;
    assert(sum > a);
}
