"""Logs and progress for the scripts of jobs and for the command line."""

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from llmchecker.errors import DamagedFile
from llmchecker.utils.atomic_files import damaged_path, rename_damaged
from llmchecker.utils.error_messages import find_user_message
from llmchecker.utils.exit_status import ExitStatus
from llmchecker.utils.printable_text import escape_unprintable
from llmchecker.utils.processes import die_with_run, is_interrupt

_REPORT_INTERVAL_SECONDS = 5.0
"""Minimum time in seconds between two progress lines in a log."""

_NOISY_LOGGERS = ("httpx", "httpx2", "fontTools")
"""Loggers of libraries whose INFO lines are not useful to users."""


class Stopwatch:
    """Sum of the seconds of a job's own work, without imports, loading and files."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Add the duration of the block."""
        start_time = time.monotonic()
        yield
        self.seconds += time.monotonic() - start_time


@contextmanager
def job_log(path: str | Path) -> Iterator[Stopwatch]:
    """Send this job's log to a file and to standard error.

    The block gets a `Stopwatch` to measure its own work; the last line of the log contains the
    sum.

    A damaged result is renamed, so that the next run computes it again. An error of this package or
    a limit of the machine ends the job with a message that contains the fix. Any other error keeps
    its traceback. When the run that started the job is killed, the job ends too.

    Args:
        path: path of the log file.
    """
    die_with_run()
    handlers = [*_build_file_handlers(Path(path)), logging.StreamHandler()]
    formatter = logging.Formatter("%(asctime)s %(message)s", datefmt="%H:%M:%S")
    for handler in handlers:
        handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=handlers, force=True)
    logging.raiseExceptions = False  # a full disk must not fail the job by its log
    _silence_loggers()
    work = Stopwatch()
    try:
        yield work
        logging.info("worked %.2f s", work.seconds)
    except (KeyboardInterrupt, Exception) as error:
        if is_interrupt(error):
            logging.error("interrupted")
            sys.exit(ExitStatus.INTERRUPTED)
        message = _rename_if_damaged(error) or find_user_message(error)
        # an unexpected error: the traceback is needed to find the cause
        if message is None:
            logging.exception("unexpected error")
            raise
        logging.error("error: %s", message)
        sys.exit(1)


def _rename_if_damaged(error: BaseException) -> str | None:
    """Rename the damaged result that caused an error; return a message.

    Returns:
        None if the error has another cause, or if no rule creates the file.
    """
    if isinstance(error, DamagedFile) and error.path is not None:
        # a file of the user must never be renamed
        if (product := _find_product(Path(error.path))) is None:
            return None
        new_path, problem = rename_damaged(product), error.problem
    # a job that runs at the same time may have renamed the file first
    elif isinstance(error, FileNotFoundError) and error.filename:
        path = Path(os.fsdecode(error.filename))
        if (product := _find_product(path)) is None or not damaged_path(product).exists():
            return None
        new_path, problem = damaged_path(product), f"{product}: damaged"
    else:
        return None
    return f"{problem}; it is now {new_path}; run the same command again to recreate {product}"


def _find_product(path: Path) -> Path | None:
    """Return the path that a rule recreates for a damaged file, else None."""
    path = path.absolute()
    # Snakemake runs jobs in the project's folder and names results relative to it
    relative_path = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    match relative_path.parts:
        case ("results", _, *_) | ("resources", "datasets", _):
            return relative_path
        case ("resources", "models", _, "source.json"):
            # without a complete record the checksums of the weights are unknown too
            return relative_path.parent
        case _:
            return None


def _build_file_handlers(path: Path) -> list[logging.Handler]:
    """Return the log's file handler, or no handler if the file cannot be written.

    A missing log must not cost a result.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return [logging.FileHandler(path, mode="w", encoding="utf-8")]
    except OSError as error:
        print(f"{path}: the log cannot be written: {error.strerror}", file=sys.stderr)
        return []


def _silence_loggers() -> None:
    """Suppress the INFO lines of noisy libraries, such as a line per request."""
    for name in _NOISY_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)


class _StderrHandler(logging.StreamHandler[TextIO]):
    """A handler of the current standard error, so that lines are above a progress bar."""

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, value: TextIO) -> None:
        """Ignore the stream, which the base class sets once."""


@contextmanager
def shell_log() -> Iterator[None]:
    """Send the log to standard error; restore the root logger afterwards."""
    root, handler = logging.getLogger(), _StderrHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    _silence_loggers()
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


def build_status_log(
    name: str = "", clock: Callable[[], float] = time.monotonic
) -> Callable[[str], None]:
    """Return a callback that logs a computation's status, at most once an interval.

    Args:
        name: name of the computation for the log; empty for none.
        clock: function that returns the time in seconds.
    """
    last_report = clock()
    prefix = f"{name}: " if name else ""

    def report(status: str) -> None:
        nonlocal last_report
        current_time = clock()
        if current_time - last_report >= _REPORT_INTERVAL_SECONDS:
            last_report = current_time
            logging.info("%s%s", prefix, status)

    return report


@contextmanager
def show_status() -> Iterator[Callable[[str], None]]:
    """Yield a callback that shows a text as a changing line, or in the log.

    The changing line is for a terminal; other outputs get log lines.
    """
    if not sys.stderr.isatty():
        yield build_status_log()
        return
    # imported here, because jobs and logs need no rich
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    # without a thread, which a fork would copy in an unknown state
    with Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False) as live:
        yield lambda text: live.update(Text(escape_unprintable(text)), refresh=True)


def build_node_progress(
    show: Callable[[str], None], clock: Callable[[], float] = time.monotonic
) -> Callable[[int, int, int], None]:
    """Return a callback for `build_tree` that shows the nodes and their rate.

    Args:
        show: function that shows a text.
        clock: function that returns the time in seconds.
    """
    start_time = clock()
    finished_nodes = 0

    def report(step: int, done: int, total: int) -> None:
        nonlocal finished_nodes
        rate = (finished_nodes + done) / max(clock() - start_time, 1e-3)
        show(f"step {step}, {done:,} of {total:,} nodes, {rate:,.0f} nodes/s")
        if done == total:
            # earlier levels count in the rate, as `done` starts at 0 in each level
            finished_nodes += total

    return report
