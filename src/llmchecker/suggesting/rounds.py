"""What one round of a loop does, as expressions over the state at the loop's head.

The round is executed symbolically (King 1976), with what its branches do merged. What comes out
suggests candidates and proves nothing, so that it may be wrong where types wrap around or indices
coincide.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from llmchecker.programs.expressions import (
    NEGATED,
    Binary,
    Constant,
    Element,
    Expression,
    Identifier,
    Nondet,
    Ternary,
    Type,
    is_open,
    with_children,
)
from llmchecker.programs.statements import (
    Assign,
    Block,
    Branch,
    Break,
    Continue,
    Forget,
    Labelled,
    Leave,
    Loop,
    Statement,
    Stop,
    changed,
)

OPEN = Nondet(Type())
"""A value that the state at the loop's head does not tell."""


@dataclass
class Round:
    """The state after a part of a round.

    Attributes:
        numbers: the values of the integers that were assigned.
        elements: the values of the elements that were assigned, by array and index.
        ended: whether the round never comes to the end of this part.
    """

    numbers: dict[str, Expression] = field(default_factory=dict)
    elements: dict[Element, Expression] = field(default_factory=dict)
    ended: bool = False

    def value(self, expression: Expression) -> Expression:
        """The value of an expression, over the state at the loop's head.

        An element that got an open value stands for itself, as it is after the round.
        """
        match expression:
            case Identifier(name=name):
                return self.numbers.get(name, expression)
            case Element(array=array, index=index):
                own = Element(array, simplified(self.value(index)))
                value = self.elements.get(own, own)
                return own if is_open(value) else value
        return simplified(with_children(expression, self.value))


def round_of(loop: Loop) -> Round:
    """What one round of a loop does, if it neither leaves the loop nor ends the run."""
    state = Round()
    _run(loop.body, state)
    state.ended = False  # `continue` leads to the step too
    _run(loop.step, state)
    return state


def _run(block: Block, state: Round) -> None:
    for statement in block:
        if state.ended:
            return
        _step(statement, state)


def _step(statement: Statement, state: Round) -> None:
    match statement:
        case Assign(target=Identifier(name=name), value=value):
            state.numbers[name] = state.value(value)
        case Assign(target=Element(array=array, index=index), value=value):
            stored = state.value(value)
            state.elements[Element(array, simplified(state.value(index)))] = stored
        case Forget() | Loop():
            for name in changed((statement,)):
                state.numbers[name] = OPEN
                state.elements |= {e: OPEN for e in state.elements if e.array == name}
        case Branch(condition=condition, then=then, otherwise=otherwise):
            sides = []
            for block in (then, otherwise):
                sides.append(Round(dict(state.numbers), dict(state.elements)))
                _run(block, sides[-1])
            merged = _merged(state.value(condition), *sides)
            state.numbers, state.elements = merged.numbers, merged.elements
            state.ended = merged.ended
        case Labelled(body=body):
            _run(body, state)
        case Break() | Continue() | Leave() | Stop():
            state.ended = True


def _merged(condition: Expression, then: Round, otherwise: Round) -> Round:
    if then.ended or otherwise.ended:
        return then if otherwise.ended else otherwise

    def chosen(key: Expression, one: Expression | None, other: Expression | None) -> Expression:
        one, other = one or key, other or key
        return one if one == other else Ternary(condition, one, other)

    numbers = {
        name: chosen(Identifier(name), then.numbers.get(name), otherwise.numbers.get(name))
        for name in dict.fromkeys((*then.numbers, *otherwise.numbers))
    }
    elements = {
        element: chosen(element, then.elements.get(element), otherwise.elements.get(element))
        for element in dict.fromkeys((*then.elements, *otherwise.elements))
    }
    return Round(numbers, elements)


def leaves(expression: Expression) -> Iterator[Expression]:
    """The values that an expression chooses between."""
    match expression:
        case Ternary(then=then, otherwise=otherwise):
            yield from leaves(then)
            yield from leaves(otherwise)
        case _:
            yield expression


def simplified(expression: Expression) -> Expression:
    """An expression with sums written shortest, as if no number wrapped around.

    Its parts must be simple already.
    """
    match expression:
        case Ternary(Constant(value), then, otherwise):
            return then if value else otherwise
        case Binary(operator, Constant(left), Constant(right)) if operator in NEGATED:
            return Constant(int(_COMPARED[operator](left, right)))
        case Binary("+" | "-" | "*"):
            return _sum(*linear(expression))
    return expression


_COMPARED = {
    "<": int.__lt__,
    "<=": int.__le__,
    ">": int.__gt__,
    ">=": int.__ge__,
    "==": int.__eq__,
    "!=": int.__ne__,
}


def linear(expression: Expression) -> tuple[dict[Expression, int], int]:
    """An expression as a sum: the factor of each part, none of them zero, and a constant."""
    match expression:
        case Constant(value=value):
            return {}, value
        case Binary("+" | "-" as operator, left, right):
            sign = 1 if operator == "+" else -1
            factors, constant = linear(left)
            others, other = linear(right)
            total = Counter(factors)
            for part, factor in others.items():
                total[part] += sign * factor
            return {p: f for p, f in total.items() if f}, constant + sign * other
        case Binary("*", left, right):
            for scale, scaled in ((left, right), (right, left)):
                parts, by = linear(scale)
                if not parts:
                    factors, constant = linear(scaled)
                    return {p: f * by for p, f in factors.items() if f * by}, constant * by
    return {expression: 1}, 0


def _sum(factors: dict[Expression, int], constant: int) -> Expression:
    """The expression of a sum, which begins with a part that is added if there is one."""
    total: Expression | None = None
    for part, factor in sorted(factors.items(), key=lambda item: item[1] < 0):
        term = part if abs(factor) == 1 else Binary("*", Constant(abs(factor)), part)
        if total is None:
            total = term if factor > 0 else Binary("-", Constant(constant), term)
            constant = constant if factor > 0 else 0
        else:
            total = Binary("+" if factor > 0 else "-", total, term)
    if total is None or not constant:
        return Constant(constant) if total is None else total
    return Binary("+" if constant > 0 else "-", total, Constant(abs(constant)))


def placed(expression: Expression, places: Iterable[tuple[Expression, Expression]]) -> Expression:
    """The expression with new parts in the places of old ones, all at once, and simplified."""
    table = dict(places)

    def change(part: Expression) -> Expression:
        return table[part] if part in table else simplified(with_children(part, change))

    return change(expression)
