"""Sequence points: side effects of expressions, and conflicts between them."""

from collections.abc import Set
from dataclasses import dataclass

from loop_invariants.interpreter.evaluator import Evaluator, Undetermined, Violation
from loop_invariants.ir.expressions import Expression, Semantics, has_nondet, is_partial, variables
from loop_invariants.ir.statements import (
    Assert,
    Assume,
    Block,
    Loop,
    Stop,
    find_modified_variables,
    iter_expressions,
    iter_statements,
)


@dataclass(frozen=True)
class Evaluation:
    """The evaluation of an expression: its side effects and then its value.

    Attributes:
        effects: statements that are executed first.
        value: value after the statements, without side effects.
    """

    effects: Block
    value: Expression

    @property
    def can_end(self) -> bool:
        """Whether the statements may end the run or never terminate."""
        return any(isinstance(s, Assume | Stop | Loop) for s in iter_statements(self.effects))

    @property
    def can_fail(self) -> bool:
        """Whether the run may violate the program in the statements or the value."""
        has_assertion = any(isinstance(s, Assert) for s in iter_statements(self.effects))
        return (
            has_assertion
            or is_partial(self.value)
            or any(map(is_partial, iter_expressions(self.effects)))
        )


def find_conflict(first: Evaluation, second: Evaluation, live_variables: Set[str]) -> str:
    """Describe the conflict between two evaluations; empty without a conflict.

    Args:
        first: evaluation of one operand.
        second: evaluation of the other operand.
        live_variables: variables that the text can name.
    """
    # Without side effects every order has the same result.
    if not first.effects and not second.effects:
        return ""
    for changing, accessing in ((first, second), (second, first)):
        shared = (
            find_modified_variables(changing.effects)
            & _find_accessed_variables(accessing)
            & live_variables
        )
        if shared:
            return (
                f"an expression that changes {', '.join(sorted(shared))} beside another use of it"
            )
        # The order decides whether the run ends or fails.
        if changing.can_end and accessing.can_fail:
            return "an expression whose operands end and fail"
    return ""


def _find_accessed_variables(evaluation: Evaluation) -> frozenset[str]:
    """Return the variables that an evaluation reads or changes."""
    variable_sets = (variables(expression) for expression in iter_expressions(evaluation.effects))
    return frozenset().union(
        variables(evaluation.value), find_modified_variables(evaluation.effects), *variable_sets
    )


def fold_constant(expression: Expression) -> int | None:
    """Evaluate an expression of literals; None for any other expression."""
    if variables(expression) or has_nondet(expression):
        return None
    try:
        return Evaluator(Semantics.INT32, lambda type_: 0).interpret(expression)({})
    except (Undetermined, Violation):
        return None
