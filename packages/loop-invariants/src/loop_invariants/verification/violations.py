"""Violations that ESBMC or compiled runs report: confirmation by runs, and messages.

A violation counts only if a run with its inputs violates the property: a run of the interpreter,
else a run of the text that gcc compiles with sanitizers.
"""

from collections.abc import Sequence
from dataclasses import replace

from llmchecker.errors import ProgramError
from loop_invariants.frontend.error_names import ErrorNames
from loop_invariants.frontend.original_text import OriginalText, build_original_text
from loop_invariants.interpreter.replay import replay_inputs
from loop_invariants.interpreter.simulation import Failure, NondetValue
from loop_invariants.ir.expressions import (
    Binary,
    Cast,
    Constant,
    Expression,
    Nondet,
    Semantics,
    is_boolean,
    iter_subexpressions,
)
from loop_invariants.ir.instrumentation import Property
from loop_invariants.ir.statements import (
    Assert,
    Assign,
    Assume,
    Block,
    Havoc,
    Program,
    Statement,
    iter_expressions,
    iter_statements,
    with_parts,
)
from loop_invariants.verification.bounded_search import SearchResult
from loop_invariants.verification.compiled_runs import find_violating_inputs, replay_with_gcc
from loop_invariants.verification.esbmc import RunInputs
from loop_invariants.verification.esbmc_annotation import format_program
from loop_invariants.verification.result import CompiledViolation, Outcome, VerificationResult

_MAX_LISTED_VALUES = 40
"""Maximum number of values of a run that a message lists."""


def find_violation(
    text: OriginalText, semantics: Semantics, program: Program | None, seconds: float
) -> VerificationResult | None:
    """Return the violation that compiled runs find, if another run confirms it; else None.

    The program of the frontend is compiled, so that variables without a value are inputs too. The
    original text is compiled if the frontend does not cover it.
    """
    if program is not None:
        program = _build_runnable(program)
        # The other properties ignore values out of range.
        kind = Property.ASSERT if program.has_range_checks else Property.REACH
        try:
            source = format_program(program, {})
            text = build_original_text(program.name, source, kind, ErrorNames(), {})
        except ProgramError:
            # Only gcc has integers of 128 bits, not the parser.
            return None
    # No C compiler reads annotations of ACSL.
    elif text.is_annotated:
        return None
    inputs = find_violating_inputs(text, semantics, seconds)
    if inputs is None:
        return None
    found = SearchResult(violation="an assertion fails", inputs=inputs)
    confirmed = confirm_violation(text, found, semantics, program)
    if confirmed.outcome is not Outcome.FALSE:
        return None
    violation = confirmed.violation
    if program is not None and violation is not None:
        # The compiled text has lines of its own, of which a single assertion needs none.
        lines = {assertion.line or 0 for assertion in program.assertions}
        is_known = violation.kind == "assertion" and len(lines) == 1
        return build_false(text, replace(violation, line=lines.pop() if is_known else 0))
    return confirmed


def _build_runnable(program: Program) -> Program:
    """Build a program whose arbitrary values are inputs and whose assertions are violations."""

    def build_truth(condition: Expression) -> Expression:
        # The parameter of a function is an int, which may cut a wide number short.
        return condition if is_boolean(condition) else Binary("!=", condition, Constant(0))

    def build_block(block: Block) -> Block:
        return tuple(map(build_statement, block))

    def build_statement(statement: Statement) -> Statement:
        match statement:
            case Havoc(name=name) if not program.types[name].is_array:
                return Assign(program.variable(name), Nondet(program.types[name]))
            case Assume(condition=condition):
                return Assume(build_truth(condition))
            case Assert(condition=condition, line=line):
                # A rule of C without a line may not be a violation; it then ends the run.
                is_reported = bool(line) or (line == 0 and program.has_range_checks)
                truth = build_truth(condition)
                return Assert(truth, line) if is_reported else Assume(truth)
        return with_parts(statement, lambda expression: expression, build_block)

    return replace(program, body=build_block(program.body))


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
    violation = replay_with_gcc(text, inputs, semantics) if is_exact else None
    if violation is not None:
        return build_false(text, violation)
    message = f"ESBMC reports of the original text: {found.violation}; no run confirms it"
    return VerificationResult(Outcome.ESBMC_DISAGREES, message=message)


_PROBLEMS = {
    "assertion": "the assertion fails",
    "index": "an index is out of range",
    "division": "a division has no result",
    "null": "a pointer leads to no object",
    "shift": "a shift is too wide",
    "overflow": "a signed operation overflows",
}


def build_false(text: OriginalText, violation: CompiledViolation) -> VerificationResult:
    """Build the result of a violation of a compiled text."""
    place = f"line {violation.line}: " if violation.line else ""
    values = _format_values(violation.inputs)
    inputs = f" with the inputs {values}" if values else ""
    message = f"{text.name}: {place}{_PROBLEMS[violation.kind]}{inputs}"
    return VerificationResult(Outcome.FALSE, message=message, violation=violation)


def find_original_violation(text: OriginalText, seconds: float) -> VerificationResult | None:
    """Return the violation that compiled runs of the original text find; None without one."""
    if text.is_annotated:
        return None
    inputs = find_violating_inputs(text, Semantics.INT32, seconds)
    violation = None if inputs is None else replay_with_gcc(text, inputs)
    return None if violation is None else build_false(text, violation)


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
    drawn = f" when the values drawn are {values}" if values else ""
    return f"{program.name}: {problem}{drawn}"
