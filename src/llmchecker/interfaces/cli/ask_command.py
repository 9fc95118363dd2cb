"""The command `check` without alpha and k: anytime checking within a budget.

The first Ctrl-C ends the work and shows the current answer; the second ends the program.
"""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from llmchecker.checking import formatting
from llmchecker.interfaces.cli.arguments import CheckRequest
from llmchecker.interfaces.cli.tree_cache import create_tree_builder
from llmchecker.models.decoding.chat_template import start_as_json
from llmchecker.models.decoding.settings import decoding_as_json
from llmchecker.utils import job_logging
from llmchecker.utils.number_format import format_count, format_upper

# Imported for types only: Storm and torch take seconds to load, which would delay --help.
if TYPE_CHECKING:
    from llmchecker.checking.anytime.answer import AnytimeResult
    from llmchecker.checking.anytime.refinement import RefinementProgress


@dataclass(frozen=True)
class _AnsweredRequest:
    """A request and its answer.

    Attributes:
        request: the request.
        result: the answer, with its passes and seconds.
    """

    request: CheckRequest
    result: "AnytimeResult"


def run_ask(request: CheckRequest) -> _AnsweredRequest:
    """Answer the query of a request within its budget.

    Raises:
        LLMCheckerError: the model cannot be fetched or loaded, or the query cannot be answered.
    """
    builder = create_tree_builder(request)
    model = builder.model
    # Loaded first: its log line is on the screen while Storm's import takes seconds.
    distributions = builder.open_distributions(request.start)
    # Imported here, because Storm and torch take seconds to load, which would delay --help.
    from llmchecker.checking.anytime.answer import check_anytime

    with job_logging.show_status() as status, _catch_interrupt() as is_cancelled:
        start_time = time.monotonic()

        def report_refining(state: "RefinementProgress") -> None:
            seconds = time.monotonic() - start_time
            status(
                f"refining: width {format_upper(state.width, 3)} after "
                f"{format_count(state.passes, 'pass')}, "
                f"{state.passes / seconds if seconds else 0:.0f} a "
                f"second{_format_remaining(request, seconds)}"
            )

        def report_sampling(done: int, total: int) -> None:
            seconds = time.monotonic() - start_time
            status(
                f"sampling: {done:,} of "
                f"{format_count(total, 'sample')}{_format_remaining(request, seconds)}"
            )

        result = check_anytime(
            model,
            request.start,
            request.checked_query,
            request.budget,
            end_of_sequence=builder.end_of_sequence,
            distributions=distributions,
            is_cancelled=is_cancelled,
            report_refinement=report_refining,
            report_samples=report_sampling,
        )
    return _AnsweredRequest(request, result)


def format_ask_json(answer: _AnsweredRequest) -> dict[str, Any]:
    """Return the fields of the verdict and the request; an absent value is null."""
    request, result = answer.request, answer.result
    details = {
        "model": request.model.name,
        "decoding": decoding_as_json(request.model.decoding),
        "start": start_as_json(request.start),
        # The tree of an anytime answer has no alpha and k.
        "alpha": None,
        "k": None,
        "L": request.truncation.length,
        "value": None,
        "passes": result.passes,
        "seconds": result.seconds,
        "seed": request.budget.seed,
    }
    return asdict(result.verdict) | details


def format_ask_text(answer: _AnsweredRequest) -> str:
    """Format the answer as text: certain figures, estimates, deciding texts."""
    request, result = answer.request, answer.result
    figures = formatting.anytime_rows(result.verdict, result.passes)
    rows = {
        "query": figures.pop("query"),
        "model": f"{request.model.display_name()}, "
        f"{format_count(request.truncation.length, 'token')}",
        "text": request.formatted_start,
        **figures,
        "seconds": f"{result.seconds:.1f}",
    }
    return formatting.format_rows_as_text(rows, result.verdict)


def _format_remaining(request: CheckRequest, seconds: float) -> str:
    # A budget without a time limit has no remaining time.
    if request.budget.seconds is None:
        return ""
    return f", {max(0.0, request.budget.seconds - seconds):.0f} s left"


@contextlib.contextmanager
def _catch_interrupt() -> Iterator[Callable[[], bool]]:
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
