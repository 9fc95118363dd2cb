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
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from llmchecker.checking.answer import Answer
from llmchecker.checking.anytime.answer_forecast import forecast_answer
from llmchecker.checking.anytime.answer_monitor import AnswerMonitor
from llmchecker.checking.anytime.budget import Budget
from llmchecker.checking.anytime.checked_query import CheckedQuery
from llmchecker.checking.anytime.text_check import TextCheck
from llmchecker.checking.conversations.conversation import Conversation, SimulatedUser
from llmchecker.checking.conversations.turn_query import TurnMonitor, check_turn_query
from llmchecker.errors import LLMCheckerError
from llmchecker.models.text_answer import Finish, TextAnswer, TextModel, TextStream
from llmchecker.properties.scores import choose_start, score_texts

_FIRST_CONVERSATIONS = 8
"""Number of conversations to begin before the first of them ended.

Later at most as many are under way as have ended, so that few are paid for in vain.
"""


def check_text_conversation(
    model: TextModel,
    conversation: Conversation,
    asked: CheckedQuery,
    budget: Budget,
    user_models: Mapping[SimulatedUser, TextModel] | None = None,
) -> Answer:
    """Check a query about the turns of a conversation on answers of a model.

    Args:
        model: the model.
        conversation: the conversation.
        asked: the query, its quantifiers, and the largest number of tokens of an answer.
        budget: the limits on the costs, and the confidence. `answers` limits the answers and the
            simulated messages of all turns.
        user_models: the models of the simulated users.

    Raises:
        InvalidQuery: the query is not about the turns of a conversation.
        LLMCheckerError: the provider refuses or fails.
    """
    check_turn_query(asked.query, asked.quantifiers, conversation.turn_count)
    return _TextConversations(model, conversation, asked, budget, user_models or {}).run()


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
        simulated: the messages of simulated users so far.
        truth: the truth of the formula; None if it is open.
        is_over: whether no further answer is wanted.
    """

    number: int
    obligation: int
    answers: list[TextAnswer] = field(default_factory=list)
    simulated: list[TextAnswer] = field(default_factory=list)
    truth: bool | None = None
    is_over: bool = False

    @property
    def texts(self) -> list[str]:
        """The texts of the answers."""
        return [answer.text for answer in self.answers]

    @property
    def simulated_texts(self) -> list[str]:
        """The texts of the messages of simulated users."""
        return [message.text for message in self.simulated]


class _TextConversations:
    """The samples of a conversation."""

    def __init__(
        self,
        model: TextModel,
        conversation: Conversation,
        asked: CheckedQuery,
        budget: Budget,
        user_models: Mapping[SimulatedUser, TextModel],
    ) -> None:
        self._conversation, self._asked = conversation, asked
        self._models: dict[SimulatedUser | None, TextModel] = {None: model}
        for user, user_model in user_models.items():
            self._models[user] = user_model
        self._seed = budget.seed
        # each conversation may need an answer in every turn, and each simulated message
        texts = conversation.turn_count + len(conversation.simulated_users)
        self._most = max(1, budget.answers // texts)
        self._check = _ConversationTextCheck(
            model, conversation.chat, asked, replace(budget, answers=self._most)
        )
        self._monitor = TurnMonitor(asked, conversation.turn_count, conversation.early_ends)
        self._samples: list[_Sample] = []
        # conversations under way, by the simulated user whose message is next; None for the model
        self._waiting: dict[SimulatedUser | None, deque[_Sample]] = {
            user: deque() for user in self._models
        }
        self._answer_count = self._counted = 0
        self._limit: str | None = None

    def run(self) -> Answer:
        """Request answers until the question is decided, or a limit is reached."""
        # the models take turns, each until no conversation waits for it
        while True:
            count = self._answer_count
            for user in self._models:
                self._request_texts(user)
            is_stopped = self._check.is_finished or self._check.is_late or self._limit is not None
            if len(self._models) == 1 or self._answer_count == count or is_stopped:
                break
        if not self._check.is_finished and self._limit is not None:
            # a limit of the run ends these conversations, whatever they would have become
            for sample in self._samples:
                sample.is_over = True
            self._count_samples()
        result = self._check.finish(self._limit)
        costs = replace(result.costs, answers=self._answer_count)
        result = replace(result, turns=self._conversation.turn_count, costs=costs)
        return replace(result, forecast=forecast_answer(result, self._check.budget))

    def _request_texts(self, user: SimulatedUser | None) -> None:
        """Request the texts of a simulated user or of the model for which conversations wait."""
        requested: deque[_Sample] = deque()

        def choose() -> tuple[TextStream, int] | None:
            return self._choose_request(user, requested)

        answers = self._models[user].iter_answers(choose, lambda: self._check.is_late)
        # the model stores the answers that are under way when the question is decided
        for _, answer in answers:
            if isinstance(answer, LLMCheckerError):
                raise answer
            self._receive(requested.popleft(), user, answer)

    def _choose_request(
        self, user: SimulatedUser | None, requested: deque[_Sample]
    ) -> tuple[TextStream, int] | None:
        """Return the next text to request: that of a conversation under way, or of a new one."""
        if self._limit is not None or self._check.is_finished:
            return None
        waiting = self._waiting[user]
        is_new = not waiting
        # only the model begins a conversation
        if is_new and user is not None:
            return None
        under_way = len(self._samples) - sum(sample.is_over for sample in self._samples)
        over = len(self._samples) - under_way
        if is_new and (
            len(self._samples) >= self._most or under_way >= max(_FIRST_CONVERSATIONS, over)
        ):
            return None
        sample = (
            _Sample(len(self._samples), self._monitor.initial_obligation) if is_new else waiting[0]
        )
        length = self._asked.length if user is None else user.length
        chat = self._conversation.build_chat(sample.texts, sample.simulated_texts, user)
        stream = TextStream(chat, length, self._seed)
        self._limit = self._models[user].find_spent_limit(stream, sample.number)
        if self._limit is not None:
            return None
        if is_new:
            self._samples.append(sample)
        else:
            waiting.popleft()
        requested.append(sample)
        return stream, sample.number

    def _receive(self, sample: _Sample, user: SimulatedUser | None, answer: TextAnswer) -> None:
        """Read an answer or a simulated message of a conversation."""
        self._answer_count += 1
        if user is None:
            self._read_answer(sample, answer)
        else:
            sample.simulated.append(answer)
        # a text that was withheld or lost leaves the conversation open
        sample.is_over = not answer.is_sample or sample.truth is not None
        if not sample.is_over:
            # the model answers a simulated message
            is_answered = user is not None
            find = self._conversation.find_simulated_user
            self._waiting[None if is_answered else find(sample.texts)].append(sample)
        self._count_samples()

    def _read_answer(self, sample: _Sample, answer: TextAnswer) -> None:
        """Score an answer, and advance the formula."""
        chat = str(self._conversation.build_chat(sample.texts, sample.simulated_texts))
        sample.answers.append(answer)
        turn = len(sample.answers)
        if answer.is_sample:
            scores = {}
            for name, quantifier in self._asked.quantifiers.items():
                start = choose_start(quantifier, "", chat)
                scores[name] = int(score_texts(quantifier, start, [start + answer.text], name)[0])
            sample.obligation, sample.truth = self._monitor.read(
                sample.obligation,
                turn,
                scores,
                has_ended=answer.finish == Finish.ENDED,
                is_last=self._conversation.is_last(sample.texts),
            )

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
        answers, texts = sample.answers, [*sample.answers, *sample.simulated]
        # a simulated message that is cut is no cut answer
        finishes = [answer.finish for answer in answers]
        finishes += [each.finish for each in sample.simulated if not each.is_sample]
        finish = next(
            (f for f in (Finish.MISSING, Finish.FILTERED, Finish.TRUNCATED) if f in finishes),
            Finish.ENDED if sample.truth is not None else Finish.MISSING,
        )
        lines = (
            self._conversation.format_lines(sample.texts, sample.simulated_texts) if answers else []
        )
        return TextAnswer(
            text="\n".join(lines),
            finish=finish,
            is_repeated=any(text.is_repeated for text in texts),
            choice_count=max((text.choice_count for text in texts), default=1),
            time=answers[-1].time if answers else "",
        )
