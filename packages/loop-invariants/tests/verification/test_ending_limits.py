"""Which limit ended an attempt: it is told, and none of them is the clock of a busy machine."""

import itertools
import json
import time
from types import SimpleNamespace

import pytest

from loop_invariants import limited_command
from loop_invariants.cli import verify_command
from loop_invariants.cli.main import main
from loop_invariants.experiments.runner import EXPERIMENTS, ExperimentSettings, iter_attempts
from loop_invariants.frontend.translation_unit import parse_program
from loop_invariants.ir.expressions import Semantics
from loop_invariants.limits import Limit
from loop_invariants.proposals.prompt_templates import PromptVariant
from loop_invariants.proposals.proposal_set import LoopProposals
from loop_invariants.verification import esbmc, houdini
from loop_invariants.verification.esbmc import EsbmcAnswer
from loop_invariants.verification.result import Outcome, VerificationResult
from loop_invariants.verification.verifier import VerificationLimits, Verifier

COUNT = """\
int main(void) {
    int n = __VERIFIER_nondet_int(); int x = 0;
    __VERIFIER_assume(n >= 0);
    while (x < n) x = x + 1;
    __VERIFIER_assert(x == n);
}
"""
ENDLESS = """\
int main(void) {
    unsigned a = __VERIFIER_nondet_uint(); unsigned b = a; unsigned i = 0;
    while (i < 1000000) { i = i + 1; a = a * b + i; }
    __ESBMC_assert(a * b != 12345677, "never decided");
}
"""


def made_by_a_model() -> LoopProposals:
    """A model's proposals that prove nothing."""
    styles = (PromptVariant.FULL, PromptVariant.CONSTRAINED)
    answers = {style: [["x < 7 * n"]] for style in styles}
    return LoopProposals(answers, dict.fromkeys(styles, 1.0))


def verified(limits: VerificationLimits):
    return Verifier(parse_program(COUNT, "count"), Semantics.INTEGERS, limits).verify({})


def test_time_for_the_proof_is_processor_time(monkeypatch):
    """A proof that takes hours by the clock, but no processor time, is found all the same."""
    # ESBMC, which confirms the proof, has a limit by the clock too
    monkeypatch.setattr(limited_command, "time", SimpleNamespace(monotonic=time.monotonic))
    hours = itertools.count(0, 3600.0)
    monkeypatch.setattr(time, "monotonic", lambda: next(hours))
    result = verified(VerificationLimits(seconds=20))
    assert (result.outcome, result.limits) == (Outcome.VERIFIED, ())
    assert result.seconds >= 3600


def test_the_end_of_processor_time_is_told():
    """A proof without processor time ends by that limit, and by no other."""
    result = verified(VerificationLimits(seconds=1e-6))
    assert (result.outcome, result.limits) == (Outcome.PROVER_TIMEOUT, (Limit.PROVER_TIME,))


@pytest.mark.long
def test_the_end_of_a_question_is_counted_in_steps(monkeypatch):
    """Where Z3 may take no steps, steps are what is told, although there is time left."""
    monkeypatch.setattr(houdini, "STEPS_PER_SECOND", 1)
    result = verified(VerificationLimits(seconds=20))
    assert result.outcome is Outcome.NOT_PROVEN
    assert Limit.SOLVER_STEPS in result.limits
    assert not {Limit.PROVER_TIME, Limit.CLOCK} & set(result.limits)


@pytest.mark.long
def test_processor_time_of_esbmc_is_told():
    """ESBMC that unrolls for ever is ended by its processor time."""
    verdict = esbmc.run_esbmc(ENDLESS, esbmc.Mode.BMC, Semantics.INT32, 1.0)
    assert (verdict.answer, verdict.limits) == (EsbmcAnswer.TIMEOUT, (Limit.ESBMC_TIME,))


def test_memory_of_esbmc_is_told(monkeypatch):
    """ESBMC that runs out of its memory is no riddle: the message and the limit say so."""
    monkeypatch.setattr(esbmc, "_COMMON_OPTIONS", ("--no-standard-checks", "--memlimit", "60m"))
    verdict = esbmc.run_esbmc(ENDLESS, esbmc.Mode.BMC, Semantics.INT32, 10.0)
    assert (verdict.answer, verdict.limits) == (EsbmcAnswer.ERROR, (Limit.ESBMC_MEMORY,))
    assert "out of memory" in verdict.message


@pytest.mark.long
def test_what_may_be_proposed_is_a_limit_too(tmp_path):
    """A source that proposed all it may without a proof is told to have ended so."""
    file = tmp_path / "count.c"
    file.write_text(COUNT)
    setting = ExperimentSettings(Semantics.INTEGERS, VerificationLimits(seconds=20), 2, 2.0, 0)
    ways = EXPERIMENTS["baselines"] | EXPERIMENTS["sources"]
    limits = {
        made.way: made.limits
        for made in iter_attempts([file], ways, setting, {"count": {0: made_by_a_model()}})
    }
    assert limits["random alone"] == (Limit.CANDIDATES,)
    assert limits["sampled alone"] == (Limit.ANSWERS,)
    assert limits["program"] == limits["program + sampled"] == ()


def reach_limit(file, **_) -> VerificationResult:
    """Return the result of a program whose proof had no time."""
    return VerificationResult(Outcome.PROVER_TIMEOUT, limits=(Limit.PROVER_TIME,))


@pytest.mark.long
def test_limits_stand_in_json_and_in_the_line(tmp_path, monkeypatch, capsys):
    """`verify` tells the limits of a program: none where there is a verdict."""
    file = tmp_path / "count.c"
    file.write_text(COUNT)
    for seconds, limits in (("20", []), ("0.000001", ["prover time"])):
        main([str(file), "--semantics", "integers", "--seconds", seconds, "--json"])
        assert json.loads(capsys.readouterr().out)["programs"][0]["limits"] == limits
    monkeypatch.setattr(verify_command, "_verify_file", reach_limit)
    main([str(file)])
    assert "ended by the limit of: prover time" in capsys.readouterr().out
