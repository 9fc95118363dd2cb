"""Questions without a truncation: answering them within an effort, and showing the answers.

The first Ctrl-C ends the work and shows the answer so far; the second ends the program.
"""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from llmchecker import logs
from llmchecker.checking import wording
from llmchecker.cli.kept_trees import grower_of
from llmchecker.cli.question import Task
from llmchecker.config.checks import quantifiers_in
from llmchecker.deployed.chat import start_as_json
from llmchecker.deployed.decoding import decoding_as_json

# Imported for types only: Storm and torch take seconds, for which --help and mistakes do not wait.
if TYPE_CHECKING:
    from llmchecker.deciding.inquiry import Inquiry
    from llmchecker.deciding.refinement import Refining


@dataclass(frozen=True)
class AnsweredInquiry:
    """A question and its answer.

    Attributes:
        task: the question.
        found: the answer, and what it cost.
    """

    task: Task
    found: "Inquiry"


def inquire_task(task: Task) -> AnsweredInquiry:
    """Answer the query of a task within its effort.

    Raises:
        LLMCheckerError: the model cannot be fetched or loaded, or the query cannot be answered.
    """
    grower = grower_of(task)
    model = grower.model
    from llmchecker.deciding.inquiry import inquire

    stored = grower.stored(task.start)
    with logs.shell_status() as status, _interruptible() as stopped:
        began = time.monotonic()

        def refining(state: "Refining") -> None:
            seconds = time.monotonic() - began
            status(
                f"refining: width {state.width:.3g} after {state.passes:,} passes, "
                f"{state.passes / seconds if seconds else 0:.0f} a second{_left(task, seconds)}"
            )

        def sampling(done: int, total: int) -> None:
            seconds = time.monotonic() - began
            status(f"sampling: {done:,} of {total:,} samples{_left(task, seconds)}")

        found = inquire(
            model,
            task.start,
            task.query,
            {name: task.config.quantifiers[name] for name in quantifiers_in(task.query)},
            task.truncation.length,
            task.effort,
            end_of_sequence=grower.end_of_sequence,
            stored=stored,
            stopped=stopped,
            refining=refining,
            sampling=sampling,
        )
    return AnsweredInquiry(task, found)


def inquiry_as_json(answered: AnsweredInquiry) -> dict[str, Any]:
    """The fields of the verdict and of its question; null stands for what does not exist."""
    task, found = answered.task, answered.found
    about = {
        "model": task.model.name,
        "decoding": decoding_as_json(task.model.decoding),
        "start": start_as_json(task.start),
        "alpha": None,
        "k": None,
        "L": task.truncation.length,
        "value": None,
        "passes": found.passes,
        "seconds": found.seconds,
        "seed": task.effort.seed,
    }
    return asdict(found.verdict) | about


def inquiry_as_text(answered: AnsweredInquiry) -> str:
    """The answer for a person: the certain figures, the estimated ones, then the deciding texts."""
    task, found = answered.task, answered.found
    figures = wording.verdict_rows(found.verdict)
    # The value is that of a tree which was grown for its bounds only, so it answers no question.
    del figures["value"]
    rows = {
        "query": figures.pop("query"),
        "model": f"{task.model.asked()}, {task.truncation.length} tokens",
        "text": task.start_shown,
        "certain": figures.pop("whole model"),
        **figures,
        "passes": f"{found.passes:,}",
        "seconds": f"{found.seconds:.1f}",
    }
    return "\n".join([*wording.aligned(rows), *wording.verdict_details(found.verdict)])


def _left(task: Task, seconds: float) -> str:
    if task.effort.seconds is None:
        return ""
    return f", {max(0.0, task.effort.seconds - seconds):.0f} s left"


@contextlib.contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether Ctrl-C was pressed; a second Ctrl-C interrupts."""
    pressed = []

    def press(number: int, frame: object) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)

    before = signal.signal(signal.SIGINT, press)
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)
