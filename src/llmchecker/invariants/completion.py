"""Candidates that the program itself suggests: its atoms, negated and weakened, and disjunctions.

They complete what a model proposes: a model often has all but a bound that stands in the program,
or one half of a case distinction.
"""

from collections.abc import Iterator, Sequence

from llmchecker.invariants.expressions import (
    COMPARISONS,
    CONNECTIVES,
    NEGATED,
    Binary,
    Expression,
    Literal,
    Nondet,
    Unary,
    Variable,
    is_truth,
    variables,
    walk,
)
from llmchecker.invariants.programs import Assign, Loop, Program, conditions, statements

_WEAKER = {
    "<": ("<=", "!="),
    ">": (">=", "!="),
    "<=": (),
    ">=": (),
    "==": ("<=", ">="),
    "!=": (),
}
"""The comparisons that follow from one."""


def atoms(program: Program, loop: Loop) -> tuple[Expression, ...]:
    """The program's conditions that make sense at a loop's head, negated and weakened.

    Whole conditions come first (an assertion is often its own invariant), then their comparisons.
    An assignment counts as the equality that it makes true, where it does.
    """
    found: dict[Expression, None] = {}
    for condition in (*_conditions(program), *_equalities(program)):
        for variant in _variants(condition):
            if variables(variant) and variables(variant) <= set(loop.scope):
                found.setdefault(variant)
    return tuple(found)


def disjunctions(expressions: Sequence[Expression], most: int) -> tuple[Expression, ...]:
    """Disjunctions of two of the expressions, those of the first ones first, at most so many."""
    found: dict[Expression, None] = {}
    for last in range(1, len(expressions)):
        for first in range(last):
            if len(found) == most:
                return tuple(found)
            found.setdefault(Binary("||", expressions[first], expressions[last]))
    return tuple(found)


def _conditions(program: Program) -> Iterator[Expression]:
    """Assertions first, then the other conditions."""
    asserted = [assertion.condition for assertion in program.assertions]
    for condition in (*asserted, *conditions(program.body)):
        if not any(isinstance(node, Nondet) for node in walk(condition)):
            yield condition


def _equalities(program: Program) -> Iterator[Expression]:
    for statement in statements(program.body):
        match statement:
            case Assign(target=Variable() as target, value=value):
                if not any(isinstance(node, Nondet) or node == target for node in walk(value)):
                    yield Binary("==", target, value)


def _variants(condition: Expression) -> Iterator[Expression]:
    if is_truth(condition):
        yield condition
    for part in _comparisons(condition):
        yield part
        yield from _weakened(part)
        yield Binary(NEGATED[part.operator], part.left, part.right)
        yield from _weakened(Binary(NEGATED[part.operator], part.left, part.right))


def _comparisons(condition: Expression) -> Iterator[Binary]:
    match condition:
        case Binary(operator=op) if op in COMPARISONS:
            yield condition
        case Binary(operator=op, left=left, right=right) if op in CONNECTIVES:
            yield from _comparisons(left)
            yield from _comparisons(right)
        case Unary(operator="!", operand=operand):
            yield from _comparisons(operand)
        case Variable():
            yield Binary("!=", condition, Literal(0))


def _weakened(comparison: Binary) -> Iterator[Binary]:
    """What follows from a comparison, and what a step beyond it by one leaves true."""
    left, right = comparison.left, comparison.right
    for op in _WEAKER[comparison.operator]:
        yield Binary(op, left, right)
    for op, step in (("<", 1), ("<=", 1), (">", -1), (">=", -1)):
        if comparison.operator == op:
            yield Binary(op if op.endswith("=") else f"{op}=", left, _moved(right, step))


def _moved(expression: Expression, step: int) -> Expression:
    if isinstance(expression, Literal):
        return Literal(expression.value + step)
    return Binary("+" if step > 0 else "-", expression, Literal(1))
