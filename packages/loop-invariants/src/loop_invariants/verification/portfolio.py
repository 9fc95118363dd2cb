"""The engines for one file: symbolic execution, the prover, compiled runs and ESBMC.

Over machine integers the original text is executed symbolically first: if all its runs end without
a violation, the program is verified. Then compiled runs of the original text search a violation.
The prover decides programs whose runs have no bound. Compiled runs and ESBMC search once more where
it has no verdict, or where the frontend does not cover the text. Their violations count if a run
confirms them. ESBMC's complete search without a violation has a weaker word: it chooses one
meaning where C leaves several.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from llmchecker.errors import UnsupportedProgram
from loop_invariants.execution.execution import ExecutionResult, execute
from loop_invariants.frontend.error_names import ErrorNames
from loop_invariants.frontend.original_text import OriginalText, read_original_text
from loop_invariants.frontend.translation_unit import SV_COMP, read_program
from loop_invariants.ir.expressions import Expression, Semantics
from loop_invariants.ir.instrumentation import Property
from loop_invariants.ir.statements import Program
from loop_invariants.limits import find_remaining_seconds, wall_limit
from loop_invariants.verification.bounded_search import BoundedSearch
from loop_invariants.verification.compiled_runs import is_replayable, replay_with_gcc
from loop_invariants.verification.esbmc import RunInputs
from loop_invariants.verification.given_invariants import GivenInvariant, build_given_candidates
from loop_invariants.verification.result import (
    BUILTIN_SOURCES,
    CandidateSource,
    Outcome,
    VerificationResult,
    format_no_assertion,
)
from loop_invariants.verification.verifier import VerificationLimits, Verifier
from loop_invariants.verification.violations import (
    build_false,
    confirm_violation,
    find_original_violation,
    find_violation,
)

_PROOF_TIME_SHARE = 0.7
"""Share of the seconds for the proof, so that time is left for the search."""

_EXECUTION_SHARE = 0.3
"""Share of the seconds for the symbolic execution."""

_EXECUTION_SECONDS = 6.0
"""Maximum seconds of the symbolic execution, so that a proof of an unbounded loop soon begins."""

_ORIGINAL_RUNS_SECONDS = 0.5
"""Maximum processor seconds of compiled runs of the original text before the proof."""

_RUNS_SHARE = 0.15
"""Share of the seconds for compiled runs."""

_OPEN_OUTCOMES = frozenset(
    (
        Outcome.NOT_PROVEN,
        Outcome.NO_CANDIDATE,
        Outcome.PROVER_TIMEOUT,
        Outcome.ESBMC_TIMEOUT,
        Outcome.ESBMC_ERROR,
        Outcome.UNSUPPORTED,
    )
)
"""The outcomes of the prover that a search may decide."""


@dataclass(frozen=True)
class FileTask:
    """The verification of files: what must hold, and how long it may take.

    Attributes:
        semantics: semantics of the integers.
        required_property: property to prove.
        error_names: further names of errors.
        seconds: wall-clock seconds for each file.
        sources: the enabled sources of candidates within this package.
        invariants: invariants that a person gives; with any, only a proof by invariants counts.
        sampled: candidates of a language model for the loops of each file, by number of the loop.
    """

    semantics: Semantics
    required_property: Property = Property.ASSERT
    error_names: ErrorNames = SV_COMP
    seconds: float = 60.0
    sources: Sequence[CandidateSource] = BUILTIN_SOURCES
    invariants: Sequence[GivenInvariant] = ()
    sampled: Mapping[Path, Mapping[int, Sequence[Expression]]] = field(default_factory=dict)


def verify_file(path: Path, task: FileTask) -> VerificationResult:
    """Verify a C file with all engines.

    Raises:
        UnreadableProgram: the file cannot be read, or is not C.
        MissingTool: ESBMC is not installed.
        ConfigError: a given invariant names no loop, or is no condition on its variables.
    """
    with wall_limit(task.seconds):
        return _verify_in_time(path, task)


def _verify_in_time(path: Path, task: FileTask) -> VerificationResult:
    start_time = time.monotonic()
    text = read_original_text(path, task.required_property, task.error_names)
    can_execute = text is not None and not text.is_annotated and not task.invariants
    execution = ExecutionResult()
    if text is not None and can_execute and task.semantics is Semantics.INT32:
        execution = _execute(text, task)
        found = _search_original(text, task, execution)
        if found is not None:
            return replace(found, seconds=time.monotonic() - start_time)
    program: Program | None = None
    try:
        program = read_program(path, task.required_property, task.error_names)
    except UnsupportedProgram as error:
        message = f"{error}; {execution.problem}" if execution.problem else str(error)
        result = VerificationResult(Outcome.UNSUPPORTED, message=message)
    else:
        remaining_seconds = max(1.0, find_remaining_seconds())
        limits = VerificationLimits(seconds=remaining_seconds * _PROOF_TIME_SHARE)
        verifier = Verifier(program, task.semantics, limits, text)
        proposals = {
            CandidateSource.GIVEN: build_given_candidates(program, task.invariants),
            CandidateSource.SAMPLED: task.sampled.get(path, {}),
        }
        result = verifier.verify(proposals, builtin_sources=task.sources)
    if (
        text is not None
        and result.outcome in _OPEN_OUTCOMES
        and _is_searchable(text, task, program)
    ):
        seconds = max(1.0, find_remaining_seconds())
        violation = find_violation(text, task.semantics, program, _RUNS_SHARE * task.seconds)
        searched = violation or _search(result, text, task, program, seconds)
        # An execution with a violation outweighs: ESBMC reads a `volatile` variable as any other.
        if searched.outcome is not Outcome.SAFE_BY_ESBMC or not execution.kind:
            result = searched
    return replace(result, seconds=time.monotonic() - start_time)


def _execute(text: OriginalText, task: FileTask) -> ExecutionResult:
    """Execute a text symbolically; the problem of the result names the search."""
    execution = execute(
        text.source,
        text.name,
        task.required_property,
        task.error_names,
        text.sibling_files,
        min(_EXECUTION_SECONDS, task.seconds * _EXECUTION_SHARE),
    )
    problem = execution.problem
    if execution.kind:
        problem = f"line {execution.line}: no run confirms the violation ({execution.kind})"
    return replace(execution, problem=f"the search of all runs: {problem}" if problem else "")


def _search_original(
    text: OriginalText, task: FileTask, execution: ExecutionResult
) -> VerificationResult | None:
    """Return the result of an execution or of compiled runs; None without a verdict."""
    if execution.kind:
        violation = replay_with_gcc(text, RunInputs(execution.inputs))
        if violation is not None:
            is_same = violation.kind == execution.kind and not violation.line
            line = execution.line if is_same else violation.line
            return build_false(text, replace(violation, line=line))
    # The compiled text also checks the reading of the text by the execution.
    seconds = min(_ORIGINAL_RUNS_SECONDS, task.seconds * _RUNS_SHARE)
    found = find_original_violation(text, seconds)
    if found is not None:
        return found
    if not execution.is_complete:
        return None
    if not text.has_property:
        return VerificationResult(Outcome.NO_ASSERTION, message=format_no_assertion(text.name))
    return VerificationResult(
        Outcome.VERIFIED, is_exhaustive=True, assumptions=execution.assumptions
    )


def _is_searchable(text: OriginalText, task: FileTask, program: Program | None) -> bool:
    """Return whether a search of the text can end with a confirmed violation."""
    # No C verifier reads annotations of ACSL.
    if text.is_annotated:
        return False
    # Without a program, only a compiled run confirms a violation, and only over machine integers.
    return program is not None or (task.semantics is Semantics.INT32 and is_replayable(text))


def _search(
    result: VerificationResult,
    text: OriginalText,
    task: FileTask,
    program: Program | None,
    seconds: float,
) -> VerificationResult:
    """Return the result of a search, or the prover's result if it has no verdict."""
    found = BoundedSearch(text, task.semantics).search(seconds)
    if found.violation:
        confirmed = confirm_violation(text, found, task.semantics, program)
        return confirmed if confirmed.outcome is Outcome.FALSE else result
    if found.is_complete and task.semantics is Semantics.INT32 and text.has_property:
        message = f"all runs searched by ESBMC alone; {result.message}"
        return replace(result, outcome=Outcome.SAFE_BY_ESBMC, message=message)
    return replace(result, searched_depth=found.depth or None)
