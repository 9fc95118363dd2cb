"""The check of a conversation with a model that returns texts alone: sampled by its messages.

Each sample is a conversation: the answer to the first messages, then the answer to the messages
with that answer, and so on. It satisfies the formula, violates it, or leaves this open: because an
answer was withheld or lost, or because a limit of the run forbids a further one. Open samples count
as violating for the lower end of the interval and as satisfying for the upper end.

A conversation that is decided early ends early. So conversations are counted in the order in which
they began, whatever the order of their ends: a stop never depends on a conversation that is not
counted. Those that are under way when the last one is counted leave no value.
"""

from collections import deque
from dataclasses import dataclass, field, replace

from llmchecker.checking.answer import Answer
from llmchecker.checking.anytime.answer_monitor import AnswerMonitor
from llmchecker.checking.anytime.budget import Budget
from llmchecker.checking.anytime.path_formulas import CheckedQuery
from llmchecker.checking.anytime.text_check import TextCheck
from llmchecker.checking.conversations.conversation import Conversation
from llmchecker.checking.conversations.turn_query import TurnMonitor, check_turn_query
from llmchecker.errors import LLMCheckerError
from llmchecker.models.text_answer import Finish, TextAnswer, TextModel, TextStream
from llmchecker.properties.scores import choose_start, score_texts

_FIRST_CONVERSATIONS = 8
"""Number of conversations to begin before the first of them ended.

Later at most as many are under way as have ended, so that few are paid for in vain.
"""


def check_text_conversation(
    model: TextModel, conversation: Conversation, asked: CheckedQuery, budget: Budget
) -> Answer:
    """Check a query about the turns of a conversation on answers of a model.

    Args:
        model: the model.
        conversation: the conversation.
        asked: the query, its quantifiers, and the largest number of tokens of an answer.
        budget: the limits on the costs, and the confidence. `answers` limits those of all turns.

    Raises:
        InvalidQuery: the query is not about the turns of a conversation.
        LLMCheckerError: the provider refuses or fails.
    """
    check_turn_query(asked.query, asked.quantifiers, conversation.turn_count)
    return _TextConversations(model, conversation, asked, budget).run()


class _ConversationTextCheck(TextCheck):
    """The check of a question on conversations, whose truths the caller knows."""

    unit = "conversation"

    def _build_monitor(self) -> AnswerMonitor | None:
        return None


@dataclass
class _Sample:
    """A conversation that is under way.

    Attributes:
        number: its number.
        obligation: the obligation of the formula after its answers.
        answers: its answers so far.
        truth: the truth of the formula; None if it is open.
        is_over: whether no further answer is wanted.
    """

    number: int
    obligation: int
    answers: list[TextAnswer] = field(default_factory=list)
    truth: bool | None = None
    is_over: bool = False

    @property
    def texts(self) -> list[str]:
        """The texts of the answers."""
        return [answer.text for answer in self.answers]


class _TextConversations:
    """The samples of a conversation."""

    def __init__(
        self, model: TextModel, conversation: Conversation, asked: CheckedQuery, budget: Budget
    ) -> None:
        self._model, self._conversation, self._asked = model, conversation, asked
        self._seed = budget.seed
        # each conversation may need an answer in every turn
        self._most = max(1, budget.answers // conversation.turn_count)
        self._check = _ConversationTextCheck(
            model, conversation.chat, asked, replace(budget, answers=self._most)
        )
        self._monitor = TurnMonitor(asked, conversation.turn_count)
        self._samples: list[_Sample] = []
        self._waiting: deque[_Sample] = deque()
        self._requested: deque[_Sample] = deque()
        self._answer_count = self._counted = 0
        self._limit: str | None = None

    def run(self) -> Answer:
        """Request answers until the question is decided, or a limit is reached."""
        answers = self._model.iter_answers(self._choose_request, lambda: self._check.is_late)
        # the model stores the answers that are under way when the question is decided
        for _, answer in answers:
            if isinstance(answer, LLMCheckerError):
                raise answer
            self._receive(self._requested.popleft(), answer)
        if not self._check.is_finished and self._limit is not None:
            # a limit of the run ends these conversations, whatever they would have become
            for sample in self._samples:
                sample.is_over = True
            self._count_samples()
        result = self._check.finish(self._limit)
        costs = replace(result.costs, answers=self._answer_count)
        return replace(result, turns=self._conversation.turn_count, costs=costs)

    def _choose_request(self) -> tuple[TextStream, int] | None:
        """Return the next answer to request: that of a conversation under way, or of a new one."""
        if self._limit is not None or self._check.is_finished:
            return None
        is_new = not self._waiting
        under_way = len(self._samples) - sum(sample.is_over for sample in self._samples)
        over = len(self._samples) - under_way
        if is_new and (
            len(self._samples) >= self._most or under_way >= max(_FIRST_CONVERSATIONS, over)
        ):
            return None
        sample = (
            _Sample(len(self._samples), self._monitor.initial_obligation)
            if is_new
            else self._waiting[0]
        )
        chat = self._conversation.build_chat(sample.texts)
        stream = TextStream(chat, self._asked.length, self._seed)
        self._limit = self._model.find_spent_limit(stream, sample.number)
        if self._limit is not None:
            return None
        if is_new:
            self._samples.append(sample)
        else:
            self._waiting.popleft()
        self._requested.append(sample)
        return stream, sample.number

    def _receive(self, sample: _Sample, answer: TextAnswer) -> None:
        """Read an answer of a conversation."""
        self._answer_count += 1
        chat = str(self._conversation.build_chat(sample.texts))
        sample.answers.append(answer)
        turn = len(sample.answers)
        if answer.is_sample:
            scores = {}
            for name, quantifier in self._asked.quantifiers.items():
                start = choose_start(quantifier, "", chat)
                scores[name] = int(score_texts(quantifier, start, [start + answer.text], name)[0])
            sample.obligation, sample.truth = self._monitor.read(
                sample.obligation, turn, scores, answer.finish == Finish.ENDED
            )
        # an answer that was withheld or lost leaves the conversation open
        sample.is_over = not answer.is_sample or sample.truth is not None
        if not sample.is_over:
            self._waiting.append(sample)
        self._count_samples()

    def _count_samples(self) -> None:
        """Count conversations that are over, in the order in which they began."""
        while self._counted < len(self._samples) and self._samples[self._counted].is_over:
            if self._check.is_finished:
                return
            sample = self._samples[self._counted]
            self._check.count_answer(self._join(sample), sample.truth)
            self._counted += 1

    def _join(self, sample: _Sample) -> TextAnswer:
        """Return a conversation as one text, which ended if all of its answers did."""
        answers = sample.answers
        finishes = [answer.finish for answer in answers]
        finish = next(
            (f for f in (Finish.MISSING, Finish.FILTERED, Finish.TRUNCATED) if f in finishes),
            Finish.ENDED if sample.truth is not None else Finish.MISSING,
        )
        return TextAnswer(
            text="\n".join(self._conversation.format_lines(sample.texts)) if answers else "",
            finish=finish,
            is_repeated=any(answer.is_repeated for answer in answers),
            choice_count=max((answer.choice_count for answer in answers), default=1),
            time=answers[-1].time if answers else "",
        )
