"""The project's own programs: what is known of them is proven, or shown by a run."""

from pathlib import Path

import pytest
import yaml
from helpers.compiled import GCC

from loop_invariants.frontend.expressions import parse_condition
from loop_invariants.frontend.original_text import build_original_text
from loop_invariants.frontend.translation_unit import SV_COMP, read_program
from loop_invariants.interpreter.simulation import run_program
from loop_invariants.ir.expressions import Semantics
from loop_invariants.ir.instrumentation import Property
from loop_invariants.ir.statements import Program
from loop_invariants.verification.compiled_runs import find_violating_inputs, replay_with_gcc
from loop_invariants.verification.houdini import Candidate, Prover

PROGRAMS = Path(__file__).parents[3] / "resources" / "programs"
EXPECTED = yaml.safe_load(Path(__file__).with_name("expected.yaml").read_text(encoding="utf-8"))
_MAX_ITERATIONS = 1000
"""Maximum number of iterations of a run of the interpreter; longer runs are compiled."""

CASES = [(name, semantics) for name in sorted(EXPECTED) for semantics in Semantics]


def own(name: str) -> Program:
    return read_program(next(PROGRAMS.rglob(f"{name}.c")))


def known(name: str, program: Program) -> tuple[Candidate, ...]:
    """The invariants that are stated of a program."""
    return tuple(
        Candidate(number, parse_condition(written, program.loops[number].scope, program.types))
        for number, conditions in EXPECTED[name].get("invariants", {}).items()
        for written in conditions
    )


def expecting(expected: str) -> list:
    """The cases with an expectation, of which `make test` takes every fourth."""
    cases = [case for case in CASES if EXPECTED[case[0]][case[1]] == expected]
    return [
        pytest.param(*case, marks=() if place % 4 == 0 else pytest.mark.long)
        for place, case in enumerate(cases)
    ]


def test_every_program_is_known_and_explained() -> None:
    """There is an expectation for every file, and each file begins with why it holds or fails."""
    files = {path.stem: path.read_text(encoding="utf-8") for path in PROGRAMS.rglob("*.c")}
    assert files.keys() == EXPECTED.keys()
    for name, source in files.items():
        fails = EXPECTED[name]["int32"] == "fails"
        comment = source[: source.index("*/")]
        assert comment.startswith("/* "), name
        assert ("Fails" in comment) == fails, name
        assert ("Holds" in comment) == ("holds" in EXPECTED[name].values()), name


def test_the_table_says_what_is_known() -> None:
    """The readme has a row for every program, with what is expected and its invariants."""
    readme = (PROGRAMS / "README.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in readme.splitlines() if line.startswith("| `")]
    assert [row[0].strip("|` ") for row in rows] == sorted(EXPECTED)
    for name, integers, machine, invariants in rows:
        expected = EXPECTED[name.strip("|` ")]
        assert (integers, machine) == (expected["integers"], expected["int32"])
        for conditions in expected.get("invariants", {}).values():
            for condition in conditions:
                assert f"`{condition}`".replace("|", "\\|") in invariants


@pytest.mark.few(6)
@pytest.mark.parametrize(("name", "semantics"), expecting("holds"))
def test_what_holds_is_proven_from_the_known_invariants(name: str, semantics: Semantics) -> None:
    """The invariants are inductive, every assertion follows, and no concrete run violates one."""
    program = own(name)
    invariants = known(name, program)
    prover = Prover(program, semantics, seconds=20)
    assert prover.find_inductive_subset(invariants) == invariants
    assert prover.entails_assertions(invariants)
    assert run_program(program, semantics).failure is None


def check_compiled_violation(name: str, semantics: Semantics) -> None:
    """Check that compiled runs violate an assertion of a program."""
    if GCC is None:
        pytest.skip("there is no gcc")
    source = next(PROGRAMS.rglob(f"{name}.c")).read_text(encoding="utf-8")
    text = build_original_text(name, source, Property.ASSERT, SV_COMP, {})
    inputs = find_violating_inputs(text, semantics, 20)
    assert inputs is not None
    assert replay_with_gcc(text, inputs, semantics)


@pytest.mark.parametrize(("name", "semantics"), expecting("fails"))
def test_what_fails_is_shown_by_a_run_and_never_proven(name: str, semantics: Semantics) -> None:
    """A concrete run violates an assertion, which no stated invariant makes follow."""
    program = own(name)
    prover = Prover(program, semantics)
    iterations = EXPECTED[name].get("iterations", 60)
    if iterations <= _MAX_ITERATIONS:
        assert run_program(program, semantics, max_iterations=iterations).failure
    else:
        check_compiled_violation(name, semantics)
    assert not prover.entails_assertions(prover.find_inductive_subset(known(name, program)))
