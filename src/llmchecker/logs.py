"""Logs and progress for the scripts of jobs and for the command line; nothing else uses them."""

import errno
import logging
import re
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from pathlib import Path

from tqdm import tqdm

from llmchecker.errors import LLMCheckerError
from llmchecker.processes import end_with_run, is_interrupt

SECONDS_BETWEEN_REPORTS = 5.0
"""The least time between two lines of progress in a log."""

_LIMITS = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM),
    *(errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN),
)
"""The errors of an operating system that say what it has no room or right for."""

_NO_MEMORY = re.compile("alloc.*memory|memory.*alloc|can't start new thread|failed to map segment")
"""What libraries say that run out of memory without a `MemoryError`; a thread needs some too."""


TALKATIVE = ("httpx", "httpx2", "fontTools")
"""Libraries that log what nobody who runs this asks for."""


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

    An error of this package ends the job with its message only, since the message says what to do,
    and so does a limit of the machine. Any other error keeps its traceback. When the run that
    started the job is killed, the job ends too.
    """
    end_with_run()
    handlers = [*_file_handler(Path(path)), logging.StreamHandler()]
    formatter = logging.Formatter("%(asctime)s %(message)s", datefmt="%H:%M:%S")
    for handler in handlers:
        handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=handlers, force=True)
    logging.raiseExceptions = False  # a log that the disk has no room for costs no result
    _hush()
    work = Work()
    try:
        yield work
        logging.info("worked %.2f s", work.seconds)
    except (KeyboardInterrupt, Exception) as error:
        if is_interrupt(error):
            logging.error("interrupted")
            sys.exit(130)
        if (message := in_one_sentence(error)) is None:
            logging.exception("unexpected error")
            raise
        logging.error("error: %s", message)
        sys.exit(1)


def in_one_sentence(error: Exception) -> str | None:
    """What a person is told of an error; None for one that nobody foresaw, whose traceback helps.

    Besides the errors of this package these are the limits of a machine, wherever they are met: no
    memory, a full disk, files that may not be read or written, an output that nobody reads.
    """
    if isinstance(error, LLMCheckerError):
        return str(error)
    told = _first_line(error)
    if isinstance(error, MemoryError) or _NO_MEMORY.search(told):
        return (
            f"the memory does not suffice{': ' * bool(told)}{told}. What was finished before is "
            "kept; free memory, run fewer jobs at once (--cores 1), or set expansion.memory_gb, k "
            "or L lower"
        )
    if isinstance(error, BrokenExecutor):
        return (
            "a process that computed a part was killed, as systems do where memory runs out; free "
            "memory, or run fewer at once (--jobs 1)"
        )
    if isinstance(error, BrokenPipeError):
        return "the output was closed before everything was written"
    if isinstance(error, OSError) and error.errno in _LIMITS:
        place = error.filename or "a file or the output"
        return (
            f"{place} cannot be used: {error.strerror}. What was finished before is kept; run the "
            "same command again when that is mended"
        )
    return None


def _first_line(error: Exception) -> str:
    """The first line of a message, without the place in the source that torch puts before it."""
    return re.sub(r"^\[[^]]*\] *", "", str(error).strip().partition("\n")[0])


def _file_handler(path: Path) -> list[logging.Handler]:
    """What writes to a job's log; nothing where that cannot be written, which costs no result."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return [logging.FileHandler(path, mode="w", encoding="utf-8")]
    except OSError as error:
        print(f"no log is kept: {path}: {error.strerror}", file=sys.stderr)
        return []


def _hush() -> None:
    """Keep libraries from a line for every request, and from some for every picture."""
    for name in TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)


@contextmanager
def shell_log() -> Iterator[None]:
    """Send the log to standard error; afterwards the root logger is as it was before."""
    root, handler = logging.getLogger(), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    _hush()
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


def sample_progress(
    name: str, clock: Callable[[], float] = time.monotonic
) -> Callable[[int, int], None]:
    """A callback for `estimate` that logs the samples drawn and the samples a second.

    Args:
        name: the name of what is estimated.
        clock: returns the time in seconds.
    """
    began = last = clock()

    def report(done: int, total: int) -> None:
        nonlocal last
        now = clock()
        if now - last >= SECONDS_BETWEEN_REPORTS:
            last = now
            rate = done / (now - began)
            logging.info("%s: %d of %d samples, %.0f samples/s", name, done, total, rate)

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
