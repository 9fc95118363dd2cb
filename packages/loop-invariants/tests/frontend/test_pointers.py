"""Pointers whose target is known: what they mean, and what is refused of them."""

import pytest

from llmchecker.errors import UnsupportedProgram
from loop_invariants.frontend.translation_unit import parse_program
from loop_invariants.interpreter.simulation import run_program
from loop_invariants.ir.expressions import Semantics
from loop_invariants.ir.instrumentation import Property
from loop_invariants.verification.houdini import Prover

DECLARED = (
    "int __VERIFIER_nondet_int(void); void __VERIFIER_assert(int); "
    "void *malloc(unsigned long); void free(void *); "
    "struct pair { int x; int y; }; int all; int f(int *p) { return *p; }\n"
)


def main(body: str) -> str:
    return f"{DECLARED}int main(void) {{\n{body}\n}}\n"


@pytest.mark.few(5)
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
        ("int *p; for (;;) p = malloc(4);", "a second target for the pointer 'p'"),
        ("int *q; for (;;) { int *p = malloc(4); q = p; }", "a pointer from outside of a loop"),
        ("int *p = 0; *p = 1;", "a pointer whose target is not known here"),
        (
            "int x, *p = 0; for (;;) { if (p) *p = 1; p = &x; }",
            "a pointer whose target is not known",
        ),
        ("int x, *p = 0, *q; for (;;) { q = p; p = &x; }", "a pointer whose target is"),
        ("int x, *p = all ? &x : 0; x = *p + (p = 0, 1);", "an expression that changes p_state"),
        (
            "switch (all) { case 0:; int x, *p = 0; p = &x; break; case 1: *p = 1; }",
            "a pointer whose declaration is passed over",
        ),
        ("char s[2]; *(unsigned char *)s = 1;", "an assignment to neither a variable nor an"),
        ("int a[2], b[2]; if (a == b) ;", "an operator on pointers to different targets"),
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
        ("int *p = malloc(4); for (;;) { *p = 1; free(p); }", "memory that is freed in another"),
        ("int *p = malloc(4); l: *p = 1; free(p); goto l;", "memory that is freed in another"),
        ("int x, *p = &x; free(p);", "freeing what is not the beginning of allocated memory"),
        ("int *q; { int x; q = &x; }", "the pointer 'q' to what ends before it"),
        ("int *q; { int x, *p = &x; q = p; }", "the pointer 'q' to what ends before it"),
        ('char *p = "abc";', "a pointer whose target is not known here"),
        ("const int x = 1; int *p = (int *)&x;", "the address of a constant, without const,"),
        ("const int x = 1; *(int *)&x = 2;", "the address of a constant, without const,"),
        ("const int x = 1; void *p = (void *)&x;", "the address of a constant, without const,"),
        ("const int x = 1, *p = &x; int *q = (int *)p;", "the address of a constant, without"),
        ("static const int a[2] = {1, 2}; f(a);", "the address of a constant, without const,"),
        ("const struct pair s = {1, 2}; struct pair *p = &s;", "the address of a constant"),
        ("typedef const int number; number x = 1;", "const for 'number'"),
        ("typedef volatile int number; number x = 1;", "volatile for 'number'"),
        ("int x, *restrict p = &x;", "a qualifier of the pointer 'p'"),
        ("int x, *__restrict p = &x;", "a qualifier of the pointer 'p'"),
        ("int x, *volatile p = &x;", "a qualifier of the pointer 'p'"),
        ("int x, y; if (&x + 1 == &y) ;", "an operator on pointers to different targets"),
        ("int x, y, *p = &x; if (&p[1] != &y) ;", "an operator on pointers to different targets"),
    ],
)
def test_pointers_that_are_refused(body: str, reason: str) -> None:
    """A pointer whose target a run decides, or is gone, or is seen as another type, is refused."""
    with pytest.raises(UnsupportedProgram) as raised:
        parse_program(main(body), "case")
    assert str(raised.value).startswith(f"case.c:3: {reason}")


@pytest.mark.few(6)
@pytest.mark.parametrize(
    "body",
    [
        "if (x) p = &a; *p = 3;",
        "x && (p = &a, 1); *p = 3;",
        "x = x ? (p = &a, 1) : 2; *p = 3;",
        "if (x) goto l; p = &a; l:; *p = 3;",
        "switch (x) { case 1: p = &a; } *p = 3;",
        "while (x < 3) { p = &a; x++; } *p = 3;",
        "do { if (x) break; p = &a; } while (0); *p = 3;",
        "do { if (x) break; } while ((p = &a, 0)); *p = 3;",
        "p = 0; if (x) p = &a; *p = 3;",
        "p = &a; if (x) p = 0; a = *p;",
        "p = x ? &a : 0; f(p);",
        "int *m = malloc(4); free(m); *m = 1;",
        "int *m = malloc(4); free(m); free(m);",
        "int *m = malloc(4), *n = m; free(n); *m = 1;",
        "int *m = malloc(4); if (x) free(m); *m = 1;",
        "int *m = malloc(8); if (x) m++; free(m);",
        "int b[3]; int *q = x ? b : 0; q++;",
        "int b[3]; int *q = x ? b : 0; q[1] = 2;",
        "struct pair s, *q = x ? &s : 0; q->y = 2;",
        "p = x ? &a : (int *)0; int *const q = p; *q = 1;",
    ],
)
def test_a_pointer_without_a_target_violates_where_it_is_used(body: str) -> None:
    """One that is null, or that a run has given no value yet, must lead somewhere there."""
    text = main(f"int a, x = __VERIFIER_nondet_int(), *p; {body}")
    for semantics in Semantics:
        assert run_program(parse_program(text, "case"), semantics, runs=200).failure is not None


@pytest.mark.parametrize(
    "body",
    [
        "int *q; if (x) p = &a; q = p; p = &a;",
        "if (p == 0) p = &a;",
        "int *m = malloc(4); if (x) m = 0; free(m); if (m) a = 0;",
        "int *m = malloc(4); free(m); p = m;",
        "int *m = malloc(4); free(m); __VERIFIER_assert(m != 0);",
        "int b[3], *q = b + x; __VERIFIER_assert(q - b == x);",
        "int b[3], *q = b - 1; q++; *q = 0;",
        "int b[3], *q = b; if (x) q--; __VERIFIER_assert(b - q < 2);",
        "struct pair s[2], *q = s; q += 3; __VERIFIER_assert(q != s);",
        "int *m = malloc(8); __VERIFIER_assert(m + (x & 3) <= m + 3);",
        "__VERIFIER_assert(&a - 1 == &a - 1);",
    ],
)
def test_a_pointer_without_a_value_is_neither_proven_nor_told_where_it_is_only_looked_at(
    body: str,
) -> None:
    """C says nothing of what follows, nor of a place outside an array, so nothing is proven."""
    program = parse_program(main(f"int a, x = __VERIFIER_nondet_int(), *p; {body}"), "case")
    for semantics in Semantics:
        assert run_program(program, semantics, runs=200).failure is None
        assert not Prover(program, semantics).entails_assertions(())


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("functions", "body"),
    [
        ("int *g(int *p, int c) { if (c) return p; return 0; }",
         "int x = 3, *q = g(&x, 1); *q = 4; __VERIFIER_assert(x == 4 && q == &x && !g(&x, 0));"),
        ("int *g(int *p, int c) { while (c > 0) { if (*p == c) return p; p++; c--; } return 0; }",
         "int a[4] = {2, 2, 1, 1}; __VERIFIER_assert(g(a, 2) - a == 0);"),
        ("int *g(void) { static int x; x++; return &x; }",
         "int *q = g(); g(); __VERIFIER_assert(*q == 2);"),
        ("int *g(void) { return &all; }",
         "(*g())++; *g() += 2; if (g()) all++; __VERIFIER_assert(all == 4);"),
        ("char *g(char *d, const char *s) { char *r = d; while ((*d++ = *s++) != 0); return r; }",
         "char a[2] = {7, 0}, b[2]; __VERIFIER_assert(g(b, a) == b && b[0] == 7 && b[1] == 0);"),
        ("void *g(void *p) { char *c = p; return c + 1; }",
         "char s[3] = {1, 2, 3}; char *q = g(s); __VERIFIER_assert(*q == 2);"),
        ("int *g(void) { int *p = malloc(sizeof *p); *p = 1; return p; }",
         "int *p = g(), *q = g(); *p = 2; __VERIFIER_assert(*q == 1 && *p == 2);"),
        ("int *g(int *p, int *q) { return p; }",
         "int x = 1, y = 2; *g(&x, 0) += *g(&y, &x); __VERIFIER_assert(x == 3);"),
        ("void g(int *p, int *q) { *p = 1; }",
         "int x = 0; g(&x, 5); __VERIFIER_assert(x == 1);"),
        ("int *at; void g(int *p) { at = p; }",
         "int x = 5; if (at == 0) g(&x); *at = 6; __VERIFIER_assert(x == 6);"),
        ("int x, *at = &x; int x;",
         "*at = 1; at = 0; __VERIFIER_assert(x == 1 && !at);"),
        ("", "int x = 1, *p = all ? &x : 0, y = (p ? *p : 7) + !p; __VERIFIER_assert(y == 8);"),
        ("", "int x = 1, *p = &x, *q = 0; if (!q) q = p; p = 0; __VERIFIER_assert(*q == 1 && !p);"),
        ("", "int x, y, *p = &x, *q = &y; __VERIFIER_assert(p != q && &x == p && !(p == q));"),
        ("", "int x = 2, *p = 0; for (;;) { if (p) break; p = &x; } __VERIFIER_assert(*p == 2);"),
        ("", "char s[2] = {-1, 1}; unsigned char *u = (unsigned char *)s;"
         "__VERIFIER_assert(*u == 255 && ((unsigned char *)s)[1] == 1);"),
        ("", "int *p = malloc(4), *q = p; if (all) { free(p); p = 0; } if (p) *p = 1;"
         "free(p); p = 0; __VERIFIER_assert(p == 0);"),
        ("", "int *p = malloc(4), x = 1; *p = 2; if (x) { x = *p; free(p); } else x = *p;"
         "__VERIFIER_assert(x == 2);"),
        ("", "int *p = 0; if (all) p = malloc(4); free(p); free(0); __VERIFIER_assert(!all);"),
        ("", "unsigned x = -1; int *p = (int *)&x; __VERIFIER_assert(*p == -1);"),
        ("int g(const int *p) { return *p; }",
         "const int x = 3; static const int a[2] = {1, 2}; __VERIFIER_assert(g(&x) + g(a) == 4);"),
        ("", "int x, *p = &x; __VERIFIER_assert(sizeof(p) + sizeof(int *) + sizeof *p == 20);"),
        ("", "int a[2], *p; if (all) p = a; else p = a + 1; *p = 3; __VERIFIER_assert(a[1] == 3);"),
    ],
)  # fmt: skip
def test_pointers_that_functions_return_or_that_may_be_null(functions: str, body: str) -> None:
    """They lead to the very variable that they got, or are null, whatever way a run took."""
    text = main(body).replace("int main", f"{functions} int main")
    for semantics in Semantics:
        assert run_program(parse_program(text, "case"), semantics).failure is None
    before, _, asserted = text.rpartition("__VERIFIER_assert(")
    turned = parse_program(f"{before}__VERIFIER_assert(!({asserted.replace(');', '));')}", "case")
    assert run_program(turned, Semantics.INT32).failure is not None


@pytest.mark.parametrize(
    ("functions", "reason"),
    [
        ("int *g(void) { int x; return &x; }", "the pointer 'g_result' to what ends before it"),
        ("int *g(void) { int *p = alloca(4); return p; }", "the pointer 'g_result' to what ends"),
        ("int *at; int *g(void) { int x; at = &x; return at; }", "the pointer 'at' to what ends"),
        ("int y; int *g(void) { if (all) return &all; return &y; }", "a second target for the"),
        ("int *at = malloc(4); int *g(void) { return at; }", "a first value that is no constant"),
        ("int *g(void) { return g(); }", "recursion of g"),
        (
            "int h(const int x) { *(int *)&x = 2; return x; } int *g(void) { h(1); return 0; }",
            "the address of a constant, without const,",
        ),
        (
            "int h(int a[restrict]) { return 1; } int *g(void) { h(&all); return 0; }",
            "a qualifier of the pointer 'a'",
        ),
    ],
)
def test_pointers_of_functions_that_are_refused(functions: str, reason: str) -> None:
    """What a function returns must stay, and be one thing."""
    text = main("int *p = g();").replace("int main", f"{functions} int main")
    with pytest.raises(UnsupportedProgram, match=reason):
        parse_program(text, "case")


@pytest.mark.parametrize(
    "functions",
    [
        "int *at; void g(int c) { if (c) return; at = &all; }",
        "int *at = 0; void g(int c) { while (!c) { at = &all; return; } }",
        "int *at = &all; void g(int c) { if (!c) return; at = 0; }",
        "int *at; void g(int c) { switch (c) { case 1: return; default: at = &all; } }",
    ],
)
def test_a_pointer_outside_of_functions_may_stay_null(functions: str) -> None:
    """A function that returns early has not given it its target."""
    text = main("g(__VERIFIER_nondet_int()); *at = 1;").replace("int main", f"{functions} int main")
    for semantics in Semantics:
        assert run_program(parse_program(text, "case"), semantics).failure is not None


def test_a_pointer_without_a_target_only_ends_a_run_that_is_asked_for_an_error() -> None:
    """Under `reach` no run goes on behind such a use, and none is a violation."""
    body = "int x, *p = 0; if (all) p = &x; *p = 1; if (!all) reach_error();"
    text = main(body).replace("int main", "void reach_error(void); int main")
    program = parse_program(text, "case", required_property=Property.REACH)
    assert run_program(program, Semantics.INT32).failure is None
    assert run_program(parse_program(text, "case"), Semantics.INT32).failure is not None
