"""Symbolic execution of all runs: twins of programs, of which one holds and one fails."""

import time
from pathlib import Path

import pytest
import z3
from helpers.compiled import needs_gcc
from helpers.marks import long
from helpers.random_states import build_program, run_compiled

from loop_invariants.execution.execution import ExecutionResult, execute
from loop_invariants.execution.machine import Code, EndOfPath, Machine, State
from loop_invariants.frontend.error_names import ErrorNames
from loop_invariants.ir.instrumentation import Property

HEAD = """#include <assert.h>
#include <stdlib.h>
#include <string.h>
extern int __VERIFIER_nondet_int(void);
extern unsigned int __VERIFIER_nondet_uint(void);
extern void __VERIFIER_assume(int);
#define N() __VERIFIER_nondet_int()
#define U() __VERIFIER_nondet_uint()
#define A(x) __VERIFIER_assume(x)
struct p { int x, y; };
struct n { int v; struct n *next; };
static struct p make(int x, int y) { struct p r = {x, y}; return r; }
static int next(void) { static int c; return ++c; }
static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static int inc(int x) { return x + 1; }
static int twice(int x) { return 2 * x; }
static void swap(int *p, int *q) { int t = *p; *p = *q; *q = t; }
extern void step(void);
int g, *e;
static int h;
static int set(int *p) { *p = 1; g = 2; return *p; }
int main(void) {
"""

TWINS = {
    "message": ('int x = N(); A(x > 0); assert(@ && "positive");', "x >= 1", "x >= 2"),
    "escapes": ("int c = '\\n', k = '\\x41' + '\\101'; assert(@);", "c + k == 140", "c + k == 139"),
    "string": ('char s[] = "hello"; assert(@);', "s[5] == 0 && sizeof s == 6", "sizeof s == 5"),
    "copy": ('char b[@]; strcpy(b, "hello"); assert(b[4] == 111);', "6", "5"),
    "length": ('char b[8] = "ab"; strcat(b, "cd"); assert(@);', "strlen(b) == 4", "strlen(b) == 3"),
    "order": ("assert(@);", 'strcmp("abc", "abd") < 0', 'strcmp("abc", "abd") > 0'),
    "structure": ("struct p a = {N(), 2}, b = a; b.x++; assert(@);", "b.y == 2", "b.x == a.x"),
    "returned": ("struct p a = make(3, 4); assert(@);", "a.x + a.y == 7", "make(1, 2).y == 1"),
    "designated": ("int v[4] = {[1] = 2, 5}; assert(@);", "v[2] == 5 && !v[3]", "v[3] == 5"),
    "fields": ("struct p a = {.y = 5}; assert(@);", "a.x == 0 && a.y == 5", "a.x == 5"),
    "values after a path": (
        "struct { int a[3]; struct p b; int c; } s = {.a[1] = 7, 8, .b.x = 4, 5, 6}; assert(@);",
        "s.a[0] + s.a[1] == 7 && s.a[2] == 8 && s.b.y == 5 && s.c == 6",
        "s.c == 0",
    ),
    "a replaced value": (
        "struct { int a[3]; union { struct p b; int z; } u; } s = {.a = {1, 2, 3}, .a[1] = 7,"
        ".u.b.y = 4, .u.b.x = 5}; assert(@);",
        "s.a[0] == 1 && s.a[1] == 7 && s.u.b.y == 4 && s.u.z == 5",
        "s.a[1] == 2",
    ),
    "literal": ("int k = ((int[]){7, 8, 9})[1]; assert(@);", "k == 8", "k == 9"),
    "abs": ("int x = N(); A(x > @); assert(abs(x) >= 0);", "-100", "-2147483647 - 1 || 1"),
    "rand": ("int r = rand() % 10; assert(@);", "r >= 0 && r < 10", "r > 0"),
    "memset": ("int a[4]; memset(a, 0, @); assert(a[3] == 0);", "sizeof a", "17"),
    "memcpy": (
        "int a[3] = {1, 2, 3}, b[3]; memcpy(b, a, 12); assert(@);",
        "b[2] == 3",
        "b[2] == 2",
    ),
    "memmove": ("int a[4] = {1, 2, 3, 4}; memmove(a + 1, a, 12); assert(@);", "a[3] == 3", "!a[3]"),
    "a part behind its array": (
        "struct { int m[2][2]; struct p q[2]; int last; } s = {0}; int k = N(); A(k >= 0 && k < 2);"
        "assert(@);",
        "s.m[k][0] + s.q[k].y + (*(s.q + k)).x == 0",
        "s.m[k][0] + s.m[2][k] + s.q[k].y == 0",
    ),
    "a field behind its array": (
        "struct { struct p q[2]; struct p r; } s = {0}; int k = N(); A(k == 1); assert(@);",
        "s.q[k].y == 0",
        "s.q[k + 1].y == 0",
    ),
    "an element before its array": (
        "struct { int first, m[1][3]; } s = {0}; int k = N(); A(k >= 0 && k < 2); assert(@);",
        "k || s.m[k][2] == 0",
        "k == 0 || s.m[k][-1] == 0",
    ),
    "bits": ("struct { unsigned f : 3; } s; s.f = U(); assert(@);", "s.f <= 7", "s.f < 7"),
    "signed bits": ("struct { int g : 3; } s = {3}; s.g++; assert(@);", "s.g == -4", "s.g == 4"),
    "static": ("int r = 0; for (int i = 0; i < 5; i++) r = next(); assert(@);", "r == 5", "r < 5"),
    "recursion": ("assert(@);", "fib(12) == 144", "fib(12) == 145"),
    "targets": ("int a = 1, b = 2, *p = N() ? &a : &b; *p = 5; assert(@);", "a + b > 5", "a == 5"),
    "linked": ("struct n y = {2}, x = {1, &y}; x.next->v = 7; assert(@);", "y.v == 7", "y.v == 2"),
    "union": (
        "union { unsigned u; unsigned char b[4]; } x = {258}; assert(@);",
        "x.b[1]",
        "x.b[2]",
    ),
    "first part": (
        "struct { struct p a; int k; } s = {{1, 2}, 3}; int *x = &s.a.x; struct p *q = (void *)0;"
        "q = (struct p *)x; assert(@);",
        "q->y == 2",
        "q[1].x == 3",
    ),
    "first part of another size": (
        "int x = 1; struct p *q = (struct p *)&x; assert(@);",
        "(int *)q == &x",
        "q->y == q->x",
    ),
    "function": ("int (*f)(int) = N() ? inc : twice; int r = f(3); assert(@);", "r > 3", "r == 4"),
    "goto": (
        "int i = 0; goto m; while (i < 9) { i++; m: i += 2; } assert(@);",
        "i == 11",
        "i < 11",
    ),
    "narrow": (
        "unsigned char c = 0; int n = 0; do n++; while (c += 3); assert(@);",
        "n > 99",
        "n < 9",
    ),
    "guard": ("int i = 0; while (i++ < 10); assert(@);", "i == 11", "i == 10"),
    "rows": ("int a[3][4] = {0}, k = N(); A(k >= 0 && k < @); a[1][k] = 5; assert(1);", "4", "5"),
    "middle": (
        "int l = N(), m = N(); A(0 <= l && l <= m); assert(@ >= l);",
        "l + (m - l) / 2",
        "(l + m) / 2",
    ),
    "null": ("int x, *p = N() > 0 ? &x : 0; if (@) *p = 1; assert(1);", "p", "1"),
    "freed": ("int *p = malloc(4); *p = 1; @ assert(*p == 1);", "", "free(p);"),
    "open allocation": (
        "unsigned n = U(); A(n > 0 && n < 5); int *p = malloc(n * sizeof *p); p[@] = 1; assert(1);",
        "n - 1",
        "n",
    ),
    "realloc": (
        "int *p = malloc(8); p[1] = 5; int *q = realloc(p, 16); q[3] = 1; assert(@);",
        "q[1] == 5",
        "p[1] == 5",
    ),
    "divisor": ("int d = N(); A(d >= 0 && d < 9); @ assert(9 / d < 10);", "A(d != 0);", ""),
    "shift": ("unsigned n = U(); @ assert(1u << n);", "A(n < 32);", ""),
    "unsigned": ("unsigned u = U(); assert(@);", "u <= (unsigned)-1", "u < (unsigned)-1"),
    "other file": ("g = 1; step(); assert(@);", "h == 0", "g == 1"),
    "aliases": ("int r = set(&g); assert(@);", "g == 2 && r == 2", "g == 2 && r == 1"),
    "swapped": ("int a = N(), b = N(), x = a; swap(&a, &b); assert(@);", "b == x", "a == x"),
    "layout": (
        "struct { char c; int x; short s; } v; assert(@);",
        "sizeof v == 12",
        "sizeof v == 8",
    ),
    "symbolic length": (
        "int n = N(), s = 0; A(n <= 99); for (int i = 0; i < n; i++) s += 2; assert(@);",
        "s == 2 * n || n < 0",
        "s == 2 * n",
    ),
    "chosen pointer": (
        "int a = 1, b = 2, *p = &a, *q = &b, *r = *(N() ? &p : &q); assert(@);",
        "r == &a || r == &b",
        "r != &a",
    ),
    "equal addresses": (
        "int a[4], i = N(); A(i >= 0 && i < 4); int *p = a + i, *q = a + i; assert(@);",
        "!(p != q)",
        "p != q",
    ),
    "declared in a case": (
        "switch (N()) { case 1:; int x = 3; assert(@); }",
        "x == 3",
        "x == 4",
    ),
    "unused operand": (
        "int c = N(), x = 3, y = 5, r = y - ((c ? (void)0 : 1), x); assert(@);",
        "r == 2",
        "r == 1",
    ),
    "set before": (
        "int k = 0; l:; int x; if (k++) assert(@); else { memset(&x, 0, 4); goto l; }",
        "x == x",
        "x == 0",
    ),
    "a word in a string": ('char s[] = "__const"; assert(@);', "sizeof s == 8", "sizeof s == 6"),
    "print": (
        'char b[8]; int n = snprintf(b, 8, "%-5d:%s", N(), "x"); assert(@);',
        "strlen(b) < 8",
        "n < 8",
    ),
    "print into a part": (
        'char b[8] = "1234567"; snprintf(b, 4, "%d", N()); assert(@);',
        "b[5] == 54",
        "b[1] == 50",
    ),
    "printed string": ('char s[@] = "abc"; printf("%s", s); assert(1);', "4", "3"),
    "offset": (
        "struct { char c; struct p a; } s; assert(@);",
        "offsetof(struct n, next) == 8",
        "(char *)&s.a - &s.c == offsetof(struct n, next)",
    ),
    "narrowed argument": (
        "extern void __VERIFIER_assert(int); long x = 1L << 32; __VERIFIER_assert(@);",
        "x != 0",
        "x",
    ),
    "own name": ("extern int undefined(int); int x = undefined(1); assert(@);", "x == x", "x == 0"),
    "toggle of a switch": (
        "int x = N(), r; switch (x) { case 1: r = 1; break; default: r = 3; } assert(@);",
        "r == 1 || r == 3",
        "r == 1",
    ),
}


def run(text: str, seconds: float = 20) -> ExecutionResult:
    """Execute a text under the usual property."""
    return execute(text, "p", Property.ASSERT, ErrorNames(), {}, seconds)


@needs_gcc
@pytest.mark.parametrize("case", TWINS)
def test_of_two_twins_one_is_searched_and_one_fails(case):
    """All runs of the program that holds are searched, and its twin has a violating run."""
    body, holds, fails = TWINS[case]
    kept = run(f"{HEAD}{body.replace('@', holds)} return 0; }}")
    assert (kept.is_complete, kept.kind, kept.problem) == (True, "", "")
    broken = run(f"{HEAD}{body.replace('@', fails)} return 0; }}")
    assert not broken.is_complete
    assert broken.kind
    assert broken.line == HEAD.count("\n") + 1 or case in ("copy", "printed string")


UNDECIDED = {
    "a list after a part": "struct { struct p a; } s = {.a.x = 5, .a = {.y = 2}}; assert(s.a.x);",
    "a string after a part": 'char s[1][4] = {[0][2] = 1, [0] = "a"}; assert(s[0][2]);',
    "two parts of a union": (
        "struct { union { struct p a; int z[3]; } u; } s = {.u.a.y = 1, .u.z[0] = 5};"
        "assert(s.u.z[1]);"
    ),
    "a part after its structure": (
        "struct p a = {1, 2}; struct { struct p a; } s = {.a = a, .a.x = 5}; assert(s.a.y);"
    ),
    "a replaced call": "int v[2] = {[0] = next(), [0] = 2}; assert(next() == 2);",
    "a float": "float x = 1; assert(x == 1);",
    "an open order": "int i = 0; int x = i++ + i; assert(x < 9);",
    "two effects": "int i = 0; i = i++ + 1; assert(i < 9);",
    "an order of calls": "assert(next() - next() < 9);",
    "addresses of two objects": "int a, b; assert(&a < &b || &a > &b);",
    "the end of an object": "int a[2], b[2]; assert(a + 2 != b);",
    "a pointer before its array": "int a[2], *p = a - 1; assert(p != a);",
    "a number as an address": "int *p = (int *)12; assert(p != 0);",
    "an address as a number": "int a; assert((long)&a != 3);",
    "the same string twice": 'assert("ab" != "ab");',
    "copies that overlap": "int a[4] = {1}; memcpy(a + 1, a, 12); assert(1);",
    "a hidden name": "int x = 0; { switch (N()) { float x; case 1: x = 5; } } assert(x < 6);",
    "an address that escapes": "int x = 0; e = &x; step(); assert(x == 0);",
    "no size": "malloc();",
    "no number": "abs();",
    "no text": "printf();",
    "no value": 'printf("%d");',
    "a conversion of an escape": 'printf("\\x25s", 3);',
    "a text within itself": 'char b[8] = "ab"; snprintf(b, 8, "%s", b); assert(1);',
    "a bound beyond the buffer": 'char b[4]; snprintf(b, 8, "%d", 1); assert(1);',
    "no condition": "__VERIFIER_assert();",
    "a missing value": "int (*f)(int) = 0; assert(f == 0); for (;;) ;",
}


@needs_gcc
@pytest.mark.parametrize("case", UNDECIDED)
def test_what_c_leaves_open_is_not_decided(case):
    """A run whose meaning C does not fix, or that never ends, is neither searched nor false."""
    result = run(f"{HEAD}{UNDECIDED[case]} return 0; }}", seconds=2)
    assert (result.is_complete, result.kind) == (False, "")
    assert result.problem


def test_a_condition_with_a_constant_part_restricts_a_path():
    """A part that is true by itself changes nothing, and the others restrict the path."""
    machine, state = Machine(frozenset(), time.monotonic() + 60), State(Code("p"))
    number = machine.create_symbol(8)
    odd = z3.Concat(number, z3.BitVecVal(1, 1))
    machine.add(state, z3.Not(z3.Or(odd == 0, number == 2)))
    state.model = None
    machine.assume(state, number != 3)
    with pytest.raises(EndOfPath):
        machine.assume(state, number == 2)


@pytest.mark.parametrize("seed", [1, *long(*range(2, 12))])
@needs_gcc
def test_random_programs_agree_with_gcc(seed, tmp_path: Path):
    """No searched program fails in gcc with sanitizers, and no run called false holds there."""
    text = build_program(seed)
    (results,) = run_compiled([text], tmp_path)
    known = sorted({value for value in results if value is not None})
    for values in (known, known[1:]):
        claim = " || ".join(f"r == {value}ul" for value in values) or "0"
        found = run(text.replace("CLAIM", claim), seconds=3)
        holds = set(results) <= set(values)
        assert holds or not found.is_complete
        assert not (holds and found.kind and found.is_real)
