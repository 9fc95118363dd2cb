"""Runs: questions that are being answered, whatever the access to the model is."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from llmchecker.checking.answer import Answer, Progress
from llmchecker.errors import CheckFailed, InterruptedCheck, LLMCheckerError
from llmchecker.models.interface import LanguageModel
from llmchecker.models.text_answer import TextModel
from llmchecker.utils.memory_errors import is_out_of_memory
from llmchecker.utils.processes import is_interrupt

CheckOutcome = Answer | BaseException
"""The answer to a question, or the exception that ended its run."""


class Run(ABC):
    """A question that is being answered; its caller may stop after any round.

    Attributes:
        model: the model.
        failure: the error of a model that ended the run; None without one.
        failed_model: the model of the failure, which may be that of a simulated user.
        error: another exception that ended the run, such as of a quantifier; None without one.
        share_passes: returns the passes that the run may expect, for those that the remaining time
            allows; None for no limit.
    """

    def __init__(self, model: LanguageModel | TextModel) -> None:
        self.model = self.failed_model = model
        self.failure: BaseException | None = None
        self.error: BaseException | None = None
        self.share_passes: Callable[[float | None], float | None] = lambda affordable: affordable

    @property
    @abstractmethod
    def is_finished(self) -> bool:
        """Whether the answer is as narrow as wanted, or the work must stop."""

    @property
    @abstractmethod
    def must_stop(self) -> bool:
        """Whether an error, an interrupt or the end of the time ends the work."""

    @property
    @abstractmethod
    def has_texts(self) -> bool:
        """Whether a text was evaluated or received, so that there is an answer so far."""

    @property
    @abstractmethod
    def spent_passes(self) -> float | None:
        """The passes so far, without those that refine the tree; None for texts alone."""

    @abstractmethod
    def compute_progress(self) -> Progress:
        """Return both intervals so far."""

    @abstractmethod
    def advance(self) -> None:
        """Work for one round."""

    @abstractmethod
    def complete(self) -> None:
        """Work until the answer is as narrow as wanted or the work must stop."""

    @abstractmethod
    def limit_passes(self, passes: float) -> None:
        """Limit the passes that are left, where the run has passes."""

    @abstractmethod
    def stop(self) -> None:
        """End the work; texts that are under way are paid, and are received."""

    @abstractmethod
    def finish(self, *, bounds_only: bool = False) -> Answer:
        """Compute the answer so far.

        Args:
            bounds_only: whether the answer needs no sizes and no witnesses of a tree.

        Raises:
            InvalidQuery: Storm rejects the query.
            CheckFailed: Storm gave no answer.
        """

    @abstractmethod
    def release(self) -> None:
        """Drop the texts of a run that is over."""

    def conclude(self, *, bounds_only: bool = False) -> Answer:
        """Return the answer, or raise the error that ended the run, and release its memory.

        Args:
            bounds_only: as in `finish`.

        Raises:
            InterruptedCheck: a model failed after a text had been evaluated or received.
            Exception: a model failed before, or another error ended the run.
        """
        try:
            if self.error is not None:
                raise self.error
            # without a text there is no answer that the error could hold
            if self.failure is not None and not self.has_texts:
                raise name_failure(self.failed_model, self.failure)
            answer = self.finish(bounds_only=bounds_only)
        finally:
            self.release()
        if self.failure is not None:
            message = describe_failure(self.failed_model, self.failure)
            raise InterruptedCheck(message, answer) from self.failure
        return answer


def name_failure(model: LanguageModel | TextModel, failure: BaseException) -> BaseException:
    """Return the error with which the failure of a model is reported."""
    # errors of this package name the model themselves, and one about memory is not about it
    is_named = isinstance(failure, LLMCheckerError) or is_out_of_memory(failure)
    if is_named or is_interrupt(failure):
        return failure
    named = CheckFailed(describe_failure(model, failure))
    named.__cause__ = failure
    return named


def describe_failure(model: LanguageModel | TextModel, failure: BaseException) -> str:
    """Return the message about an error of a model."""
    # the errors of this package name the fix themselves
    if isinstance(failure, LLMCheckerError):
        return str(failure)
    return f"{model.name}: the model failed: {type(failure).__name__}: {failure}"
