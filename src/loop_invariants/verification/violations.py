"""Violations that ESBMC reports: confirmation by runs, and messages.

ESBMC may err, so that its violation counts only if a run with its inputs violates the property:
a run of the interpreter, else a run of the text that gcc compiles.
"""

from collections.abc import Sequence

from loop_invariants.frontend.original_text import OriginalText
from loop_invariants.interpreter.replay import replay_inputs
from loop_invariants.interpreter.simulation import Failure, NondetValue
from loop_invariants.ir.expressions import Cast, Semantics, iter_subexpressions
from loop_invariants.ir.instrumentation import Property
from loop_invariants.ir.statements import Assign, Program, iter_expressions, iter_statements
from loop_invariants.verification.bounded_search import SearchResult
from loop_invariants.verification.compiled_runs import find_violating_inputs, replay_with_gcc
from loop_invariants.verification.esbmc import RunInputs
from loop_invariants.verification.result import Outcome, VerificationResult

_MAX_LISTED_VALUES = 40
"""Maximum number of values of a run that a message lists."""


def find_violation(
    text: OriginalText, semantics: Semantics, program: Program | None, seconds: float
) -> VerificationResult | None:
    """Return the violation that compiled runs find, if another run confirms it; else None."""
    # No C compiler reads annotations of ACSL.
    inputs = None if text.is_annotated else find_violating_inputs(text, semantics, seconds)
    if inputs is None:
        return None
    kind = "an overflow" if text.required_property is Property.NO_OVERFLOW else "an assertion fails"
    found = SearchResult(violation=kind, inputs=inputs)
    confirmed = confirm_violation(text, found, semantics, program)
    return confirmed if confirmed.outcome is Outcome.FALSE else None


def confirm_violation(
    text: OriginalText, found: SearchResult, semantics: Semantics, program: Program | None
) -> VerificationResult:
    """Return FALSE if a run confirms a violation, else ESBMC_DISAGREES.

    Args:
        text: the original text.
        found: the result of a search with a violation.
        semantics: semantics of the integers.
        program: the program of the frontend; None if it does not cover the text.
    """
    inputs = found.inputs or RunInputs()
    if program is not None:
        failure = replay_inputs(program, semantics, inputs.values, inputs.variables)
        if failure is not None:
            message = format_failure(program, failure)
            return VerificationResult(Outcome.FALSE, failure=failure, message=message)
    # A compiled program computes with machine integers. Without an overflow or a conversion, these
    # are mathematical integers too.
    is_exact = semantics is Semantics.INT32 or (program is not None and _keeps_values(program))
    if is_exact and replay_with_gcc(text, inputs, semantics):
        values = _format_values(inputs.values) or "none"
        message = f"{text.name}: {found.violation}: it fails when compiled; inputs: {values}"
        return VerificationResult(Outcome.FALSE, message=message)
    message = f"ESBMC reports of the original text: {found.violation}; no run confirms it"
    return VerificationResult(Outcome.ESBMC_DISAGREES, message=message)


def _keeps_values(program: Program) -> bool:
    """Return whether all types are signed, of 32 bits or more, and no conversion narrows."""
    parts = list(iter_subexpressions(*iter_expressions(program.body)))
    types = (*program.types.values(), *(part.type for part in parts))
    conversions = [(part.operand.type, part.type) for part in parts if isinstance(part, Cast)]
    conversions += [
        (statement.value.type, statement.target.type)
        for statement in iter_statements(program.body)
        if isinstance(statement, Assign)
    ]
    return all(type_.signed and type_.bits >= 32 for type_ in types) and all(
        source.bits <= target.bits for source, target in conversions
    )


def _format_values(values: Sequence[int]) -> str:
    texts = [str(value) for value in values]
    if len(texts) > _MAX_LISTED_VALUES:
        texts[_MAX_LISTED_VALUES:] = [f"… {len(texts) - _MAX_LISTED_VALUES} more"]
    return ", ".join(texts)


def format_failure(program: Program, failure: Failure) -> str:
    """Format the message of a violating run."""
    # Line 0 marks a range check, which has no assertion in the text.
    problem = (
        f"the assertion in line {failure.line} fails"
        if failure.line
        else "a value or a pointer is out of range"
    )
    values = _format_values([e.value for e in failure.trace if isinstance(e, NondetValue)])
    return f"{program.name}: {problem} when the values drawn are {values}"
