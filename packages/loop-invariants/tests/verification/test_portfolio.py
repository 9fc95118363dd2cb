"""Two engines for one file: every false is replayed, and ESBMC alone proves nothing."""

from pathlib import Path

import pytest
from helpers.compiled import needs_gcc
from helpers.marks import long_cases

from loop_invariants.execution.execution import ExecutionResult
from loop_invariants.frontend.error_names import parse_error_names
from loop_invariants.frontend.original_text import build_original_text
from loop_invariants.frontend.translation_unit import SV_COMP, parse_program
from loop_invariants.interpreter.simulation import NondetValue
from loop_invariants.ir.expressions import Semantics
from loop_invariants.ir.instrumentation import Property
from loop_invariants.verification import portfolio, verifier, violations
from loop_invariants.verification.bounded_search import BoundedSearch, SearchResult
from loop_invariants.verification.compiled_runs import is_replayable, replay_with_gcc
from loop_invariants.verification.esbmc import RunInputs
from loop_invariants.verification.esbmc_annotation import annotate
from loop_invariants.verification.portfolio import FileTask, verify_file
from loop_invariants.verification.result import Outcome, VerificationResult

INT32 = FileTask(Semantics.INT32, seconds=20)
HEAD = "#include <assert.h>\n#include <stdlib.h>\nint __VERIFIER_nondet_int(void);\n"


def verify(tmp_path: Path, text: str, task: FileTask = INT32) -> VerificationResult:
    """The result of both engines for a text."""
    file = tmp_path / "p.c"
    file.write_text(HEAD + text)
    return verify_file(file, task)


def original(text: str, required_property=Property.ASSERT, names=SV_COMP):
    """The original text of a C text."""
    return build_original_text("p", HEAD + text, required_property, names, {})


LIST = """
struct node { struct node *next; int value; };
int main(void) {
    struct node *head = 0;
    for (int i = 0; i < 4; i++) {
        struct node *made = malloc(sizeof *made);
        made->value = i; made->next = head; head = made;
    }
    int sum = 0;
    while (head) { sum += head->value; head = head->next; }
    assert(sum == SUM);
    return 0;
}
"""
RECURSION = """
int factorial(int n) { return n <= 1 ? 1 : n * factorial(n - 1); }
int main(void) { assert(factorial(5) == SUM); return 0; }
"""
BIT_FIELD = """
struct word { unsigned low : 4, high : 4; };
int main(void) { struct word w = {15, 1}; w.low++; assert(w.low + w.high == SUM); return 0; }
"""


@needs_gcc
@pytest.mark.parametrize(("text", "value"), [(BIT_FIELD, 1), *long_cases((RECURSION, 120))])
def test_a_complete_search_by_esbmc_is_no_proof(text, value, tmp_path, monkeypatch):
    """What ESBMC alone calls safe has a weaker word than *verified*."""
    undecided = ExecutionResult(problem="the time limit")
    monkeypatch.setattr(portfolio, "execute", lambda *_: undecided)
    result = verify(tmp_path, text.replace("SUM", str(value)))
    assert result.outcome is Outcome.SAFE_BY_ESBMC
    assert "p.c:" in result.message


@needs_gcc
def test_a_volatile_variable_is_not_safe_by_esbmc(tmp_path):
    """ESBMC reads it as any other one, so a violation that no run confirms leaves it open."""
    result = verify(tmp_path, "volatile int v; int main(void) { int a = v; assert(a == v); }")
    assert result.outcome is Outcome.UNSUPPORTED
    assert "no run confirms the violation (assertion)" in result.message


VARIADIC = """#include <stdarg.h>
static int sum(int n, ...) {
    va_list l; va_start(l, n); int s = 0; while (n--) s += va_arg(l, int); va_end(l); return s;
}
int main(void) { assert(sum(3, 1, 2, 3) == SUM); return 0; }
"""


@pytest.mark.long
@needs_gcc
@pytest.mark.parametrize(
    ("text", "value"), [(LIST, 7), (RECURSION, 121), (BIT_FIELD, 2), (VARIADIC, 7)]
)
def test_a_violation_of_such_a_text_is_replayed(text, value, tmp_path):
    """The same texts with another number are false, since a compiled run shows it."""
    result = verify(tmp_path, text.replace("SUM", str(value)))
    assert result.outcome is Outcome.FALSE
    assert result.violation.kind == "assertion"


@pytest.mark.long
def test_a_rare_input_is_found_and_replayed(tmp_path):
    """One input in 2^32 violates the assertion, and the interpreter's run contains it."""
    text = """int main(void) { int u; int m = __VERIFIER_nondet_int();
    for (int i = 0; i < 3; i++) { int q = __VERIFIER_nondet_int();
    if (i == 2 && q == 10 && u == 7 && m - 400000000 == 16041631) assert(0); } return 0; }"""
    result = verify(tmp_path, text)
    assert result.outcome is Outcome.FALSE
    drawn = [(e.name, e.value) for e in result.failure.trace if isinstance(e, NondetValue)]
    assert [value for name, value in drawn if not name][::3] == [416041631, 10]
    assert ("u", 7) in drawn


def test_a_search_over_mathematical_integers_is_replayed_too(tmp_path):
    """A rare input is found over `integers`, where nothing but the interpreter confirms it."""
    text = "int main(void) { int m = __VERIFIER_nondet_int(); assert(m != 416041631); return 0; }"
    task = FileTask(Semantics.INTEGERS, seconds=20)
    assert verify(tmp_path, text, task).outcome is Outcome.FALSE


@pytest.mark.few(2)
@needs_gcc
@pytest.mark.parametrize(
    ("body", "is_violated"),
    [
        ("int x = __VERIFIER_nondet_int(); int y = x + 1;", True),
        ("int x = __VERIFIER_nondet_int(); unsigned y = (unsigned)x + 1;", False),
        ("int x = __VERIFIER_nondet_int(); assert(0); int y = x + 1;", False),
        ("int x = __VERIFIER_nondet_int(); int y = 1 / (x - 2147483647);", True),
    ],
)
def test_overflow_is_replayed_by_gcc(body, is_violated):
    """Under no-overflow, a run violates by what C leaves undefined, and an assertion ends it."""
    text = original(f"int main(void) {{ {body} return 0; }}", Property.NO_OVERFLOW)
    assert (replay_with_gcc(text, RunInputs((2147483647,))) is not None) is is_violated


@needs_gcc
def test_a_replay_without_enough_inputs_is_no_violation():
    """An input that the tool did not report ends the run."""
    text = original("int main(void) { __VERIFIER_nondet_int(); assert(0); return 0; }")
    assert replay_with_gcc(text, RunInputs((1,)))
    assert not replay_with_gcc(text, RunInputs())


@pytest.mark.few(1)
@needs_gcc
@pytest.mark.parametrize("status", [1, 86, 87])
@pytest.mark.parametrize("required_property", Property)
def test_the_exit_status_of_a_text_is_no_violation(status, required_property):
    """A program that ends with a status of the harness or a sanitizer violates nothing."""
    for end in (f"return {status};", f"exit({status});"):
        text = original(f"int main(void) {{ {end} assert(1); return 0; }}", required_property)
        assert not replay_with_gcc(text, RunInputs())


@pytest.mark.parametrize("call", ['system("true");', "fopen(0, 0);", "fork();"])
def test_no_text_with_other_functions_is_compiled(call):
    """A text that could reach the system is not run, whatever a tool reports."""
    assert is_replayable(original("int main(void) { assert(0); }"))
    assert not is_replayable(original(f"int main(void) {{ {call} assert(0); }}"))


@needs_gcc
def test_a_replay_can_open_no_file(tmp_path):
    """A function pointer that reaches the system gets an error from each call."""
    target = tmp_path / "made"
    text = original(
        "int open(const char *, int, ...);\n"
        f'int main(void) {{ int (*f)(const char *, int, ...) = open; f("{target}", 65, 384); '
        "assert(0); return 0; }"
    )
    assert is_replayable(text)
    assert replay_with_gcc(text, RunInputs())
    assert not target.exists()


LOWERED = "int f(int x) { return x + 1; } int main(void) { int y = f(1); assert(y == 2); }"


def test_a_lowered_program_is_searched_in_its_original_text(tmp_path):
    """The prover's text is not the original one, so that the depth of the search is stated."""
    result = verify(tmp_path, LOWERED, FileTask(Semantics.INTEGERS, seconds=20))
    assert (result.outcome, result.searched_depth) == (Outcome.VERIFIED, 2)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        (SearchResult(violation="assertion", inputs=RunInputs()), Outcome.ESBMC_DISAGREES),
        (SearchResult(problem="PARSING ERROR"), Outcome.ESBMC_ERROR),
    ],
)
def test_a_lowered_program_without_the_search_is_not_verified(
    found, outcome, tmp_path, monkeypatch
):
    """A violation that nothing confirms, and a search that fails, both prevent *verified*."""

    class Search:
        def __init__(self, *_):
            pass

        def search(self, *_):
            return found

    monkeypatch.setattr(verifier, "BoundedSearch", Search)
    file = tmp_path / "p.c"
    file.write_text(HEAD + LOWERED)
    text = original(LOWERED)
    program = parse_program(HEAD + LOWERED, "p")
    result = verifier.Verifier(program, Semantics.INT32, original_text=text).verify({})
    assert result.outcome is outcome


def test_a_misread_text_is_false_by_its_compiled_run(monkeypatch):
    """If the frontend had read another text, the violation of the original one would count."""
    text = original("int f(int x) { return x; } int main(void) { int y = f(1); assert(y == 2); }")
    found = BoundedSearch(text, Semantics.INT32).search(10)
    misread = parse_program(HEAD + LOWERED, "p")
    assert violations.confirm_violation(text, found, Semantics.INT32, misread).outcome is (
        Outcome.FALSE
    )


POINTERS = {
    "a pointer": "int x = 0; int *p = &x; while (x < 5) *p = *p + 1; assert(x == 5);",
    "a step of a pointer": (
        "int a[3]; int *p = a; for (int i = 0; i < 4; i++) { *p = i; p++; } assert(a[0] == 0);"
    ),
    "a field": (
        "struct s { int v; } s = {0}; struct s *p = &s; while (s.v < 5) p->v++; assert(s.v == 5);"
    ),
    "the heap": (
        "int *p = malloc(sizeof(int)); *p = 0; while (*p < 5) *p = *p + 1; assert(*p == 5);"
    ),
}


@pytest.mark.parametrize("kind", POINTERS)
def test_esbmc_reads_no_loop_invariant_of_a_text_with_pointers(kind):
    """ESBMC's invariants forget writes through pointers, so it gets a text without pointers."""
    program = parse_program(f"{HEAD}int main(void) {{ {POINTERS[kind]} }}", "p")
    written = annotate(program, {0: []}).replace(" * ", " times ")
    assert "*" not in written
    assert "&" not in written.replace("&&", "")


def test_a_loop_that_writes_by_a_pointer_is_false(tmp_path):
    """The loop of three rounds that ESBMC's k-induction calls safe writes past its array."""
    result = verify(tmp_path, f"int main(void) {{ {POINTERS['a step of a pointer']} return 0; }}")
    assert result.outcome is Outcome.FALSE


@pytest.mark.long
def test_named_errors_reach_the_tools(tmp_path):
    """Labels and functions that the user names are errors of the original text too."""
    names = parse_error_names("cpachecker,check(c),fail()")
    for error in ("check(x != 77);", "if (x == 77) fail();", "if (x == 77) { ERROR: return 1; }"):
        body = "struct { unsigned a : 3; } u; u.a = 0; int x = __VERIFIER_nondet_int(); "
        body += f"{error} return 0;"
        text = f"void fail(void); void check(int);\nint main(void) {{ {body} }}"
        task = FileTask(Semantics.INT32, error_names=names, seconds=10)
        assert verify(tmp_path, text, task).outcome is Outcome.FALSE


@pytest.mark.long
def test_the_order_of_addresses_of_two_arrays_is_refused(tmp_path):
    """No verdict depends on the order in which a compiler places two arrays."""
    text = "int main(void) { int a[2]; int b[2]; int *p = a; int *q = b; int x = 1; "
    text += "if (p < q) x = 1; assert(x == 1); return 0; }"
    assert verify(tmp_path, text).outcome is Outcome.UNSUPPORTED


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("claim", "assertion", "outcome"),
    [
        ("i <= 3", "i <= 3", Outcome.FALSE),
        ("i <= 3", "i == 9", Outcome.VERIFIED),
        ("i <= 9", "i == 9", Outcome.VERIFIED),
        ("i++", "i == 9", Outcome.UNSUPPORTED),
    ],
)
def test_an_invariant_of_the_text_is_not_trusted(claim, assertion, outcome, tmp_path):
    """A claim before a loop has no effect on the verdict, true or false."""
    text = f"int main(void) {{ int i = 0; __ESBMC_loop_invariant({claim}); while (i < 9) i++; "
    assert verify(tmp_path, text + f"assert({assertion}); return 0; }}").outcome is outcome
