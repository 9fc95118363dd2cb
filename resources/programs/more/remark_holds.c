/* An assertion in a remark, which speaks of mathematical integers. Holds over both: x and y are
   at most 2147483647 each, and their sum is not cut short. */
int main(void) {
    int x = __VERIFIER_nondet_int(), y = __VERIFIER_nondet_int();
    if (x > 0 && y > 0) {
        ;
        //@ assert x + y > x;
    }
}
