"""What every check promises, whatever the access to the model is and whatever text is asked about.

Failures, interrupts, watches, deadlines, limits and early decisions: the answer so far is kept, is
right, and has one shape.
"""

import copy
import pickle
from collections.abc import Callable

import pytest
from helpers.subjects import ACCESSES, QUANTIFIERS, TURNS, Failing, Fault, Subject

from llmchecker.checking.answer import Answer
from llmchecker.errors import InterruptedCheck, LLMCheckerError, SourceUnavailable


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
    """Without an evaluated text there is no answer, and the error names the model."""
    with pytest.raises(LLMCheckerError, match="is gone"):
        subject.ask(fault=Fault(0))


@pytest.mark.parametrize("access", ACCESSES)
def test_a_failure_of_a_simulated_user_is_that_of_its_model(access):
    """An error of the model of a simulated user leaves the answer so far, and names that model."""
    subject = Subject(access, "simulated user")
    with pytest.raises(InterruptedCheck) as caught:
        subject.ask(user_fault=Fault(2))
    subject.check_answer(caught.value.result)
    # a provider's error names the provider itself
    if subject.access != "texts":
        assert str(caught.value).startswith("the user's table: the model failed: Failing: ")


def test_progress_counts_what_is_paid(subject):
    """The passes of the last round are those of the answer, but for what no sample has counted."""
    answer = subject.ask()
    last = answer.history[-1].passes
    if subject.access != "texts":
        assert last == answer.passes
    elif subject.kind == "answer":
        assert last == answer.samples == answer.costs.answers
    else:
        assert answer.samples < last <= answer.costs.answers


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


@pytest.mark.few(18)
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
