/* A tank is emptied by seven litres at a time, and by what is left at the end.
   Holds: the level stays between nothing and what the tank holds. */

#include <assert.h>

extern int __VERIFIER_nondet_int(void);
extern _Bool __VERIFIER_nondet_bool(void);
extern void __VERIFIER_assume(int);

int main(void)
{
    int level = __VERIFIER_nondet_int();

    __VERIFIER_assume(0 <= level && level <= 500);
    while (__VERIFIER_nondet_bool()) {
        if (level >= 7)
            level -= 7;
        else
            level = 0;
    }
    assert(level >= 0);
    assert(level <= 500);
    return 0;
}
