"""Names of errors: which functions and labels are assertions, and which texts have none."""

import pytest

from llmchecker.errors import ConfigError, UnsupportedProgram
from loop_invariants.frontend.error_names import ErrorNames, parse_error_names
from loop_invariants.frontend.translation_unit import parse_program
from loop_invariants.ir.expressions import Semantics
from loop_invariants.ir.instrumentation import Property
from loop_invariants.verification.result import Outcome
from loop_invariants.verification.verifier import VerificationLimits, Verifier

LIMITS = VerificationLimits(seconds=20)

# The condition holds for VALUE 5, since the loop ends there, and fails for any other.
KINDS = {
    "an error label": ("", "if (x != VALUE) { ERROR: return 1; }", "cpachecker"),
    "a label of a goto": ("", "if (x != VALUE) goto BAD; return 0; BAD: return 1;", "BAD:"),
    "a label of its own loop": ("", "if (x != VALUE) { ERROR: goto ERROR; }", "cpachecker"),
    "a declared failure": ("void error(void);", "if (x != VALUE) error();", "error()"),
    "a defined failure": ("void fail(void) { }", "if (x != VALUE) fail();", "fail()"),
    "KLEE's assertion": ("", "klee_assert(x == VALUE);", "klee"),
    "CBMC's assertion": ("", '__CPROVER_assert(x == VALUE, "five");', "cbmc"),
    "SeaHorn's assertion": ("extern void sassert(int);", "sassert(x == VALUE);", "seahorn"),
    "a declared check": ("void check(int);", "check(x == VALUE);", "check(c)"),
    "an undeclared check": ("", "check(x == VALUE);", "check(c)"),
}


def text(kind: str, value: int) -> str:
    """A text with an error of that kind, which is reached unless the value is 5."""
    head, check, _ = KINDS[kind]
    check = check.replace("VALUE", str(value))
    return f"{head}\nint main(void) {{ int x = 0; while (x < 5) x++; {check} return 0; }}"


def outcome(source: str, names: ErrorNames, required_property=Property.ASSERT) -> Outcome:
    """The outcome of a text with these names of errors."""
    program = parse_program(source, "p", None, required_property, {}, names)
    return Verifier(program, Semantics.INT32, LIMITS).verify({}).outcome


@pytest.mark.few(3)
@pytest.mark.parametrize("kind", KINDS)
def test_a_text_without_a_known_assertion_is_never_verified(kind):
    """Without the names of its errors, a text is refused or has no assertion."""
    # An undeclared function is refused; a declared one and a label are no assertions.
    if kind in ("KLEE's assertion", "CBMC's assertion", "an undeclared check"):
        fix = {"an undeclared check": "not declared"}.get(kind, f"use --errors {KINDS[kind][2]}")
        with pytest.raises(UnsupportedProgram, match=fix):
            outcome(text(kind, 11), ErrorNames())
    else:
        assert outcome(text(kind, 11), ErrorNames()) is Outcome.NO_ASSERTION


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("required_property", [Property.ASSERT, Property.REACH])
def test_named_errors_are_assertions(kind, required_property):
    """With its names, the same text is false where the error is reached, and verified otherwise."""
    names = parse_error_names(KINDS[kind][2])
    assert outcome(text(kind, 11), names, required_property) is Outcome.FALSE
    assert outcome(text(kind, 5), names, required_property) is Outcome.VERIFIED


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("assumption", "names"), [("__CPROVER_assume", "cbmc"), ("__SEA_assume", "seahorn")]
)
def test_the_assumptions_of_other_tools_end_a_run(assumption, names):
    """A run on which a named assumption fails violates nothing, and others do."""
    source = "void {0}(int); int main(void) {{ int x; {0}(x == 5); __VERIFIER_assert(x == {1}); }}"
    named = parse_error_names(names)
    assert outcome(source.format(assumption, 5), named) is Outcome.VERIFIED
    assert outcome(source.format(assumption, 6), named) is Outcome.FALSE


def test_a_declared_parameter_converts_the_argument():
    """A check of a char sees 0 for 256, as the compiled program does."""
    source = "void check(char);\nint main(void) { int x = 256; check(x); return 0; }"
    assert outcome(source, parse_error_names("check(c)")) is Outcome.FALSE


def test_a_check_with_a_body_is_refused():
    """A body could do anything, so that the name alone gives no meaning."""
    source = "void check(int c) { }\nint main(void) { check(0); return 0; }"
    with pytest.raises(UnsupportedProgram, match="has a body"):
        parse_program(source, "p", error_names=parse_error_names("check(c)"))


@pytest.mark.parametrize("name", ["", "klee,", "check", "check(a, b)", "12:", "mine"])
def test_other_names_are_refused(name):
    """A name without a form could be a function or a label, so it is no name of errors."""
    with pytest.raises(ConfigError, match="is no name of errors"):
        parse_error_names(name)


@pytest.mark.few(1)
@pytest.mark.parametrize("place", ["global", "local", "structure", "uncalled"])
@pytest.mark.parametrize("word", ["static_assert", "_Static_assert"])
def test_static_assertions_are_refused(place, word):
    """A false static assertion makes the text no C, wherever it is."""
    parts = dict.fromkeys(("global", "local", "structure", "uncalled"), "")
    parts[place] = f'{word}(sizeof(int) == 4, "");'
    source = (
        f"#include <assert.h>\n{parts['global']}\nstruct s {{ int a; {parts['structure']} }};\n"
        f"void f(void) {{ {parts['uncalled']} }}\n"
        f"int main(void) {{ {parts['local']} int x = 1; assert(x == 1); return 0; }}"
    )
    with pytest.raises(UnsupportedProgram, match="a static assertion"):
        parse_program(source, "p")


def test_jumps_between_functions_are_named():
    """A proof refuses `setjmp` by its name and line, not by the type of its buffer."""
    source = "#include <setjmp.h>\njmp_buf b;\nint main(void) {\n  return setjmp(b);\n}"
    with pytest.raises(UnsupportedProgram, match=r"p\.c:4: the call of setjmp is not supported"):
        parse_program(source, "p")


def test_an_undeclared_function_is_refused():
    """C99 has no undeclared functions; only the known names of inputs go without."""
    source = "int main(void) { int x = NAME(); __VERIFIER_assert(x == x); return 0; }"
    parse_program(source.replace("NAME", "unknown"), "p")
    with pytest.raises(UnsupportedProgram, match="is not declared; declare it"):
        parse_program(source.replace("NAME", "chekc"), "p")
