"""Processes that end together with the one that started them, however that one ends.

A process that is killed cannot end those that it started. So each of those arranges for its own end
when it begins.
"""

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_PR_SET_PDEATHSIG = 1
# opened before a fork, after which little may be done
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None

SECONDS_BETWEEN_LOOKS = 0.5
"""How often a job looks whether the run that it belongs to is still there."""


@dataclass(frozen=True)
class EndsWithParent:
    """What a child process calls first to be killed as soon as its parent has ended.

    For `preexec_fn` of a command and `initializer` of a pool. Only Linux can do this; elsewhere
    calling it has no effect.

    Attributes:
        parent: the process that starts the child: this one.
    """

    parent: int = field(default_factory=os.getpid)

    def __call__(self) -> None:
        if _LIBC is not None:
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != self.parent:  # it ended before this could be arranged
                os._exit(1)


class Worker(EndsWithParent):
    """The `initializer` of a pool whose workers leave Ctrl-C to their parent, and end with it."""

    def __call__(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        super().__call__()


@contextlib.contextmanager
def children_ended() -> Iterator[None]:
    """Kill the workers of this process's pools if the block is left by an error or by Ctrl-C."""
    try:
        yield
    except BaseException:
        for child in multiprocessing.active_children():
            child.kill()
        raise


def is_interrupt(error: BaseException | None) -> bool:
    """Whether an error is that of Ctrl-C, or was met while one was handled.

    An interrupted import leaves half a module, on which what is saved at the end may fail.
    """
    if error is None or isinstance(error, KeyboardInterrupt):
        return error is not None
    return is_interrupt(error.__cause__) or is_interrupt(error.__context__)


def tell_interrupts() -> None:
    """From now on Ctrl-C ends this process with one line, wherever it is met, and no traceback.

    Python prints a traceback where nobody expects Ctrl-C, as while modules are imported, and goes
    on after it where it cannot raise an exception, as in a destructor.
    """
    before, unraisable = sys.excepthook, sys.unraisablehook

    def uncaught(kind: type[BaseException], error: BaseException, *rest: object) -> None:
        if is_interrupt(error):
            print("interrupted", file=sys.stderr)
        else:
            before(kind, error, *rest)

    def ignored(lost: "sys.UnraisableHookArgs") -> None:
        if issubclass(lost.exc_type, KeyboardInterrupt):
            # once more, where it can be raised
            threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT)).start()
        else:
            unraisable(lost)

    sys.excepthook, sys.unraisablehook = uncaught, ignored


def end_with_run() -> None:
    """Let this job end when the run of Snakemake ends to which it belongs, even if that is killed.

    Between the two stand shells and processes of Snakemake, which are not told of each other's end.
    A thread looks for them. A job that no run started goes on whatever ends.
    """
    run = _processes_of_run()
    if not run:
        return

    def watch() -> None:
        while all(started == _started(pid) for pid, started in run.items()):
            time.sleep(SECONDS_BETWEEN_LOOKS)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True, name="end with run").start()


def is_running(command: str, directory: Path) -> bool:
    """Whether a process of this machine that works in a directory has a word in its command line.

    Where the system does not tell (there is no /proc), the answer is yes.
    """
    if not Path("/proc/self/cwd").exists():
        return True
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            named = command.encode() in (process / "cmdline").read_bytes()
            if named and (process / "cwd").resolve() == directory.resolve():
                return True
    return False


def _processes_of_run() -> dict[int, str]:
    """The processes from this one's parent up to the first Snakemake, each with when it began."""
    found: dict[int, str] = {}
    passed: dict[int, str] = {}
    pid = os.getppid()
    with contextlib.suppress(OSError, ValueError, IndexError):
        while pid > 1:
            passed[pid] = _started(pid)
            if b"snakemake" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.update(passed)
            pid = int(_fields(pid)[1])
    return found


def _started(pid: int) -> str:
    """When a process began, which tells it from a later one of the same number; "" for none."""
    try:
        fields = _fields(pid)
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def _fields(pid: int) -> list[str]:
    """What /proc says of a process after its name, which may hold anything."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
