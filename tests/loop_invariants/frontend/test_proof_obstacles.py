"""Texts that a verifier alone proves although they fail, or may fail, when they are compiled."""

import subprocess
from pathlib import Path

import pytest
from helpers.compiled import needs_gcc

from loop_invariants.frontend.original_text import build_original_text
from loop_invariants.frontend.translation_unit import SV_COMP
from loop_invariants.ir.expressions import Semantics
from loop_invariants.ir.instrumentation import Property
from loop_invariants.verification.bounded_search import BoundedSearch
from loop_invariants.verification.portfolio import FileTask, verify_file
from loop_invariants.verification.result import PROOFS, Outcome

# The frontend refuses the bit-field, so that ESBMC alone reads the text.
HEAD = """#include <assert.h>
#include <stdlib.h>
#include <string.h>
struct bits { unsigned bit : 1; } bits;
"""
ARRAYS = "int a[8], b[8];\n"
STACK = "struct stack { int *items, count; };\n"
FIRST_LINE = HEAD.count("\n") + 1


def main(body: str) -> str:
    return f"int main(void) {{ bits.bit = 1; {body} return 0; }}"


COMPARISON = "a comparison of addresses"
NUMBER = "an address as a number"
CONSTANT = "the address of a constant, without const,"
ORDER = "an expression that may depend on the evaluation order"
PART = "the address of a part of an object, with moving pointers,"

# Each assertion fails if gcc compiles the text with the option, and ESBMC calls it safe.
FAILING = {
    "the ends of two arrays": (
        ARRAYS + main("int *e = a + 8, *f = b + 8; assert(e != b && f != a);"), COMPARISON, "-O0"
    ),
    "the ends of two variables": (
        main("int x = 1, y = 2; int *p = &x + 1, *q = &y + 1; assert(p != &y && q != &x);"),
        COMPARISON, "-O0",
    ),
    "addresses in a condition": (
        ARRAYS + main("int r = a + 8 == b ? 1 : 0; if (b + 8 == a && 1) r = 1; assert(!r);"),
        COMPARISON, "-O0",
    ),
    "addresses in a switch": (
        ARRAYS + main("int r = 0; switch (a + 8 == b) { case 1: r = 1; } "
                      "switch (b + 8 == a) { case 1: r = 1; } assert(!r);"),
        COMPARISON, "-O0",
    ),
    "addresses in structures": (
        "struct two { int *p, *q; };\n" + ARRAYS
        + main("struct two x = {a + 8, b}, y = {b + 8, a}; assert(x.p != x.q && y.p != y.q);"),
        COMPARISON, "-O0",
    ),
    "addresses that a function compares": (
        "typedef int *place; int is_same(place p, place q) { return p == q; }\n" + ARRAYS
        + main("int r = is_same(a + 8, b); if (is_same(b + 8, a)) r = 1; assert(!r);"),
        COMPARISON, "-O0",
    ),
    "addresses behind pointers": (
        ARRAYS + main("int *p = a + 8, *q = b, *r = b + 8, *s = a; "
                      "int **w = &p, **x = &q, **y = &r, **z = &s; assert(*w != *x && *y != *z);"),
        COMPARISON, "-O0",
    ),
    "an address of freed memory": (
        main("int *p = malloc(16); free(p); int *q = malloc(16); int r = p != q; assert(r);"),
        COMPARISON, "-O0",
    ),
    "an address in an array, of freed memory": (
        main("int *old[1]; old[0] = malloc(16); free(old[0]); int *q = malloc(16); "
             "assert(old[0] != q);"),
        COMPARISON, "-O0",
    ),
    "reallocated memory": (
        main("int *p = malloc(4); int *q = realloc(p, 8); assert(p != q);"),
        "the call of realloc", "-O0",
    ),
    "an address of an ended variable": (
        "int *g; void f(void) { int x; g = &x; } int h(void) { int y; return g == &y; }\n"
        + main("f(); assert(!h());"),
        COMPARISON, "-O0",
    ),
    "merged literals": (
        main('const char *p = "xabc", *q = "abc"; assert(p + 1 != q);'), COMPARISON, "-O2"
    ),
    "a difference of addresses": (
        ARRAYS + main("long d = b - a; assert(d != 8 && d != -8);"),
        "a difference of addresses", "-O0",
    ),
    "a null test of a local address": (
        "int *f(void) { int x = 5; return &x; }\n" + main("assert(f() != 0);"),
        "the address of a local variable, with null tests,", "-O2",
    ),
    "a null test of the address of a literal": (
        "int *f(void) { return &(int){5}; }\n" + main("assert(f() != 0);"),
        "the address of a local variable, with null tests,", "",
    ),
    "a null test of a local address in a structure": (
        "struct s { int *p; }; struct s f(void) { int x; struct s v; v.p = &x; return v; }\n"
        + main("struct s v = f(); assert(v.p != 0);"),
        "the address of a local variable, with null tests,", "",
    ),
    "a volatile pointer": (
        "int x = 1; int *volatile p = &x;\n" + main("int y = *p; assert(y == *p);"),
        "a volatile variable", "",
    ),
    "pointers in a union": (
        "union u { int *p; unsigned long n; };\n" + ARRAYS
        + main("union u w, x, y, z; w.p = a + 8; x.p = b; y.p = b + 8; z.p = a; "
               "assert(w.n != x.n && y.n != z.n);"),
        "a union whose members are no integers of one size", "-O0",
    ),
    "pointers as numbers": (
        ARRAYS + main("int *p = a + 8, *q = b, *r = b + 8, *s = a; "
                      "unsigned long *w = (unsigned long *)&p, *x = (unsigned long *)&q, "
                      "*y = (unsigned long *)&r, *z = (unsigned long *)&s; "
                      "assert(*w != *x && *y != *z);"),
        "a conversion to another type", "-O0",
    ),
    "copied bytes of pointers": (
        ARRAYS + main("int *p = a + 8, *q = b, *r = b + 8, *s = a; unsigned long w, x, y, z; "
                      "memcpy(&w, &p, 8); memcpy(&x, &q, 8); memcpy(&y, &r, 8); memcpy(&z, &s, 8); "
                      "assert(w != x && y != z);"),
        "the call of memcpy", "-O0",
    ),
    "pointers to another type": (
        ARRAYS + main("void *p = a + 8, *q = b, *r = b + 8, *s = a; assert(p != q && r != s);"),
        "a conversion to another type", "-O0",
    ),
    "a switch over a declaration": (
        ARRAYS + main("int r = 0; for (int n = 0; n < 4; n++) { int *q = n == 1 ? b : n == 3 ? a : "
                      "n ? b + 8 : a + 8; switch (n % 2) { case 0: ; int *p = q; break; "
                      "case 1: r += p == q; } } assert(r == 0);"),
        "a jump over the declaration of p", "-O0",
    ),
    "a goto over a declaration": (
        ARRAYS + main("int n = 0, r = 0; again: ; int *q = n == 1 ? b : n == 3 ? a : "
                      "n ? b + 8 : a + 8; if (n % 2) goto compare; int *p = q; n++; goto again; "
                      "compare: if (p == q) r = 1; n++; if (n < 4) goto again; assert(r == 0);"),
        "a jump over the declaration of p", "-O0",
    ),
    "a variable without a value in a switch": (
        main("int r = 0; for (int n = 0; n < 2; n++) switch (n) { case 0: ; int x = 5; break; "
             "case 1: r = x; } assert(r == 5);"),
        "a jump over the declaration of x", "",
    ),
    "a changed constant": (
        main("const int x = 5; int *p = (int *)&x; *p = 6; assert(x == 6);"), CONSTANT, "-O2"
    ),
    "a changed constant parameter": (
        "int f(const int x) { int *p = (int *)&x; *p = 6; return x; }\n"
        + main("assert(f(5) == 6);"),
        CONSTANT, "",
    ),
    "a changed member of a constant": (
        "struct s { int x; }; const struct s v = {1};\n"
        + main("int *p = (int *)&v.x; *p = 2; assert(v.x == 2);"),
        CONSTANT, "-O0",
    ),
    "a changed array in a constant": (
        "struct inner { int x[2]; }; struct s { struct inner i; }; const struct s v = {{{1, 2}}};\n"
        + main("int *p = (int *)v.i.x; *p = 2; assert(v.i.x[0] == 2);"),
        CONSTANT, "-O0",
    ),
    "a changed member behind a pointer to a constant": (
        "struct s { int x; int *p; }; const struct s v = {1, 0};\n"
        + main("const struct s *q = &v; int *p = (int *)&q->x; *p = 2; assert(v.x == 2);"),
        CONSTANT, "-O0",
    ),
    "a restricted pointer": (
        "int f(int *restrict p, int *restrict q) { *p = 1; *q = 2; return *p; }\n"
        + main("int x; assert(f(&x, &x) == 2);"),
        "the qualifier restrict", "-O2",
    ),
    "memory of an ended function": (
        "#include <alloca.h>\nint *f(void) { int *p = alloca(4); *p = 5; return p; }\n"
        + main("int *p = f(); assert(*p == 5);"),
        "the call of alloca", "-O2",
    ),
    "an allocation that fails": (
        main("char *p = malloc(0x7fffffffffffffff); assert(p != 0);"),
        "an allocation of variable size", "-O0",
    ),
    "an argument without a prototype": (
        "int main(void) { bits.bit = 1; int r = f(-1); assert(r); return 0; }\n"
        "int f(long x) { return x == -1; }",
        "the call of f without a prototype", "-O0",
    ),
    "a definition without a prototype": (
        "int f(x) long x; { return x == -1; }\n" + main("int r = f(-1); assert(r);"),
        "a definition without a prototype", "-O0",
    ),
    "a wide bit-field": (
        "struct wide { unsigned long n : 40; };\n"
        + main("struct wide s; s.n = 0; assert(s.n - 1 != (1UL << 40) - 1);"),
        "a bit-field of another type than int", "-O0",
    ),
    "a truth value of one bit": (
        "struct flag { _Bool is_set : 1; };\n"
        + main("struct flag f = {1}; f.is_set += 1; assert(f.is_set == 0);"),
        "a bit-field of another type than int", "-O0",
    ),
    "a call that may come first": (
        "int f(void) { exit(0); return 1; }\n"
        + main("int z = 0; int y = 1 / z + f(); assert(y);"),
        ORDER, "",
    ),
    "a call that changes memory": (
        main("int x[1]; x[0] = 1; int y = x[0] + (memset(x, 0, 4) != 0); "
             "int z[1]; z[0] = 1; int w = (memset(z, 0, 4) != 0) + z[0]; "
             "assert(y == 1 && w == 1);"),
        ORDER, "-O0",
    ),
    "a shadowed variable that a call changes": (
        "int g; int f(void) { g = 5; return 1; }\n"
        + main("int y = g + f(); { int g = 1; y += g; } assert(y == 7);"),
        ORDER, "",
    ),
    "a copy of a structure that another argument changes": (
        "struct s { int x[2]; }; int get(struct s v, int k) { return v.x[0] * 10 + k; }\n"
        + main("struct s v = {{1, 2}}; int *q = v.x; int r = get(v, q[0] = 3); assert(r == 33);"),
        ORDER, "",
    ),
    "an array in a structure": (
        "struct s { int x[2], y; };\n"
        + main("struct s v = {{1, 2}, 3}; int *p = v.x; p[2] = 9; assert(v.y == 9);"),
        PART, "",
    ),
    "a neighbour in a structure": (
        "struct s { int x, y; };\n"
        + main("struct s v = {1, 3}; int *p = &v.x; p[1] = 9; assert(v.y == 9);"),
        PART, "",
    ),
    "a row": (
        main("int m[2][3] = {{0}}; int *p = m[0]; p[3] = 9; assert(m[1][0] == 9);"), PART, ""
    ),
    "a pointer to a row": (
        main("int m[2][3] = {{0}}; int (*p)[3] = m; p[0][3] = 9; assert(m[1][0] == 9);"),
        "a pointer to an array", "",
    ),
    "a move from null": (
        main("int *p = 0; int *q = p + 1; assert(q != 0);"),
        "a computed address, with null tests,", "",
    ),
    "bytes next to a member": (
        "union u { int n; char c; };\n"
        + main("union u x; x.n = 0; x.c = 1; assert(x.n == 1);"),
        "a union whose members are no integers of one size", "",
    ),
    "two members of a union": (
        "union u { int n; short h[2]; }; int f(int *p, short *q) { *p = 1; *q = 2; return *p; }\n"
        + main("union u x; assert(f(&x.n, x.h) == 2);"),
        "the address of a member of a union", "-O2",
    ),
    "a byte that is no truth value": (
        "union u { _Bool b; unsigned char c; } x;\n"
        + main("x.c = 2; assert(x.b == 1 || x.b == 0);"),
        "a union whose members are no integers of one size", "",
    ),
    "an uninitialized truth value": (
        main("_Bool b; int x = b; assert(x == 0 || x == 1);"), "an uninitialized _Bool", ""
    ),
    "a truth value in new memory": (
        "struct s { int n; _Bool b; };\n"
        + main("struct s *p = malloc(sizeof *p); int x = p->b; assert(x == 0 || x == 1);"),
        "an uninitialized _Bool", "",
    ),
    "a result of output": (
        "int printf(const char *, ...);\n" + main('int n = printf("abc"); assert(n >= 0);'),
        "a conversion to another type", "",
    ),
}  # fmt: skip
"""Text, obstacle, and option of gcc; without one, the text breaks a rule of C that gcc keeps."""

# ESBMC finds the violations of these texts, but their kind is refused all the same.
REFUSED = {
    "an address as a number, unnoticed": (ARRAYS + main("long x = a + 8; assert(x);"), NUMBER),
    "an address as an argument": (
        "int f(long x) { return x > 0; }\n" + main("int x; assert(f(&x));"), NUMBER
    ),
    "an address as a result": (
        "long f(int *p) { return p; }\n" + main("int x; long n = f(&x); assert(n);"), NUMBER
    ),
    "an address in an arithmetic operation": (
        main("int x; assert(((unsigned long)&x ^ 3) % 4 == 3);"), NUMBER
    ),
    "a number as an address": (
        main("int x; int *p = (int *)4096; *p = 3; assert(1);"), "a number as an address"
    ),
    "a number as an argument": (
        "int f(int *p) { return *p; }\n" + main("assert(f(4096));"), "a number as an address"
    ),
    "a changed constant of an array type": (
        "typedef int row[2]; const row a = {1, 2};\n"
        + main("int *p = (int *)a; p[0] = 5; assert(a[0] == 5);"),
        CONSTANT,
    ),
    "effects in a list of values": (
        "struct s { int x, y; };\n"
        + main("int i = 0; struct s v = {.y = i++, .x = i++}; assert(v.y == 0);"),
        ORDER,
    ),
    "two functions of which one changes the other's variable": (
        "int g; int f(int n) { return n ? f(n - 1) + g : g; } int set(void) { return g = 5; }\n"
        + main("int y = f(1) + set(); assert(y == 15);"),
        ORDER,
    ),
    "a function that changes a variable with the name of an own one": (
        "int g; int f(void) { { int g = 1; } g = 5; return 1; }\n"
        + main("int y = g + f(); assert(y == 1);"),
        ORDER,
    ),
    "a function that changes a variable through another": (
        "int g; int set(void) { return g = 5; } int f(void) { return set(); }\n"
        + main("int y = g + f(); assert(y == 5);"),
        ORDER,
    ),
    "a function that changes memory": (
        "int f(int *p) { return *p = 5; }\n"
        + main("int x[1] = {1}; int y = x[0] + f(x); assert(y == 6);"),
        ORDER,
    ),
    "a function that changes a static variable": (
        "int f(void) { static int n; return ++n; }\n" + main("int y = f() - f(); assert(y == -1);"),
        ORDER,
    ),
    "a function that never ends": (
        "int f(void) { for (;;) ; return 0; }\n"
        + main("int z = 0; int y = f() + 1 / z; assert(y);"),
        ORDER,
    ),
    "a chain of assignments with a changed place": (
        ARRAYS + main("int i = 0; a[i] = i = 2; assert(a[0] == 2);"), ORDER
    ),
    "a chain of assignments with an effect": (
        ARRAYS + main("int i = 0; i = a[i++] = 2; assert(i == 2);"), ORDER
    ),
    "a chain of assignments in a union": (
        "union u { int n; unsigned short h[2]; };\n"
        + main("union u x; x.h[1] = x.n = 0x10002; assert(x.h[1] == 2);"),
        ORDER,
    ),
    "a pointer to the assigned variable": (
        main("int x = 1; int *p = &x; x = (*p)++; assert(x == 1);"), ORDER
    ),
    "an element that replaces its counter": (
        STACK + main("int x[2] = {7, 8}; struct stack s = {x, 0}; "
                     "s.count = s.items[s.count++]; assert(s.count == 7);"),
        ORDER,
    ),
    "a counter that a pointer reaches": (
        STACK + main("int x[2] = {7, 8}; struct stack s = {x, 0}; int *p = &s.count; "
                     "*p = s.items[s.count++]; assert(*p == 7);"),
        ORDER,
    ),
    "an element that contains its counter": (
        "struct s { struct s *items; int count; };\n"
        + main("struct s v = {0, 0}; v.items = &v; struct s w = v; w = v.items[v.count++]; "
               "*v.items = v.items[--v.count]; assert(w.count == 0);"),
        ORDER,
    ),
    "a counter that changes twice": (
        STACK + main("int x[2] = {7, 8}; struct stack s = {x, 2}; "
                     "int y = s.items[--s.count] - s.items[--s.count]; assert(y == 1);"),
        ORDER,
    ),
    "a counter that the value reads": (
        STACK + main("int x[2]; struct stack s = {x, 0}; s.items[s.count++] = s.count; "
                     "assert(x[0] == 0);"),
        ORDER,
    ),
    "a write to a literal": (
        main("char *p = \"abc\"; p[0] = 65; assert(p[0] == 65);"), CONSTANT
    ),
    "a write to a literal in a function": (
        "void f(char *s) { *s = 65; }\n" + main("f(\"abc\"); assert(1);"), CONSTANT
    ),
    "a write to a literal in a structure": (
        "struct s { char *t; };\n" + main("struct s v = {\"abc\"}; v.t[1] = 66; assert(1);"),
        CONSTANT,
    ),
    "a write to a chosen literal": (
        main("int k = 1; char *p = k ? \"ab\" : \"cd\"; *p = 66; assert(1);"), CONSTANT
    ),
    "floating point": (main("double d = 1; assert(d == 1);"), "floating point"),
    "a format of a text": (
        "int printf(const char *, ...);\n" + main('printf("%s", 1); assert(1);'),
        "a format of memory",
    ),
    "a variable format": (
        "int printf(const char *, ...);\n" + main('char s[3] = "%d"; printf(s, 1); assert(1);'),
        "the call of printf with a variable text",
    ),
    "a function with further arguments": (
        "int f(int n, ...) { return n; }\n" + main("assert(f(1, 2) == 1);"),
        "the call of f without a prototype",
    ),
    "pointers that change": (
        ARRAYS + main("int *p = a, *q = p; q = b; assert(p != q);"), COMPARISON
    ),
    "pointers that another pointer changes": (
        ARRAYS + main("int *p = a; int **r = &p; *r = b; assert(p != a + 1);"), COMPARISON
    ),
    "parameters": (
        "int f(int *p, int *q) { return p == q; }\n" + main("int x; assert(f(&x, &x));"), COMPARISON
    ),
    "an array of an inner block": (
        "int a[4];\n" + main("int *p = a; { int a[4]; assert(p != a); }"), COMPARISON
    ),
    "freed memory of one allocation": (
        main("int *p = malloc(8); int *q = p + 1; free(p); assert(p != q);"), COMPARISON
    ),
    "a move by a wide number": (
        ARRAYS + main("long n = 1L << 62; assert(a + n != a);"), COMPARISON
    ),
}  # fmt: skip

# Each text holds, and has one meaning.
HOLDING = {
    "a list": (
        "struct node { struct node *next; int value; };\n"
        + main("struct node *head = 0; "
               "for (int i = 0; i < 3; i++) { struct node *n = malloc(sizeof *n); n->value = i; "
               "n->next = head; head = n; } int sum = 0; "
               "while (head) { struct node *n = head->next; sum += head->value; free(head); "
               "head = n; } assert(sum == 3);")
    ),
    "a tree": (
        "struct tree { struct tree *left, *right; int key; };\n"
        "struct tree *leaf(int key) { struct tree *t = malloc(sizeof(struct tree)); "
        "if (!t) exit(1); t->left = NULL; t->right = NULL; t->key = key; return t; }\n"
        "int sum(struct tree *t) { if (t == NULL) return 0; int l = sum(t->left); "
        "int r = sum(t->right); return l + r + t->key; }\n"
        + main("struct tree *t = leaf(1); t->left = leaf(2); t->right = leaf(3); "
               "assert(sum(t) == 6);")
    ),
    "parameters for results": (
        "void swap(int *p, int *q) { int t = *p; *p = *q; *q = t; } "
        "void set(int **p, int *q) { *p = q; }\n"
        + main("int x = 1, y = 2; swap(&x, &y); int *p = 0; set(&p, &y); "
               "assert(x == 2 && *p == 1);")
    ),
    "an array by a pointer": (
        "int sum(const int *p, int n) { const int *end = p + n; int s = 0; "
        "while (p != end) s += *p++; return s; }\n"
        + main("int x[3] = {1, 2, 3}; int s = sum(x, 3); "
               "for (int *p = x; p < x + 3; p++) s -= *p; assert(s == 0);")
    ),
    "memory that is checked": (
        main("int *p = malloc(4 * sizeof(int)); if (p == 0) return 1; "
             "for (int i = 0; i < 4; i++) p[i] = i; assert(p[3] == 3); free(p);")
    ),
    "text": (
        "int length(const char *s) { int n = 0; while (s[n]) n++; return n; }\n"
        + main('char s[4] = "abc"; s[0] = 65; int n = length("abc"); '
               'assert("three" && length(s) == n);')
    ),
    "a table of constants": (
        "typedef struct { const char *name; int value[2]; } entry;\n"
        'static const entry table[2] = {{"a", {1, 2}}, {"b", {3, 4}}};\n'
        "int get(const entry *e, int i) { const int *v = e->value; return v[0] * i; }\n"
        + main("entry e = table[1]; e.value[1] = 5; int x = get(&table[0], 2); "
               "assert(x == 2 && e.value[1] == 5 && table[0].name[0] == 'a');")
    ),
    "jumps over declarations without a use": (
        "int f(int n) { int r = 1; if (n > 2) goto end; int x = n; r = x + 1; "
        "for (int i = 0; i < 2; i++) { if (i) goto end; int y = i; r += y; } end: return r; }\n"
        "int g(int n) { switch (n) { case 0: { int z = 4; return z; } case 1: ; int x = 5; "
        "return x; default: return 6; } }\n"
        + main("int r = 0; again: ; int k = f(r); r += k; if (r < 4) goto again; "
               "int s = g(r - r); assert(s == 4);")
    ),
    "functions that only read": (
        "struct s { int *p, n; }; int fibonacci(int n) { if (n < 2) return n; "
        "return fibonacci(n - 1) + fibonacci(n - 2); } "
        "int get(const struct s *v) { int n = *v->p; n++; return n; }\n"
        + main("int k = 4; struct s v = {&k, 1}; int x = fibonacci(5) + get(&v) * get(&v) + v.n; "
               "assert(x == 31);")
    ),
    "a stack in memory": (
        STACK + "void push(struct stack *s, int n) { s->items[s->count++] = n; } "
        "int pop(struct stack *s, int *n) { if (!s->count) return 0; "
        "*n = s->items[--s->count]; return 1; }\n"
        + main("struct stack s; s.items = malloc(4 * sizeof(int)); s.count = 0; push(&s, 3); "
               "push(&s, 4); int n = 0, is_full = pop(&s, &n); assert(is_full && n == 4); "
               "free(s.items);")
    ),
    "a stack of variables": (
        "int stack[8], top; void push(int n) { stack[top++] = n; } "
        "int pop(void) { return stack[--top]; }\n"
        + main("push(3); push(4); int n = pop(); assert(n == 4 && top == 1);")
    ),
    "chains of assignments": (
        "struct tree { struct tree *left, *right; };\n"
        + main("struct tree *t = malloc(sizeof *t); t->left = t->right = 0; int x, y, z[2]; "
               "x = y = z[1] = 3; assert(!t->left && x + y + z[1] == 9);")
    ),
    "integers in a union": (
        "union word { unsigned n; unsigned short half[2]; unsigned char byte[4]; };\n"
        + main("union word w; w.n = 0x01020304; assert(w.half[1] == 0x0102 && w.byte[0] == 4);")
    ),
    "structures and fields": (
        "struct inner { int x; }; struct outer { struct inner i; unsigned flag : 2; int *p; };\n"
        + main("int k = 4; struct outer v = {.p = &k, .i = {1}}; v.flag = 3; v.flag++; "
               "struct outer w = v; assert(w.flag == 0 && *w.p == 4 && w.i.x == 1);")
    ),
    "output": (
        "int printf(const char *, ...); int puts(const char *);\n"
        + main('int x = 3; printf("%d of 100 %% %lu\\n", x, sizeof(x)); puts("end"); assert(x);')
    ),
    "calls next to values": (
        "struct node { struct node *next; }; "
        "struct node *make(void) { return calloc(1, sizeof(struct node)); } "
        "int f(int n) { return n <= 1 ? 1 : n * f(n - 1); }\n"
        + main("struct node *n = make(); n->next = make(); int x = 1 + f(4); assert(x == 25);")
    ),
}  # fmt: skip


def find_obstacle(text: str) -> str:
    """The obstacle to a proof of a text by a verifier alone."""
    return build_original_text("p", HEAD + text, Property.ASSERT, SV_COMP, {}).obstacle


@pytest.mark.parametrize("kind", [*FAILING, *REFUSED])
def test_a_text_with_several_meanings_has_an_obstacle_with_its_line(kind):
    """The obstacle names the construct and its line."""
    text, construct, *_ = (FAILING | REFUSED)[kind]
    found, _, line = find_obstacle(text).partition(" in line ")
    assert found == construct
    assert FIRST_LINE <= int(line) <= FIRST_LINE + text.count("\n")


@pytest.mark.few(3)
@needs_gcc
@pytest.mark.parametrize("kind", [k for k, (_, _, option) in FAILING.items() if option])
def test_the_text_fails_when_it_is_compiled(kind, tmp_path):
    """A compiler may choose a meaning with which the assertion fails."""
    text, _, option = FAILING[kind]
    (tmp_path / "p.c").write_text(HEAD + text)
    command = ["gcc", "-w", option, "-fwrapv", "p.c", "-o", "p"]
    subprocess.run(command, cwd=tmp_path, check=True)
    # An assertion ends the process with SIGABRT, an address without an object with SIGSEGV.
    assert subprocess.run(["./p"], cwd=tmp_path, stderr=subprocess.DEVNULL).returncode in (-6, -11)


@pytest.mark.few(3)
@pytest.mark.parametrize("kind", FAILING)
def test_what_esbmc_alone_calls_safe_is_not_verified(kind, tmp_path):
    """ESBMC's search of the text is complete without a violation, and yet no proof."""
    text = HEAD + FAILING[kind][0]
    original = build_original_text("p", text, Property.ASSERT, SV_COMP, {})
    assert BoundedSearch(original, Semantics.INT32).search(20).is_complete
    (tmp_path / "p.c").write_text(text)
    result = verify_file(tmp_path / "p.c", FileTask(Semantics.INT32, seconds=20))[0]
    assert result.outcome not in PROOFS
    if result.searched_depth:
        assert f"ESBMC alone is no proof: {original.obstacle}" in result.message


@pytest.mark.parametrize("kind", HOLDING)
def test_a_text_with_one_meaning_has_no_obstacle(kind):
    """Addresses that are copied, dereferenced, moved in one array and tested are no obstacle."""
    assert find_obstacle(HOLDING[kind]) == ""


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", HOLDING)
def test_a_text_with_one_meaning_is_proven_by_esbmc_alone(kind, tmp_path: Path):
    """Programs with lists, trees, parameters for results and unions keep their proofs."""
    (tmp_path / "p.c").write_text(HEAD + HOLDING[kind])
    result = verify_file(tmp_path / "p.c", FileTask(Semantics.INT32, seconds=20))[0]
    assert result.outcome is Outcome.VERIFIED_BY_ESBMC
