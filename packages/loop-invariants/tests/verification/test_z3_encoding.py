"""What a program means to the prover: that of C, at the edges where the two could part."""

import pytest

from llmchecker.errors import UnsupportedProgram
from loop_invariants.frontend.expressions import parse_condition
from loop_invariants.frontend.translation_unit import parse_program
from loop_invariants.interpreter.simulation import run_program
from loop_invariants.ir.expressions import Constant, Semantics
from loop_invariants.verification.esbmc_annotation import annotate
from loop_invariants.verification.houdini import Prover

each_semantics = pytest.mark.parametrize("semantics", Semantics)


def program(body):
    """The program of which this is the body of main."""
    return parse_program(f"int main(void) {{ {body} }}", "program")


def verified(body, semantics=Semantics.INT32):
    """Whether every assertion of a program without loops is proven."""
    return Prover(program(body), semantics).entails_assertions(())


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("a", "b", "quotient", "remainder"),
    [(7, 2, 3, 1), (-7, 2, -3, -1), (7, -2, -3, 1), (-7, -2, 3, -1), (-6, 2, -3, 0), (0, -5, 0, 0)],
)
@each_semantics
def test_division_is_that_of_c(a, b, quotient, remainder, semantics):
    """A quotient is rounded towards zero, and a remainder has the sign of the dividend."""
    stated = f"int a = {a}; int b = {b}; assert(a / b == {quotient} && a % b == {remainder});"
    assert verified(stated, semantics)
    assert not verified(stated.replace(f"== {remainder}", f"!= {remainder}"), semantics)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "condition",
    [
        "-2147483648 - 1 < 0",
        "2147483647 + 1 < 0",
        "c == 0",
        "s == -32768",
        "u - 1 > 0",
        "-1 > u",
        "-1 < w",
        "!b && -b == 0",
        "3000000000 > 2147483647",
    ],
)
def test_conversions_are_those_of_c(condition):
    """Promotions, conversions and the types of constants are C's, and int wraps around."""
    start = """unsigned char c = 255; c++; short s = 32767; s += 1; unsigned u = 0;
               unsigned char w = 0; _Bool b = 256; b--;"""
    assert verified(f"{start} assert({condition});")
    assert not verified(f"{start} assert(!({condition}));")
    assert run_program(program(f"{start} assert({condition});"), Semantics.INT32).failure is None


def test_mathematical_integers_do_not_wrap_around():
    """What overflows 32 bits is larger over the integers, and smaller over machine integers."""
    body = "int x = 2147483647; x = x + 1; assert(x > 0);"
    assert verified(body, Semantics.INTEGERS)
    assert not verified(body)
    unsigned = "unsigned x = 4294967295; x = x + 1; assert(x == 0);"
    assert verified(unsigned, Semantics.INTEGERS)
    assert verified(unsigned)


@pytest.mark.parametrize(
    "body",
    [
        "int a[3]; a[3] = 1;",
        "int a[3]; int i = -1; assert(a[i] == a[i]);",
        "int x = __VERIFIER_nondet_int(); int y = 6 / x;",
        "int x = __VERIFIER_nondet_int(); if (6 % x == 7) x = 1;",
        "int x = 0; return 6 / x;",
        "int x = 0; __VERIFIER_assume(6 / x == 1);",
        "int n = 2; int a[n]; n = 5; a[3] = 1;",
        "long n = 5000000000; int a[n]; a[0] = 1; a[4294967296] = 2; assert(a[0] == 2);",
    ],
)
@each_semantics
def test_what_c_leaves_undefined_is_not_verified(body, semantics):
    """An index out of range or a divisor of zero is refused wherever it is evaluated."""
    assert not verified(body, semantics)


@pytest.mark.parametrize(
    "body",
    [
        "int x = __VERIFIER_nondet_int(); if (x != 0 && 6 / x > 6) assert(0);",
        "int x = __VERIFIER_nondet_int(); assert(x == 0 || 6 / x <= 6);",
        "int x = __VERIFIER_nondet_int(); int y = x == 0 ? 0 : 6 % x; assert(y < 7);",
        "int a[3]; int i = __VERIFIER_nondet_int(); if (i >= 0 && i < 3) { a[i] = 1; }",
        "int n = 4; int a[n]; n = 2; a[3] = 1; assert(a[3] == 1);",
    ],
)
@each_semantics
def test_what_is_not_evaluated_is_not_checked(body, semantics):
    """A guarded division or index is no error, and a length stays what it was when declared."""
    assert verified(body, semantics)


@each_semantics
def test_paths_are_merged_with_their_values(semantics):
    """Where branches meet, a variable has the value of the branch that was taken."""
    body = """int x = __VERIFIER_nondet_int(); int y = 0; int z;
              if (x > 0) { y = 1; if (x > 5) { y = 2; } else { z = 3; } }
              else { if (x == 0) { return 0; } y = 4; }"""
    assert verified(
        f"{body} assert(x != 0 && (y == 4) == (x < 0) && (y == 2) == (x > 5));", semantics
    )
    assert not verified(f"{body} assert(y != 4 || z == 3);", semantics)
    assert not verified(f"{body} assert(y == 1 || y == 4);", semantics)


@each_semantics
def test_what_a_loop_changes_is_forgotten(semantics):
    """Behind a loop, only the guard's negation is known of what any statement in it changes."""
    # With an index that is no constant, so that the elements are not integers of their own.
    start = "int x = 0; int y = 0; int z = 0; int a[2]; a[y] = 1; a[1] = 1;"
    loop = "for (x = 0; x < 5; z = z + 1) { if (x == 3) { a[0] = 2; } x = x + 1; }"
    assert verified(f"{start} {loop} assert(x >= 5 && y == 0);", semantics)
    for condition in ("x == 5", "z == 5", "z >= 0", "a[0] == 1", "a[1] == 1"):
        assert not verified(f"{start} {loop} assert({condition});", semantics)


@each_semantics
def test_every_evaluation_of_a_nondeterministic_value_is_another(semantics):
    """Two calls may differ, and so may the same call in two iterations."""
    call = "__VERIFIER_nondet_int()"
    assert not verified(f"assert({call} == {call});", semantics)
    assert not verified("int x; int y; assert(x == y);", semantics)
    assert not verified(f"_Bool x = {call}; _Bool y = {call}; assert(x == y);", semantics)
    assert verified(f"_Bool x = {call}; assert(x == 0 || x == 1);", semantics)


@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize(
    ("constant", "next_"),
    [
        ("2147483647L", "2147483648"),
        ("1u", "2"),
        ("4294967295u", "0"),
        ("0xFFFFFFFF", "0"),
        ("037777777777", "0"),
        ("4294967295", "4294967296"),
        ("0x7FFFFFFFL", "2147483648"),
        ("18446744073709551615", None),
        ("18446744073709551615u", "0"),
        ("18446744073709551616", None),
    ],
)
def test_constants_have_the_type_that_c_gives_them(constant, next_, semantics):
    """The first type that holds a constant decides where it wraps around; one must hold it."""
    body = f"long x = {constant} + 1; assert(x == {next_ or 0});"
    if next_ is None:
        with pytest.raises(UnsupportedProgram, match=constant):
            program(body)
    else:
        assert verified(body, semantics)


@pytest.mark.parametrize("declared", ["extern int g;", "volatile int g;"])
def test_variables_that_others_change_are_refused(declared):
    """A variable that another unit or the machine may change is named as unsupported."""
    with pytest.raises(UnsupportedProgram, match="'g'"):
        parse_program(f"{declared} int main(void) {{ assert(g == 0); }}", "program")


@pytest.mark.parametrize("body", ["int a[2]; assert(a == 1);", "int x; assert(x[0] == 0);"])
def test_arrays_for_numbers_are_refused(body):
    """A program that takes an array for a number, or a number for an array, is refused by name."""
    with pytest.raises(UnsupportedProgram, match=r"program\.c:1: .*(array|index)"):
        program(body)


def test_a_sign_before_a_sign_is_no_decrement():
    """What is written back for ESBMC changes no variable."""
    small = program("int x = 3; while (x < 5) { x = x + 1; } assert(x == 5);")
    written = annotate(small, {0: [parse_condition("-(-x) >= - -3", ("x",)), Constant(-1)]})
    assert "--" not in written
    assert parse_condition("-(-x)", ("x",)) == parse_condition("- -x", ("x",))
