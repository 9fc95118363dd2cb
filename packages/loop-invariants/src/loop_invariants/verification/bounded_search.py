"""Bounded search by ESBMC on the original text, with a rising depth.

Each depth is checked with unwinding assertions. If they hold, no run is longer than the depth, and
the search ends. Otherwise the depth is checked without them, so that only a violation of the
property can fail. The next depth is twice as large.
"""

import time
from dataclasses import dataclass, replace

from loop_invariants.frontend.original_text import OriginalText
from loop_invariants.ir.expressions import Semantics
from loop_invariants.ir.instrumentation import Property
from loop_invariants.limits import Limit
from loop_invariants.verification.esbmc import (
    EsbmcAnswer,
    EsbmcTask,
    EsbmcVerdict,
    RunInputs,
    build_options,
    run_text,
)
from loop_invariants.verification.harness import build_harness

_FIRST_DEPTH = 2
_MAX_DEPTH = 4096

_MIN_SECONDS = 1.0
"""Minimum processor seconds of a run: the system counts whole seconds."""


@dataclass(frozen=True)
class SearchResult:
    """The result of a bounded search.

    Attributes:
        depth: greatest depth without a violation; 0 without one.
        is_complete: whether the unwinding assertions held at this depth: no run is longer.
        violation: description of the violation that ESBMC reports; empty without one.
        inputs: inputs of the violating run; None without a violation.
        problem: reason why the search ended without a result; empty with one.
        limits: the limits that ended the search.
        seconds: wall-clock seconds of the search.
    """

    depth: int = 0
    is_complete: bool = False
    violation: str = ""
    inputs: RunInputs | None = None
    problem: str = ""
    limits: tuple[Limit, ...] = ()
    seconds: float = 0.0


class BoundedSearch:
    """A bounded search on one original text."""

    def __init__(self, text: OriginalText, semantics: Semantics) -> None:
        self._text = text
        self._source, self._harness = text.marked_source, build_harness(text)
        self._task = EsbmcTask(
            semantics,
            text.required_property,
            # Under the other properties, a range violation ends the run and is no violation.
            has_range_checks=text.required_property is Property.ASSERT,
        )

    def search(self, seconds: float, max_depth: int = _MAX_DEPTH) -> SearchResult:
        """Search with a rising depth, until a result or a limit.

        Args:
            seconds: maximum processor seconds.
            max_depth: maximum depth.

        Raises:
            MissingTool: ESBMC is not installed.
        """
        start_time = time.monotonic()
        self._deadline = start_time + seconds
        result = SearchResult()
        depth = _FIRST_DEPTH
        while depth <= max_depth and not result.problem:
            result = self._search_depth(depth, result)
            if result.is_complete or result.violation:
                break
            depth *= 2
        return replace(result, seconds=time.monotonic() - start_time)

    def _search_depth(self, depth: int, previous: SearchResult) -> SearchResult:
        """Check one depth; a failure without a result keeps the previous depth."""
        task = replace(self._task, depth=depth)
        verdict = self._run(task)
        is_complete = verdict.answer is EsbmcAnswer.SUCCESSFUL
        if verdict.is_incomplete:
            # The violation of an unwinding assertion hides those of the property.
            verdict = self._run(replace(task, has_unwinding_assertions=False))
        if verdict.answer is EsbmcAnswer.SUCCESSFUL:
            return SearchResult(depth, is_complete)
        if verdict.answer is EsbmcAnswer.FAILED:
            traced = self._run(replace(task, has_unwinding_assertions=False, has_trace=True))
            inputs = traced.inputs or verdict.inputs or RunInputs()
            return replace(previous, violation=verdict.violation or "a violation", inputs=inputs)
        is_late = verdict.answer is EsbmcAnswer.TIMEOUT
        problem = "its time limit" if is_late else verdict.message or "an error"
        return replace(previous, problem=problem, limits=verdict.limits)

    def _run(self, task: EsbmcTask) -> EsbmcVerdict:
        # A time limit is reported by ESBMC, so that even a late run starts.
        seconds = max(_MIN_SECONDS, self._deadline - time.monotonic())
        return run_text(
            self._source,
            build_options(task),
            seconds,
            self._harness,
            self._text.sibling_files,
        )
