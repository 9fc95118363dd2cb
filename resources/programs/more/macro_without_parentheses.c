/* Doubles a sum by a macro without parentheses. Fails: TWICE(1 + 2) is 1 + 2 * 2, which is 5. */
#define TWICE(x) x * 2

int main(void) {
    int doubled = TWICE(1 + 2);
    assert(doubled == 6);
}
