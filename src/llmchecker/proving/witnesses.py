"""Verdicts as witnesses in the exchange format of SV-COMP, version 2.0, which is written in YAML.

A correctness witness holds proven invariants at the lines of their loops, a violation witness the
line that is violated and the values with which its loops are first reached (Ayaziová et al., SPIN
2024). Where the program was written anew to be read, its names and loops need not be those of the
text: then no invariant and no value is claimed.
"""

import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import llmchecker
from llmchecker.files import sha256_of
from llmchecker.programs.expressions import Quantified, Semantics, c_text, walk
from llmchecker.programs.properties import Property
from llmchecker.programs.runs import Failure, Head
from llmchecker.programs.statements import Program
from llmchecker.proving.outcomes import Outcome, Proven, Verification

SPECIFICATIONS = {
    Property.REACH: "CHECK( init(main()), LTL(G ! call(reach_error())) )",
    Property.ASSERT: "CHECK( init(main()), LTL(G assert) )",
    Property.NO_OVERFLOW: "CHECK( init(main()), LTL(G ! overflow) )",
}

_LARGEST_INT = 2**31


def witness(
    program: Program, result: Verification, asked: Property, semantics: Semantics, file: Path
) -> list[Mapping[str, Any]] | None:
    """The entries of a witness for a verdict, ready to be written as YAML.

    Args:
        program: the program.
        result: how its verification ended.
        asked: what was asked of it.
        semantics: what its integers are; the witness says it as the producer's configuration.
        file: its file.

    Returns:
        None if there is no verdict, or if what is violated, or asserted, has no line of its own.
    """
    task = {
        "input_files": [file.name],
        "input_file_hashes": {file.name: sha256_of(file)},
        "specification": SPECIFICATIONS[asked],
        "data_model": "LP64",
        "language": "C",
    }
    if result.outcome is Outcome.VERIFIED:
        lines = {loop.number: loop.line for loop in program.loops}
        stated = () if program.lowered else result.invariants
        content = _invariants(stated, lines, file.name) or _nothing(program, file.name)
        return [_entry("invariant_set", task, semantics, content)] if content else None
    if result.outcome is Outcome.FALSE and result.failure is not None and result.failure.line:
        content = _violation(result.failure, file.name, told=not program.lowered)
        return [_entry("violation_sequence", task, semantics, content)]
    return None


def _entry(
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


def _invariants(
    stated: Sequence[Proven], lines: Mapping[int, int], file: str
) -> list[dict[str, Any]]:
    """Invariants that are C expressions: those with quantifiers are left out."""
    return [
        {
            "invariant": {
                "type": "loop_invariant",
                "location": {"file_name": file, "line": lines[i.loop], "function": "main"},
                "value": c_text(i.expression),
                "format": "c_expression",
            }
        }
        for i in stated
        if not any(isinstance(part, Quantified) for part in walk(i.expression))
    ]


def _nothing(program: Program, file: str) -> list[dict[str, Any]]:
    """What is always true at the first assertion: the format asks for one invariant at least."""
    line = next((assertion.line for assertion in program.assertions if assertion.line), None)
    if line is None:
        return []
    location = {"file_name": file, "line": line}
    said = {"type": "location_invariant", "location": location, "value": "1"}
    return [{"invariant": {**said, "format": "c_expression"}}]


def _violation(failure: Failure, file: str, told: bool) -> list[dict[str, Any]]:
    """A segment for each loop that is reached, with the values there, and one for the violation."""
    waypoints = []
    seen: set[int] = set()
    for event in failure.trace if told else ():
        if isinstance(event, Head) and event.line not in seen:
            seen.add(event.line)
            small = {n: v for n, v in event.values.items() if abs(v) < _LARGEST_INT}
            if small:
                value = " && ".join(f"{name} == {number}" for name, number in small.items())
                constraint = {"value": value, "format": "c_expression"}
                waypoints.append(_waypoint("assumption", event.line, file, constraint))
    waypoints.append(_waypoint("target", failure.line, file))
    return [{"segment": [waypoint]} for waypoint in waypoints]


def _waypoint(
    kind: str, line: int, file: str, constraint: dict[str, str] | None = None
) -> dict[str, Any]:
    waypoint: dict[str, Any] = {"type": kind, "action": "follow"}
    if constraint is not None:
        waypoint["constraint"] = constraint
    waypoint["location"] = {"file_name": file, "line": line}
    return {"waypoint": waypoint}
