"""Arrays of arrays, arrays in structures and arrays of structures: what they mean in C."""

import pytest

from llmchecker.errors import UnsupportedProgram
from loop_invariants.frontend.translation_unit import parse_program
from loop_invariants.interpreter.simulation import run_program
from loop_invariants.ir.expressions import Semantics

DECLARED = (
    "int __VERIFIER_nondet_int(void); void __VERIFIER_assert(int); void *malloc(unsigned long); "
    "struct pair { int x; int y; }; struct list { int n; int a[3]; }; "
    "int g[2][2]; struct pair all[2]; struct list whole; "
    "int sum(struct pair *p, int n) { return n ? p[0].x + p[n - 1].x : 0; } "
    "int next(void) { static struct pair kept; return ++kept.x; }\n"
)


def main(body: str) -> str:
    return f"{DECLARED}int main(void) {{\n{body}\n}}\n"


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "body",
    [
        "int a[2][2] = {{1, 2}, {3}}; __VERIFIER_assert(a[0][1] + a[1][0] == 5 && a[1][1] == 0);",
        "int a[2][2][2] = {{{1}}}; a[1][0][1] = 4; __VERIFIER_assert(a[1][0][1] == 4);",
        "int a[2][3], i = 0; a[i++][2] = 7; __VERIFIER_assert(i == 1 && a[0][2] == 7);",
        "int a[2][3]; a[1][2] = 1; { int a[3][2]; a[2][1] = 5; } __VERIFIER_assert(a[1][2] == 1);",
        "int a[2][3]; __VERIFIER_assert(sizeof(a) == 24 && g[1][1] == 0);",
        "int a[2][2], i = 2; __VERIFIER_assert(!(i < 2 && a[i][0]));",
        "int a[2][2], x = 3; a[1][0] = x++; a[1][0] += x; __VERIFIER_assert(a[1][0]++ == 7);",
        "int a[2][3]; for (int i = 0; i < 2; i++) for (int j = 0; j < 3; j++) a[i][j] = i * 3 + j;"
        "__VERIFIER_assert(a[1][1] == 4);",
        "struct list s, *p = &s; s.n = 1; s.a[s.n] = 4; p->a[2] = 5; p->a[p->n]++;"
        "__VERIFIER_assert(s.a[1] == 5 && s.a[2] == 5 && whole.a[2] == 0);",
        "struct list s; int *p = &s.a[1]; *p = 3; p--; *p = 1; __VERIFIER_assert(s.a[0] < s.a[1]);",
        "struct pair s[3], *p = s; for (int i = 0; i < 3; i++) { p->x = i; p++; }"
        "__VERIFIER_assert(s[2].x == 2 && p - s == 3 && all[1].y == 0);",
        "struct pair s[2]; s[0].x = 3; (*s).y = 2; (s + 1)->x = 4;"
        "__VERIFIER_assert(sum(s, 2) == 7);",
        "struct pair s[3], *p = &s[1]; p[1].y = 8; p[-1].y = 9;"
        "__VERIFIER_assert(s[2].y == 8 && s[0].y == 9);",
        "struct pair *p = malloc(3 * sizeof(struct pair)); p[2].x = 1; p->y = 3; p[0].x = 2;"
        "__VERIFIER_assert(p[2].x == 1 && p->x == 2);",
        "struct pair s, *p = &s; p[0].y = 2; __VERIFIER_assert(s.y == 2);",
        "struct pair *p = 0; if (!all[0].x) p = &all[1]; p->x = 3;"
        "__VERIFIER_assert(all[1].x == 3);",
        "int n = 2; struct pair s[n]; s[1].x = 3; __VERIFIER_assert(s[1].x == 3);",
        "int x = 0, a[2] = {x++, 7}; __VERIFIER_assert(x == 1 && a[0] == 0);",
        "int x = 0; struct pair s = {5, ++x}; __VERIFIER_assert(x == 1 && s.y == 1);",
    ],
)  # fmt: skip
def test_each_part_is_a_variable_of_its_own(body: str) -> None:
    """What is stored in a part is found there, by whatever way it is named, and nowhere else."""
    for semantics in Semantics:
        assert run_program(parse_program(main(body), "case"), semantics).failure is None
    before, _, asserted = main(body).rpartition("__VERIFIER_assert(")
    turned = parse_program(f"{before}__VERIFIER_assert(!({asserted.replace(');', '));')}", "case")
    assert run_program(turned, Semantics.INT32).failure is not None


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "body",
    [
        "int a[2][3]; a[0][3] = 1;",
        "int a[2][3], j = __VERIFIER_nondet_int(); if (j < 3) a[1][j] = 1;",
        "int a[2][3], i = -1; a[i][5] = 1;",
        "int a[2][3], i = 2; int x = a[i][0];",
        "int a[2][3]; long l = 6148914691236517206L; a[l][0] = 1;",
        "int a[2][3]; unsigned u = -1; a[0][u] = 1;",
        "int a[2][2]; a[__VERIFIER_nondet_int()][0] = 1;",
        "struct list s; s.a[3] = 1;",
        "struct pair s[3], *p = s + 2; p[1].x = 1;",
        "struct pair s[3]; s[3].y = 1;",
        "int n = 2; struct pair s[n]; s[n].y = 1;",
        "int n = 0; struct pair s[n];",
        "struct pair *p = malloc(2 * sizeof(struct pair)); p[2].y = 1;",
    ],
)
def test_no_index_may_leave_its_own_range(body: str) -> None:
    """An index out of range violates the program although the memory has such a place."""
    for semantics in Semantics:
        program = parse_program(main(body), "case")
        assert run_program(program, semantics).failure is not None


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("int a[2][2]; int *p = &a[0][0];", "the address of what is no variable"),
        ("int a[2][2]; int *p = a[1];", "a pointer whose target is not known here"),
        ("int a[2][2]; int x = sum(a, 2);", "'a', which is not a variable in scope"),
        ("int a[2][2]; a[1] = 3;", "an index of 'a', which is not an array in scope"),
        ("int a[2][2]; a[1][1][1] = 3;", "an array of arrays"),
        ("int a[2][2] = {1, 2, 3, 4};", "more values than elements"),
        ("int a[2][2] = {1, 2};", "an array that is not given a list of values"),
        ("int n = 2; int a[n][2];", "a constant that is no number"),
        ("int a[][2] = {{1, 2}};", "an array of arrays of an open length"),
        ("int a[2][2], i = 0; a[i][i++] = 1;", "an expression that changes i beside another use"),
        ("int x = next() - 2 * next();", "an expression that changes kept_x beside another use"),
        ("int *p = &all[1].x;", "the address of what is no variable"),
        ("struct list s, t; s = t;", "the structure 's' as a value"),
        ("struct list s, t = s;", "a structure with arrays with first values"),
        ("struct list s[2];", "an array of structures with arrays"),
        ("struct pair s[2] = {{1, 2}};", "an array of structures with first values"),
        ("struct list s; int *p = s.a;", "a pointer whose target is not known here"),
        ("struct list s; int x = s.a;", "the array 'a' without an index"),
        ("struct pair *p = malloc(24);", "memory of such a size"),
    ],
)
def test_parts_that_are_refused(body: str, reason: str) -> None:
    """What would need a part to be a pointer, or a value as a whole, is refused by name."""
    with pytest.raises(UnsupportedProgram) as raised:
        parse_program(main(body), "case")
    assert str(raised.value).startswith(f"case.c:3: {reason}")
