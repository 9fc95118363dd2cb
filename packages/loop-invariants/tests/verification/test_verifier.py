"""From candidates to a verdict: sources, outcomes, and what ESBMC has to say."""

import pytest
from helpers.invariant_programs import integers

from llmchecker.errors import MissingTool
from loop_invariants.frontend.expressions import parse_condition
from loop_invariants.frontend.translation_unit import parse_program
from loop_invariants.generation.linear_relations import find_relations
from loop_invariants.generation.syntactic import build_disjunctions, collect_atoms
from loop_invariants.interpreter.simulation import run_program
from loop_invariants.ir.expressions import Semantics, format_c
from loop_invariants.verification import esbmc, verifier
from loop_invariants.verification.esbmc import EsbmcAnswer, EsbmcVerdict
from loop_invariants.verification.houdini import Candidate, Prover
from loop_invariants.verification.result import CandidateSource, Outcome
from loop_invariants.verification.verifier import VerificationLimits, Verifier

TANK = """
    int n = __VERIFIER_nondet_int(); int x = n; int y = 0;
    __VERIFIER_assume(n >= 0);
    while (x > 0) { x = x - 1; y = y + 1; }
    __VERIFIER_assert(y == n);
"""
CHOICE = """
    int x = 0; int m = 0; int n = __VERIFIER_nondet_int();
    while (x < n) { if (__VERIFIER_nondet_int()) m = x; x = x + 1; }
    if (n > 0) __VERIFIER_assert(m < n);
"""


RUNS_AND_ATOMS = (
    CandidateSource.ATOMS,
    CandidateSource.RELATIONS,
    CandidateSource.POLYNOMIALS,
    CandidateSource.DISJUNCTIONS,
)


def program(body: str):
    """A program with that body."""
    return parse_program(f"int main(void) {{ {body} }}", "program")


def proposed(source: CandidateSource, made, *conditions: str):
    """Conditions of a source at the first loop."""
    loop = made.loops[0]
    return {source: {0: [parse_condition(c, loop.scope, made.types) for c in conditions]}}


def test_what_a_model_proposes_is_proven_and_remembered():
    """Wrong proposals fall away; the needed ones stand with the source that proposed them."""
    made = program(TANK)
    proposals = proposed(CandidateSource.SAMPLED, made, "x + y == n", "y >= n", "x >= 0", "y == 0")
    result = Verifier(made, Semantics.INTEGERS).verify(proposals, builtin_sources=())
    assert result.outcome is Outcome.VERIFIED
    assert {(i.text, i.sources) for i in result.invariants} == {
        ("(x + y) == n", (CandidateSource.SAMPLED,)),
        ("x >= 0", (CandidateSource.SAMPLED,)),
    }


@pytest.mark.long
@pytest.mark.parametrize(
    ("off", "outcome"),
    [
        ((), Outcome.VERIFIED),
        ((CandidateSource.RELATIONS,), Outcome.VERIFIED),
        ((CandidateSource.RELATIONS, CandidateSource.POLYNOMIALS), Outcome.NOT_PROVEN),
    ],
)
def test_each_source_can_be_switched_off(off, outcome):
    """The sum of both tanks is found in the runs: without the sources that read them, it is not."""
    completion = tuple(source for source in RUNS_AND_ATOMS if source not in off)
    result = Verifier(program(TANK), Semantics.INT32).verify({}, completion)
    assert result.outcome is outcome
    assert not {source for i in result.invariants for source in i.sources} & set(off)


@pytest.mark.long
def test_disjunctions_are_tried_last():
    """A case distinction is built of two conditions of which neither is proven by itself."""
    made = program(CHOICE)
    result = Verifier(made, Semantics.INTEGERS).verify({}, RUNS_AND_ATOMS)
    assert result.outcome is Outcome.VERIFIED
    assert (CandidateSource.DISJUNCTIONS, CandidateSource.ATOMS) in {
        i.sources for i in result.invariants
    }
    without = (CandidateSource.ATOMS, CandidateSource.RELATIONS)
    assert Verifier(made, Semantics.INTEGERS).verify({}, without).outcome is Outcome.NOT_PROVEN


@pytest.mark.long
def test_a_disjunction_remembers_who_proposed_its_parts():
    """Of two conditions of a model that are joined, the invariant names the model too."""
    made = program(CHOICE)
    proposals = proposed(CandidateSource.SAMPLED, made, "m < n", "n <= 0")
    result = Verifier(made, Semantics.INTEGERS).verify(proposals, (CandidateSource.DISJUNCTIONS,))
    assert [(i.text, i.sources) for i in result.invariants] == [
        ("(m < n) || (n <= 0)", (CandidateSource.DISJUNCTIONS, CandidateSource.SAMPLED))
    ]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ("int x = 0; while (x < 5) x++; assert(x == 4);", Outcome.FALSE),
        ("int x = 0; while (1) x = x + 1; assert(0);", Outcome.VERIFIED),
        ("int x = 1; assert(x == 1);", Outcome.VERIFIED),
        ("int x = 0; while (x != 5) x++; assert(x == 5);", Outcome.VERIFIED),
    ],
)
def test_outcomes_of_small_programs(body, outcome):
    """False by a run, an exit that is never reached, no loop, an assertion the guard implies."""
    for semantics in Semantics:
        assert Verifier(program(body), semantics).verify({}).outcome is outcome


@pytest.mark.long
def test_a_model_that_proposes_nothing_has_an_outcome_of_its_own():
    """Without any candidate a program is neither verified nor blamed on the prover."""
    result = Verifier(program(TANK), Semantics.INTEGERS).verify(
        {CandidateSource.SAMPLED: {0: []}}, ()
    )
    assert result.outcome is Outcome.NO_CANDIDATE


def test_time_that_runs_out_is_an_outcome():
    """A proof that may take no time at all is no proof, and says so."""
    limits = VerificationLimits(seconds=1e-9)
    result = Verifier(program(TANK), Semantics.INTEGERS, limits).verify({})
    assert result.outcome is Outcome.PROVER_TIMEOUT
    assert not result.invariants


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (EsbmcAnswer.FAILED, Outcome.ESBMC_DISAGREES),
        (EsbmcAnswer.UNKNOWN, Outcome.ESBMC_DISAGREES),
        (EsbmcAnswer.TIMEOUT, Outcome.ESBMC_TIMEOUT),
        (EsbmcAnswer.ERROR, Outcome.ESBMC_ERROR),
    ],
)
def test_without_esbmc_nothing_is_verified(answer, outcome, monkeypatch):
    """A proof that ESBMC does not confirm is never called verified, whatever ESBMC says instead."""
    verdict = EsbmcVerdict(answer, 1.0, "its last line")
    monkeypatch.setattr(verifier.esbmc, "run_esbmc", lambda *_: verdict)
    result = Verifier(program(TANK), Semantics.INTEGERS).verify({})
    assert result.outcome is outcome
    assert result.message


@pytest.mark.few(6)
@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ("unsigned x = 4; while (x > 0) x = x - 1; assert(x == 0);", Outcome.VERIFIED),
        ("unsigned x = 0; x = x - 1; assert(x == 4294967295);", Outcome.VERIFIED),
        ("unsigned x = 0; x--; assert(x < 5);", Outcome.FALSE),
        ("unsigned char x = 200; x += 100; assert(x == 44);", Outcome.VERIFIED),
        ("int x = -1; assert((unsigned)x > 5);", Outcome.VERIFIED),
        ("unsigned x = 4294967295; int y = x; assert(y == -1);", Outcome.VERIFIED),
        ("unsigned x = 3000000000; assert(x + x == 1705032704);", Outcome.VERIFIED),
        ("unsigned x = 65536; assert(x * x == 0);", Outcome.VERIFIED),
        ("int x = -1; unsigned y = 1; assert(x < y);", Outcome.FALSE),
    ],
)
def test_unsigned_numbers_wrap_around_over_both(body, outcome, semantics):
    """Unsigned arithmetic and conversions wrap around, whatever signed numbers do."""
    made = program(body)
    if outcome is Outcome.FALSE:
        assert Verifier(made, semantics).verify({}).outcome is outcome
    else:
        prover = Prover(made, semantics)
        loops = [loop.number for loop in made.loops]
        zero = parse_condition("x >= 0", ("x",), made.types)
        assert prover.entails_assertions(
            prover.find_inductive_subset([Candidate(number, zero) for number in loops])
        )
        assert run_program(made, semantics).failure is None


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("source", "mode", "answer"),
    [
        ('int main() { int x = 1; __ESBMC_assert(x == 1, ""); }', "bmc", "successful"),
        ('int main() { int x = 1; __ESBMC_assert(x == 2, ""); }', "bmc", "failed"),
        ("int main() { int x = 0; while (1) x = !x; }", "bmc", "timeout"),
        ("int main() { this is not C }", "bmc", "error"),
        (
            'int main() { int x = 0; while (x < 9) x++; __ESBMC_assert(x == 9, ""); }',
            "k-induction",
            "successful",
        ),
    ],
)
def test_what_esbmc_answers(source, mode, answer):
    """Success, failure, no answer in time and no C are told apart."""
    verdict = esbmc.run_esbmc(source, esbmc.Mode(mode), Semantics.INTEGERS, 3.0)
    assert verdict.answer == answer


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('int main() { int x = 1; __ESBMC_assert(x == 2, ""); }', "VERIFICATION FAILED"),
        ("int main() { this is not C }", "ERROR"),
    ],
)
def test_what_esbmc_says_is_told(source, message):
    """The message is ESBMC's verdict or its error, whatever it writes after that."""
    verdict = esbmc.run_esbmc(source, esbmc.Mode.BMC, Semantics.INTEGERS, 3.0)
    assert message in verdict.message


def test_a_kept_answer_counts_the_seconds_that_it_took(monkeypatch):
    """ESBMC is asked once about the same text, and the second time is not the cheaper for it."""
    asked = []

    def check(*question):
        asked.append(question)
        return EsbmcVerdict(EsbmcAnswer.SUCCESSFUL, 1000.0, "")

    monkeypatch.setattr(verifier.esbmc, "run_esbmc", check)
    tank = Verifier(program(TANK), Semantics.INTEGERS)
    first, second = (tank.verify({}) for _ in range(2))
    assert first.outcome is second.outcome is Outcome.VERIFIED
    assert first.invariants == second.invariants
    assert len(asked) == 1
    assert first.seconds < 1000 <= second.seconds


def test_a_missing_esbmc_says_what_to_install(monkeypatch):
    """A path in ESBMC that is no file is named, with the extra that installs ESBMC."""
    monkeypatch.setenv("ESBMC", "/nowhere/esbmc")
    with pytest.raises(MissingTool, match=r"not at /nowhere.*llmchecker\[programs"):
        esbmc.find_binary()


def test_relations_are_those_of_the_states():
    """The affine hull and the octagon of a few states, equalities first."""
    states = [{"x": 5 - i, "y": 2 * i, "c": 7} for i in range(4)]
    found = [format_c(e) for e in find_relations(integers("cxy"), states)]
    assert found[:2] == ["c == 7", "((2 * x) + y) == 10"]
    assert {"x >= 2", "x <= 5", "(x - y) >= (-4)", "(x + y) <= 8"} <= set(found)
    assert find_relations(integers("x"), states[:1]) == ()
    assert find_relations(integers("x"), [{"x": 10**7}, {"x": 10**8}]) == ()


def test_atoms_are_weakened_negated_and_uncoupled():
    """An assertion up to n becomes one up to the counter; bounds become weak, and the contrary."""
    made = program("""
        int n = __VERIFIER_nondet_int(); int s = 0; int i = 0;
        while (i < n) { i = i + 1; s = s + 2; }
        assert(s == 2 * n);
    """)
    found = {format_c(e) for e in collect_atoms(made, made.loops[0])}
    assert {"s == (2 * n)", "s == (2 * i)", "i < n", "i <= n", "i >= n", "s <= (2 * n)"} <= found
    assert "i == n" not in found


def test_disjunctions_pair_the_first_ones_first():
    """At most so many pairs are made, those of early candidates before those of late ones."""
    made = program("int a; int b; int c; while (a) { } assert(b || c);")
    scope = made.loops[0].scope
    three = [parse_condition(c, scope) for c in ("a > 0", "b > 0", "c > 0")]
    pairs = [format_c(e) for e in build_disjunctions(three, 2)]
    assert pairs == ["(a > 0) || (b > 0)", "(a > 0) || (c > 0)"]
    assert len(build_disjunctions(three, 10)) == 3


@pytest.mark.long
def test_a_program_that_calls_what_is_not_defined_is_confirmed():
    """ESBMC reads a program that is written anew because a function of it has no body."""
    made = parse_program(
        "int other(); int main() { int x = 0;"
        " while (other()) { if (x < 9) x++; } assert(x <= 9); }",
        "open",
    )
    assert made.is_lowered
    assert Verifier(made, Semantics.INTEGERS).verify({}).outcome is Outcome.VERIFIED
