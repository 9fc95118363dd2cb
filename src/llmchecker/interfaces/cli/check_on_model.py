"""A check of a question on its model, within a budget.

The first Ctrl-C ends the work and shows the answer so far, with a note and the exit status of an
interrupt; the second ends the program at once.
"""

import contextlib
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from llmchecker.checking.formatting import format_progress
from llmchecker.checking.question import Question
from llmchecker.config.opening import load_opened_model, open_model
from llmchecker.config.registry import Registry
from llmchecker.errors import InterruptedCheck
from llmchecker.models.servers.spending import Spending
from llmchecker.utils import job_logging

# Imported for types only: Storm and torch take seconds to load, which would delay --help.
if TYPE_CHECKING:
    from llmchecker.checking.answer import Answer, Progress

INTERRUPTED_NOTE = "Ctrl-C interrupted the work; this is the answer so far"
"""The note of an answer whose work Ctrl-C ended."""


def check_on_model(
    registry: Registry, question: Question, spending: Spending
) -> "tuple[Answer, InterruptedCheck | KeyboardInterrupt | None]":
    """Answer the query of a question within its budget.

    Args:
        registry: the configuration.
        question: the question.
        spending: the limits of a model that returns texts alone.

    Returns:
        The answer, and what ended the work early: the error of a model that failed after it had
        evaluated texts, or Ctrl-C.

    Raises:
        LLMCheckerError: the model cannot be fetched or loaded, or the query cannot be answered.
    """
    # imported here: torch and Storm take seconds to load, which would delay --help and errors
    from llmchecker.checking.runs import answer_question

    opened = open_model(question.model, registry.expansion, spending)
    loaded = replace(question, model=load_opened_model(opened))
    failure: InterruptedCheck | KeyboardInterrupt | None = None
    with job_logging.show_status() as status, catch_interrupt() as is_cancelled:
        try:
            answer = answer_question(
                loaded,
                is_cancelled=is_cancelled,
                watch=lambda progress: status(format_status(progress, question)),
            )
        # the answer so far is right, so it is shown with the error
        except InterruptedCheck as error:
            answer, failure = error.result, error
        was_interrupted = is_cancelled()
    if was_interrupted:
        answer, failure = mark_interrupted(answer), failure or KeyboardInterrupt()
    return answer, failure


def format_status(progress: "Progress", question: Question) -> str:
    """Format the intervals, the passes, their rate and the time left."""
    budget, parts = question.budget, [format_progress(progress, is_text_only=question.is_text_only)]
    if progress.seconds > 0:
        parts.append(f"{progress.passes / progress.seconds:,.0f} a second")
    # a budget without a time limit has no remaining time
    if budget.seconds is not None:
        parts.append(f"{max(0.0, budget.seconds - progress.seconds):.0f} s left")
    return ", ".join(parts)


def mark_interrupted(answer: "Answer") -> "Answer":
    """Return an answer with the note that Ctrl-C ended its work."""
    return replace(answer, notes=(INTERRUPTED_NOTE, *answer.notes))


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
