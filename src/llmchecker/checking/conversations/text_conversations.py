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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from llmchecker.checking.answer import Answer, Progress
from llmchecker.checking.anytime.answer_forecast import forecast_answer
from llmchecker.checking.anytime.answer_monitor import AnswerMonitor
from llmchecker.checking.anytime.budget import Budget
from llmchecker.checking.anytime.checked_query import CheckedQuery
from llmchecker.checking.anytime.text_check import TextCheck
from llmchecker.checking.conversations.conversation import Conversation, SimulatedUser
from llmchecker.checking.conversations.turn_query import TurnMonitor, check_turn_query
from llmchecker.errors import InterruptedCheck, LLMCheckerError
from llmchecker.models.text_answer import Finish, TextAnswer, TextModel, TextStream
from llmchecker.properties.scores import score_texts

_FIRST_CONVERSATIONS = 8
"""Number of conversations to begin before the first of them ended.

Later at most as many are under way as have ended, so that few are paid for in vain.
"""

_UNFINISHED = (Finish.MISSING, Finish.FILTERED, Finish.CALLED, Finish.TRUNCATED)
"""The ends of answers that did not end; the first that occurs is that of a conversation."""


def check_text_conversation(
    model: TextModel,
    conversation: Conversation,
    asked: CheckedQuery,
    budget: Budget,
    user_models: Mapping[SimulatedUser, TextModel] | None = None,
    *,
    watch: Callable[[Progress], bool | None] = lambda progress: None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Answer:
    """Check a query about the turns of a conversation on answers of a model.

    Args:
        model: the model.
        conversation: the conversation.
        asked: the query, its quantifiers, and the largest number of tokens of an answer.
        budget: the limits on the costs, and the confidence. `answers` limits the answers and the
            simulated messages of all turns.
        user_models: the models of the simulated users.
        watch: called with the interval after each round; the work ends when it returns true.
        is_cancelled: called while an answer is awaited; the work ends when it returns true.

    Raises:
        InvalidQuery: the query is not about the turns of a conversation.
        InterruptedCheck: the provider failed after it had returned answers.
        LLMCheckerError: it failed before.
    """
    check_turn_query(asked.query, asked.quantifiers, conversation.turn_count)
    run = _TextConversations(
        model, conversation, asked, budget, user_models or {}, watch, is_cancelled
    )
    answer = run.answer()
    if run.failure is not None:
        raise InterruptedCheck(str(run.failure), answer) from run.failure
    return answer


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
        scores: the scores of the last answer.
        is_over: whether no further answer is wanted.
    """

    number: int
    obligation: int
    answers: list[TextAnswer] = field(default_factory=list)
    simulated: list[TextAnswer] = field(default_factory=list)
    truth: bool | None = None
    scores: dict[str, int] = field(default_factory=dict)
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
    """The samples of a conversation.

    Attributes:
        failure: the error of the provider that ended the work; None without one.
    """

    def __init__(
        self,
        model: TextModel,
        conversation: Conversation,
        asked: CheckedQuery,
        budget: Budget,
        user_models: Mapping[SimulatedUser, TextModel],
        watch: Callable[[Progress], bool | None],
        is_cancelled: Callable[[], bool],
    ) -> None:
        self.failure: LLMCheckerError | None = None
        self._watch, self._is_cancelled = watch, is_cancelled
        self._is_stopped = False
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

    def answer(self) -> Answer:
        """Request answers until the question is decided, or the work must stop.

        Raises:
            LLMCheckerError: the provider failed before the first answer.
        """
        # the models take turns, each until no conversation waits for it
        while True:
            count = self._answer_count
            for user in self._models:
                self._request_texts(user)
            if len(self._models) == 1 or self._answer_count == count or self._wants_no_text:
                break
        if self.failure is not None and self._answer_count == 0:
            raise self.failure
        if not self._check.is_finished and (self._limit or self.failure) is not None:
            # this ends the conversations under way, whatever they would have become
            for sample in self._samples:
                sample.is_over = True
            self._count_samples()
        result = self._check.finish(self._limit)
        costs = replace(result.costs, answers=self._answer_count)
        result = replace(result, turns=self._conversation.turn_count, costs=costs)
        return replace(result, forecast=forecast_answer(result, self._check.budget))

    @property
    def _wants_no_text(self) -> bool:
        """Whether no further text is wanted: the question is decided, or the work must stop."""
        return (
            self._check.is_finished
            or self._is_stopped
            or self._limit is not None
            or self.failure is not None
            or self._must_stop()
        )

    def _must_stop(self) -> bool:
        """Return whether the work is cancelled or its time is over."""
        return self._is_cancelled() or self._check.is_late

    def _request_texts(self, user: SimulatedUser | None) -> None:
        """Request the texts of a simulated user or of the model for which conversations wait."""
        requested: deque[_Sample] = deque()

        def choose() -> tuple[TextStream, int] | None:
            return self._choose_request(user, requested)

        # the model stores the answers that are under way when no further one is wanted
        answers = self._models[user].iter_answers(choose, self._must_stop)
        while True:
            try:
                _, answer = next(answers)
            except StopIteration:
                return
            except LLMCheckerError as error:
                self.failure = error
                return
            sample = requested.popleft()
            if isinstance(answer, LLMCheckerError):
                self.failure = answer
            elif self.failure is None:
                self._receive(sample, user, answer)

    def _choose_request(
        self, user: SimulatedUser | None, requested: deque[_Sample]
    ) -> tuple[TextStream, int] | None:
        """Return the next text to request: that of a conversation under way, or of a new one."""
        if self._wants_no_text:
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
        chat = self._conversation.build_chat(sample.texts, sample.simulated_texts)
        sample.answers.append(answer)
        turn = len(sample.answers)
        if answer.is_sample:
            start = chat.as_text
            sample.scores = scores = {
                name: int(score_texts(quantifier, start, [start + answer.text], name)[0])
                for name, quantifier in self._asked.quantifiers.items()
            }
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
            if self._check.is_finished or self._is_stopped:
                return
            sample, rounds = self._samples[self._counted], self._check.round_count
            self._check.count_answer(self._join(sample), sample.truth, sample.scores)
            self._counted += 1
            if self._check.round_count > rounds:
                self._is_stopped = bool(self._watch(self._check.compute_progress()))

    def _join(self, sample: _Sample) -> TextAnswer:
        """Return a conversation as one text, which ended if all of its answers did."""
        answers, texts = sample.answers, [*sample.answers, *sample.simulated]
        # a simulated message that is cut is no cut answer
        finishes = [answer.finish for answer in answers]
        finishes += [each.finish for each in sample.simulated if not each.is_sample]
        finish = next(
            (each for each in _UNFINISHED if each in finishes),
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
