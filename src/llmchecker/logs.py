"""Logs and progress for the scripts of jobs and for the command line; nothing else uses them."""

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tqdm import tqdm

from llmchecker.errors import LLMCheckerError

SECONDS_BETWEEN_REPORTS = 5.0
"""The least time between two lines of progress in a log."""


class Work:
    """Adds up the seconds of a job's own work, without imports, loading and files."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Count the time that the block takes."""
        began = time.monotonic()
        yield
        self.seconds += time.monotonic() - began


@contextmanager
def job_log(path: str | Path) -> Iterator[Work]:
    """Send this job's log to a file and to standard error, where a person sees it live.

    The block gets a `Work` to measure its own work with; the last line of the log tells the sum.

    An error of this package ends the job with its message only, since the message says what to do.
    Any other error keeps its traceback.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    handlers = [logging.FileHandler(path, mode="w", encoding="utf-8"), logging.StreamHandler()]
    formatter = logging.Formatter("%(asctime)s %(message)s", datefmt="%H:%M:%S")
    for handler in handlers:
        handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=handlers, force=True)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # else one line for every request
    work = Work()
    try:
        yield work
        logging.info("worked %.2f s", work.seconds)
    except LLMCheckerError as error:
        logging.error("error: %s", error)
        sys.exit(1)
    except Exception:
        logging.exception("unexpected error")
        raise


@contextmanager
def shell_log() -> Iterator[None]:
    """Send the log to standard error; afterwards the root logger is as it was before."""
    root, handler = logging.getLogger(), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


@contextmanager
def shell_progress(name: str, length: int) -> Iterator[Callable[[int, int, int], None]]:
    """Yield a callback for `grow_tree` that shows the progress.

    In a terminal it shows a bar for each level of the tree; otherwise it writes log lines.

    Args:
        name: the name of what is growing, for the log.
        length: the horizon in tokens, for the bar.
    """
    if not sys.stderr.isatty():
        yield node_progress(name)
        return
    with tqdm(file=sys.stderr, unit=" nodes", leave=False) as bar:
        current = 0

        def report(step: int, done: int, total: int) -> None:
            nonlocal current
            if step != current:
                current = step
                bar.reset(total)
                bar.set_description(f"token {step} of {length}")
            bar.update(done - bar.n)

        yield report


def node_progress(
    name: str, clock: Callable[[], float] = time.monotonic
) -> Callable[[int, int, int], None]:
    """A callback for `grow_tree` that logs the nodes done and the nodes a second.

    Args:
        name: the name of what is growing.
        clock: returns the time in seconds.
    """
    began = last = clock()
    finished = 0

    def report(step: int, done: int, total: int) -> None:
        nonlocal last, finished
        now = clock()
        if now - last >= SECONDS_BETWEEN_REPORTS:
            last = now
            rate = (finished + done) / (now - began)
            logging.info("%s: step %d, %d of %d nodes, %.0f nodes/s", name, step, done, total, rate)
        if done == total:
            finished += total

    return report


@contextmanager
def shell_status() -> Iterator[Callable[[str], None]]:
    """Yield a callback that shows a text: in a terminal as a changing line, else in the log."""
    if sys.stderr.isatty():
        with tqdm(file=sys.stderr, bar_format="{desc}", leave=False) as bar:
            yield lambda text: bar.set_description_str(text)
        return
    last = -SECONDS_BETWEEN_REPORTS

    def report(text: str) -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS_BETWEEN_REPORTS:
            last = time.monotonic()
            logging.info("%s", text)

    yield report
