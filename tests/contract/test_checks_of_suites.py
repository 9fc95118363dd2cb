"""What a check promises holds for checks that run side by side, as those of a suite do."""

import pytest
from helpers.subjects import ACCESSES, Fault, Subject

from llmchecker.checking.budget import Budget
from llmchecker.checking.question import Question
from llmchecker.checking.runs import answer_side_by_side
from llmchecker.errors import InterruptedCheck
from llmchecker.models.decoding.chat_template import Chat
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.property import Property
from llmchecker.properties.quantifiers.pattern import Pattern

QUERIES = ("P=? [ F b = 1 ]", "P=? [ F a = 1 ]")
QUANTIFIERS = {"a": Pattern("a"), "b": Pattern("b")}


def check(access: str, fault: Fault) -> list:
    """The outcomes of two questions about one prompt."""
    subject = Subject(access, "answer")
    questions = []
    for query in map(parse, QUERIES):
        named = {name: QUANTIFIERS[name] for name in query.variables}
        questions.append(
            Question(
                model=None,
                prompt=Chat((("user", "ab"),)),
                asked=Property(query, named, subject.length),
                budget=Budget(passes=300, answers=300),
            )
        )
    outcomes = dict(answer_side_by_side(subject.open_model(fault), questions))
    return [outcomes[index] for index in range(len(questions))]


@pytest.mark.parametrize("access", ACCESSES)
def test_a_failure_leaves_the_answers_so_far(access):
    """Each question that the failure ends has the right answer of what was evaluated."""
    outcomes = check(access, Fault(9))
    assert all(isinstance(each, InterruptedCheck) for each in outcomes)
    Subject(access, "answer").check_answer(outcomes[0].result)
    assert "is gone" in str(outcomes[0])


@pytest.mark.parametrize("access", ACCESSES)
def test_a_failure_at_the_beginning_leaves_no_answer(access):
    """Without an evaluated text the outcome is the error alone."""
    for outcome in check(access, Fault(0)):
        assert isinstance(outcome, Exception)
        assert not isinstance(outcome, InterruptedCheck)
