"""Logs of jobs and the progress of long ones; for scripts and the command line only."""

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tqdm import tqdm

from llmchecker.errors import LLMCheckerError

SECONDS_BETWEEN_REPORTS = 5.0


class Work:
    """Adds up the seconds that a job spends on what it is for: not on imports, loading or files."""

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

    The last line tells how long the job worked; the block counts that with what it is given.

    An error of this package ends the job with its message alone, since the message says what to
    do; any other error keeps its traceback.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    handlers = [logging.FileHandler(path, mode="w", encoding="utf-8"), logging.StreamHandler()]
    formatter = logging.Formatter("%(asctime)s %(message)s", datefmt="%H:%M:%S")
    for handler in handlers:
        handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=handlers, force=True)
    logging.getLogger("httpx").setLevel(logging.WARNING)
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
    """Send the log to standard error, and leave the root logger as it was found."""
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
    """A callback for `grow_tree`: a bar for each level where a person watches, else log lines.

    Args:
        name: what is growing, for the log.
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
    """A callback for `grow_tree` that logs nodes done and nodes a second every few seconds."""
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
    """A callback that shows one line which changes where a person watches, else log lines."""
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
