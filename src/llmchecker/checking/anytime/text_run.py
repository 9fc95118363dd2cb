"""A check of one question on a model that returns texts alone, which a caller advances.

Suites check many questions side by side (see `text_check`); commands and the library check one.
Both read the same stored answers.
"""

from collections.abc import Callable

from llmchecker.checking.answer import Answer, Progress
from llmchecker.checking.anytime.budget import Budget
from llmchecker.checking.anytime.checked_query import CheckedQuery
from llmchecker.checking.anytime.text_check import StreamState, TextCheck
from llmchecker.errors import InterruptedCheck, LLMCheckerError
from llmchecker.models.decoding.chat_template import Start
from llmchecker.models.text_answer import TextModel, TextStream


class TextRun:
    """The check of a question, with the answers of its model.

    Attributes:
        failure: the error of the provider that ended the run; None without one.

    Args:
        model: the model.
        start: the prompt.
        asked: the query, its quantifiers and the horizon.
        budget: the limits on the costs, and the confidence.
        is_cancelled: called while an answer is awaited; the work ends when it returns true.

    Raises:
        InvalidQuery: whole answers do not decide the query.
        ConfigError: the model does not accept the form of the prompt.
    """

    def __init__(
        self,
        model: TextModel,
        start: Start,
        asked: CheckedQuery,
        budget: Budget,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        model.check_prompt(start)
        self.failure: LLMCheckerError | None = None
        self._model, self._is_cancelled = model, is_cancelled
        self._check = TextCheck(model, start, asked, budget)
        self._stream = TextStream(start, asked.length, budget.seed)
        self._state = StreamState({0: self._check}, budget.answers)
        self._is_exhausted = False
        self._answers = model.iter_answers(self._choose_request, self._must_stop)

    @property
    def answer_count(self) -> int:
        """Number of answers so far."""
        return self._check.count

    @property
    def is_finished(self) -> bool:
        """Whether the answer is decided, or the work must stop."""
        return self._check.is_finished or self._is_exhausted or self._must_stop()

    def advance(self) -> None:
        """Read answers until the interval narrows, or the work ends."""
        rounds = self._check.round_count
        while not self.is_finished and self._check.round_count == rounds:
            self._read_answer()

    def compute_progress(self) -> Progress:
        """Return the interval so far."""
        return self._check.compute_progress()

    def finish(self) -> Answer:
        """Compute the answer from the texts so far."""
        number = self._state.received
        limit = self._model.find_spent_limit(self._stream, number) if self._is_exhausted else None
        return self._check.finish(limit)

    def drain(self) -> None:
        """Wait for the answers that are under way, which are paid; the model stores them."""
        self._state.checks.clear()
        try:
            for _ in self._answers:
                pass
        except LLMCheckerError:
            # what was read is right
            return

    def _choose_request(self) -> tuple[TextStream, int] | None:
        number = self._state.requested
        if self._check.is_finished or not self._state.wants_more:
            return None
        if self._model.find_spent_limit(self._stream, number) is not None:
            return None
        self._state.requested += 1
        return self._stream, number

    def _must_stop(self) -> bool:
        # after a failure, further answers would fail too
        return self.failure is not None or self._is_cancelled() or self._check.is_late

    def _read_answer(self) -> None:
        try:
            _, answer = next(self._answers)
        except StopIteration:
            self._is_exhausted = True
            return
        except LLMCheckerError as error:
            self.failure = error
            return
        self._state.received += 1
        if isinstance(answer, LLMCheckerError):
            self.failure = answer
        else:
            self._check.add(answer)


def check_text(
    model: TextModel,
    start: Start,
    asked: CheckedQuery,
    budget: Budget,
    *,
    is_cancelled: Callable[[], bool] = lambda: False,
    watch: Callable[[Progress], bool | None] = lambda progress: None,
) -> Answer:
    """Check a query on the answers of a model that returns texts alone.

    Args:
        model, start, asked, budget, is_cancelled: as in `TextRun`.
        watch: called with the interval after each round; the work ends when it returns true.

    Raises:
        InvalidQuery, ConfigError: as in `TextRun`.
        InterruptedCheck: the provider failed after it had returned answers.
        LLMCheckerError: it failed before.
    """
    run = TextRun(model, start, asked, budget, is_cancelled)
    while not run.is_finished:
        run.advance()
        if watch(run.compute_progress()):
            break
    run.drain()
    # without an answer there is no result that the error could hold
    if run.failure is not None and run.answer_count == 0:
        raise run.failure
    result = run.finish()
    if run.failure is not None:
        raise InterruptedCheck(str(run.failure), result) from run.failure
    return result
