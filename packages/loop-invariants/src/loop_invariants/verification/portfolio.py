"""The engines for one file: the prover, then compiled runs and ESBMC on the original text.

The last two begin where the prover has no verdict, or where the frontend does not cover the text.
They find violations only, which count if a run confirms them. A search without a violation proves
nothing, even if it is complete: ESBMC chooses one meaning where C leaves several.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from llmchecker.errors import UnsupportedProgram
from loop_invariants.frontend.error_names import ErrorNames
from loop_invariants.frontend.original_text import OriginalText, read_original_text
from loop_invariants.frontend.translation_unit import SV_COMP, read_program
from loop_invariants.ir.expressions import Semantics
from loop_invariants.ir.instrumentation import Property
from loop_invariants.ir.statements import Program
from loop_invariants.verification.bounded_search import BoundedSearch
from loop_invariants.verification.compiled_runs import is_replayable
from loop_invariants.verification.result import (
    BUILTIN_SOURCES,
    CandidateSource,
    Outcome,
    VerificationResult,
)
from loop_invariants.verification.verifier import VerificationLimits, Verifier
from loop_invariants.verification.violations import confirm_violation, find_violation

_PROOF_TIME_SHARE = 0.7
"""Share of the seconds for the proof, so that time is left for the search."""

_MIN_SEARCH_SHARE = 0.3
"""Minimum share of the seconds for the search."""

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
        seconds: processor seconds for each file.
        sources: the enabled sources of candidates within this package.
    """

    semantics: Semantics
    required_property: Property = Property.ASSERT
    error_names: ErrorNames = SV_COMP
    seconds: float = 60.0
    sources: Sequence[CandidateSource] = BUILTIN_SOURCES


def verify_file(path: Path, task: FileTask) -> VerificationResult:
    """Verify a C file with both engines.

    Raises:
        UnreadableProgram: the file cannot be read, or is not C.
        MissingTool: ESBMC is not installed.
    """
    start_time = time.monotonic()
    text = read_original_text(path, task.required_property, task.error_names)
    program: Program | None = None
    try:
        program = read_program(path, task.required_property, task.error_names)
    except UnsupportedProgram as error:
        result = VerificationResult(Outcome.UNSUPPORTED, message=str(error))
    else:
        limits = VerificationLimits(seconds=task.seconds * _PROOF_TIME_SHARE)
        verifier = Verifier(program, task.semantics, limits, text)
        result = verifier.verify({}, builtin_sources=task.sources)
    if (
        text is not None
        and result.outcome in _OPEN_OUTCOMES
        and _is_searchable(text, task, program)
    ):
        seconds = max(task.seconds * _MIN_SEARCH_SHARE, task.seconds - result.seconds)
        violation = find_violation(text, task.semantics, program, _RUNS_SHARE * task.seconds)
        result = violation or _search(result, text, task, program, seconds)
    return replace(result, seconds=time.monotonic() - start_time)


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
    return replace(result, searched_depth=found.depth or None)
