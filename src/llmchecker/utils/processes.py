"""Child processes that end with their parent.

A process killed by SIGKILL cannot end its children. So each child arranges its own end when it
starts.
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
from types import TracebackType

_PR_SET_PDEATHSIG = 1
# opened at import, because little may be done between a fork and an exec
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None

_POLL_SECONDS = 0.5
"""Interval in seconds at which a job checks that its Snakemake run exists."""


@dataclass(frozen=True)
class DieWithParent:
    """Request to the kernel to kill this child process when its parent ends.

    Use it as `preexec_fn` of a command or `initializer` of a pool. It has an effect only on Linux.

    Attributes:
        parent: process id of the parent, which is the process that creates this object.
    """

    parent: int = field(default_factory=os.getpid)

    def __call__(self) -> None:
        if _LIBC is not None:
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != self.parent:  # it ended before this could be arranged
                os._exit(1)


class WorkerInitializer(DieWithParent):
    """Pool `initializer` whose workers ignore Ctrl-C and end with their parent."""

    def __call__(self) -> None:
        # a terminal sends Ctrl-C to the workers too; only the parent shall report it
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        super().__call__()


@contextlib.contextmanager
def kill_children_on_error() -> Iterator[None]:
    """Kill the workers of this process's pools if the block raises or on Ctrl-C."""
    try:
        yield
    except BaseException:
        for child in multiprocessing.active_children():
            child.kill()
        raise


def is_interrupt(error: BaseException | None) -> bool:
    """Return whether an error is Ctrl-C or was raised while Ctrl-C was handled.

    An interrupted import leaves a partial module, so that cleanup code may raise another error.
    """
    if error is None or isinstance(error, KeyboardInterrupt):
        return error is not None
    return is_interrupt(error.__cause__) or is_interrupt(error.__context__)


def raise_interrupt(error: BaseException) -> None:
    """Raise an error that is Ctrl-C or was raised while Ctrl-C was handled; ignore any other."""
    if is_interrupt(error):
        raise error


def is_workflow_job() -> bool:
    """Return whether this process belongs to a run of the workflow."""
    return "LLMCHECKER_JOB" in os.environ


def install_sigint_handler() -> None:
    """Make Ctrl-C end this process with one line and without a traceback.

    Python prints a traceback on Ctrl-C, for example during imports. In a destructor, it cannot
    raise the exception and continues.
    """
    excepthook, unraisable = sys.excepthook, sys.unraisablehook

    def handle_uncaught(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if is_interrupt(error):
            print("interrupted", file=sys.stderr)
        else:
            excepthook(kind, error, trace)

    def handle_unraisable(unraised: "sys.UnraisableHookArgs") -> None:
        if issubclass(unraised.exc_type, KeyboardInterrupt):
            # send the signal again shortly after, when Python can raise the exception
            threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT)).start()
        else:
            unraisable(unraised)

    sys.excepthook, sys.unraisablehook = handle_uncaught, handle_unraisable


def die_with_run() -> None:
    """Make this job end when its Snakemake run ends, even if the run is killed.

    Shells and Snakemake processes between the run and the job are not notified of each other's end,
    so a thread polls them. Outside Snakemake the function has no effect.
    """
    run = _find_run_processes()
    if not run:
        return

    def watch() -> None:
        while all(start_time == _read_start_time(pid) for pid, start_time in run.items()):
            time.sleep(_POLL_SECONDS)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True, name="end with run").start()


def is_running(command: str, directory: Path) -> bool:
    """Return whether another process in a directory runs a command.

    Only processes of this host count. Without /proc the result is true.

    Args:
        command: str, the file name of the command, as in `python /usr/bin/COMMAND`.
        directory: working directory of the process.
    """
    # the safe answer where processes cannot be listed
    if not Path("/proc/self/cwd").exists():
        return True
    for process in Path("/proc").glob("[0-9]*"):
        # an argument of this process may have the name, such as that of the directory
        if process.name == str(os.getpid()):
            continue
        # other users' processes are not readable, and a process may end meanwhile
        with contextlib.suppress(OSError):
            arguments = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
            has_command = any(Path(argument).name == command for argument in arguments)
            if has_command and (process / "cwd").resolve() == directory.resolve():
                return True
    return False


def kill_by_environment(variable: str) -> None:
    """Kill all processes that started with a variable, in whatever session they are.

    Without /proc the function has no effect.

    Args:
        variable: name and value, `NAME=value`; the value must be unique to the processes.
    """
    for environment in Path("/proc").glob("[0-9]*/environ"):
        # other users' processes are not readable, and a process may end meanwhile
        with contextlib.suppress(OSError):
            if variable.encode() in environment.read_bytes().split(b"\0"):
                os.kill(int(environment.parent.name), signal.SIGKILL)


def _find_run_processes() -> dict[int, str]:
    """Return ancestors' start times by process id, up to the outermost Snakemake."""
    run_processes: dict[int, str] = {}
    ancestors: dict[int, str] = {}
    pid = os.getppid()
    # a process may end while it is read, and /proc is absent outside Linux
    with contextlib.suppress(OSError, ValueError, IndexError):
        while pid > 1:
            ancestors[pid] = _read_start_time(pid)
            # nested Snakemake processes: the ancestors up to the outermost are watched
            if b"snakemake" in Path(f"/proc/{pid}/cmdline").read_bytes():
                run_processes.update(ancestors)
            pid = int(_read_stat_fields(pid)[1])
    return run_processes


def _read_start_time(pid: int) -> str:
    """Return the start time of a process, or "" if the process has ended.

    With the start time, a process is distinct from a later process with the same id.
    """
    try:
        fields = _read_stat_fields(pid)
    except OSError:
        return ""
    # a zombie has ended, although /proc still lists it
    return "" if fields[0] == "Z" else fields[19]


def _read_stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the command name."""
    # the name is in parentheses and may contain spaces and parentheses
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()


def count_cores() -> int:
    """Return the number of cores that this process may use, or of all cores."""
    # `sched_getaffinity` does not exist on every system
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
