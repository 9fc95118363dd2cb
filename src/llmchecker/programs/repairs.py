"""Values that a run draws, chosen again where an assumption ends the run.

Few random values satisfy `assume(a == x)`. A run that such an assumption ends is begun again with
the same values but one, which is set so that a comparison holds. Every value is one that the
program might draw, so a run that was mended is a run like any other.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from llmchecker.programs.evaluation import ConcreteState, Evaluator, Undetermined, Violation
from llmchecker.programs.expressions import (
    COMPARISONS,
    MIRRORED,
    Binary,
    Expression,
    Identifier,
    Semantics,
    Type,
    Unary,
    converted_number,
    negation,
)

MOST_REPAIRS = 40
"""The most times that one run is begun again."""

_OFFSETS = (0, 0, 1, 1, 2, 3, 5, 8, 20)


@dataclass
class Draws:
    """The values of one run, in the order in which they are drawn.

    Attributes:
        value: draws a value of a type for a variable without one.
        semantics: what the program's integers are.
        planned: the values to draw first; each is converted to the type that is asked for.
        drawn: the names and values drawn so far.
    """

    value: Callable[[Type, str], int]
    semantics: Semantics
    planned: list[int] = field(default_factory=list)
    drawn: list[tuple[str, int]] = field(default_factory=list)

    def draw(self, type_: Type, name: str) -> int:
        """The next value."""
        place = len(self.drawn)
        if place < len(self.planned):
            value = converted_number(self.planned[place], Type(64), type_, self.semantics)
        else:
            value = self.value(type_, name)
        self.drawn.append((name, value))
        return value

    def rewind(self, count: int) -> bool:
        """Take back all values but the first; whether there are any to take back."""
        if len(self.drawn) == count:
            return False
        del self.drawn[count:], self.planned[count:]
        return True

    def again(self) -> "Draws":
        """The same values once more."""
        return Draws(self.value, self.semantics, [value for _, value in self.drawn])


@dataclass(frozen=True)
class Repairer:
    """Finds the value to change after an assumption has ended a run.

    Args:
        evaluator: evaluates the sides of comparisons; it must draw nothing.
        source: decides where there is a choice.
    """

    evaluator: Evaluator
    source: random.Random

    def repaired(self, draws: Draws, condition: Expression, state: ConcreteState) -> Draws | None:
        """The values of the run with one changed, so that more of the condition may hold.

        Args:
            draws: what the run drew until the assumption ended it.
            condition: the assumption.
            state: the state in which it is false.
        """
        comparison = self._broken(condition, state)
        if comparison is None:
            return None
        op, left, right = comparison.operator, comparison.left, comparison.right
        sides = [(left, op, right), (right, MIRRORED[op], left)]
        self.source.shuffle(sides)
        for variable, operator, other in sides:
            if isinstance(variable, Identifier):
                place = self._place(draws, variable.name, state)
                value = self._value(other, state)
                if place is not None and value is not None:
                    again = draws.again()
                    again.planned[place] = self._satisfying(operator, value)
                    return again
        return None

    def _broken(self, condition: Expression, state: ConcreteState) -> Binary | None:
        """A false comparison in a false condition."""
        match condition:
            case Unary(operator="!", operand=operand):
                opposite = negation(operand)
                return None if opposite == condition else self._broken(opposite, state)
            case Binary(operator="&&" | "||" as op, left=left, right=right):
                false = [side for side in (left, right) if self._value(side, state) == 0]
                if not false:
                    return None
                return self._broken(self.source.choice(false) if op == "||" else false[0], state)
            case Binary(operator=op) if op in COMPARISONS:
                return condition
        return None

    def _place(self, draws: Draws, name: str, state: ConcreteState) -> int | None:
        """The draw that probably gave a variable its value: one of that name, else the last."""
        now = state.get(name)
        same = [place for place, (_, value) in enumerate(draws.drawn) if value == now]
        named = [place for place in same if draws.drawn[place][0] == name]
        return (named or same or [None])[-1]

    def _value(self, expression: Expression, state: ConcreteState) -> int | None:
        try:
            return self.evaluator.value(expression)(state)
        except (Undetermined, Violation):
            return None

    def _satisfying(self, operator: str, value: int) -> int:
        """A number that compares so with a value."""
        offset = self.source.choice(_OFFSETS)
        match operator:
            case "==":
                return value
            case "<=":
                return value - offset
            case ">=":
                return value + offset
            case "<":
                return value - 1 - offset
            case ">":
                return value + 1 + offset
        return value + self.source.choice((-1, 1)) * (1 + offset)
