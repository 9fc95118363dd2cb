"""Progression: what a path must still do to satisfy a formula, after each state that it visits.

A path formula is rewritten state by state (Bacchus and Kabanza 1998, "Planning for Temporally
Extended Goals"). In a state without a, `F a` leaves `F a` to be satisfied from the next state on.
In a state with a it leaves nothing. What is left is called a demand. Where a path comes to a loop
of one state, every demand is true or false at once, since all further states are the same.

The possible demands are the states of a deterministic automaton, which is made as it is needed. The
automaton needs no acceptance condition for infinite words, because every path of a tree comes to a
loop of one state.
"""

from collections.abc import Mapping
from functools import cache

from llmchecker.errors import CheckFailed
from llmchecker.queries.formulas import (
    Atom,
    Connective,
    Formula,
    Label,
    Literal,
    Temporal,
)

Demand = frozenset[frozenset[Formula]]
"""What is left to be satisfied from the next state on: a disjunction of conjunctions of formulas.

No conjunction contains another one. Since the formulas stand in it unnegated, equal demands have
only one such form.
"""

SATISFIED: Demand = frozenset([frozenset()])
VIOLATED: Demand = frozenset()
MOST_DEMANDS = 20_000
"""The largest number of different demands of one formula. Some formulas have exponentially many."""
MOST_CONJUNCTIONS = 2_000
"""The largest number of conjunctions in one demand."""

_DUAL = {"&": "|", "|": "&", "F": "G", "G": "F", "U": "R", "R": "U", "X": "X"}


class Progression:
    """The demands of a path formula, each known by a number: 0 is satisfied, 1 is violated.

    Args:
        formula: without P, E and A. A valuation gives each of its atoms and labels a truth value.
    """

    def __init__(self, formula: Formula) -> None:
        self._demands: list[Demand] = [SATISFIED, VIOLATED]
        self._numbers = {SATISFIED: 0, VIOLATED: 1}
        self.start = self._number(frozenset([frozenset([_normal(formula, True)])]))

    def after(self, demand: int, valuation: Mapping[Formula, bool]) -> int:
        """The demand that is left after a state, given the truth of its propositions.

        Raises:
            CheckFailed: there are too many demands.
        """
        left = VIOLATED
        # many conjunctions share formulas, which are then rewritten only once
        after = cache(lambda formula: _after(formula, valuation))
        for conjunction in self._demands[demand]:
            together = SATISFIED
            for formula in conjunction:
                together = _both(together, after(formula))
            left = _either(left, together)
        return self._number(left)

    def forever(self, demand: int, valuation: Mapping[Formula, bool]) -> bool:
        """Whether a loop of one state satisfies a demand, given the truth of its propositions."""
        return any(
            all(_forever(formula, valuation) for formula in conjunction)
            for conjunction in self._demands[demand]
        )

    def __len__(self) -> int:
        return len(self._demands)

    def _number(self, demand: Demand) -> int:
        if demand not in self._numbers:
            if len(self._demands) >= MOST_DEMANDS:
                raise _too_large()
            self._numbers[demand] = len(self._demands)
            self._demands.append(demand)
        return self._numbers[demand]


def _normal(formula: Formula, positive: bool) -> Formula:
    """The formula, or its negation if not `positive`, in negation normal form without => and W."""
    match formula:
        case Literal(value):
            return Literal(value == positive)
        case Connective("!", (operand,)):
            return _normal(operand, not positive)
        case Connective("=>", (left, right)):
            return _normal(Connective("|", (Connective("!", (left,)), right)), positive)
        case Temporal("W", (left, right)):
            # left W right is right R (left | right)
            return _normal(Temporal("R", (right, Connective("|", (left, right)))), positive)
        case Connective(operator, operands):
            parts = tuple(_normal(operand, positive) for operand in operands)
            return Connective(operator if positive else _DUAL[operator], parts)
        case Temporal(operator, operands, bound):
            parts = tuple(_normal(operand, positive) for operand in operands)
            return Temporal(operator if positive else _DUAL[operator], parts, bound)
    return formula if positive else Connective("!", (formula,))


def _after(formula: Formula, valuation: Mapping[Formula, bool]) -> Demand:
    match formula:
        case Literal(value):
            return SATISFIED if value else VIOLATED
        case Atom() | Label():
            return SATISFIED if valuation[formula] else VIOLATED
        case Connective("!", (proposition,)):
            return VIOLATED if valuation[proposition] else SATISFIED
        case Connective("&", operands):
            left, right = (_after(operand, valuation) for operand in operands)
            return _both(left, right)
        case Connective("|", operands):
            left, right = (_after(operand, valuation) for operand in operands)
            return _either(left, right)
        case Temporal("X", (operand,)):
            return frozenset([frozenset([operand])])
    now = [_after(operand, valuation) for operand in formula.operands]
    later = _later(formula)
    match formula.operator, now:
        case "F", [operand]:
            return _either(operand, later or VIOLATED)
        case "G", [operand]:
            return _both(operand, later or SATISFIED)
        case "U", [left, right]:
            return _either(right, _both(left, later or VIOLATED))
        case "R", [left, right]:
            return _both(right, _either(left, later or SATISFIED))
    raise AssertionError(formula)


def _later(formula: Temporal) -> Demand | None:
    """The same operator from the next state on with its bound less by 1; None if the bound is 0."""
    if formula.bound is None:
        return frozenset([frozenset([formula])])
    if formula.bound == 0:
        return None
    rest = Temporal(formula.operator, formula.operands, formula.bound - 1)
    return frozenset([frozenset([rest])])


def _forever(formula: Formula, valuation: Mapping[Formula, bool]) -> bool:
    match formula:
        case Literal(value):
            return value
        case Atom() | Label():
            return valuation[formula]
        case Connective("!", (proposition,)):
            return not valuation[proposition]
        case Connective("&", operands):
            return all(_forever(operand, valuation) for operand in operands)
        case Connective("|", operands):
            return any(_forever(operand, valuation) for operand in operands)
        case Temporal(_, operands):
            # where nothing changes any more, X, F and G are their operand, and U and R their right
            # one
            return _forever(operands[-1], valuation)
    raise AssertionError(formula)


def _either(left: Demand, right: Demand) -> Demand:
    if left == VIOLATED or right == SATISFIED:
        return right
    if right == VIOLATED or left == SATISFIED:
        return left
    return _least(left | right)


def _both(left: Demand, right: Demand) -> Demand:
    if left == SATISFIED or right == VIOLATED:
        return right
    if right == SATISFIED or left == VIOLATED:
        return left
    if len(left) * len(right) > MOST_CONJUNCTIONS:
        raise _too_large()
    return _least(frozenset(one | other for one in left for other in right))


def _least(demand: Demand) -> Demand:
    """Leave out conjunctions that contain another one: they add nothing to a disjunction."""
    kept: list[frozenset[Formula]] = []
    for conjunction in sorted(demand, key=len):
        if not any(other <= conjunction for other in kept):
            kept.append(conjunction)
    return frozenset(kept)


def _too_large() -> CheckFailed:
    return CheckFailed(
        f"the path formula can leave more than {MOST_DEMANDS} different demands, or one of "
        f"more than {MOST_CONJUNCTIONS} alternatives"
    )
