"""What every check promises, whatever the access to the model is and whatever text is asked about.

Failures, interrupts, watches, deadlines, limits and early decisions: the answer so far is kept, is
right, and has one shape.
"""

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from helpers.conversations import (
    TOOLS,
    Actor,
    ChatTable,
    Result,
    chat_table,
    enumerate_conversations,
)
from helpers.fake_provider import sample_table
from helpers.text_sampler import TextSampler

from llmchecker.checking.answer import Answer
from llmchecker.checking.anytime.budget import Budget
from llmchecker.checking.anytime.checked_query import CheckedQuery
from llmchecker.checking.conversations.conversation import (
    Conversation,
    ScriptedTurn,
    SimulatedUser,
)
from llmchecker.config.question import Question
from llmchecker.errors import InterruptedCheck, SourceUnavailable
from llmchecker.models.decoding.chat_template import Chat
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.quantifiers.pattern import Pattern
from llmchecker.trees.text_tree import Horizon

LENGTHS = {"answer": 7, "conversation": 3, "tool": 3, "simulated user": 3}
"""The largest number of tokens of an answer, so that each kind of text takes some passes."""
USER = SimulatedUser("a table", "b", 1)
QUANTIFIERS = {"b": Pattern("b")}
EVENTUALLY = ("F", None, ("atom", "b", "=", 1))
TURNS = {
    "answer": ["ab"],
    "conversation": ["ab", "b{1}"],
    "tool": ["ab", Result("b")],
    "simulated user": ["ab", Actor(chat_table(1004), "b", 1)],
}
ACCESSES = ("logits", "texts")


class Failing(Exception):
    """An error of a network."""


@dataclass
class Fault:
    """A model that fails after so many evaluations.

    Attributes:
        left: number of evaluations before it fails; negative for a model that never does.
    """

    left: int = -1

    def count(self, error: Exception) -> None:
        if self.left == 0:
            raise error
        self.left -= 1


def build_table(seed: int, fault: Fault, calls: bool) -> ChatTable:
    """A table that fails after some distributions."""
    table = chat_table(seed, calls=calls)
    distribution = table.distribution

    def compute(tokens):
        fault.count(Failing("the device is gone"))
        return distribution(tokens)

    return ChatTable(table.vocabulary, compute, table.end_tokens)


class FailingSampler(TextSampler):
    """A text model whose provider fails after some texts."""

    def __init__(self, table: ChatTable, seed: int, fault: Fault) -> None:
        def write(stream, chance):
            fault.count(SourceUnavailable("the provider is gone"))
            return sample_table(table, table.encode(stream.prompt), stream.length)(chance)

        super().__init__(write, seed)


@dataclass(frozen=True)
class Subject:
    """A question whose truth an enumeration finds.

    Attributes:
        access: what the model returns: `logits` or `texts`.
        kind: what is asked about: a key of `TURNS`.
    """

    access: str
    kind: str

    @property
    def length(self) -> int:
        """The largest number of tokens of an answer."""
        return LENGTHS[self.kind]

    @property
    def truth(self) -> float:
        """The probability that an answer, or one of a conversation, contains a b."""
        table = chat_table(3, calls=self.kind == "tool")
        tree = enumerate_conversations(table, TURNS[self.kind], self.length, QUANTIFIERS)
        return float(tree.probability_of(EVENTUALLY))

    def ask(self, query: str = "P=? [ F b = 1 ]", *, fault: Fault | None = None, **options):
        """Answer the query; options are limits of the budget, or of the run."""
        run = {name: options.pop(name) for name in ("watch", "is_cancelled") if name in options}
        fault = Fault() if fault is None else fault
        if self.access == "texts":
            options = {"passes": 1, "answers": 300} | options
        elif not options.keys() & {"passes", "seconds"}:
            options["passes"] = 60
        turns = TURNS[self.kind]
        chat = Chat((("user", turns[0]),), TOOLS if self.kind == "tool" else ())
        conversation = None
        if self.kind != "answer":
            conversation = Conversation(chat, tuple(map(_build_turn, turns[1:])))
        if self.kind == "simulated user":
            run["user_models"] = {USER: self._wrap(turns[1].table, 2, Fault())}
        return Question(
            model=self._wrap(build_table(3, Fault(), self.kind == "tool"), 1, fault)
            if self.access == "texts"
            else build_table(3, fault, self.kind == "tool"),
            prompt=chat,
            conversation=conversation,
            checked_query=CheckedQuery(parse(query), QUANTIFIERS, self.length),
            truncation=Horizon(self.length),
            budget=Budget(**options),
        ).answer(**run)

    def _wrap(self, table: ChatTable, seed: int, fault: Fault) -> Any:
        return table if self.access == "logits" else FailingSampler(table, seed, fault)

    def check_answer(self, answer: Answer) -> None:
        """Check that an answer is right, and has the shape of every answer."""
        truth, margin = self.truth, 1e-9
        assert answer.lower - margin <= truth <= answer.upper + margin
        if answer.samples:
            assert answer.low - margin <= truth <= answer.high + margin
        cost = answer.costs.answers if self.access == "texts" else answer.passes
        assert cost is not None
        assert (answer.turns is None) == (self.kind == "answer")
        assert isinstance(answer.history, tuple)


def _build_turn(turn) -> ScriptedTurn | SimulatedUser:
    if isinstance(turn, Actor):
        return USER
    text, tool = (turn.text, "f") if isinstance(turn, Result) else (turn, "")
    return ScriptedTurn.parse(text.replace("{1}", "{answer 1}"), tool)


@pytest.fixture(params=[Subject(access, kind) for access in ACCESSES for kind in TURNS], ids=str)
def subject(request) -> Subject:
    """Each access with each kind of text."""
    return request.param


def count_until_end(ask: Callable[[Fault], Answer]) -> int:
    """Return the number of evaluations of a check that does not fail."""
    fault = Fault(10**6)
    ask(fault)
    return 10**6 - fault.left


def test_a_failure_in_the_middle_leaves_the_answer_so_far(subject):
    """Whenever the model fails, the error holds the right answer of what was evaluated."""
    total = count_until_end(lambda fault: subject.ask(fault=fault))
    assert total > 8
    for left in {1, 2, total // 3, total // 2, total - 1}:
        with pytest.raises(InterruptedCheck) as caught:
            subject.ask(fault=Fault(left))
        subject.check_answer(caught.value.result)
        assert "is gone" in str(caught.value)
        assert isinstance(caught.value.__cause__, Failing | SourceUnavailable)


def test_a_failure_at_the_beginning_is_the_error_of_the_model(subject):
    """Without an evaluated text there is no answer, and the error is the model's own."""
    with pytest.raises((Failing, SourceUnavailable), match="is gone"):
        subject.ask(fault=Fault(0))


def test_an_error_of_a_quantifier_is_no_failure_of_the_model(subject):
    """An exception of a quantifier ends the check with an error that names the quantifier."""
    calls = []

    class Broken:
        minimum, maximum = 0, 1

        def __call__(self, start, text):
            calls.append(text)
            return 7 if len(calls) > 3 else 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(QUANTIFIERS, "b", Broken())
        with pytest.raises(Exception, match="outside the range 0 to 1") as caught:
            subject.ask()
    assert not isinstance(caught.value, InterruptedCheck)


def test_a_watch_ends_the_work(subject):
    """A watch sees each round, and the work ends with the answer that it saw last."""
    seen = []
    answer = subject.ask(watch=lambda progress: seen.append(progress) or len(seen) == 3)
    assert len(seen) == 3
    subject.check_answer(answer)
    assert answer.low == pytest.approx(seen[-1].low if seen[-1].samples else answer.low)
    full = subject.ask()
    assert (answer.costs.answers or 0) + (answer.passes or 0) < (full.costs.answers or 0) + (
        full.passes or 0
    )


def test_an_interrupt_ends_the_work(subject):
    """After an interrupt the answer so far is returned, and no further text is asked for."""
    calls = []
    answer = subject.ask(is_cancelled=lambda: bool(calls.append(1)) or len(calls) > 4)
    subject.check_answer(answer)
    assert (answer.costs.answers or answer.passes or 0) < 60


def test_a_deadline_ends_the_work(subject):
    """A check whose time is over returns the right answer of what it has."""
    subject.check_answer(subject.ask(seconds=0.02))


@pytest.mark.parametrize("limit", [1, 7, 20])
def test_a_limit_is_never_exceeded(subject, limit):
    """A budget of passes or of answers is kept."""
    name = "answers" if subject.access == "texts" else "passes"
    answer = subject.ask(**{name: limit})
    subject.check_answer(answer)
    assert (answer.costs.answers if subject.access == "texts" else answer.passes) <= limit


def test_a_threshold_is_decided_early(subject):
    """A threshold far from the truth is decided rightly, with a part of the budget."""
    for query, holds in (("P>=0.02 [ F b = 1 ]", True), ("P<=0.02 [ F b = 1 ]", False)):
        answer = subject.ask(query)
        assert answer.holds is holds
        assert (answer.costs.answers or answer.passes) < 300


def test_an_answer_is_a_plain_value(subject, tmp_path):
    """A copy, a pickle and a file have the same figures, texts and history."""
    answer = subject.ask()
    assert pickle.loads(pickle.dumps(answer)) == answer
    assert copy.deepcopy(answer) == answer
    answer.write(tmp_path / "answer.json")
    stored = Answer.read(tmp_path / "answer.json")
    assert stored == answer
    assert stored.history == answer.history


def test_the_truths_are_no_extremes():
    """Each kind of text has a truth that neither 0 nor 1 as an answer would pass for."""
    for kind in TURNS:
        assert 0.05 < Subject("logits", kind).truth < 0.98
