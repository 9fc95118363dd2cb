"""Pointers whose target is known: what they mean, and what is refused of them."""

import pytest

from llmchecker.errors import UnsupportedProgram
from llmchecker.programs.expressions import Semantics
from llmchecker.programs.runs import run_program
from llmchecker.reading.parsing import parse_program

DECLARED = (
    "int __VERIFIER_nondet_int(void); void __VERIFIER_assert(int); "
    "void *malloc(unsigned long); void free(void *); "
    "struct pair { int x; int y; }; int all; int f(int *p) { return *p; }\n"
)


def main(body: str) -> str:
    return f"{DECLARED}int main(void) {{\n{body}\n}}\n"


@pytest.mark.parametrize(
    "body",
    [
        "int a[3], *p = &a[1], *q = p; p++; *p = 3; __VERIFIER_assert(q[1] == 3 && p - q == 1);",
        "int a[3] = {7}, *p = a + 2; __VERIFIER_assert(*(p - 2) == 7 && p > a && p != &a[1]);",
        "int a[3] = {1, 2, 3}, *p = a; int x = *p++ + 10; x += *++p; __VERIFIER_assert(x == 14);",
        "int a[3] = {7}, *p = a + 1; unsigned i = -1; __VERIFIER_assert(*(p + (int)i) == 7);",
        "int x = 1, *p = &x; x = 5; __VERIFIER_assert(f(p) == 5 && f(&x) == 5 && *&x == 5);",
        "struct pair s = {1, 2}, *p = &s; p->x = 9; __VERIFIER_assert(s.x == 9 && (*p).y == 2);",
        "int *p = malloc(3 * sizeof(int)); p[2] = 4; int *q = &p[1]; __VERIFIER_assert(q[1] == 4);",
        "int *p = (int *)malloc(sizeof(int)); *p = 4; if (!p) *p = 5; __VERIFIER_assert(*p == 4);",
        "int n = -3; int *p = malloc(n * sizeof(int)); p[9] = 1; __VERIFIER_assert(p[9] == 1);",
        "int x, *p; p = &x; *p = 3; __VERIFIER_assert(x == 3);",
        "int t = 0; for (int i = 0; i < 3; i++) { int *p = malloc(4); *p = i; t += *p; }"
        "__VERIFIER_assert(t == 3);",
        "int t, *q; { int *p = malloc(4); *p = 2; q = p; t = f(q); free(p); }"
        "__VERIFIER_assert(t == 2);",
    ],
)  # fmt: skip
def test_what_pointers_lead_to_is_what_they_point_to(body: str) -> None:
    """Through a pointer the very variable, field or element is read and changed."""
    program = parse_program(main(body), "case")
    assert program.assertions
    for semantics in Semantics:
        assert run_program(program, semantics).failure is None
    *before, asserted = body.partition("__VERIFIER_assert(")
    turned = "".join(before) + f"!({asserted.removesuffix(');')}));"
    assert run_program(parse_program(main(turned), "case"), Semantics.INT32).failure is not None


@pytest.mark.parametrize(
    "body",
    [
        "int n = 2; int *p = malloc(n * sizeof(int)); p[2] = 1;",
        "int n = 0; int *p = malloc(n * sizeof(int)); p[0] = 1;",
        "int *p = malloc(10); p[2] = 1;",
        "int a[2], *p = a; p--; *p = 1;",
        "int a[2], *p = a + 1; p[1] = 1;",
    ],
)
def test_what_lies_beside_the_memory_is_out_of_range(body: str) -> None:
    """A pointer that leads out of its array violates the program where it is used."""
    program = parse_program(main(body), "case")
    assert run_program(program, Semantics.INT32).failure is not None


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("int x, y, *p = &x; p = &y;", "a second target for the pointer 'p'"),
        (
            "int a, x = f(&all), *p; if (x) p = &a; *p = 3;",
            "a pointer that may have no target here",
        ),
        (
            "int a, x = f(&all), *p; x && (p = &a, 1); *p = 3;",
            "a pointer that may have no target here",
        ),
        (
            "int a, x = f(&all), *p; x = x ? (p = &a, 1) : 2; *p = 3;",
            "a pointer that may have no target here",
        ),
        (
            "int a, x = f(&all), *p; if (x) goto l; p = &a; l:; *p = 3;",
            "a pointer that may have no target here",
        ),
        (
            "int a, x = f(&all), *p; switch (x) { case 1: p = &a; } *p = 3;",
            "a pointer that may have no target here",
        ),
        (
            "int a, x = f(&all), *p; while (x < 3) { p = &a; x++; } *p = 3;",
            "a pointer that may have no target here",
        ),
        (
            "int a, x = f(&all), *p; do { if (x) break; p = &a; } while (0); *p = 3;",
            "a pointer that may have no target here",
        ),
        (
            "int a, x = f(&all), *p; do { if (x) break; } while ((p = &a, 0)); *p = 3;",
            "a pointer that may have no target here",
        ),
        ("int *p; for (;;) p = malloc(4);", "a second target for the pointer 'p'"),
        ("int *q; for (;;) { int *p = malloc(4); q = p; }", "a pointer from outside of a loop"),
        ("int x, *p = 0; if (x) p = &x;", "a pointer whose target is not known here"),
        ("int *p; f(p);", "a pointer whose target is not known here"),
        ("int **p;", "a pointer to what is no integer or structure"),
        ("int (*p)(int);", "a pointer to what is no integer or structure"),
        ("char c; int *p = &c;", "a pointer to another type than its target has"),
        ("int x; char *p = (char *)&x;", "a pointer to another type than its target has"),
        ("int a[3], *p = a; int x = p;", "the pointer 'p' as a value"),
        ("int a[3], *p = a; int x = *p++ + *p;", "an expression that changes p_place beside"),
        ("int x, *p = &x; int y = x++ + *p;", "an expression that changes x beside another use"),
        ("int x, *p = &x; p[1] = 2;", "what lies behind a pointer to no array"),
        ("int x, *p = &x; p++;", "a step of what is no pointer into an array"),
        ("int x; int *p = &x + 1;", "a pointer behind a variable"),
        ("int a[2], b[2]; if (a < b) ;", "an operator on pointers to different targets"),
        ("int *p = malloc(all * 4);", "memory of such a size"),
        ("static int *p;", "a pointer"),
        ("malloc(4);", "the call of malloc"),
        ("int *p = malloc(4); free(p); *p = 1;", "the pointer 'p' to what was freed"),
        ("int *p = malloc(4); free(p); free(p);", "the pointer 'p' to what was freed"),
        ("int *p = malloc(4), *q = p; free(q); *p = 1;", "the pointer 'p' to what was freed"),
        ("int *p = malloc(4); for (;;) { *p = 1; free(p); }", "memory that is freed in another"),
        ("int *p = malloc(4); l: *p = 1; free(p); goto l;", "memory that is freed in another"),
        ("int x, *p = &x; free(p);", "freeing what is not the beginning of allocated memory"),
        ("int *p = malloc(8); p++; free(p);", "freeing what is not the beginning"),
        ("int *q; { int x; q = &x; }", "the pointer 'q' to what ends before it"),
        ("int *q; { int x, *p = &x; q = p; }", "the pointer 'q' to what ends before it"),
        ('char *p = "abc";', "a pointer whose target is not known here"),
    ],
)
def test_pointers_that_are_refused(body: str, reason: str) -> None:
    """A pointer whose target a run decides, or is gone, or is seen as another type, is refused."""
    with pytest.raises(UnsupportedProgram) as raised:
        parse_program(main(body), "case")
    assert str(raised.value).startswith(f"case.c:3: {reason}")


def test_a_pointer_outside_of_functions_is_refused() -> None:
    """Such a pointer is null at first, which no target stands for."""
    with pytest.raises(UnsupportedProgram):
        parse_program("int x, *p; int main(void) { p = &x; if (p) x = 1; }", "case")
