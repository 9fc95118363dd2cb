"""Questions about answers and conversations that one driver answers: shared texts, ends, limits."""

import time
from collections import Counter
from dataclasses import replace

import pytest
from helpers.questions import check_anytime, check_conversation
from helpers.text_sampler import TextSampler

from llmchecker.checking.answer import Answer
from llmchecker.checking.budget import Budget
from llmchecker.checking.question import Question
from llmchecker.checking.runs import answer_side_by_side
from llmchecker.errors import CancelledCheck, InterruptedCheck, RequestRefused, SourceUnavailable
from llmchecker.models.decoding.chat_template import Chat
from llmchecker.models.text_answer import Finish, TextAnswer
from llmchecker.processes.conversation import (
    Conversation,
    ScriptedTurn,
    SimulatedUser,
)
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.property import Property
from llmchecker.properties.quantifiers.pattern import Pattern

CHAT = Chat((("user", "a"),))
USER = SimulatedUser("another model", "Ask.", 4)
SCRIPTED = Conversation(CHAT, (ScriptedTurn.parse("{answer 1}!"), ScriptedTurn.parse("c")))
BUDGET = Budget(passes=1, answers=120)
SIMULATED = Conversation(CHAT, (USER,))


def build_question(
    query: str, conversation: Conversation | None = None, budget: Budget = BUDGET
) -> Question:
    """A question about answers of at most 5 tokens, without a conversation about one answer."""
    asked = Property(parse(query), {"no": Pattern("no")}, 5)
    return Question(None, CHAT, asked, budget, conversation)


class Recorded(TextSampler):
    """A model that answers `no` with a share of 0.3, and keeps its requests.

    Attributes:
        requests: the requests in their order.
        errors: the errors of requests, by the number of messages of their chat.
    """

    def __init__(self, errors=None) -> None:
        super().__init__(lambda _, chance: (chance.choice(["no", "yes", "yes"]), True), 1)
        self.requests: list = []
        self.errors = errors or {}

    def iter_answers(self, next_request, must_stop=lambda: False):
        def choose():
            if (item := next_request()) is not None:
                self.requests.append(item)
            return item

        for stream, answer in super().iter_answers(choose, must_stop):
            yield stream, self.errors.get(len(stream.prompt.messages), answer)


def ask(model, *questions, users=None) -> list:
    """Return the outcomes of questions in their order."""
    outcomes = dict(answer_side_by_side(model, questions, lambda user: users[user]))
    assert sorted(outcomes) == list(range(len(questions)))
    return [outcomes[number] for number in sorted(outcomes)]


def test_questions_about_equal_prompts_read_the_same_texts():
    """No text is requested twice, whether answers or conversations are asked about."""
    model = Recorded()
    questions = [
        build_question("P=? [ F (G no = 1) ]"),
        build_question("P=? [ G no = 0 ]", SCRIPTED),
        build_question("P=? [ F (turn = 3 & no = 1) ]", SCRIPTED),
        build_question("P=? [ F (G no = 0) ]", budget=Budget(passes=1, answers=30)),
    ]
    answers = ask(model, *questions)
    assert max(Counter(model.requests).values()) == 1
    assert answers[0].samples == 120
    assert answers[3].samples == 30
    costs = sum(answer.costs.answers for answer in answers)
    # the first answers of 40 conversations, and two further ones of each
    assert len(model.requests) == 120 + 2 * 40 < costs
    # answers to one prompt, read by two questions
    first, fourth = answers[0].evidence.samples, answers[3].evidence.samples
    assert (first.lower[:30] == 1 - fourth.lower).all()
    for answer, truth in zip(answers, (1 / 3, (2 / 3) ** 3, 1 / 3, 2 / 3), strict=True):
        assert answer.low <= truth <= answer.high


def test_each_question_has_the_answer_that_it_has_alone():
    """The texts of other questions change no figure of a question about the same sequence."""
    alone = ask(Recorded(), build_question("P>=0.5 [ F (G no = 0) ]"))[0]
    beside = ask(
        Recorded(),
        build_question("P>=0.5 [ F (G no = 0) ]"),
        build_question("P=? [ F (G no = 1) ]"),
    )[0]
    assert alone.holds is True
    assert (alone.samples, alone.low, alone.high) == (beside.samples, beside.low, beside.high)


def test_a_failing_simulated_user_ends_its_questions_alone():
    """A provider's error ends the questions that need it, with their answers so far."""
    user = Recorded({3: SourceUnavailable("the provider is gone")})
    single, scripted, simulated = ask(
        Recorded(),
        build_question("P=? [ F (G no = 1) ]"),
        build_question("P=? [ G no = 0 ]", SCRIPTED),
        build_question("P=? [ G no = 0 ]", SIMULATED),
        users={USER: user},
    )
    assert isinstance(single, Answer)
    assert isinstance(scripted, Answer)
    assert isinstance(simulated, InterruptedCheck)
    assert simulated.result.costs.answers > 0


def test_a_refused_request_ends_the_questions_that_want_its_text():
    """A refused second turn leaves questions about single answers alone."""
    refused = RequestRefused("the chat is too long")
    single, conversation = ask(
        Recorded({3: refused}),
        build_question("P=? [ F (G no = 1) ]"),
        build_question("P=? [ G no = 0 ]", SCRIPTED),
    )
    assert single.samples == 120
    assert isinstance(conversation, InterruptedCheck)
    assert conversation.__cause__ is refused


def test_a_broken_quantifier_ends_its_question_alone():
    """An exception of a quantifier is the outcome of its question."""

    class Broken:
        def __call__(self, start, text):
            raise ValueError("it broke")

    good = build_question("P=? [ G no = 0 ]", SCRIPTED)
    breaking = replace(good, asked=replace(good.asked, quantifiers={"no": Broken()}))
    broken, other = ask(Recorded(), breaking, good)
    assert isinstance(broken, Exception)
    assert not isinstance(broken, InterruptedCheck)
    assert other.samples == 40


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_a_budget_below_a_conversation_is_kept(limit):
    """The conversation that the limit cuts is open."""
    model = Recorded()
    asked = build_question("P=? [ F (turn = 3 & no = 1) ]").asked
    answer = check_conversation(model, SCRIPTED, asked, Budget(passes=1, answers=limit))
    assert len(model.requests) == answer.costs.answers <= limit
    assert answer.samples == 1
    if limit < 3:
        assert (answer.low, answer.high) == (0.0, 1.0)


class Waiting:
    """A model that has many answers under way, and waits for the last ones.

    Attributes:
        received: number of yielded answers.
        requested: number of requested ones.
        is_slow: whether answers that were requested last are awaited for ever.
    """

    name = description = "a model"

    def __init__(self, is_slow: bool) -> None:
        self.received = self.requested = 0
        self.is_slow = is_slow

    def check_prompt(self, prompt) -> None:
        del prompt

    def find_spent_limit(self, stream, number):
        return None

    def iter_answers(self, next_request, must_stop):
        while True:
            while (item := next_request()) is not None:
                stream = item[0]
                self.requested += 1
            if self.received == self.requested:
                return
            if self.is_slow and self.received == 5:
                for _ in range(1000):
                    if must_stop():
                        return
                raise AssertionError("the wait has no end")
            self.received += 1
            yield stream, TextAnswer("no", Finish.ENDED)


def test_texts_under_way_after_the_decision_are_received():
    """The provider is paid for them, and the model stores them for another run."""
    model = Waiting(is_slow=False)
    asked = build_question("P>=0.1 [ F (G no = 1) ]").asked
    answer = check_anytime(model, CHAT, asked, Budget(passes=1, confidence=0.9))
    assert answer.holds is True
    assert answer.costs.answers < model.requested == model.received


@pytest.mark.parametrize("limits", [{"seconds": 0.05}, {}], ids=str)
@pytest.mark.parametrize("query", ["P=? [ F (G no = 1) ]", "P>=0.1 [ F (G no = 1) ]"])
def test_an_interrupt_or_a_deadline_ends_the_wait(limits, query):
    """Texts under way are not awaited after the time is over, whether the answer is decided."""
    model = Waiting(is_slow=True)
    calls: list[None] = []

    def is_cancelled() -> bool:
        calls.append(None)
        return not limits and len(calls) > 40

    asked = build_question(query).asked
    budget = Budget(passes=1, confidence=0.9, **limits)
    if limits:
        model.iter_answers = _sleep_before_each_look(model.iter_answers)
    answer = check_anytime(model, CHAT, asked, budget, is_cancelled=is_cancelled)
    assert answer.costs.answers <= 5 < model.requested


def _sleep_before_each_look(iter_answers):
    def iterate(next_request, must_stop):
        return iter_answers(next_request, lambda: time.sleep(0.001) or must_stop())

    return iterate


def test_a_run_of_texts_that_is_not_needed_requests_no_more():
    """The end of one question cancels another, which keeps its texts; a third is not begun."""
    model = Recorded()
    questions = [
        build_question("P>=0.9 [ F no > 0 ]"),
        build_question("P=? [ F no > 0 ]", budget=Budget(passes=1, answers=5000)),
        build_question("P=? [ F no > 0 ]"),
    ]
    found: dict[int, object] = {}
    for index, outcome in answer_side_by_side(
        model, questions, is_wanted=lambda index: index < 2 and not found
    ):
        found[index] = outcome
    assert sorted(found) == [0, 1]
    assert isinstance(found[1], CancelledCheck)
    assert 0 < found[1].result.samples <= len(model.requests) < 500
