"""Experiments: every program and way is an attempt, and attempts survive their file."""

import json
from dataclasses import replace

import pytest

from loop_invariants.cli.main import main
from loop_invariants.experiments.attempts import (
    THIS_METHOD,
    read_attempts,
    select_method_attempts,
    write_attempts,
)
from loop_invariants.experiments.runner import EXPERIMENTS, ExperimentSettings, iter_attempts
from loop_invariants.ir.expressions import Semantics
from loop_invariants.proposals.prompt_templates import PromptVariant
from loop_invariants.proposals.proposal_set import LoopProposals, read_proposals, write_proposals
from loop_invariants.verification.result import BUILTIN_SOURCES, CandidateSource, Outcome
from loop_invariants.verification.verifier import VerificationLimits

COUNT = """\
int main(void) {
    int n = __VERIFIER_nondet_int(); int x = 0;
    __VERIFIER_assume(n >= 0);
    while (x < n) x = x + 1;
    __VERIFIER_assert(x == n);
}
"""
SETTING = ExperimentSettings(Semantics.INTEGERS, VerificationLimits(seconds=20), 10, 2.0, 0)


@pytest.fixture
def files(tmp_path):
    """A program, one that is false, one with a fraction, and one that is not C."""
    texts = {
        "count": COUNT,
        "false": COUNT.replace("x == n", "x < n"),
        "percent": "int main(void) { float p; }",
        "prose": "Once upon a time",
    }
    for name, source in texts.items():
        (tmp_path / f"{name}.c").write_text(source)
    return [tmp_path / f"{name}.c" for name in texts]


def answered(*answers):
    """Proposals of a loop: the same answers to both prompts."""
    styles = (PromptVariant.FULL, PromptVariant.CONSTRAINED)
    return LoopProposals(dict.fromkeys(styles, answers), dict.fromkeys(styles, 4.0))


@pytest.mark.long
def test_the_fewest_iterations_that_do(files):
    """A program counts as solved by the first answers that prove it; what did not parse counts."""
    made = {"count": {0: answered(["x ="], ["x >= 0"], ["x <= n"], ["y", "x + (n"])}}
    found = list(iter_attempts(files[:1], EXPERIMENTS["variants"], SETTING, made))
    assert {(a.outcome, a.iterations, a.parse_errors) for a in found} == {(Outcome.VERIFIED, 3, 1)}
    assert {(i.text, i.sources) for a in found for i in a.invariants} == {
        ("x <= n", (CandidateSource.SAMPLED,))
    }
    assert all(attempt.seconds >= 3.0 for attempt in found)


@pytest.mark.long
def test_no_way_solves_a_program_without_assertion(tmp_path):
    """Where nothing is asserted, no tool and no combination of sources has anything to verify."""
    file = tmp_path / "silent.c"
    file.write_text("int main(void) { int x = 0; while (x < 3) x++; return 0; }")
    made = {"silent": {0: answered(["x <= 3"])}}
    setting = replace(SETTING, semantics=Semantics.INT32)
    found = [a for ways in EXPERIMENTS.values() for a in iter_attempts([file], ways, setting, made)]
    assert {a.outcome for a in found} == {Outcome.NO_ASSERTION}
    assert not any(a.solved or not a.message for a in found)


@pytest.mark.long
def test_every_program_is_in_every_way(files, tmp_path):
    """What is false, not supported or not C is an attempt too, and none stops the others."""
    tools = list(iter_attempts(files, EXPERIMENTS["tools"], SETTING, {}))
    ours = select_method_attempts(iter_attempts(files, EXPERIMENTS["sources"], SETTING, {}))
    made = [*tools, *ours]
    outcomes = {(a.program, a.way): a.outcome for a in made}
    assert len(made) == len(outcomes) == len(files) * 4
    assert outcomes["count", THIS_METHOD] is Outcome.VERIFIED
    assert outcomes["false", THIS_METHOD] is Outcome.FALSE
    assert outcomes["false", "ESBMC k-induction"] is Outcome.FALSE
    for way in (*EXPERIMENTS["tools"], THIS_METHOD):
        assert outcomes["false", way] in {Outcome.FALSE, Outcome.ESBMC_TIMEOUT}
        assert outcomes["percent", way] is Outcome.UNSUPPORTED
        assert outcomes["prose", way] is Outcome.UNREADABLE
    write_attempts(tools, tmp_path / "tools.json")
    write_attempts(ours, tmp_path / "ours.json")
    assert read_attempts(tmp_path / "tools.json", tmp_path / "ours.json") == tuple(made)


UNCHECKED = {
    "an index": "int a[3]; int i = 0; while (i <= 3) { a[i] = 1; i++; } __VERIFIER_assert(i == 4);",
    "a divisor": "int x = __VERIFIER_nondet_int(); int y = 1 / x; __VERIFIER_assert(x == x);",
    "a shift": "int x = __VERIFIER_nondet_int(); int y = 1 << x; __VERIFIER_assert(x == x);",
    "a quotient": (
        "int x = __VERIFIER_nondet_int(), y = __VERIFIER_nondet_int(); if (y == 0) y = 1; "
        "x = x / y; __VERIFIER_assert(y != 0);"
    ),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", UNCHECKED)
def test_esbmc_alone_proves_no_program_that_breaks_an_implicit_assertion(kind, tmp_path):
    """A value out of range violates the program, although its assertion holds."""
    file = tmp_path / "p.c"
    file.write_text(
        "int __VERIFIER_nondet_int(void); void __VERIFIER_assert(int); "
        f"int main(void) {{ {UNCHECKED[kind]} return 0; }}"
    )
    setting = replace(SETTING, semantics=Semantics.INT32, max_tool_seconds=20.0)
    found = list(iter_attempts([file], EXPERIMENTS["tools"], setting, {}))
    assert not any(attempt.solved for attempt in found)


@pytest.mark.long
def test_sources_differ_in_nothing_but_their_candidates(files):
    """A model that proposes nothing adds nothing to the program's own candidates."""
    ways = EXPERIMENTS["baselines"] | EXPERIMENTS["sources"]
    made = list(iter_attempts(files[:1], ways, SETTING, {}))
    outcomes = {attempt.way: attempt.outcome for attempt in made}
    assert outcomes["sampled alone"] is Outcome.NO_CANDIDATE
    assert outcomes["program"] is outcomes["program + sampled"] is Outcome.VERIFIED


def test_proposals_survive_their_file(tmp_path):
    """What a model proposed reads back as it was written."""
    made = {"count": {0: answered(["x >= 0"], ["x <= n"])}}
    write_proposals(made, tmp_path / "proposals.json")
    read = read_proposals(tmp_path / "proposals.json")
    assert json.dumps(read["count"][0].answers) == json.dumps(made["count"][0].answers)
    assert read["count"][0].iterations == 2


@pytest.mark.long
@pytest.mark.few(1)
@pytest.mark.parametrize("semantics", ["integers", "int32"])
def test_programs_are_verified_from_the_shell(files, semantics, capsys):
    """One line a program with its outcome; the exit status tells whether all are verified."""
    assert main([str(files[0]), "--semantics", semantics]) == 0
    name, outcome, _, over, invariants = capsys.readouterr().out.strip().split("\t")
    assert (name, outcome, over) == ("count", "verified", semantics)
    assert "x <= n [atoms" in invariants
    assert main([str(files[0].parent), "--semantics", semantics, "--jobs", "2"]) == 1
    *lines, counted = capsys.readouterr().out.strip().splitlines()
    # a program has its line when it is done; below a false one stands the run that shows it
    assert sorted(line.split("\t")[1] for line in lines if "\t" in line) == [
        "false",
        "unreadable",
        "unsupported",
        "verified",
    ]
    assert counted.startswith(f"4 programs over {semantics}: 1 verified")


@pytest.mark.long
def test_sources_are_switched_off_from_the_shell(files, capsys):
    """Every source has its switch; with all of them off nothing is proven."""
    without = [word for source in BUILTIN_SOURCES for word in ("--without", source)]
    # over machine integers, all runs are tried first
    program = [str(files[0]), "--semantics", "integers"]
    # ESBMC searches for violations as long as the program has time
    assert main([*program, *without, "--seconds", "2"]) == 2
    assert capsys.readouterr().out.split("\t")[1] == "no candidate"
    assert main([*program, "--without", "atoms"]) == 0
    assert "(n - x) >= 0 [relations]" in capsys.readouterr().out


def test_a_directory_without_programs_is_told(tmp_path, capsys):
    """There is nothing to verify in an empty directory, and the message says what was sought."""
    assert main([str(tmp_path)]) == 3
    assert "no C file" in capsys.readouterr().err


@pytest.mark.long
def test_a_number_of_thousands_of_digits_stops_no_other_program(tmp_path, capsys):
    """A constant too long to be read is a message for its file, and the others are verified."""
    (tmp_path / "a_long.c").write_text(f"int main(void) {{ int x = {'9' * 5000}; }}")
    (tmp_path / "b_count.c").write_text(COUNT)
    assert main([str(tmp_path), "--semantics", "integers", "--jobs", "2"]) == 2
    *lines, _ = capsys.readouterr().out.strip().splitlines()
    # a program has its line when it is done
    long, count = sorted(lines)
    assert long.split("\t")[:2] == ["a_long", "unsupported"]
    assert "a constant of 5000 digits" in long
    assert count.split("\t")[:2] == ["b_count", "verified"]


@pytest.mark.parametrize("seconds", ["inf", "nan", "-3", "0", "1e300", "soon"])
def test_seconds_that_no_program_can_have_are_refused(files, seconds, capsys):
    """Seconds that are no positive number are a message that names the argument."""
    with pytest.raises(SystemExit) as ended:
        main([str(files[0]), f"--seconds={seconds}"])
    assert ended.value.code == 3
    assert f"argument --seconds: {seconds!r}" in capsys.readouterr().err
