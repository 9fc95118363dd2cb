"""A check of a question on its model, within a budget.

The first Ctrl-C ends the work and shows the current answer; the second ends the program.
"""

import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from llmchecker.config.opening import load_opened_model, open_model
from llmchecker.config.question import Question
from llmchecker.config.registry import Registry
from llmchecker.errors import InterruptedCheck
from llmchecker.interfaces.cli.answered_question import AnsweredQuestion
from llmchecker.models.servers.spending import Spending
from llmchecker.utils import job_logging

# Imported for types only: Storm and torch take seconds to load, which would delay --help.
if TYPE_CHECKING:
    from llmchecker.checking.answer import Progress


def check_on_model(registry: Registry, question: Question, spending: Spending) -> AnsweredQuestion:
    """Answer the query of a question within its budget.

    Args:
        registry: the configuration.
        question: the question.
        spending: the limits of a model that returns texts alone.

    Raises:
        LLMCheckerError: the model cannot be fetched or loaded, or the query cannot be answered.
    """
    opened = open_model(question.model, registry.expansion, spending)
    asked = question.model_copy(update={"model": load_opened_model(opened)})
    failure = None
    with job_logging.show_status() as status, catch_interrupt() as is_cancelled:
        try:
            answer = asked.answer(
                is_cancelled=is_cancelled,
                watch=lambda progress: status(format_status(progress, question)),
            )
        # the answer so far is right, so it is shown with the error
        except InterruptedCheck as error:
            answer, failure = error.result, error
    costs = {"seconds": f"{answer.seconds:.1f}"}
    return AnsweredQuestion(question, answer, costs, failure=failure)


def format_status(progress: "Progress", question: Question) -> str:
    """Format the intervals, the passes, their rate and the time left."""
    budget, parts = question.budget, [question.format_progress(progress)]
    if progress.seconds > 0:
        parts.append(f"{progress.passes / progress.seconds:,.0f} a second")
    # a budget without a time limit has no remaining time
    if budget.seconds is not None:
        parts.append(f"{max(0.0, budget.seconds - progress.seconds):.0f} s left")
    return ", ".join(parts)


@contextlib.contextmanager
def catch_interrupt() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether Ctrl-C was pressed; the second raises."""
    interrupts: list[int] = []

    def record_interrupt(number: int, frame: object) -> None:
        # The first Ctrl-C only requests the end of the work; the second always ends the program.
        if interrupts:
            raise KeyboardInterrupt
        interrupts.append(number)

    previous_handler = signal.signal(signal.SIGINT, record_interrupt)
    try:
        yield lambda: bool(interrupts)
    finally:
        # The previous handler applies again after the block.
        signal.signal(signal.SIGINT, previous_handler)
