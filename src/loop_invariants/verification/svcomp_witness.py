"""Witnesses of verdicts in the SV-COMP exchange format 2.0 (YAML).

A correctness witness contains proven invariants at the lines of their loops. A violation witness
contains the line of the violation and the values at the first visit of each loop
(Ayaziová et al., SPIN 2024). A lowered program may have other names and loops than its text, so its
witness contains no invariants and no values.
"""

import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import llmchecker
from llmchecker.utils.atomic_files import compute_sha256
from loop_invariants.interpreter.simulation import Failure, HeadState
from loop_invariants.ir.expressions import Quantified, Semantics, format_c, iter_subexpressions
from loop_invariants.ir.instrumentation import Property
from loop_invariants.ir.statements import Program
from loop_invariants.verification.result import Outcome, ProvenInvariant, VerificationResult

_SPECIFICATIONS = {
    Property.REACH: "CHECK( init(main()), LTL(G ! call(reach_error())) )",
    Property.ASSERT: "CHECK( init(main()), LTL(G assert) )",
    Property.NO_OVERFLOW: "CHECK( init(main()), LTL(G ! overflow) )",
}

_MAX_MAGNITUDE = 2**31


def build_witness(
    program: Program,
    result: VerificationResult,
    property_: Property,
    semantics: Semantics,
    file: Path,
) -> list[Mapping[str, Any]] | None:
    """Build the entries of a witness for a verdict, in the structure of its YAML file.

    Args:
        program: the program.
        result: the result of its verification.
        property_: the verified property.
        semantics: the semantics of the program's integers, for the producer's configuration.
        file: the program's file.

    Returns:
        The entries; None without a verdict, or if the violation or assertion has no line.
    """
    task = {
        "input_files": [file.name],
        "input_file_hashes": {file.name: compute_sha256(file)},
        "specification": _SPECIFICATIONS[property_],
        "data_model": "LP64",
        "language": "C",
    }
    if result.outcome is Outcome.VERIFIED:
        lines = {loop.number: loop.line for loop in program.loops}
        # The expressions of a lowered program need not exist in its text.
        invariants = () if program.is_lowered else result.invariants
        # The format needs at least one invariant.
        content = _build_invariant_entries(
            invariants, lines, file.name
        ) or _build_trivial_invariant(program, file.name)
        return [_build_entry("invariant_set", task, semantics, content)] if content else None
    if result.outcome is Outcome.FALSE and result.failure is not None and result.failure.line:
        # A violation without a line, such as a range check, has no place for its target.
        content = _build_violation(result.failure, file.name, has_values=not program.is_lowered)
        return [_build_entry("violation_sequence", task, semantics, content)]
    return None


def _build_entry(
    kind: str, task: dict[str, Any], semantics: Semantics, content: list[dict[str, Any]]
) -> dict[str, Any]:
    metadata = {
        "format_version": "2.0",
        "uuid": str(uuid.uuid4()),
        "creation_time": datetime.now(UTC).isoformat(timespec="seconds"),
        "producer": {
            "name": "LLMChecker",
            "version": llmchecker.__version__,
            "configuration": f"semantics {semantics}",
        },
        "task": task,
    }
    return {"entry_type": kind, "metadata": metadata, "content": content}


def _build_invariant_entries(
    invariants: Sequence[ProvenInvariant], lines: Mapping[int, int], file: str
) -> list[dict[str, Any]]:
    """Build the entries of the invariants without quantifiers."""
    return [
        {
            "invariant": {
                "type": "loop_invariant",
                "location": {"file_name": file, "line": lines[i.loop], "function": "main"},
                "value": format_c(i.expression),
                "format": "c_expression",
            }
        }
        for i in invariants
        if not any(isinstance(part, Quantified) for part in iter_subexpressions(i.expression))
    ]


def _build_trivial_invariant(program: Program, file: str) -> list[dict[str, Any]]:
    """Build an invariant that is always true, at the first assertion with a line."""
    line = next((assertion.line for assertion in program.assertions if assertion.line), None)
    if line is None:
        return []
    location = {"file_name": file, "line": line}
    invariant = {"type": "location_invariant", "location": location, "value": "1"}
    return [{"invariant": {**invariant, "format": "c_expression"}}]


def _build_violation(failure: Failure, file: str, has_values: bool) -> list[dict[str, Any]]:
    """Build a segment for the first visit of each loop, and for the violation."""
    waypoints = []
    visited_lines: set[int] = set()
    for event in failure.trace if has_values else ():
        # One waypoint for each loop suffices to guide a validator to its first visit.
        if isinstance(event, HeadState) and event.line not in visited_lines:
            visited_lines.add(event.line)
            small_values = {n: v for n, v in event.values.items() if abs(v) < _MAX_MAGNITUDE}
            if small_values:
                value = " && ".join(f"{name} == {number}" for name, number in small_values.items())
                constraint = {"value": value, "format": "c_expression"}
                waypoints.append(_build_waypoint("assumption", event.line, file, constraint))
    waypoints.append(_build_waypoint("target", failure.line, file))
    return [{"segment": [waypoint]} for waypoint in waypoints]


def _build_waypoint(
    kind: str, line: int, file: str, constraint: dict[str, str] | None = None
) -> dict[str, Any]:
    waypoint: dict[str, Any] = {"type": kind, "action": "follow"}
    if constraint is not None:
        waypoint["constraint"] = constraint
    waypoint["location"] = {"file_name": file, "line": line}
    return {"waypoint": waypoint}
