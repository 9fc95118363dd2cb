"""The command `check` without alpha and k: anytime checking within a budget.

The first Ctrl-C ends the work and shows the current answer; the second ends the program.
"""

import contextlib
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llmchecker.checking import formatting
from llmchecker.checking.anytime.budget import AnswerBudget
from llmchecker.checking.anytime.path_formulas import CheckedQuery
from llmchecker.checking.figures import Row, build_text_rows
from llmchecker.config.opening import open_model
from llmchecker.config.question import Question
from llmchecker.config.registry import Registry
from llmchecker.errors import InterruptedCheck
from llmchecker.models.decoding.chat_template import start_as_json
from llmchecker.models.decoding.settings import decoding_as_json
from llmchecker.utils import job_logging
from llmchecker.utils.number_format import format_count

# Imported for types only: Storm and torch take seconds to load, which would delay --help.
if TYPE_CHECKING:
    from llmchecker.checking.answer import Answer, Progress


@dataclass(frozen=True)
class _AnsweredQuestion:
    """A question and its answer.

    Attributes:
        question: the question.
        answer: the answer.
        failure: the error of a model that failed after it had evaluated texts; None without one.
    """

    question: Question
    answer: "Answer"
    failure: InterruptedCheck | None = None


def run_ask(registry: Registry, question: Question) -> _AnsweredQuestion:
    """Answer the query of a question within its budget.

    Raises:
        LLMCheckerError: the model cannot be fetched or loaded, or the query cannot be answered.
    """
    builder = open_model(question.model, registry.expansion)
    model = builder.model
    # Loaded first: its log line is on the screen while Storm's import takes seconds.
    distributions = builder.open_distributions(question.prompt)
    # Imported here, because Storm and torch take seconds to load, which would delay --help.
    from llmchecker.checking.anytime.answer import check_anytime

    with job_logging.show_status() as status, catch_interrupt() as is_cancelled:
        try:
            answer = check_anytime(
                model,
                question.prompt,
                question.checked_query,
                question.budget,
                end_of_sequence=builder.end_of_sequence,
                distributions=distributions,
                is_cancelled=is_cancelled,
                watch=lambda progress: status(
                    format_progress(progress, question.budget, question.checked_query)
                ),
            )
        # the answer so far is right, so it is shown with the error
        except InterruptedCheck as error:
            return _AnsweredQuestion(question, error.result, error)
    return _AnsweredQuestion(question, answer)


def format_ask_json(answered: _AnsweredQuestion) -> dict[str, Any]:
    """Return the fields of the answer and the question; an absent value is null."""
    question = answered.question
    details = {
        "model": question.model.name,
        "decoding": decoding_as_json(question.model.decoding),
        "start": start_as_json(question.prompt),
        # The tree of an anytime answer has no alpha and k.
        "alpha": None,
        "k": None,
        "seed": question.budget.seed,
    }
    return answered.answer.as_json() | details


def describe_ask_costs(answered: _AnsweredQuestion) -> dict[str, str]:
    """Return the passes, the seconds and the seed of an answer, each by its name."""
    answer = answered.answer
    return {
        "passes": f"{answer.passes:,}",
        "seconds": f"{answer.seconds:.1f}",
        "seed": str(answered.question.budget.seed),
    }


def build_ask_rows(answered: _AnsweredQuestion) -> dict[str, Row]:
    """Build the rows of the question and the figures of its answer."""
    question, answer = answered.question, answered.answer
    figures = formatting.build_rows(answer)
    return {
        "query": figures.pop("query"),
        **build_text_rows(
            {
                "model": f"{question.model.display_name()}, "
                f"{format_count(question.truncation.length, 'token')}",
                "text": question.formatted_start,
            }
        ),
        **figures,
        **build_text_rows({"seconds": f"{answer.seconds:.1f}"}),
        **formatting.build_forecast_row(answer.forecast),
    }


def format_progress(progress: "Progress", budget: AnswerBudget, asked: CheckedQuery) -> str:
    """Format the intervals, the passes, their rate and the time left."""
    parts = [formatting.format_progress(progress, asked.estimation_obstacle is None)]
    if progress.seconds > 0:
        parts.append(f"{progress.passes / progress.seconds:,.0f} a second")
    # a budget without a time limit has no remaining time
    if budget.seconds is not None:
        parts.append(f"{max(0.0, budget.seconds - progress.seconds):.0f} s left")
    return ", ".join(parts)


@contextlib.contextmanager
def catch_interrupt() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether Ctrl-C was pressed; the second raises."""
    interrupts = []

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
