"""The proof of a C program from Python.

import loop_invariants

result = loop_invariants.prove("sum.c", invariants=["line 7: 2*s == i*(i-1)"])
result.outcome              # verified
[each.text for each in result.invariants]
"""

from collections.abc import Iterable
from pathlib import Path

from loop_invariants.ir.expressions import Semantics
from loop_invariants.ir.instrumentation import Property
from loop_invariants.verification.given_invariants import parse_given_invariant
from loop_invariants.verification.portfolio import FileTask, verify_file
from loop_invariants.verification.result import VerificationResult, check_seconds


def prove(
    path: str | Path,
    *,
    invariants: Iterable[str] = (),
    semantics: Semantics | str = Semantics.INT32,
    required_property: Property | str = Property.ASSERT,
    seconds: float = 60.0,
) -> VerificationResult:
    """Prove that a C program has a property, or find a run that violates it.

    Args:
        path: the C file.
        invariants: invariants of loops, each as `line 7: 2*s == i*(i-1)`. Each counts with its
            proof only.
        semantics: `int32`, machine integers, or `integers`, the paper's mathematical ones.
        required_property: `assert`, `reach` or `no-overflow`.
        seconds: the time limit by the clock.

    Raises:
        ValueError: no semantics or property has the name, or the seconds are out of range.
        ConfigError: an invariant names no loop, or is no condition on its variables.
        UnreadableProgram: the file cannot be read, or is not C.
        MissingTool: ESBMC is not installed.
    """
    task = FileTask(
        Semantics(semantics),
        Property(required_property),
        seconds=check_seconds(seconds),
        invariants=[parse_given_invariant(text) for text in invariants],
    )
    return verify_file(Path(path), task)
