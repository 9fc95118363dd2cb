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


POINTER = "a pointer"
VALUE = "the array or the function a as a value"
ORDER = "an expression that may depend on the evaluation order"

# Each assertion fails if gcc compiles the text with the option, and ESBMC calls it safe.
FAILING = {
    "the ends of two arrays": (
        ARRAYS + main("int *e = a + 8, *f = b + 8; assert(e != b && f != a);"), POINTER, "-O0"
    ),
    "the ends of two variables": (
        main("int x = 1, y = 2; int *p = &x + 1, *q = &y + 1; assert(p != &y && q != &x);"),
        POINTER, "-O0",
    ),
    "addresses in a condition": (
        ARRAYS + main("int r = a + 8 == b ? 1 : 0; if (b + 8 == a && 1) r = 1; assert(!r);"),
        VALUE, "-O0",
    ),
    "addresses in a switch": (
        ARRAYS + main("int r = 0; switch (a + 8 == b) { case 1: r = 1; } "
                      "switch (b + 8 == a) { case 1: r = 1; } assert(!r);"),
        VALUE, "-O0",
    ),
    "addresses in structures": (
        "struct two { int *p, *q; };\n" + ARRAYS
        + main("struct two x = {a + 8, b}, y = {b + 8, a}; assert(x.p != x.q && y.p != y.q);"),
        POINTER, "-O0",
    ),
    "addresses that a function compares": (
        "typedef int *place; int is_same(place p, place q) { return p == q; }\n" + ARRAYS
        + main("int r = is_same(a + 8, b); if (is_same(b + 8, a)) r = 1; assert(!r);"),
        "a type name of a pointer, an array or a function", "-O0",
    ),
    "addresses behind pointers": (
        ARRAYS + main("int *p = a + 8, *q = b, *r = b + 8, *s = a; "
                      "int **w = &p, **x = &q, **y = &r, **z = &s; assert(*w != *x && *y != *z);"),
        POINTER, "-O0",
    ),
    "an address of freed memory": (
        main("int *p = malloc(16); free(p); int *q = malloc(16); int r = p != q; assert(r);"),
        POINTER, "-O0",
    ),
    "an address in an array, of freed memory": (
        main("int *old[1]; old[0] = malloc(16); free(old[0]); int *q = malloc(16); "
             "assert(old[0] != q);"),
        POINTER, "-O0",
    ),
    "reallocated memory": (
        main("int *p = malloc(4); int *q = realloc(p, 8); assert(p != q);"),
        POINTER, "-O0",
    ),
    "an address of an ended variable": (
        "int *g; void f(void) { int x; g = &x; } int h(void) { int y; return g == &y; }\n"
        + main("f(); assert(!h());"),
        POINTER, "-O0",
    ),
    "merged literals": (
        main('const char *p = "xabc", *q = "abc"; assert(p + 1 != q);'), POINTER, "-O2"
    ),
    "a difference of addresses": (
        ARRAYS + main("long d = b - a; assert(d != 8 && d != -8);"),
        "the array or the function b as a value", "-O0",
    ),
    "a null test of a local address": (
        "int *f(void) { int x = 5; return &x; }\n" + main("assert(f() != 0);"),
        POINTER, "-O2",
    ),
    "a null test of the address of a literal": (
        "int *f(void) { return &(int){5}; }\n" + main("assert(f() != 0);"),
        POINTER, "",
    ),
    "a null test of a local address in a structure": (
        "struct s { int *p; }; struct s f(void) { int x; struct s v; v.p = &x; return v; }\n"
        + main("struct s v = f(); assert(v.p != 0);"),
        POINTER, "",
    ),
    "a volatile pointer": (
        "int x = 1; int *volatile p = &x;\n" + main("int y = *p; assert(y == *p);"),
        "a volatile variable", "",
    ),
    "pointers in a union": (
        "union u { int *p; unsigned long n; };\n" + ARRAYS
        + main("union u w, x, y, z; w.p = a + 8; x.p = b; y.p = b + 8; z.p = a; "
               "assert(w.n != x.n && y.n != z.n);"),
        "a union", "-O0",
    ),
    "pointers as numbers": (
        ARRAYS + main("int *p = a + 8, *q = b, *r = b + 8, *s = a; "
                      "unsigned long *w = (unsigned long *)&p, *x = (unsigned long *)&q, "
                      "*y = (unsigned long *)&r, *z = (unsigned long *)&s; "
                      "assert(*w != *x && *y != *z);"),
        POINTER, "-O0",
    ),
    "copied bytes of pointers": (
        ARRAYS + main("int *p = a + 8, *q = b, *r = b + 8, *s = a; unsigned long w, x, y, z; "
                      "memcpy(&w, &p, 8); memcpy(&x, &q, 8); memcpy(&y, &r, 8); memcpy(&z, &s, 8); "
                      "assert(w != x && y != z);"),
        POINTER, "-O0",
    ),
    "pointers to another type": (
        ARRAYS + main("void *p = a + 8, *q = b, *r = b + 8, *s = a; assert(p != q && r != s);"),
        POINTER, "-O0",
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
        main("const int x = 5; int *p = (int *)&x; *p = 6; assert(x == 6);"), POINTER, "-O2"
    ),
    "a changed constant parameter": (
        "int f(const int x) { int *p = (int *)&x; *p = 6; return x; }\n"
        + main("assert(f(5) == 6);"),
        POINTER, "",
    ),
    "a changed member of a constant": (
        "struct s { int x; }; const struct s v = {1};\n"
        + main("int *p = (int *)&v.x; *p = 2; assert(v.x == 2);"),
        POINTER, "-O0",
    ),
    "a changed array in a constant": (
        "struct inner { int x[2]; }; struct s { struct inner i; }; const struct s v = {{{1, 2}}};\n"
        + main("int *p = (int *)v.i.x; *p = 2; assert(v.i.x[0] == 2);"),
        POINTER, "-O0",
    ),
    "a changed member behind a pointer to a constant": (
        "struct s { int x; int *p; }; const struct s v = {1, 0};\n"
        + main("const struct s *q = &v; int *p = (int *)&q->x; *p = 2; assert(v.x == 2);"),
        POINTER, "-O0",
    ),
    "a restricted pointer": (
        "int f(int *restrict p, int *restrict q) { *p = 1; *q = 2; return *p; }\n"
        + main("int x; assert(f(&x, &x) == 2);"),
        POINTER, "-O2",
    ),
    "memory of an ended function": (
        "#include <alloca.h>\nint *f(void) { int *p = alloca(4); *p = 5; return p; }\n"
        + main("int *p = f(); assert(*p == 5);"),
        POINTER, "-O2",
    ),
    "an allocation that fails": (
        main("char *p = malloc(0x7fffffffffffffff); assert(p != 0);"),
        POINTER, "-O0",
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
        "an uninitialized _Bool", "-O0",
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
        POINTER, "",
    ),
    "a neighbour in a structure": (
        "struct s { int x, y; };\n"
        + main("struct s v = {1, 3}; int *p = &v.x; p[1] = 9; assert(v.y == 9);"),
        POINTER, "",
    ),
    "a row": (
        main("int m[2][3] = {{0}}; int *p = m[0]; p[3] = 9; assert(m[1][0] == 9);"), POINTER, ""
    ),
    "a pointer to a row": (
        main("int m[2][3] = {{0}}; int (*p)[3] = m; p[0][3] = 9; assert(m[1][0] == 9);"),
        POINTER, "",
    ),
    "a move from null": (
        main("int *p = 0; int *q = p + 1; assert(q != 0);"),
        POINTER, "",
    ),
    "bytes next to a member": (
        "union u { int n; char c; };\n"
        + main("union u x; x.n = 0; x.c = 1; assert(x.n == 1);"),
        "a union", "",
    ),
    "two members of a union": (
        "union u { int n; short h[2]; }; int f(int *p, short *q) { *p = 1; *q = 2; return *p; }\n"
        + main("union u x; assert(f(&x.n, x.h) == 2);"),
        POINTER, "-O2",
    ),
    "a byte that is no truth value": (
        "union u { _Bool b; unsigned char c; } x;\n"
        + main("x.c = 2; assert(x.b == 1 || x.b == 0);"),
        "a union", "",
    ),
    "an uninitialized truth value": (
        main("_Bool b; int x = b; assert(x == 0 || x == 1);"), "an uninitialized _Bool", ""
    ),
    "a truth value in new memory": (
        "struct s { int n; _Bool b; };\n"
        + main("struct s *p = malloc(sizeof *p); int x = p->b; assert(x == 0 || x == 1);"),
        POINTER, "",
    ),
    "a result of output": (
        "int printf(const char *, ...);\n" + main('int n = printf("abc"); assert(n >= 0);'),
        "the result of printf", "",
    ),
}  # fmt: skip
"""Text, obstacle, and option of gcc; without one, the text breaks a rule of C that gcc keeps."""

# ESBMC finds the violations of these texts, but their kind is refused all the same.
REFUSED = {
    "an address as a number, unnoticed": (ARRAYS + main("long x = a + 8; assert(x);"), VALUE),
    "an address as an argument": (
        "int f(long x) { return x > 0; }\n" + main("int x; assert(f(&x));"),
        "the address of an object",
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
        "a definition without a prototype",
    ),
    "a move by a wide number": (
        ARRAYS + main("long n = 1L << 62; assert(a + n != a);"), VALUE
    ),


# Each text holds, and has one meaning.
    "an array as a value": (main("int a[3] = {0}; int x = 1 + (a != 0); assert(x);"), VALUE),
    "a row as a value": (main("int a[2][3] = {{0}}; assert(a[1]);"), VALUE),
    "an array and a number of one name": (
        main("int a = 1; { int a[2] = {0}; assert(a[0] == 0); } assert(a);"), VALUE
    ),
    "a function as a value": (main("assert(main);"), "the array or the function main as a value"),
    "output of a structure": (
        "int printf(const char *, ...);\n" + main('printf("%d", bits); assert(1);'),
        "the call of printf with another value than an integer",
    ),
}  # fmt: skip


HOLDING = {
    "jumps over declarations without a use": (
        "int f(int n) { int r = 1; if (n > 2) goto end; int x = n; r = x + 1; "
        "for (int i = 0; i < 2; i++) { if (i) goto end; int y = i; r += y; } end: return r; }\n"
        "int g(int n) { switch (n) { case 0: { int z = 4; return z; } case 1: ; int x = 5; "
        "return x; default: return 6; } }\n"
        + main("int r = 0; again: ; int k = f(r); r += k; if (r < 4) goto again; "
               "int s = g(r - r); assert(s == 4);")
    ),
    "a stack of variables": (
        "int stack[8], top; void push(int n) { stack[top++] = n; } "
        "int pop(void) { return stack[--top]; }\n"
        + main("push(3); push(4); int n = pop(); assert(n == 4 && top == 1);")
    ),
    "output": (
        "int printf(const char *, ...); int puts(const char *);\n"
        + main('int x = 3; printf("%d of 100 %% %lu\\n", x, sizeof(x)); puts("end"); assert(x);')
    ),
    "functions that only read": (
        "struct s { int n; } v = {1}; int fibonacci(int n) { if (n < 2) return n; "
        "return fibonacci(n - 1) + fibonacci(n - 2); } int get(void) { int n = v.n; return ++n; }\n"
        + main("int x = fibonacci(5) + get() * get() + v.n; assert(x == 10);")
    ),
    "chains of assignments": (
        main("int x, y, z[2]; x = y = z[1] = 3; assert(x + y + z[1] == 9);")
    ),
    "structures and fields": (
        "struct inner { int x[2]; }; struct outer { struct inner i; unsigned flag : 2; };\n"
        + main("struct outer v = {{{1, 2}}, 3}; v.flag++; struct outer w = v; "
               "assert(w.flag == 0 && w.i.x[1] == 2);")
    ),
    "arrays of arrays": (
        "int grid[2][3];\n" + main("for (int i = 0; i < 6; i++) grid[i / 3][i % 3] = i; "
               "assert(grid[1][2] == 5 && sizeof(grid) / sizeof(grid[0]) == 2);")
    ),
}  # fmt: skip


def find_obstacle(text: str) -> str:
    """The obstacle to a proof of a text by a verifier alone."""
    return build_original_text("p", HEAD + text, Property.ASSERT, SV_COMP, {}).obstacle


@pytest.mark.parametrize("kind", [*FAILING, *REFUSED])
def test_a_text_with_several_meanings_has_an_obstacle_with_its_line(kind):
    """The obstacle has a line, and the name of the construct if that has one."""
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
    """Numbers, arrays, structures and functions without addresses are no obstacle."""
    assert find_obstacle(HOLDING[kind]) == ""


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", HOLDING)
def test_a_text_with_one_meaning_is_proven_by_esbmc_alone(kind, tmp_path: Path):
    """A complete search of such a text is a proof."""
    (tmp_path / "p.c").write_text(HEAD + HOLDING[kind])
    result = verify_file(tmp_path / "p.c", FileTask(Semantics.INT32, seconds=20))[0]
    assert result.outcome is Outcome.VERIFIED_BY_ESBMC
