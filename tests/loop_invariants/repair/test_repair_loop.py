"""Rounds of repair, with proposers whose answers are written here, and with a random model.

A scripted proposer says nothing of what a language model can do: it shows that what failed reaches
whoever is asked, and that the answer is proven as any other.
"""

import hashlib
import re
import string
from dataclasses import dataclass, field, replace

import pytest
from helpers.marks import long

from llmchecker.errors import UnusableText
from llmchecker.models.table_model import TableModel
from llmchecker.utils.atomic_files import read_json_with_digest
from loop_invariants.experiments.attempts import (
    REPAIR_COMBINATIONS,
    read_attempts,
    write_attempts,
)
from loop_invariants.experiments.runner import ExperimentSettings
from loop_invariants.ir.expressions import Semantics
from loop_invariants.proposals.prompt_templates import INVARIANT_KEYWORD, PromptVariant
from loop_invariants.proposals.proposal_set import LoopProposals
from loop_invariants.proposals.proposers import LocalProposer
from loop_invariants.proposals.settings import ProposalSettings, RepairSettings
from loop_invariants.repair.repair_loop import iter_repairs, write_rounds
from loop_invariants.verification.result import CandidateSource, Limit, Outcome
from loop_invariants.verification.verifier import VerificationLimits

COUNT = """\
int main(void) {
    int n = __VERIFIER_nondet_int(); int x = 0;
    __VERIFIER_assume(n >= 0);
    while (x < n) x = x + 1;
    __VERIFIER_assert(x == n);
}
"""
ALONE, BESIDE = REPAIR_COMBINATIONS
SETTING = ExperimentSettings(Semantics.INTEGERS, VerificationLimits(seconds=20), 20, 2.0, 0)


@dataclass
class Scripted:
    """Answers with what stands behind the first pattern that the prompt's last part matches."""

    script: dict[str, str]
    prompts: list[str] = field(default_factory=list)

    def generate_answers(self, prompt, iterations):
        self.prompts.append(prompt)
        last = prompt[prompt.rindex("int main") :]
        text = next(text for pattern, text in self.script.items() if re.search(pattern, last))
        return [(text,) for _ in iterations]

    def enumerate_conditions(self, prompt, program, loop):
        return []


def first_answers(*texts: str) -> dict[int, LoopProposals]:
    """What was proposed of the first loop before any round."""
    styles = (PromptVariant.FULL, PromptVariant.CONSTRAINED)
    answers = {style: [[text] for text in texts] for style in styles}
    return {0: LoopProposals(answers, dict.fromkeys(styles, 1.0), [], 0.0)}


def repaired(tmp_path, proposer, source=COUNT, first=("x < n",), setting=SETTING, **repairing):
    """The attempts by way, and the rounds of each, of one program."""
    file = tmp_path / "count.c"
    file.write_text(source, encoding="utf-8")
    settings = RepairSettings(**{"rounds": 3, "answers": 2} | repairing)
    made = list(iter_repairs(proposer, [file], setting, settings, {"count": first_answers(*first)}))
    return {attempt.way: attempt for attempt, _ in made}, {a.way: rounds for a, rounds in made}


@pytest.mark.few(1)
@pytest.mark.parametrize("semantics", Semantics)
def test_a_round_verifies_what_the_first_answers_do_not(semantics, tmp_path):
    """Told that its answer is no invariant, a scripted proposer writes one, which is proven."""
    proposer = Scripted({r"x < n is no invariant: .* n = 0, x = 0": "x <= n", "": "x < n"})
    setting = replace(SETTING, semantics=semantics)
    without, _ = repaired(tmp_path, proposer, setting=setting, rounds=0)
    assert without[ALONE].outcome is Outcome.NOT_PROVEN
    assert without[ALONE].limits == (Limit.ANSWERS,)
    made, rounds = repaired(tmp_path, proposer, setting=setting)
    assert made[ALONE].outcome is Outcome.VERIFIED
    (invariant,) = made[ALONE].invariants
    assert (invariant.text, invariant.sources) == ("x <= n", (CandidateSource.REPAIRED,))
    (one,) = rounds[ALONE]
    assert (one.number, one.line, one.answers) == (1, 4, [("x <= n",), ("x <= n",)])
    assert made[ALONE].iterations == 1 + 2
    assert made[ALONE].seconds >= 0.5


@pytest.mark.long
def test_each_round_tells_what_the_last_one_left_open(tmp_path):
    """What is proven meanwhile is shown as such, and the next counterexample agrees with it."""
    proposer = Scripted(
        {
            r"invariant\(x >= 0\);(?s:.*)goes wrong": "x <= n",
            "x < n is no invariant": "x >= 0",
            "": "x < n",
        }
    )
    made, rounds = repaired(tmp_path, proposer)
    assert made[ALONE].outcome is Outcome.VERIFIED
    first, second = rounds[ALONE]
    assert "x < n is no invariant" in first.failed[0]
    (use,) = second.failed
    x, n = (int(re.search(rf"\b{name} = (-?\d+)", use)[1]) for name in "xn")
    assert x >= 0
    assert x > n


def test_the_prompt_shows_failures_where_the_examples_do(tmp_path):
    """A prompt of a round ends as all do; its remarks are lines of their own, one a failure."""
    proposer = Scripted({"": "x < n"})
    repaired(tmp_path, proposer, rounds=1)
    for prompt in proposer.prompts:
        assert prompt.endswith(f"\n{INVARIANT_KEYWORD}(")
        assert prompt.count("// ") >= 3
        assert prompt.count("is no invariant") == 3


@pytest.mark.long
def test_rounds_end_with_their_number(tmp_path):
    """A proposer that learns nothing is asked as often as it may be, and answers are the limit."""
    proposer = Scripted({"": "x < n"})
    made, rounds = repaired(tmp_path, proposer, rounds=2)
    assert made[ALONE].outcome is Outcome.NOT_PROVEN
    assert made[ALONE].limits == (Limit.ANSWERS,)
    assert [one.number for one in rounds[ALONE]] == [1, 2]
    assert made[ALONE].iterations == 1 + 2 * 2


@pytest.mark.long
def test_candidates_of_all_rounds_share_the_budget_of_a_source(tmp_path):
    """Sampled and repaired candidates together are no more than any source may propose."""
    numbers = iter(range(7, 1000))

    class Endless(Scripted):
        def generate_answers(self, prompt, iterations):
            return [(f"x < {next(numbers)}",) for _ in iterations]

    setting = replace(SETTING, max_candidates=4)
    made, rounds = repaired(tmp_path, Endless({}), setting=setting, rounds=100)
    assert Limit.CANDIDATES in made[ALONE].limits
    assert len(rounds[ALONE]) == 2


def test_no_round_begins_when_the_time_is_over(tmp_path):
    """Where the processor time of the proof is used up, nobody is asked any more."""
    proposer = Scripted({"": "x <= n"})
    setting = replace(SETTING, limits=VerificationLimits(seconds=1e-6))
    made, rounds = repaired(tmp_path, proposer, setting=setting)
    assert {a.limits for a in made.values()} == {(Limit.PROVER_TIME,)}
    assert not any(rounds.values())
    assert proposer.prompts == []


@pytest.mark.long
def test_what_the_program_proves_itself_is_not_asked_about(tmp_path):
    """Beside the sources of the program a model is asked only where these do not suffice."""
    made, rounds = repaired(tmp_path, Scripted({"": "x < n"}))
    assert made[BESIDE].outcome is Outcome.VERIFIED
    assert rounds[BESIDE] == ()


def test_no_answer_makes_a_false_program_true(tmp_path):
    """Whatever is answered, a program that a run violates is false, and nobody is asked."""
    proposer = Scripted({"": "x <= n && 0 == 0"})
    made, rounds = repaired(tmp_path, proposer, COUNT.replace("x == n", "x < 5"))
    assert {a.outcome for a in made.values()} == {Outcome.FALSE}
    assert not any(rounds.values())


@pytest.mark.long
@pytest.mark.parametrize(
    "text",
    [
        *("x = n", "(" * 5000),
        *long("", "abort()", "x <= n); abort(", "\0\x1b[31m", "9" * 999, "x" * 10**6),
    ],
)
def test_whatever_is_answered_is_parsed_or_counted(text, tmp_path):
    """Nonsense, code and endless text are no candidates; they are counted, and nothing breaks."""
    made, _ = repaired(tmp_path, Scripted({"": text}), rounds=1, answers=1)
    assert made[ALONE].outcome is Outcome.NOT_PROVEN
    assert made[ALONE].parse_errors == 1


def test_what_cannot_be_read_has_no_rounds(tmp_path):
    """A program that is no C is unreadable in both ways."""
    made, rounds = repaired(tmp_path, Scripted({}), source="Once upon a time")
    assert {a.outcome for a in made.values()} == {Outcome.UNREADABLE}
    assert not any(rounds.values())


def hashed(tokens: tuple[int, ...]) -> list[float]:
    """The distribution of a model whose every text has another one, drawn by its hash."""
    digest = hashlib.sha256(repr(tokens).encode()).digest()
    weights = [digest[place % 32] ** 4 for place in range(len(string.printable))]
    return [weight / sum(weights) for weight in weights]


@pytest.mark.long
def test_rounds_of_a_model_are_the_same_again(tmp_path):
    """With the same seed a model is told and answers the same, and each round is another."""
    asking = ProposalSettings(iterations=1, nodes=1, candidates=1, seed=3)
    model = TableModel(string.printable, hashed)
    told = []
    for seed in (3, 3, 4):
        proposer = LocalProposer(model, replace(asking, seed=seed))
        _, rounds = repaired(tmp_path, proposer, rounds=2, answers=3)
        told.append([replace(one, seconds=0.0) for one in rounds[ALONE]])
    assert told[0] == told[1]
    first, second = told[0]
    assert first.answers != second.answers
    assert [one.answers for one in told[2]] != [one.answers for one in told[0]]


def test_a_prompt_that_no_model_reads_ends_the_rounds(tmp_path):
    """A prompt that is too long for the model is told as the reason, and stops no other program."""

    class Short(Scripted):
        def generate_answers(self, prompt, iterations):
            raise UnusableText("texts of 1052 tokens are too long")

    made, rounds = repaired(tmp_path, Short({}))
    assert made[ALONE].outcome is Outcome.NOT_PROVEN
    assert made[ALONE].message == "texts of 1052 tokens are too long"
    assert rounds[ALONE] == ()


@pytest.mark.long
def test_rounds_and_attempts_survive_their_files(tmp_path):
    """What was told and answered reads back as it was written, and so do the attempts."""
    made, rounds = repaired(tmp_path, Scripted({"": "x < n"}), rounds=1)
    write_rounds(rounds[ALONE], tmp_path / "rounds.json")
    (read,) = read_json_with_digest(tmp_path / "rounds.json")["rounds"]
    assert read == vars(replace(rounds[ALONE][0], answers=[["x < n"], ["x < n"]]))
    write_attempts(list(made.values()), tmp_path / "attempts.json")
    assert read_attempts(tmp_path / "attempts.json") == tuple(made.values())
