"""Evaluations of C expressions: what they do and their value, and when their order matters."""

from collections.abc import Mapping, Set
from dataclasses import dataclass

from llmchecker.programs.evaluation import Evaluator, Undetermined, Violation
from llmchecker.programs.expressions import (
    Cast,
    Expression,
    Identifier,
    Quantified,
    Semantics,
    Type,
    is_open,
    is_partial,
    replaced,
    type_of,
    variables,
    walk,
    without_steps,
)
from llmchecker.programs.statements import (
    Assert,
    Assign,
    Assume,
    Block,
    Loop,
    Stop,
    changed,
    expressions_in,
    statements,
)


@dataclass(frozen=True)
class Evaluated:
    """What the evaluation of an expression does, and then its value.

    Attributes:
        before: the statements that run first.
        value: the value after them; it has no side effects.
    """

    before: Block
    value: Expression

    @property
    def ends(self) -> bool:
        """Whether the run may end in the statements, or never leave them."""
        return any(isinstance(s, Assume | Stop | Loop) for s in statements(self.before))

    @property
    def fails(self) -> bool:
        """Whether the run may violate the program in the statements or the value."""
        asserts = any(isinstance(s, Assert) for s in statements(self.before))
        return (
            asserts or is_partial(self.value) or any(map(is_partial, expressions_in(self.before)))
        )


def conflict(first: Evaluated, second: Evaluated, live: Set[str]) -> str:
    """What makes the order of two evaluations matter, in words; empty if nothing does.

    Args:
        live: the variables that the text can name.
    """
    if not first.before and not second.before:
        return ""
    for one, other in ((first, second), (second, first)):
        both = changed(one.before) & _names_in(other) & live
        if both:
            return f"an expression that changes {', '.join(sorted(both))} beside another use of it"
        if one.ends and other.fails:
            return "an expression whose operands end and fail"
    return ""


def before_effects(done: Evaluated, types: Mapping[str, Type]) -> Expression | None:
    """A condition over the state before its side effects; None if no expression says it.

    Args:
        types: the types of the program's variables.
    """
    assigned = [s for s in done.before if isinstance(s, Assign)]
    simple = len(assigned) == len(done.before) and all(
        isinstance(s.target, Identifier) and not is_open(s.value) for s in assigned
    )
    bound = any(isinstance(part, Quantified) for part in walk(done.value))
    if not simple or bound or is_open(done.value):
        return None
    value = done.value
    for statement in reversed(assigned):
        type_ = types[statement.target.name]
        new = statement.value
        if type_of(new, types) != type_:
            new = Cast(type_, new)
        value = without_steps(replaced(value, statement.target, new))
    return value


def _names_in(done: Evaluated) -> frozenset[str]:
    """The variables that an evaluation reads or changes."""
    read = (variables(expression) for expression in expressions_in(done.before))
    return frozenset().union(variables(done.value), changed(done.before), *read)


def folded(expression: Expression, types: Mapping[str, Type]) -> int | None:
    """The value of an expression of literals; None where it is none, or C leaves it open."""
    if variables(expression) or is_open(expression):
        return None
    try:
        return Evaluator(Semantics.INT32, types, lambda type_: 0).value(expression)({})
    except (Undetermined, Violation):
        return None
