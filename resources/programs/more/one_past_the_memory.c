/* Memory for n numbers is filled by a pointer.
   Fails: the loop also fills the place behind the last one. */

#include <stdlib.h>

extern int __VERIFIER_nondet_int(void);

int main(void)
{
    int n = __VERIFIER_nondet_int();
    if (n < 1)
        n = 1;
    int *numbers = malloc(n * sizeof(int));
    int *place = numbers;

    for (int i = 0; i <= n; i++)
        *place++ = i;
    free(numbers);
    return 0;
}
