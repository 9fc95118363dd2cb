"""Progression: the obligation that a path formula leaves after each state.

A path formula is rewritten state by state (Bacchus and Kabanza 1998, "Planning for Temporally
Extended Goals"). In a state without a, `F a` leaves the obligation `F a` from the next state on. In
a state with a it leaves nothing. In a loop of one state, every obligation is true or false at once,
since all further states are the same.

The obligations are the states of a deterministic automaton, which is built on demand. The
automaton needs no acceptance condition for infinite words, because every path of a tree reaches a
loop of one state.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from llmchecker.errors import CheckFailed
from llmchecker.properties.logic.ast import (
    Atom,
    Connective,
    Formula,
    Label,
    Literal,
    Temporal,
)

_Obligation = frozenset[frozenset[Formula]]
"""Obligation from the next state on: formulas in disjunctive normal form.

It is a set of conjunctions. No conjunction contains another conjunction, and no formula is negated
in it. So equal obligations have the same form.
"""

_SATISFIED: _Obligation = frozenset([frozenset()])
_VIOLATED: _Obligation = frozenset()
_MAX_OBLIGATIONS = 20_000
"""Maximum number of obligations of one formula, which can be exponential."""
_MAX_CONJUNCTIONS = 2_000
"""Maximum number of conjunctions in one obligation."""

_DUALS = {"&": "|", "|": "&", "F": "G", "G": "F", "U": "R", "R": "U", "X": "X"}


class Progression:
    """Obligations of a path formula, as numbers: 0 is satisfied, 1 is violated.

    Args:
        formula: path formula without P, E and A. A valuation gives each of its atoms and labels a
            truth value.
    """

    def __init__(self, formula: Formula) -> None:
        self._obligations: list[_Obligation] = [_SATISFIED, _VIOLATED]
        self._numbers_of_obligations = {_SATISFIED: 0, _VIOLATED: 1}
        self.initial_obligation = self._intern(
            frozenset([frozenset([_to_negation_normal_form(formula, True)])])
        )

    def progress(self, obligation: int, valuation: Mapping[Formula, bool]) -> int:
        """Return the obligation after a state with a given valuation.

        Raises:
            CheckFailed: the formula has too many obligations.
        """
        result = _VIOLATED
        # conjunctions share formulas, which are so rewritten only once
        progress_formula = cache(lambda formula: _progress(formula, valuation))
        for conjunction in self._obligations[obligation]:
            product = _SATISFIED
            for formula in conjunction:
                product = _conjoin(product, progress_formula(formula))
            result = _disjoin(result, product)
        return self._intern(result)

    def holds_under_stutter(self, obligation: int, valuation: Mapping[Formula, bool]) -> bool:
        """Return whether a loop of one state satisfies an obligation.

        Args:
            obligation: number of the obligation.
            valuation: truth of the state's propositions.
        """
        return any(
            all(_holds_under_stutter(formula, valuation) for formula in conjunction)
            for conjunction in self._obligations[obligation]
        )

    def __len__(self) -> int:
        return len(self._obligations)

    def _intern(self, obligation: _Obligation) -> int:
        if obligation not in self._numbers_of_obligations:
            if len(self._obligations) >= _MAX_OBLIGATIONS:
                raise _build_size_error()
            self._numbers_of_obligations[obligation] = len(self._obligations)
            self._obligations.append(obligation)
        return self._numbers_of_obligations[obligation]


def _to_negation_normal_form(formula: Formula, positive: bool) -> Formula:
    """Return the negation normal form of a formula or its negation.

    The result has no => and W.

    Args:
        formula: the formula.
        positive: False for the negation.
    """
    match formula:
        case Literal(value):
            return Literal(value == positive)
        case Connective("!", (operand,)):
            return _to_negation_normal_form(operand, not positive)
        case Connective("=>", (left, right)):
            return _to_negation_normal_form(
                Connective("|", (Connective("!", (left,)), right)), positive
            )
        case Temporal("W", (left, right)):
            # left W right equals right R (left | right)
            return _to_negation_normal_form(
                Temporal("R", (right, Connective("|", (left, right)))), positive
            )
        case Connective(operator, operands) | Temporal(operator, operands):
            return replace(
                formula,
                operator=operator if positive else _DUALS[operator],
                operands=tuple(_to_negation_normal_form(each, positive) for each in operands),
            )
    # only propositions keep a negation
    return formula if positive else Connective("!", (formula,))


def _progress(formula: Formula, valuation: Mapping[Formula, bool]) -> _Obligation:
    match formula:
        case Connective("&" | "|" as operator, operands):
            left, right = (_progress(operand, valuation) for operand in operands)
            return _conjoin(left, right) if operator == "&" else _disjoin(left, right)
        case Temporal("X", (operand,), None | 1):
            return frozenset([frozenset([operand])])
        case Temporal("X", (operand,), 0):
            return _progress(operand, valuation)
        case Temporal("X"):
            next_obligation = _decrement_bound(formula)
            assert next_obligation is not None
            return next_obligation
        case Temporal(_, operands):
            return _expand(formula, [_progress(operand, valuation) for operand in operands])
    # a proposition, or its negation, is about this state alone
    return _SATISFIED if _holds_under_stutter(formula, valuation) else _VIOLATED


def _expand(formula: Temporal, progressed_operands: Sequence[_Obligation]) -> _Obligation:
    """Return the obligation of F, G, U or R after a state, from those of its operands."""
    # the expansion laws: F a = a | X F a, a U b = b | (a & X (a U b)), and so on
    next_obligation = _decrement_bound(formula)
    match formula.operator, progressed_operands:
        case "F", [operand]:
            return _disjoin(operand, next_obligation or _VIOLATED)
        case "G", [operand]:
            return _conjoin(operand, next_obligation or _SATISFIED)
        case "U", [left, right]:
            return _disjoin(right, _conjoin(left, next_obligation or _VIOLATED))
        case "R", [left, right]:
            return _conjoin(right, _disjoin(left, next_obligation or _SATISFIED))
    raise AssertionError(formula)


def _decrement_bound(formula: Temporal) -> _Obligation | None:
    """Return the operator for the next state, with its bound reduced by 1.

    Returns:
        None if the bound is 0.
    """
    if formula.bound is None:
        return frozenset([frozenset([formula])])
    if formula.bound == 0:
        return None
    decremented = Temporal(formula.operator, formula.operands, formula.bound - 1)
    return frozenset([frozenset([decremented])])


def _holds_under_stutter(formula: Formula, valuation: Mapping[Formula, bool]) -> bool:
    match formula:
        case Literal(value):
            return value
        case Atom() | Label():
            return valuation[formula]
        case Connective("!", (proposition,)):
            return not valuation[proposition]
        case Connective("&", operands):
            return all(_holds_under_stutter(operand, valuation) for operand in operands)
        case Connective("|", operands):
            return any(_holds_under_stutter(operand, valuation) for operand in operands)
        case Temporal(_, operands):
            # in a constant path X, F and G equal their operand, and U and R their right operand
            return _holds_under_stutter(operands[-1], valuation)
    raise AssertionError(formula)


def _disjoin(left: _Obligation, right: _Obligation) -> _Obligation:
    if left == _VIOLATED or right == _SATISFIED:
        return right
    if right == _VIOLATED or left == _SATISFIED:
        return left
    return _remove_subsumed(left | right)


def _conjoin(left: _Obligation, right: _Obligation) -> _Obligation:
    if left == _SATISFIED or right == _VIOLATED:
        return right
    if right == _SATISFIED or left == _VIOLATED:
        return left
    # checked before the product is built, which could exhaust the memory
    if len(left) * len(right) > _MAX_CONJUNCTIONS:
        raise _build_size_error()
    return _remove_subsumed(
        frozenset(
            left_conjunction | right_conjunction
            for left_conjunction in left
            for right_conjunction in right
        )
    )


def _remove_subsumed(obligation: _Obligation) -> _Obligation:
    """Remove conjunctions that contain another: they add nothing to a disjunction."""
    minimal: list[frozenset[Formula]] = []
    # shortest first: only a shorter conjunction can be contained in a longer
    for conjunction in sorted(obligation, key=len):
        if not any(smaller <= conjunction for smaller in minimal):
            minimal.append(conjunction)
    return frozenset(minimal)


def _build_size_error() -> CheckFailed:
    return CheckFailed(
        f"path formula: more than {_MAX_OBLIGATIONS} obligations, or one of more than "
        f"{_MAX_CONJUNCTIONS} alternatives; simplify the query"
    )
