"""The front end: every construct that it covers, every one that it refuses, and what it writes."""

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from llmchecker.errors import UnreadableProgram, UnsupportedProgram
from loop_invariants.frontend.expressions import parse_condition
from loop_invariants.frontend.translation_unit import parse_program, read_program
from loop_invariants.interpreter.simulation import run_program
from loop_invariants.ir.expressions import (
    BOOL,
    INT,
    Constant,
    Expression,
    Nondet,
    Semantics,
    Type,
    format_c,
)
from loop_invariants.ir.statements import (
    Assert,
    Assign,
    Assume,
    Block,
    Branch,
    Break,
    BreakTo,
    Continue,
    Havoc,
    LabelledBlock,
    Loop,
    Program,
    Stop,
)
from loop_invariants.verification.esbmc_annotation import annotate

DECLARED = """
extern int __VERIFIER_nondet_int(void);
extern void __VERIFIER_assume(int);
extern void assert(int);
"""


def program(body: str, before: str = DECLARED) -> Program:
    return parse_program(f"{before}int main(void) {{\n{body}\n}}\n", "case")


def shown(block: Block) -> str:
    """A block in one line, as a reader would write it."""
    return " ".join(_statement(statement) for statement in block)


def _statement(statement) -> str:
    match statement:
        case Assign(target=target, value=value):
            return f"{format_c(target)} = {format_c(value)};"
        case Havoc(name=name):
            return f"forget {name};"
        case Assume(condition=condition):
            return f"assume {format_c(condition)};"
        case Assert(condition=condition):
            return f"assert {format_c(condition)};"
        case Branch(condition=condition, then=then, otherwise=otherwise):
            return f"if {format_c(condition)} [{shown(then)}] [{shown(otherwise)}]"
        case Loop(number=number, guard=guard, body=body, step=step):
            return f"{number}: while {format_c(guard)} [{shown(body)}] [{shown(step)}]"
        case LabelledBlock(label=label, body=body):
            return f"{label}: [{shown(body)}]"
        case BreakTo(label=label):
            return f"leave {label};"
        case Break() | Continue() | Stop():
            return f"{type(statement).__name__.lower()};"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("int x = 1;", "x = 1;"),
        ("int x;", "forget x;"),
        ("int x = 1, y = x;", "x = 1; y = x;"),
        ("const int x = 1;", "x = 1;"),
        ("int x; x = 2; x += 3; x -= x; x *= 2; x /= 2; x %= 3;",
         "forget x; x = 2; x = x + 3; x = x - x; x = x * 2; x = x / 2; x = x % 3;"),
        ("int x = 0; x++; ++x; x--; --x;", "x = 0; x = x + 1; x = x + 1; x = x - 1; x = x - 1;"),
        ("int x = 0; (x = 1); x = 2, x = 3;", "x = 0; x = 1; x = 2; x = 3;"),
        ("int x = __VERIFIER_nondet_int();", "x = __VERIFIER_nondet();"),
        ("int x = 0; if (x) x = 1; else { x = 2; }", "x = 0; if x [x = 1;] [x = 2;]"),
        ("int x = 0; { int y = 1; } { int y = 2; }", "x = 0; y = 1; y = 2;"),
        (";", ""),
        ("return 3;", "stop;"),
        ("abort(); exit(1);", "stop; stop;"),
        ("reach_error();", "assert 0; stop;"),
        ("int x = 0; assert(x); __VERIFIER_assert(x < 1); __ESBMC_assert(x, \"why\");",
         "x = 0; assert x; assert x < 1; assert x;"),
        ("int x = 0; __VERIFIER_assume(x); __ESBMC_assume(x < 1); assume_abort_if_not(x);",
         "x = 0; assume x; assume x < 1; assume x;"),
        ("int x = 0; while (x < 3) x++;", "x = 0; 0: while x < 3 [x = x + 1;] []"),
        ("while (1) { break; continue; }", "0: while 1 [break; continue;] []"),
        ("for (;;) ;", "0: while 1 [] []"),
        ("for (int i = 0; i < 3; i++) ;", "i = 0; 0: while i < 3 [] [i = i + 1;]"),
        ("int i, j; for (i = 0, j = 1; i < j; i++, j--) continue;",
         "forget i; forget j; i = 0; j = 1; 0: while i < j [continue;] [i = i + 1; j = j - 1;]"),
        ("int x = 0; do x++; while (x < 3);",
         "x = 0; x = x + 1; 0: while x < 3 [x = x + 1;] []"),
        ("while (1) { while (2) ; } while (3) ;",
         "0: while 1 [1: while 2 [] []] [] 2: while 3 [] []"),
        ("int a[2] = {5};", "a[0] = 5; a[1] = 0;"),
        ("int a[] = {5, 6};", "a[0] = 5; a[1] = 6;"),
        ("int a[200]; a[1] = a[0]; a[2]++;",
         "forget a; a[1] = a[0]; a[2] = a[2] + 1;"),
        ("int x = 0; while (x++ < 3) ;", "x = 0; x = x + 1; 0: while (x - 1) < 3 [] [x = x + 1;]"),
        ("int x = 3; while (--x) ;", "x = 3; x = x - 1; 0: while x [] [x = x - 1;]"),
        ("int x; while ((x = __VERIFIER_nondet_int())) ;",
         "forget x; x = __VERIFIER_nondet(); 0: while x [] [x = __VERIFIER_nondet();]"),
        ("int x = 1, y = x++;", "x = 1; x = x + 1; y = x - 1;"),
        ("char x = 1; int y = x++;", "x = 1; old = x; x = old + 1; y = old;"),
        ("int x, y; x = y = 0;", "forget x; forget y; y = 0; x = y;"),
        ("int x = 0; x <<= 1; x = x ^ ~x;", "x = 0; x = x << 1; x = x ^ ~x;"),
        ("int x = 0; x = (char)x; x = 5u;", "x = 0; x = (signed char)x; x = (unsigned int)5;"),
        ("int y = 0, x = sizeof(short) + sizeof y;",
         "y = 0; x = (unsigned long)2 + (unsigned long)4;"),
        ("int x = 0; { int x = 1; } { long x = 2; }", "x = 0; x_2 = 1; x_3 = 2;"),
        ("static int x = 4; x++;", "x = 4; x = x + 1;"),
        ("do { break; } while (1);", "0: while 1 [break; if 1 [] [break;]] []"),
        ("int x = 0; do { continue; } while (0); x = 1;", "x = 0; x = 1;"),
        ("int x = 1; do { while (x) ; } while (x);",
         "x = 1; 0: while 1 [1: while x [] [] if x [] [break;]] []"),
        ("struct s { int x; char y; } v = {1}; v.y = 2;", "v_x = 1; v_y = 0; v_y = 2;"),
        ("enum e { A, B = 4, C }; int x = C;", "x = 5;"),
        ("typedef short t; t x = 1;", "x = 1;"),
        ("int x = 0; goto end; x = 1; end: x = 2;", "x = 0; end_1: [leave end_1; x = 1;] x = 2;"),
        ("int x = 0; again: x++; if (x < 3) goto again;",
         "x = 0; 0: while 1 [again_1: [x = x + 1; if x < 3 [leave again_1;] [] break;]] []"),
        ("int x = 0; switch (x) { case 1: x = 5; case 2: break; default: x = 6; }",
         "x = 0; leave_1: [case_4: [case_3: [case_2: [if x == 1 [leave case_2;] [] "
         "if x == 2 [leave case_3;] [] leave case_4;] x = 5;] leave leave_1;] x = 6;]"),
        ("int x = 0; if (x && x++) ;",
         "x = 0; if x [x = x + 1; truth = (x - 1) != 0;] [truth = 0;] if truth != 0 [] []"),
        ("int x = 0; if (x) reach_error(); if (x) abort();",
         "x = 0; assert !x; assume !x;"),
        ("int n = 3; int a[n];", "n = 3; a.length = n; assert a.length > 0; forget a;"),
        ("_Bool b = 1; bool c = true;", "b = 1; c = 1;"),
    ],
)  # fmt: skip
def test_constructs_that_are_covered(body: str, expected: str) -> None:
    """Every construct becomes the statements that it stands for."""
    assert shown(program(body).body) == expected


def test_globals_start_at_zero() -> None:
    """Variables outside of functions are zero, or what they are given."""
    assert shown(program("", "int x; static int y = 2; int a[2];").body) == (
        "x = 0; y = 2; a[0] = 0; a[1] = 0;"
    )


def test_types_by_their_words() -> None:
    """Integer types have C's widths, `long` 64 bits; words may stand in any order."""
    declared = "unsigned char c; short int s; unsigned u; long unsigned l; long long d; _Bool b;"
    types = program("int x; signed z;", declared).types
    assert dict(types) == {
        "c": Type(8, False), "s": Type(16), "u": Type(32, False), "l": Type(64, False),
        "d": Type(64), "b": BOOL, "x": INT, "z": INT,
    }  # fmt: skip


def test_open_values_have_the_type_of_their_function() -> None:
    """`__VERIFIER_nondet_uchar()` is any unsigned char."""
    declared = "extern unsigned char __VERIFIER_nondet_uchar(void);"
    (assigned,) = program("int x = __VERIFIER_nondet_uchar();", declared).body
    assert assigned.value == Nondet(Type(8, False))


def test_loops_know_their_place_and_scope() -> None:
    """Loops are numbered as they stand, with their line and the names in scope before them."""
    loops = program(
        "int n = 2;\nfor (int i = 0; i < n; i++) {\nint k = 0;\nwhile (k < i)\nk++;\n}\n"
        "while (n)\nn--;"
    ).loops
    assert [(loop.number, loop.line, loop.scope) for loop in loops] == [
        (0, 7, ("i", "n")),
        (1, 9, ("i", "k", "n")),
        (2, 12, ("n",)),
    ]


def test_assertions_know_their_line() -> None:
    """Comments over several lines, includes and attributes leave every line where it was."""
    before = "/* one\n two */ #include <assert.h>\n".replace("*/ #", "*/\n#")
    before += "extern void abort(void) __attribute__((__noreturn__));\n// int main(\n"
    (assertion,) = program("assert(1);", before).assertions
    assert assertion.line == 7


def test_a_call_before_a_prototype_does_not_convert_its_arguments() -> None:
    """gcc passes 32 bits of an int to such a parameter of 64 bits, so that -1 may not arrive."""
    main = "int main(void) { return f(-1); }"
    definition = "int f(long x) { return x == -1; }"
    for text in (f"{main} {definition}", f"int f(); {main} {definition}"):
        with pytest.raises(UnsupportedProgram, match="the call of f before its declaration"):
            parse_program(text, "case")
    for text in (f"{definition} {main}", f"int f(long); {main} {definition}"):
        assert parse_program(text, "case").is_lowered
    assert parse_program("int main(void) { return f(); } int f(void) { return 1; }", "case")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("int x; x = *x;", "a pointer"),
        ("int x; x = &x;", "the address of a variable"),
        ("float f;", "the type float"),
        ("double f = 1.0;", "the type double"),
        ("int x = 1.5;", "the constant 1.5"),
        ("long double x;", "the type long double"),
        ("main();", "the call of main"),
        ("f(1, 2);", "the call of f with these arguments"),
        ("int y = f;", "'f', which is not a variable in scope"),
        ("int x = x;", "'x' in its own declaration"),
        ("int x; int x;", "a second 'x' in one scope"),
        ("struct s { int x : 2; } v;", "the field 'x', which is no plain integer"),
        ("struct s { int x; } v[2][2];", "an array of arrays of structures"),
        ("struct s { int x; } v; int y = v;", "the structure 'v' as a value"),
        ("union u { int x; } v;", "a union"),
        ("int x = 0; x = x++;", "an assignment that changes x twice"),
        ("int x = 0; x = x++ + 1;", "an assignment that changes x twice"),
        ("int x = 0, y = x++ + x;", "an expression that changes x beside another use of it"),
        ("int x = 0, y = x++ + x++;", "an expression that changes x beside another use of it"),
        ("int x = 0; int a[2] = {0}; a[x] = x++;", "an expression that changes x beside another"),
        ("int x = 0; int a[2] = {0}; a[x++] = x;", "an expression that changes x beside another"),
        ("int x = 0; f(x) + (x = 2);", "an expression that changes x beside another use of it"),
        ("goto in; int x = 0; in: ;", "a goto over a declaration"),
        ("goto in; { int x = 0; in: ; }", "a goto into a block, to 'in',"),
        ("goto in; switch (1) { case 1: in: ; }", "a goto into a block, to 'in',"),
        ("goto in; for (int i = 0; i < 3; i++) { in: ; }", "a goto into a block, to 'in',"),
        ("switch (1) { int x; case 1: ; }", "a statement before the cases of a switch"),
        ("int x = 0; switch (1) { case 1: case 1: ; }", "this case of a switch"),
        ("int x = 0; switch (1) { case 1: { case 2: ; } }", "a case inside a block of a switch"),
        ("x = 1;", "'x', which is not a variable in scope"),
        ("{ int y; } y = 1;", "'y', which is not a variable in scope"),
        ("int a[3]; a = 1;", "the array 'a' without an index"),
        ("int x; x[0] = 1;", "an index of 'x', which is not an array in scope"),
        ("int a[2][2]; a[1] = 0;", "an index of 'a', which is not an array in scope"),
        ("int a[];", "an array without a length"),
        ("int a[100] = {0};", "giving values to more than 64 elements"),
        ('char s[4] = "abc";', "an array that is not given a list of values"),
        ("int a[2] = {[1] = 3};", "an index in a list of values"),
        ("int a[3]; a[__VERIFIER_nondet_int()] += 1;", "changing an element at an open index"),
        ("extern int x;", "extern for 'x'"),
        ("volatile int x;", "volatile for 'x'"),
        ("break;", "break or continue outside a loop"),
        ("if (1) continue;", "break or continue outside a loop"),
        ("assert(__ESBMC_forall(&k, k == k));", "a quantifier over 'k', which is no int"),
        ("char k; assert(__ESBMC_forall(&k, k < 300));", "a quantifier over 'k', which is no int"),
        ("int k; assert(__ESBMC_exists(&k, k < __VERIFIER_nondet_int()));", "the call of __VER"),
        ("int x = " + "+".join(["1"] * 500) + ";", "nesting deeper than 100"),
    ],
)  # fmt: skip
def test_constructs_that_are_refused(body: str, reason: str) -> None:
    """What is not covered is named with file and line."""
    with pytest.raises(UnsupportedProgram) as raised:
        program(body, "int f(int x) { return x; }\n\n")
    assert str(raised.value).startswith(f"case.c:4: {reason}")


@pytest.mark.parametrize(
    ("source", "error", "reason"),
    [
        ("", UnreadableProgram, "has no function main"),
        ("int x;", UnreadableProgram, "has no function main"),
        ("int main(void);", UnreadableProgram, "has no function main"),
        ("def main():\n    return 0\n", UnreadableProgram, "is not C that can be parsed"),
        ("#include <iostream>\nint main() {}", UnreadableProgram, "is C++ and not C"),
        ("int main(void) {", UnreadableProgram, "is not C that can be parsed"),
        ("int main(void) {" + "{" * 3000, UnreadableProgram, "is not C that can be parsed"),
        ("int main(void) { int x = " + "(" * 3000, UnreadableProgram, "is not C"),
        ("int main(void) " + "{" * 60 + "if (1) " * 60 + ";" + "}" * 60,
         UnsupportedProgram, "nesting deeper than 100"),
        ("\n#pragma omp\nint main(void) {}", UnsupportedProgram, "case.c:2: '#pragma omp'"),
        ("int main(int argc, char **argv) { argv; }", UnsupportedProgram, "'argv'"),
        ("int main(int) {}", UnsupportedProgram, "a parameter of main without a name"),
        ("/*@ requires n ==> 1; */ int main(int n) {}", UnsupportedProgram, "an ACSL contract"),
        ("extern int x; int main(void) {}", UnsupportedProgram, "case.c:1: extern for 'x'"),
        ("int **p; int main(void) {}", UnsupportedProgram, "case.c:1: a pointer"),
    ],
)  # fmt: skip
def test_files_that_are_refused(source: str, error: type[Exception], reason: str) -> None:
    """A file that is no C, has no main or goes beyond what is covered is refused by name."""
    with pytest.raises(error) as raised:
        parse_program(source, "case")
    assert reason in str(raised.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A file that is missing or a directory is unreadable, by its path."""
    for path in (tmp_path / "missing.c", tmp_path):
        with pytest.raises(UnreadableProgram, match=re.escape(str(path))):
            read_program(path)


def test_other_encodings_may_stand_in_remarks(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 are read in comments and strings, and refused elsewhere."""
    latin = tmp_path / "latin.c"
    latin.write_bytes("int main(void) { /* \xe9 */ }".encode("latin-1"))
    assert read_program(latin).loops == ()
    latin.write_text("\ufeffint main(void) {}", encoding="utf-8")
    assert read_program(latin).loops == ()
    latin.write_bytes("int main(void) { int \xe9; }".encode("latin-1"))
    with pytest.raises(UnsupportedProgram, match="the character 'é'"):
        read_program(latin)


REMARKS = {
    "x == 3": "assert x == 3",
    "x + y >= x": "assert ((long)x + (long)y) >= x",
    "x * y == 2": "assert ((long)x * (long)y) == 2",
    "-x < 5": "assert -(long)x < 5",
    "u > -1": "assert (long)u > (-1)",
    "a[x + 1] == l": "assert a[(long)x + (long)1] == l",
    "c + c < 300 && !(x > 1)": "assert ((c + c) < 300) && !(x > 1)",
    "x / 2 == 1u": "assert ((long)x / (long)2) == (long)1",
    "l + 1 > l": "assert ((__int128)l + (__int128)1) > l",
    "w > -1": "assert (__int128)w > (-1)",
    "l * l * 4 > l": "a number of more than 128 bits in a remark",
    "x / y == 1": "a division by what may be zero in a remark",
    "1 < x < 3": "two comparisons in a row in a remark",
    "x++ > 1": "the operator p++ in a remark",
    "f(x)": "FuncCall in a remark",
    "(char)x == 1": "Cast in a remark",
    "(x & 1) == 1": "such an operator in a remark",
    "x > 0 ==> y > 0": "an assertion in a remark beyond C",
    "\\forall integer i; i > 0": "an assertion in a remark beyond C",
}


@pytest.mark.parametrize(("said", "meaning"), REMARKS.items())
def test_remarks_that_assert_speak_of_mathematical_integers(said: str, meaning: str) -> None:
    """`//@ assert` asserts what it says in types wide enough, or is refused by name."""
    before = "int x; int y; unsigned u; long l; char c; int a[9]; unsigned long w;"
    source = f"{before} int main(void) {{ x = 0;\n//@ assert {said};\n}}"
    if meaning.startswith("assert"):
        program = parse_program(source, "case")
        assert [f"assert {format_c(a.condition)}" for a in program.assertions] == [meaning]
        assert program.assertions[0].line == 2
    else:
        with pytest.raises(UnsupportedProgram, match=re.escape(f"case.c:2: {meaning}")):
            parse_program(source, "case")


def test_parameters_of_main_are_open() -> None:
    """Integers that main is given have any value, and there are not fewer than no arguments."""
    source = "int main(int argc, char **argv) {{ assert({}); }}"
    for asserted, holds in (("argc >= 0", True), ("argc < 3", False)):
        program = parse_program(source.format(asserted), "case")
        assert (run_program(program, Semantics.INT32).failure is None) == holds
    program = parse_program("int main(int a, unsigned b) { assert(a >= 0); }", "case")
    assert run_program(program, Semantics.INT32).failure is not None


INLINED = {
    "int f(int x) { return x + 1; }": "x = y; forget f_result; f_result = x + 1; y = f_result;",
    "int f(int x) { if (x) return 1; return 2; }":
        "x = y; forget f_result; end_1: [if x [f_result = 1; leave end_1;] [] f_result = 2;] "
        "y = f_result;",
    "char f(long x) { x++; return x; }":
        "x = y; forget f_result; x = x + 1; f_result = x; y = f_result;",
    "int f(int x);": "y = __VERIFIER_nondet();",
}  # fmt: skip


@pytest.mark.parametrize(("function", "expected"), INLINED.items())
def test_calls_take_in_the_function(function: str, expected: str) -> None:
    """A call assigns the parameters, runs the body, and has the value that is returned."""
    called = program("int y = 1; y = f(y);", DECLARED + function)
    assert shown(called.body) == f"y = 1; {expected}"
    assert called.is_lowered


def test_a_static_variable_is_one_variable_of_all_calls() -> None:
    """What a function keeps from call to call gets its first value before the program starts."""
    calls = program("f(); f();", "void f(void) { static int kept = 3; kept++; }")
    assert shown(calls.body) == "kept = 3; kept = kept + 1; kept = kept + 1;"


@pytest.mark.parametrize(
    "functions",
    [
        "int f(int x) { return f(x); }",
        "int g(int x);\nint f(int x) { return g(x); } int g(int x) { return f(x); }",
    ],
)
def test_recursion_is_refused(functions: str) -> None:
    """A function that calls itself, at once or through another, is named."""
    with pytest.raises(UnsupportedProgram, match="recursion of f"):
        program("int y = f(1);", functions)


def test_a_length_that_may_be_zero_is_a_violation() -> None:
    """An array of a length that is not positive is undefined, and a concrete run shows it."""
    failing = run_program(program("int n = 0; int a[n];"), Semantics.INT32).failure
    assert failing is not None
    assert failing.line == 0


def test_a_quantifier_that_no_run_decides_ends_the_run() -> None:
    """A branch on what holds for all integers is neither taken nor refused, and nothing crashes."""
    undecided = program("int k; if (__ESBMC_forall(&k, k == k)) assert(0); assert(0);")
    assert run_program(undecided, Semantics.INTEGERS).failure is None


def test_numbers_that_grow_without_end_end_the_run() -> None:
    """Squaring sixty times over mathematical integers does not fill the memory."""
    growing = program("int x = 3; while (1) x = x * x; assert(0);")
    runs = run_program(growing, Semantics.INTEGERS, runs=2)
    assert runs.failure is None
    assert max(state["x"] for state in runs.head_states[0]) > 2**100


NESTED = """int n = __VERIFIER_nondet_int();
int x = 0, y;
for (int i = 0; i < n; i++)
  for (y = 0, x = 1; y < i; y++)
    if (x > 0)
      while (x < 3)
        x++;
    else
      do x--; while (x > 0);
assert(x >= 0);"""

CASES = [
    ("int x = 0; while (x < 3) x++;", {0: ["x >= 0", "x <= 3"]}),
    ("for (int i = 0; i < 3; i++) ;", {0: ["i >= 0"]}),
    ("int i, j; for (i = 0, j = 3; i < j; i++, j--) ;", {0: ["i + j == 3"]}),
    ("int x = 0; do { x++; } while (x < 3);", {0: ["x >= 1"]}),
    ("int x = 0; if (x) while (x) x--; else while (x < 2) x++;", {0: ["x == 0"], 1: ["x <= 2"]}),
    (NESTED, {0: ["n > 0 || n <= 0"], 1: ["y <= i || 1"], 2: ["x > 0"], 3: ["x < 100"]}),
    (NESTED, {1: ["i < n"]}),
    (NESTED, {2: ["i < n"], 0: ["i >= 0"]}),
    ("int a[3]; int i = 0; while (i < 3) { a[i] = 1; i++; }",
     {0: ["__ESBMC_forall(&k, !(0 <= k && k < i) || a[k] == 1)", "__ESBMC_exists(&k, k == i)"]}),
]  # fmt: skip


def conditions(case: Program, invariants: dict[int, list[str]]) -> dict[int, list[Expression]]:
    return {
        number: [parse_condition(c, case.loops[number].scope, case.types) for c in written]
        for number, written in invariants.items()
    }


def without_stated(annotated: str) -> str:
    """The text without invariants and the variables that they bind."""
    return re.sub(r"__ESBMC_loop_invariant\(.*\);|int k;", "", annotated)


@pytest.mark.parametrize(("body", "invariants"), CASES)
def test_annotated_programs_are_the_same_programs(body: str, invariants: dict) -> None:
    """Without the invariants, the annotated text reads as the same statements and loops."""
    case = program(body)
    annotated = without_stated(annotate(case, conditions(case, invariants)))
    # A `do` loop is written as its body and a `while` loop, which are the same statements.
    assert shown(parse_program(annotated, "case").body) == shown(case.body)


@pytest.mark.parametrize(("body", "invariants"), CASES)
def test_invariants_stand_right_before_their_loops(body: str, invariants: dict) -> None:
    """Between the invariants of a loop and its `while` or `for` there is nothing else."""
    case = program(body)
    stated = conditions(case, invariants)
    annotated = annotate(case, stated)
    groups = re.findall(r"((?:__ESBMC_loop_invariant\(.*\);\s*)+)(while|for) \((.*)\)", annotated)
    assert len(groups) == len(invariants)
    assert annotated.count("__ESBMC_loop_invariant") == sum(map(len, invariants.values()))
    for number, (invariant, keyword, header) in zip(sorted(stated), groups, strict=True):
        guard = header.split(";")[1] if keyword == "for" else header
        names = case.loops[number].scope
        assert parse_condition(guard, names, case.types) == case.loops[number].guard
        found = re.findall(r"invariant\((.*)\);", invariant)
        assert [parse_condition(c, names, case.types) for c in found] == stated[number]


def test_known_functions_are_written_as_those_of_esbmc() -> None:
    """Assertions and assumptions keep their meaning where nothing but a declaration is known."""
    case = program(
        "int x = 1; assert(x); __VERIFIER_assert(x); __VERIFIER_assume(x); abort();", DECLARED
    )
    written = re.sub(r"\s+", " ", annotate(case, {}).split("main(void)")[1])
    assert written == (
        ' { int x = 1; __ESBMC_assert(x, "assertion"); __ESBMC_assert(x, "assertion"); '
        "__ESBMC_assume(x); __ESBMC_assume(0); } "
    )


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.parametrize(("body", "invariants"), CASES)
def test_annotated_programs_compile(body: str, invariants: dict, tmp_path: Path) -> None:
    """A C compiler takes the annotated text without a warning, given ESBMC's declarations."""
    case = program(body)
    file = tmp_path / "annotated.c"
    file.write_text(ESBMC_DECLARED + annotate(case, conditions(case, invariants)))
    _compiled(["cc", "-std=c11", "-Wall", "-Wno-parentheses", "-Werror", "-fsyntax-only", file])


def _compiled(command: Sequence[object]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


ESBMC_DECLARED = """
extern void __ESBMC_loop_invariant(int);
extern void __ESBMC_assert(int, const char *);
extern void __ESBMC_assume(int);
extern int __ESBMC_forall(int *, int);
extern int __ESBMC_exists(int *, int);
"""


def test_an_annotated_constant_needs_no_scope() -> None:
    """A loop that needs no invariant can be given 1, the one that always holds."""
    case = program("while (1) break;")
    assert "__ESBMC_loop_invariant(1);" in annotate(case, {0: [Constant(1)]})
