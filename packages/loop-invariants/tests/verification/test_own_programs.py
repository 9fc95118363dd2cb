"""The project's own programs: what is known of them is proven, or shown by a run."""

from pathlib import Path

import pytest
import yaml
from helpers.compiled import needs_gcc

from llmchecker.errors import UnsupportedProgram
from loop_invariants.frontend.expressions import parse_condition
from loop_invariants.frontend.original_text import read_original_text
from loop_invariants.frontend.translation_unit import SV_COMP, read_program
from loop_invariants.interpreter.simulation import run_program
from loop_invariants.ir.expressions import Semantics
from loop_invariants.ir.instrumentation import Property
from loop_invariants.ir.statements import Program
from loop_invariants.verification.houdini import Candidate, Prover
from loop_invariants.verification.portfolio import FileTask, verify_file
from loop_invariants.verification.result import Outcome
from loop_invariants.verification.violations import find_violation

PROGRAMS = Path(__file__).parents[4] / "resources" / "programs"
EXPECTED = yaml.safe_load(Path(__file__).with_name("expected.yaml").read_text(encoding="utf-8"))
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


@pytest.mark.few(2)
@pytest.mark.parametrize(("name", "semantics"), expecting("holds"))
def test_what_holds_is_proven_from_the_known_invariants(name: str, semantics: Semantics) -> None:
    """The invariants are inductive, every assertion follows, and no concrete run violates one."""
    program = own(name)
    invariants = known(name, program)
    prover = Prover(program, semantics, seconds=20)
    assert prover.find_inductive_subset(invariants) == invariants
    assert prover.entails_assertions(invariants)
    assert run_program(program, semantics).failure is None


@needs_gcc
def test_a_program_that_the_front_end_refuses_is_false_by_a_compiled_run() -> None:
    """A jump into a loop is refused by name, and a compiled run violates the assertion."""
    with pytest.raises(UnsupportedProgram, match="a goto into a block, to 'middle',"):
        own("into_the_loop")
    result = verify_file(PROGRAMS / "more/into_the_loop.c", FileTask(Semantics.INT32, seconds=20))
    assert result.outcome is Outcome.FALSE


@pytest.mark.few(3)
@pytest.mark.parametrize(("name", "semantics"), expecting("fails"))
def test_what_fails_is_shown_by_a_run_and_never_proven(name: str, semantics: Semantics) -> None:
    """A concrete run violates an assertion, which no stated invariant makes follow."""
    if EXPECTED[name]["integers"] == "unsupported":
        pytest.skip("the front end refuses it")
    program = own(name)
    prover = Prover(program, semantics)
    iterations = EXPECTED[name].get("iterations", 60)
    if iterations == "many":
        text = read_original_text(next(PROGRAMS.rglob(f"{name}.c")), Property.ASSERT, SV_COMP)
        assert text is not None
        assert find_violation(text, semantics, program, seconds=20) is not None
    else:
        assert run_program(program, semantics, max_iterations=iterations).failure
    assert not prover.entails_assertions(prover.find_inductive_subset(known(name, program)))
