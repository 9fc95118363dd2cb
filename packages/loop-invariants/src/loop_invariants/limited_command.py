"""A command with limits of processor time, clock, memory and disk, in an empty folder."""

import contextlib
import math
import os
import resource
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from llmchecker.utils.processes import DieWithParent, kill_by_environment
from loop_invariants.limits import Limit, find_remaining_seconds

MAX_MEMORY_GB = 2
"""Memory limit of a command, in gigabytes."""

_MAX_MEMORY_BYTES = MAX_MEMORY_GB << 30

_MAX_CLOCK_FACTOR = 5
"""Wall-clock limit as a multiple of the processor time, for machines under load."""

_MIN_CLOCK_SECONDS = 2.0
"""Wall-clock seconds of a command that starts when the limit of its program is near."""

_MAX_DISK_BYTES = 1 << 28
"""Maximum size of a run's output and files together."""

_POLL_SECONDS = 0.2
"""Interval in seconds at which the size of a run's files is measured."""

# RLIMIT_CPU sends SIGXCPU at the soft limit and SIGKILL at the hard limit.
_TIMEOUT_CODES = (-signal.SIGXCPU, -signal.SIGKILL, 128 + signal.SIGXCPU)


@dataclass(frozen=True)
class _CommandLimits(DieWithParent):
    """Preparation of a child process: it ends with its parent, and has limits."""

    seconds: float = 0.0
    max_bytes: int = _MAX_DISK_BYTES
    has_memory_limit: bool = True

    def __call__(self) -> None:
        super().__call__()
        whole_seconds = max(1, math.ceil(self.seconds))  # the system counts whole seconds
        # A second later SIGKILL ends a process that ignores SIGXCPU.
        resource.setrlimit(resource.RLIMIT_CPU, (whole_seconds, whole_seconds + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.max_bytes, self.max_bytes))
        if self.has_memory_limit:
            resource.setrlimit(resource.RLIMIT_DATA, (_MAX_MEMORY_BYTES, _MAX_MEMORY_BYTES))


@dataclass(frozen=True)
class CommandRun:
    """A run of a command that has ended.

    Attributes:
        output: standard output and standard error.
        status: exit status.
        limit: the time limit that ended it; None otherwise.
        problem: reason why it has no output; empty otherwise.
    """

    output: str = ""
    status: int = 0
    limit: Limit | None = None
    problem: str = ""


def run_command(
    command: list[str],
    folder: str,
    seconds: float,
    sanitizer_options: Mapping[str, str] | None = None,
    max_bytes: int | None = None,
) -> CommandRun:
    """Run a command in a folder, which contains its output and its temporary files.

    The command and all its child processes are killed at its end, and also if an exception
    interrupts the wait.

    Args:
        command: the command.
        folder: directory in which it runs.
        seconds: maximum processor seconds.
        sanitizer_options: the environment of a program with sanitizers, which reserve more memory
            than its limit. Only its reports are read, and no variable of this process is passed.
        max_bytes: maximum size of its output and files together, if less than that of all commands.
    """
    max_bytes = max_bytes or _MAX_DISK_BYTES
    has_sanitizers = sanitizer_options is not None
    output_path = Path(folder) / "llmchecker_output"
    # A file, because a pipe stays open as long as any child process of the command.
    with output_path.open("wb") as output:
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                # Messages are read in English.
                env={**(sanitizer_options or os.environ), "TMPDIR": folder, "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL if has_sanitizers else output,
                stderr=output,
                start_new_session=True,  # a process group of its own, to end all of it
                preexec_fn=_CommandLimits(
                    seconds=seconds, max_bytes=max_bytes, has_memory_limit=not has_sanitizers
                ),
            )
        except OSError as error:
            return CommandRun(problem=f"{command[0]} cannot be started: {error.strerror}")
    try:
        clock_seconds = max(_MIN_CLOCK_SECONDS, find_remaining_seconds())
        run = _wait(process, folder, min(_MAX_CLOCK_FACTOR * seconds, clock_seconds), max_bytes)
    finally:
        # An interrupt with Ctrl-C does not reach the command's own session.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        kill_by_environment(f"TMPDIR={folder}")
        process.wait()
    if run.problem or run.limit is not None:
        return run
    if run.status in _TIMEOUT_CODES:
        return replace(run, limit=Limit.ESBMC_TIME)
    return replace(run, output=output_path.read_text(encoding="utf-8", errors="replace"))


def _wait(
    process: subprocess.Popen[bytes], folder: str, max_clock_seconds: float, max_bytes: int
) -> CommandRun:
    """Wait for the end of a process, up to the limits of clock and disk."""
    full_disk = CommandRun(problem=f"output and files of more than {max_bytes >> 20} MB")
    deadline = time.monotonic() + max_clock_seconds
    while True:
        try:
            status = process.wait(_POLL_SECONDS)
        except subprocess.TimeoutExpired:
            if _measure_folder(folder) > max_bytes:
                return full_disk
            if time.monotonic() > deadline:
                return CommandRun(limit=Limit.CLOCK)
        else:
            is_full = _measure_folder(folder) >= max_bytes
            return full_disk if is_full else CommandRun(status=status)


def _measure_folder(folder: str) -> int:
    """Return the size of a folder's files in bytes."""
    size = 0
    for file in Path(folder).rglob("*"):
        # A temporary file may be deleted at any time.
        with contextlib.suppress(OSError):
            size += file.lstat().st_size
    return size
