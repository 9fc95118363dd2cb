"""Operators of PRISM that are rewritten into the operators of the syntax tree.

| written | rewritten |
| --- | --- |
| `F<n φ`, `F[a,b] φ`, `F>=a φ`, `F=n φ` | `F<=n-1 φ`, `X X … (F<=b-a φ)`, `X … (F φ)`, `X … φ` |
| `φ U[a,b] ψ` | `(G<=a-1 φ) & (X … (φ U<=b-a ψ))` |
| `φ W<=n ψ`, `φ R<=n ψ` | `!((φ & !ψ) U<=n (!φ & !ψ))`, `!(!φ U<=n !ψ)` |
| `φ M ψ` | `ψ U (φ & ψ)` |
| `φ <=> ψ` | `(φ => ψ) & (ψ => φ)` |
| `φ ? ψ : χ` | `(φ & ψ) \\| (!φ & χ)` |
| `S>=p [ φ ]` | `P>=p [ F (G φ) ]` |
| `filter(forall, φ, ψ)`, `filter(exists, φ, ψ)` | `A [ G (ψ => φ) ]`, `E [ F (ψ & φ) ]` |

Every path of a tree ends in a loop of one state. So the share of time that a path spends in states
with φ is 1 if φ holds in the last state, and else 0. Its expected value is the probability of
`F (G φ)`.

An expression with `/` is a quotient of an integer expression and a constant, so that comparisons
are exact: `gender / 2 > 1` becomes `gender > 2 * 1`.
"""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import reduce

from llmchecker.properties.logic.ast import (
    Arithmetic,
    Atom,
    Connective,
    Formula,
    Literal,
    Number,
    Operation,
    PathQuantifier,
    Probability,
    Temporal,
)

MAX_NUMBER = 2**31 - 1
"""Largest number that a query may contain."""
_MAX_EXPONENT = 8
"""Largest exponent of `pow`, which becomes a product."""


class DerivationError(Exception):
    """Error of an operator whose operands have no meaning; the message is the reason."""


# --- path formulas and state formulas ---------------------------------------------------------


@dataclass(frozen=True)
class Bounds:
    """Numbers of steps of a temporal operator, both included; `upper` may be None for no limit."""

    lower: int = 0
    upper: int | None = None

    @classmethod
    def from_comparison(cls, comparison: str, number: int) -> "Bounds":
        """Return the bounds that a comparison with a number of steps gives.

        Raises:
            DerivationError: the comparison is `!=`.
        """
        match comparison:
            case "<=":
                return cls(0, number)
            case "<":
                return cls(0, number - 1)
            case ">=":
                return cls(number, None)
            case ">":
                return cls(number + 1, None)
            case "=":
                return cls(number, number)
        raise DerivationError("is no bound of steps; write <=, <, >=, >, = or [a,b]")


def build_temporal(name: str, operands: tuple[Formula, ...], bounds: Bounds | None) -> Formula:
    """Build X, F, G, U, W, R or M, with bounds or without.

    Raises:
        DerivationError: no step is within the bounds, or X has bounds.
    """
    if bounds is None and name != "M":
        return Temporal(name, operands)
    bounds = bounds or Bounds()
    if bounds.upper is not None and bounds.lower > bounds.upper:
        raise DerivationError("has no number of steps within its bounds")
    match name, operands:
        case "X", _:
            raise DerivationError("takes no bound; write F=n for the state after n steps")
        case "F" | "G", _:
            return _skip_steps(_limit(name, operands, bounds), bounds.lower)
        case "U", (left, _):
            later = _skip_steps(_limit(name, operands, bounds), bounds.lower)
            if bounds.lower == 0:
                return later
            return Connective("&", (Temporal("G", (left,), bounds.lower - 1), later))
        case "M", (left, right):
            return build_temporal("U", (right, Connective("&", (left, right))), bounds)
        case "R", (left, right):
            return _negate(build_temporal("U", (_negate(left), _negate(right)), bounds))
        case "W", (left, right):
            neither = Connective("&", (_negate(left), _negate(right)))
            before = Connective("&", (left, _negate(right)))
            return _negate(build_temporal("U", (before, neither), bounds))
    raise AssertionError(name)


def _limit(name: str, operands: tuple[Formula, ...], bounds: Bounds) -> Formula:
    """Return F, G or U from the first step of the bounds on."""
    if bounds.upper is None:
        return Temporal(name, operands)
    # within no further step, F, G and U are about the state itself
    if bounds.upper == bounds.lower and bounds.lower > 0:
        return operands[-1]
    return Temporal(name, operands, bounds.upper - bounds.lower)


def _skip_steps(formula: Formula, steps: int) -> Formula:
    """Return the formula that a path satisfies if its rest after a number of steps does."""
    if steps == 0:
        return formula
    return Temporal("X", (formula,), None if steps == 1 else steps)


def _negate(formula: Formula) -> Connective:
    return Connective("!", (formula,))


def build_equivalence(left: Formula, right: Formula) -> Connective:
    """Build `left <=> right`."""
    return Connective("&", (Connective("=>", (left, right)), Connective("=>", (right, left))))


def build_choice(condition: Formula, first: Formula, second: Formula) -> Connective:
    """Build `condition ? first : second`."""
    return Connective(
        "|",
        (
            Connective("&", (condition, first)),
            Connective("&", (_negate(condition), second)),
        ),
    )


def build_long_run(comparison: str, threshold: Decimal | None, state: Formula) -> Probability:
    """Build the long-run probability `S>=p [ state ]`; a threshold of None is `S=?`."""
    return Probability(comparison, threshold, Temporal("F", (Temporal("G", (state,)),)))


def build_filter(name: str, state: Formula, filtered: Formula) -> PathQuantifier:
    """Build a filter over all reachable states.

    Args:
        name: `forall` or `exists`.
        state: the state formula that is read in each state.
        filtered: the state formula of the states that count.
    """
    connective, temporal, quantifier = ("=>", "G", "A") if name == "forall" else ("&", "F", "E")
    if filtered != Literal(True):
        state = Connective(connective, (filtered, state))
    return PathQuantifier(quantifier, Temporal(temporal, (state,)))


# --- arithmetic -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Quotient:
    """An expression of PRISM: an integer expression, divided by a constant above 0.

    Attributes:
        numerator: the integer expression.
        denominator: the divisor, 1 if the expression has no `/` and no decimal point.
        value: the value of an expression without variables; None for others.
    """

    numerator: Arithmetic
    denominator: int = 1
    value: Fraction | None = None

    @classmethod
    def from_number(cls, value: Fraction) -> "Quotient":
        """Return the expression of a number.

        Raises:
            DerivationError: the number is too large, or has too many digits.
        """
        if max(abs(value.numerator), value.denominator) > MAX_NUMBER:
            raise DerivationError(f"needs numbers of at most {MAX_NUMBER}; write fewer digits")
        return cls(Number(value.numerator), value.denominator, value)


def compare_quotients(left: Quotient, comparison: str, right: Quotient) -> Atom:
    """Build the comparison of two expressions.

    Raises:
        DerivationError: a denominator is too large.
    """
    first, second, _ = _unify(left, right)
    return Atom(first, comparison, second)


def combine(name: str, left: Quotient, right: Quotient) -> Quotient:
    """Build a sum, difference, product, quotient, minimum or maximum.

    Raises:
        DerivationError: a divisor is 0 or no constant, or a denominator is too large.
    """
    if name == "/":
        return _divide(left, right)
    value = None
    if left.value is not None and right.value is not None:
        value = _CONSTANTS[name](left.value, right.value)
    match name:
        case "*":
            numerator = Operation("*", left.numerator, right.numerator)
            denominator = _check_denominator(left.denominator * right.denominator)
        case _:
            first, second, denominator = _unify(left, right)
            numerator = Operation(name, first, second)
    return Quotient(numerator, denominator, value)


def negate_quotient(operand: Quotient) -> Quotient:
    """Build `-operand`; the negative of a number is a number."""
    value = None if operand.value is None else -operand.value
    match operand.numerator:
        case Number(number):
            return Quotient(Number(-number), operand.denominator, value)
    return Quotient(Operation("-", Number(0), operand.numerator), operand.denominator, value)


def call_function(name: str, arguments: Sequence[Quotient]) -> Quotient:
    """Build a call of a function of PRISM.

    Raises:
        DerivationError: the function is unknown, or its arguments have no meaning.
    """
    match name, arguments:
        case "min" | "max", [_, _, *_]:
            return reduce(lambda one, other: combine(name, one, other), arguments)
        case "floor", [operand]:
            return _round_down(operand)
        case "ceil", [operand]:
            return negate_quotient(_round_down(negate_quotient(operand)))
        case "round", [operand]:
            # a half is rounded up
            half = Quotient.from_number(Fraction(1, 2))
            return _round_down(combine("+", operand, half))
        case "mod", [operand, divisor]:
            number = divisor.value
            if operand.denominator != 1 or number is None or number.denominator != 1 or number < 1:
                raise DerivationError("needs whole numbers, the second a constant above 0")
            # at least 0 as in PRISM, where the remainder of C has the sign of its operand
            rounded = Operation("//", operand.numerator, Number(number.numerator))
            multiple = Operation("*", Number(number.numerator), rounded)
            value = None if operand.value is None else operand.value % number
            return Quotient(Operation("-", operand.numerator, multiple), 1, value)
        case "pow", [operand, exponent]:
            return _raise_to_power(operand, exponent)
    if name in _OPERAND_COUNTS:
        raise DerivationError(f"takes {_OPERAND_COUNTS[name]}")
    names = ", ".join(_OPERAND_COUNTS)
    raise DerivationError(f"is no function of queries; write {names}")


_CONSTANTS: Mapping[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "min": min,
    "max": max,
}
"""Functions of two constants, by the names of `combine`."""
_OPERAND_COUNTS = {
    "min": "two or more expressions",
    "max": "two or more expressions",
    "floor": "one expression",
    "ceil": "one expression",
    "round": "one expression",
    "mod": "two expressions",
    "pow": "two expressions",
}


def _divide(left: Quotient, right: Quotient) -> Quotient:
    divisor = right.value
    if divisor is None or divisor == 0:
        raise DerivationError("needs a constant other than 0 as its divisor")
    factor = divisor.denominator if divisor > 0 else -divisor.denominator
    denominator = _check_denominator(left.denominator * abs(divisor.numerator))
    value = None if left.value is None else left.value / divisor
    return Quotient(_scale(left.numerator, factor), denominator, value)


def _round_down(operand: Quotient) -> Quotient:
    if operand.denominator == 1:
        return operand
    value = None if operand.value is None else Fraction(math.floor(operand.value))
    rounded = Operation("//", operand.numerator, Number(operand.denominator))
    return Quotient(rounded, 1, value)


def _raise_to_power(operand: Quotient, exponent: Quotient) -> Quotient:
    number = exponent.value
    if number is None or number.denominator != 1 or not 0 <= number <= _MAX_EXPONENT:
        raise DerivationError(f"needs a whole number from 0 to {_MAX_EXPONENT} as its exponent")
    factors = [operand] * number.numerator or [Quotient.from_number(Fraction(1))]
    return reduce(lambda one, other: combine("*", one, other), factors)


def _unify(left: Quotient, right: Quotient) -> tuple[Arithmetic, Arithmetic, int]:
    """Return two numerators over one denominator, and the denominator."""
    denominator = _check_denominator(math.lcm(left.denominator, right.denominator))
    first, second = (
        _scale(each.numerator, denominator // each.denominator) for each in (left, right)
    )
    return first, second, denominator


def _scale(expression: Arithmetic, factor: int) -> Arithmetic:
    match expression:
        case _ if factor == 1:
            return expression
        case Number(number):
            return Number(number * factor)
    return Operation("*", Number(factor), expression)


def _check_denominator(number: int) -> int:
    if number > MAX_NUMBER:
        raise DerivationError(f"needs a denominator above {MAX_NUMBER}; write smaller numbers")
    return number
