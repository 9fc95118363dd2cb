"""Verifiers that run as commands: their common interface, and their limits.

A tool is an adapter of one class, in the fashion of BenchExec's tool modules: its name, its
command, and the meaning of its output. `run_tool` runs it on a C text in an empty directory, with
limits of processor time, clock, memory and disk.
"""

import contextlib
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from llmchecker.errors import MissingTool
from llmchecker.utils.processes import DieWithParent, kill_by_environment
from loop_invariants.ir.expressions import Semantics
from loop_invariants.ir.instrumentation import Property
from loop_invariants.verification.result import Limit

MAX_MEMORY_GB = 2
"""Memory limit of a tool, in gigabytes."""

_MAX_MEMORY_BYTES = MAX_MEMORY_GB << 30

_MAX_CLOCK_FACTOR = 5
"""Wall-clock limit as a multiple of the processor time, for machines under load."""

_MAX_DISK_BYTES = 1 << 28
"""Maximum size of a run's output and files together."""

_POLL_SECONDS = 0.2
"""Interval in seconds at which the size of a run's files is measured."""

_MAX_MESSAGE_CHARACTERS = 300

# RLIMIT_CPU sends SIGXCPU at the soft limit and SIGKILL at the hard limit.
_TIMEOUT_CODES = (-signal.SIGXCPU, -signal.SIGKILL, 128 + signal.SIGXCPU)

BODYLESS_PREFIX = "llmchecker_nondet_"
"""Prefix of the functions that return any value, since they have no body."""

INPUT_VARIABLE = "llmchecker_input"
"""Variable whose assignments in a trace are the inputs of a run."""


class ToolAnswer(StrEnum):
    """The kind of a tool's verdict."""

    SUCCESSFUL = "successful"
    FAILED = "failed"
    UNKNOWN = "unknown"
    TIMEOUT = "timeout"
    ERROR = "error"


@dataclass(frozen=True)
class ToolInputs:
    """The inputs of a run that a tool reports as a violation.

    Attributes:
        values: results of the input functions, in order.
        variables: first values of variables, by name; some are uninitialized in the text.
    """

    values: tuple[int, ...] = ()
    variables: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ToolVerdict:
    """A verdict of a tool.

    Attributes:
        answer: the kind of verdict.
        seconds: wall-clock seconds of the run.
        message: the reported verdict, the last reported error, or the lacking resource.
        limits: the limits that ended the run without a result.
        violation: description of the violated property; empty without a violation.
        is_incomplete: whether the violated property is an unwinding assertion, so that the run is
            longer than the depth.
        inputs: inputs of the violating run; None if the output has none.
        missing_functions: called functions that have no body.
    """

    answer: ToolAnswer
    seconds: float
    message: str
    limits: tuple[Limit, ...] = ()
    violation: str = ""
    is_incomplete: bool = False
    inputs: ToolInputs | None = None
    missing_functions: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ToolTask:
    """A task for a tool: the property to check to a depth.

    Attributes:
        semantics: semantics of the integers.
        required_property: property to check.
        depth: greatest number of iterations of each loop; None without a bound.
        has_unwinding_assertions: whether a longer run is reported, and not ignored.
        has_range_checks: whether indices, pointers and divisors are checked.
        has_overflow_checks: whether overflow and shifts are checked too.
        has_trace: whether the trace of a violation must contain every input.
    """

    semantics: Semantics = Semantics.INT32
    required_property: Property = Property.ASSERT
    depth: int | None = None
    has_unwinding_assertions: bool = True
    has_range_checks: bool = False
    has_overflow_checks: bool = False
    has_trace: bool = False


class Tool(ABC):
    """A verifier of C texts that runs as a command.

    Attributes:
        name: name in tables and messages.
        variable: environment variable that names the binary.
        assertion: C statement that reports a violation if its `{}` is false.
        assumption: C statement that ends the run if its `{}` is false.
        builtins: further functions of benchmarks that the tool declares itself.
        time_limit: the limit that a run exceeds which takes too long.
    """

    name: ClassVar[str]
    variable: ClassVar[str]
    assertion: ClassVar[str]
    assumption: ClassVar[str]
    builtins: ClassVar[frozenset[str]] = frozenset()
    time_limit: ClassVar[Limit] = Limit.TOOL_TIME

    @abstractmethod
    def build_options(self, task: ToolTask) -> list[str]:
        """Build the options of a task, without the files."""

    @abstractmethod
    def parse_output(self, output: str) -> ToolVerdict:
        """Parse the output of a run into a verdict of 0 seconds."""

    @property
    def installation(self) -> str:
        """How to install the tool, for messages."""
        return f"install {self.name}, or name it in the environment variable {self.variable}"

    def find_packaged_binary(self) -> str | None:
        """Return the binary of an installed Python package; None without one."""
        return None

    def find_binary(self) -> Path:
        """Find the binary: the environment variable, a Python package, then PATH.

        Raises:
            MissingTool: the tool is at none of these places.
        """
        named = os.environ.get(self.variable)
        binary = named or self.find_packaged_binary() or shutil.which(self.name.lower())
        if not binary or not Path(binary).is_file():
            place = f"not at {binary}" if binary else "not installed"
            raise MissingTool(f"{self.name}: {place}; {self.installation}")
        return Path(binary)

    @property
    def is_installed(self) -> bool:
        """Whether the binary is found."""
        try:
            self.find_binary()
        except MissingTool:
            return False
        return True

    def read_version(self) -> str:
        """Return the version that the tool reports.

        Raises:
            MissingTool: the tool is not installed.
        """
        process = subprocess.run(
            [self.find_binary(), "--version"], capture_output=True, text=True, check=False
        )
        match = re.search(r"\d+(?:\.\d+)+", process.stdout)
        return match.group() if match else "unknown"


def run_tool(
    tool: Tool,
    source: str,
    options: list[str],
    seconds: float,
    harness: str = "",
    sibling_files: Mapping[str, str] = MappingProxyType({}),
) -> ToolVerdict:
    """Run a tool on a C text.

    Args:
        tool: the tool.
        source: the C text.
        options: options of the command.
        seconds: maximum processor seconds.
        harness: a second C text, with definitions of functions; empty without one.
        sibling_files: texts of the headers in the same folder, by name.

    Raises:
        MissingTool: the tool is not installed.
    """
    start_time = time.monotonic()
    binary = str(tool.find_binary())
    with tempfile.TemporaryDirectory(prefix="llmchecker-") as folder:
        files = {**sibling_files, "program.c": source}
        if harness:
            files["llmchecker_harness.c"] = harness
        for name, text in files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        names = [name for name in ("program.c", "llmchecker_harness.c") if name in files]
        run = _run_command([binary, *names, *options], folder, seconds, tool.time_limit)
    elapsed = time.monotonic() - start_time
    if run.limit is not None:
        return ToolVerdict(ToolAnswer.TIMEOUT, elapsed, "", (run.limit,))
    if run.problem:
        return ToolVerdict(ToolAnswer.ERROR, elapsed, run.problem)
    verdict = tool.parse_output(run.output)
    if verdict.answer is ToolAnswer.ERROR and not verdict.message:
        verdict = replace(verdict, message=f"no output; exit status {run.status}")
    missing = {n for n in verdict.missing_functions if not n.startswith(BODYLESS_PREFIX)}
    return replace(verdict, seconds=elapsed, missing_functions=frozenset(missing))


@dataclass(frozen=True)
class _ToolLimits(DieWithParent):
    """Preparation of a child process: it ends with its parent, and has limits."""

    seconds: float = 0.0

    def __call__(self) -> None:
        super().__call__()
        whole_seconds = max(1, round(self.seconds))  # the system counts whole seconds
        # A second later SIGKILL ends a process that ignores SIGXCPU.
        resource.setrlimit(resource.RLIMIT_CPU, (whole_seconds, whole_seconds + 1))
        resource.setrlimit(resource.RLIMIT_FSIZE, (_MAX_DISK_BYTES, _MAX_DISK_BYTES))
        resource.setrlimit(resource.RLIMIT_DATA, (_MAX_MEMORY_BYTES, _MAX_MEMORY_BYTES))


@dataclass(frozen=True)
class _Run:
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


def _run_command(command: list[str], folder: str, seconds: float, time_limit: Limit) -> _Run:
    """Run a command in a folder, which contains its output and its temporary files.

    The command and all its child processes are killed at its end, and also if an exception
    interrupts the wait.

    Args:
        command: the command.
        folder: directory in which it runs.
        seconds: maximum processor seconds.
        time_limit: the limit to return if the processor seconds are exceeded.
    """
    output_path = Path(folder) / "llmchecker_output"
    # A file, because a pipe stays open as long as any child process of the command.
    with output_path.open("wb") as output:
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env={**os.environ, "TMPDIR": folder},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a process group of its own, to end all of it
                preexec_fn=_ToolLimits(seconds=seconds),
            )
        except OSError as error:
            return _Run(problem=f"{command[0]} cannot be started: {error.strerror}")
    try:
        run = _wait(process, folder, _MAX_CLOCK_FACTOR * seconds)
    finally:
        # An interrupt with Ctrl-C does not reach the command's own session.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        kill_by_environment(f"TMPDIR={folder}")
        process.wait()
    if run.problem or run.limit is not None:
        return run
    if run.status in _TIMEOUT_CODES:
        return replace(run, limit=time_limit)
    return replace(run, output=output_path.read_text(encoding="utf-8", errors="replace"))


def _wait(process: subprocess.Popen, folder: str, max_clock_seconds: float) -> _Run:
    """Wait for the end of a process, up to the limits of clock and disk."""
    full_disk = _Run(problem=f"output and files of more than {_MAX_DISK_BYTES >> 20} MB")
    deadline = time.monotonic() + max_clock_seconds
    while True:
        try:
            status = process.wait(_POLL_SECONDS)
        except subprocess.TimeoutExpired:
            if _measure_folder(folder) > _MAX_DISK_BYTES:
                return full_disk
            if time.monotonic() > deadline:
                return _Run(limit=Limit.CLOCK)
        else:
            return full_disk if _measure_folder(folder) >= _MAX_DISK_BYTES else _Run(status=status)


def _measure_folder(folder: str) -> int:
    """Return the size of a folder's files in bytes."""
    size = 0
    for file in Path(folder).rglob("*"):
        # A temporary file may be deleted at any time.
        with contextlib.suppress(OSError):
            size += file.lstat().st_size
    return size


def find_last_error(output: str) -> str:
    """Return the last line of an output that names an error, else the last, shortened."""
    # The banner may come last, since a tool writes it to a different stream than errors.
    lines = [line for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or [""])[-1][:_MAX_MESSAGE_CHARACTERS]
