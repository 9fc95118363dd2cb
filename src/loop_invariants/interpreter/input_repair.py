"""Input repair: other nondeterministic values for runs that an assumption ends.

Few random values satisfy `assume(a == x)`. A run that fails such an assumption is repeated with one
value changed, so that a comparison holds. The program might draw each of the values, so a repaired
run is an ordinary run.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from loop_invariants.interpreter.evaluator import (
    ConcreteState,
    Evaluator,
    Undetermined,
    Violation,
)
from loop_invariants.ir.expressions import (
    COMPARISONS,
    SWAPPED_COMPARISONS,
    Binary,
    Expression,
    Identifier,
    Semantics,
    Type,
    Unary,
    convert_number,
    negate,
)

MAX_REPAIRS = 40
"""Maximum number of repetitions of one run."""

# The smallest offsets appear twice, so that they are more likely.
_OFFSETS = (0, 0, 1, 1, 2, 3, 5, 8, 20)


@dataclass
class Draws:
    """Nondeterministic values of one run, in order.

    Attributes:
        draw_new: draws a value of a type for an uninitialized variable.
        semantics: semantics of the program's integers.
        planned_values: values to return first, converted to the requested type.
        history: names and values drawn so far.
    """

    draw_new: Callable[[Type, str], int]
    semantics: Semantics
    planned_values: list[int] = field(default_factory=list)
    history: list[tuple[str, int]] = field(default_factory=list)

    def draw(self, type_: Type, name: str) -> int:
        """Draw the next value."""
        index = len(self.history)
        if index < len(self.planned_values):
            value = convert_number(self.planned_values[index], Type(64), type_, self.semantics)
        else:
            value = self.draw_new(type_, name)
        self.history.append((name, value))
        return value

    def rewind(self, count: int) -> bool:
        """Discard all values but the first `count`; return whether there were any."""
        if len(self.history) == count:
            return False
        # A planned value would be drawn again and end the run again.
        del self.history[count:], self.planned_values[count:]
        return True

    def replay(self) -> "Draws":
        """Return the same values for another run."""
        return Draws(self.draw_new, self.semantics, [value for _, value in self.history])


@dataclass(frozen=True)
class InputRepairer:
    """A search for the value to change after a failed assumption.

    Args:
        evaluator: evaluates the sides of comparisons; it must draw nothing.
        rng: source of randomness for choices.
    """

    evaluator: Evaluator
    rng: random.Random

    def repair(self, draws: Draws, condition: Expression, state: ConcreteState) -> Draws | None:
        """Return the run's values, with one changed to satisfy more of the condition.

        Args:
            draws: values that the run drew before the assumption failed.
            condition: the assumption.
            state: state in which the assumption is false.
        """
        comparison = self._find_false_comparison(condition, state)
        if comparison is None:
            return None
        op, left, right = comparison.operator, comparison.left, comparison.right
        sides = [(left, op, right), (right, SWAPPED_COMPARISONS[op], left)]
        # Either side may be the one to change.
        self.rng.shuffle(sides)
        for variable, operator, bound in sides:
            if isinstance(variable, Identifier):
                index = self._find_draw(draws, variable.name, state)
                value = self._evaluate(bound, state)
                if index is not None and value is not None:
                    repaired_draws = draws.replay()
                    repaired_draws.planned_values[index] = self._choose_value(operator, value)
                    return repaired_draws
        return None

    def _find_false_comparison(self, condition: Expression, state: ConcreteState) -> Binary | None:
        """Find a false comparison in a false condition."""
        match condition:
            case Unary(operator="!", operand=operand):
                negation = negate(operand)
                # A negation that cannot be pushed inwards has no comparison.
                return (
                    None if negation == condition else self._find_false_comparison(negation, state)
                )
            case Binary(operator="&&" | "||" as op, left=left, right=right):
                false_sides = [side for side in (left, right) if self._evaluate(side, state) == 0]
                if not false_sides:
                    return None
                # One true side is enough for `||`; for `&&` the first false side must change.
                return self._find_false_comparison(
                    self.rng.choice(false_sides) if op == "||" else false_sides[0], state
                )
            case Binary(operator=op) if op in COMPARISONS:
                return condition
        return None

    def _find_draw(self, draws: Draws, name: str, state: ConcreteState) -> int | None:
        """Find the draw that probably set a variable: one of its name, else the last."""
        # An assignment may have copied the drawn value, so the value is compared.
        current_value = state.get(name)
        matches = [
            index for index, (_, value) in enumerate(draws.history) if value == current_value
        ]
        named_matches = [index for index in matches if draws.history[index][0] == name]
        return (named_matches or matches or [None])[-1]

    def _evaluate(self, expression: Expression, state: ConcreteState) -> int | None:
        try:
            return self.evaluator.interpret(expression)(state)
        except (Undetermined, Violation):
            return None

    def _choose_value(self, operator: str, value: int) -> int:
        """Choose a number that satisfies a comparison with a value."""
        offset = self.rng.choice(_OFFSETS)
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
        # The operator is `!=`.
        return value + self.rng.choice((-1, 1)) * (1 + offset)
