/* Memory is freed on one of two ways, and used behind both.
   Fails: where the memory was freed, nothing may lead to it any more. */

#include <stdlib.h>

extern int __VERIFIER_nondet_int(void);

int main(void)
{
    int *count = malloc(sizeof(int));
    int rounds = __VERIFIER_nondet_int();

    *count = 0;
    while (*count < rounds && *count < 10)
        *count += 1;
    if (rounds < 0)
        free(count);
    *count = 0;
    return 0;
}
