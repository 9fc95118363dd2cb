"""Invariants of a proof as a correctness witness, which other verifiers check.

Format 2.0 of the witnesses of SV-COMP (Ayaziová, Beyer, Lingsch-Rosenfeld, Spiessl, Strejček:
"Software Verification Witnesses 2.0", SPIN 2024): an `invariant_set` in YAML.
"""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from llmchecker import __version__
from llmchecker.utils.atomic_files import atomic_write, compute_sha256
from loop_invariants.ir.expressions import Expression, Quantified, Semantics, iter_subexpressions
from loop_invariants.ir.instrumentation import Property
from loop_invariants.verification.portfolio import FileTask
from loop_invariants.verification.result import Outcome, ProvenInvariant, VerificationResult

_SPECIFICATIONS = {
    Property.ASSERT: "G assert",
    Property.REACH: "G ! call(reach_error())",
    Property.NO_OVERFLOW: "G ! overflow",
}
"""Temporal formula of each property, in the words of SV-COMP."""


def explain_no_witness(task: FileTask, result: VerificationResult) -> str | None:
    """Return why a result has no witness; None if it has one.

    Args:
        task: what was verified.
        result: the result.
    """
    if result.outcome is not Outcome.VERIFIED:
        return f"the outcome is {result.outcome}, and a witness needs a proof"
    if task.semantics is not Semantics.INT32:
        return f"a proof over {task.semantics} is none of the C program; use --semantics int32"
    if not result.invariants:
        return None
    if result.is_lowered:
        return "the proof has loops or variables that the C text writes otherwise"
    if any(_has_quantifier(each.expression) for each in result.invariants):
        return "an invariant has a quantifier, which is no C expression"
    return None


def write_witness(path: Path, task: FileTask, result: VerificationResult, target: Path) -> None:
    """Write the witness of a proof, of which `explain_no_witness` is None.

    Args:
        path: the C file.
        task: what was verified.
        result: its result.
        target: the file, ending in .yml by custom.
    """
    name, now = str(path), datetime.now(UTC).replace(microsecond=0)
    digest, formula = compute_sha256(path), _SPECIFICATIONS[task.required_property]
    entry = {
        "entry_type": "invariant_set",
        "metadata": {
            "format_version": "2.0",
            "uuid": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{digest} {result.invariants}")),
            "creation_time": now.isoformat(),
            "producer": {"name": "loop-invariants", "version": __version__},
            "task": {
                "input_files": [name],
                "input_file_hashes": {name: digest},
                "specification": f"CHECK( init(main()), LTL({formula}) )",
                "data_model": "LP64",
                "language": "C",
            },
        },
        "content": list(_iter_content(name, result.invariants)),
    }
    with atomic_write(target) as partial:
        partial.write_text(yaml.safe_dump([entry], sort_keys=False, allow_unicode=True), "utf-8")


def _iter_content(name: str, invariants: tuple[ProvenInvariant, ...]) -> Iterator[dict[str, Any]]:
    for each in invariants:
        yield {
            "invariant": {
                "type": "loop_invariant",
                "location": {"file_name": name, "line": each.line},
                "value": each.text,
                "format": "c_expression",
            }
        }


def _has_quantifier(expression: Expression) -> bool:
    return any(isinstance(part, Quantified) for part in iter_subexpressions(expression))
