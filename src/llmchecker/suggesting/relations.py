"""Candidates that concrete runs suggest: affine equalities, and bounds of values and differences.

A relation that held in every observed state need not hold in all states, so it is a candidate like
any other. The equalities are those of the affine hull (Karr 1976) of small sets of variables; the
bounds are octagons (Miné 2006). Both are read off states instead of being computed from the
program.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, product
from math import comb, gcd, lcm
from types import MappingProxyType

from llmchecker.programs.evaluation import ConcreteState
from llmchecker.programs.expressions import (
    Binary,
    Cast,
    Constant,
    Expression,
    Identifier,
    Type,
    negation,
)

_TOGETHER = 4
"""The most variables in an equality: one more than in `x + y == n`, as `x - i == y - j` needs."""

_MOST_SETS = 20_000
"""The most sets of one size that are looked at: of more than 27 variables no four together."""

_TOGETHER_IN_PHASE = 2
_MOST_SWITCHES = 8
_ENOUGH = 4
"""So many states of a phase tell which equalities hold in it."""

_LARGEST_VALUE = 10**6
_LARGEST_COEFFICIENT = 20
"""The largest factor of a variable: larger ones mostly come from chance."""
_SAMPLE = 40
"""About how many states equalities are computed from, since exact fractions are slow."""

_FAR = 2**30
"""A number of 32 bits that is smaller than this is far from wrapping around."""

_WIDE = Type(64)

_Row = list[Fraction]


def relations(
    names: Sequence[str],
    states: Sequence[ConcreteState],
    steps: Mapping[str, Iterable[int]] = MappingProxyType({}),
    wide: bool = False,
) -> tuple[Expression, ...]:
    """The bounds that hold in every state, and the equalities that hold in a sample of the states.

    Equalities come before bounds, and those with few variables before those with many. States with
    a value beyond a million are left out, since near the limits of a type values wrap around and
    equalities of numbers break.

    Args:
        names: the variables to relate.
        states: from runs at one loop head.
        steps: the constants by which each variable moves. Of two that move together, the difference
            is bounded as it is when they move by one, `k - 2000 * i >= 0`.
        wide: whether bounds of sums and differences are written in 64 bits, where these do not wrap
            around as they do in 32.
    """
    small = _small(names, states)
    if len(small) < 2:
        return ()
    equalities = _equalities(names, small, _TOGETHER)
    found = dict.fromkeys([*equalities, *_bounds(names, small, steps, wide)])
    return tuple(found)


def slopes(
    drifting: Collection[str],
    states: Sequence[ConcreteState],
    steps: Mapping[str, Iterable[int]],
    constants: Sequence[int],
    wide: bool = False,
) -> tuple[Expression, ...]:
    """How far a variable may drift with each step of another one, if a constant bounds it.

    Where `x = x + y` is done as often as `i = i + 1`, and `y` is at most 1000, `x - 1000 * i` never
    grows. What cannot grow is largest where a run begins, so only such bounds are proposed.

    Args:
        drifting: the variables that move by other amounts than constants.
        states: from runs at one loop head.
        steps: the constants by which other variables move.
        constants: by how much a variable may drift at a step.
        wide: whether sums are written in 64 bits, where these do not wrap around.
    """
    found: dict[Expression, None] = {}
    for name, other in product(drifting, steps):
        small = _small((name, other), states)
        directions = {step > 0 for step in steps[other] if step}
        if name == other or len(small) < 2 or len(directions) != 1:
            continue
        begin = (min if directions == {True} else max)(s[other] for s in small)
        x, t = (Cast(_WIDE, Identifier(n)) if wide else Identifier(n) for n in (name, other))
        for factor in sorted({abs(c) for c in constants if c}):
            for operator, sign in (("-", -1), ("+", 1)):
                values = [s[name] + sign * factor * s[other] for s in small]
                at_first = [v for v, s in zip(values, small, strict=True) if s[other] == begin]
                total = Binary(operator, x, _times(factor, t))
                if min(values) in at_first:
                    found[Binary(">=", total, Constant(min(values)))] = None
                if max(values) in at_first:
                    found[Binary("<=", total, Constant(max(values)))] = None
        if wide:
            # Where neither is largest first, it may still be that nothing comes near a border.
            for operator in ("-", "+"):
                total = Binary(operator, x, t)
                found[Binary(">=", total, Constant(-_FAR))] = None
                found[Binary("<=", total, Constant(_FAR))] = None
    return tuple(found)


def phases(
    names: Sequence[str],
    states: Sequence[ConcreteState],
    switches: Iterable[Expression],
    holds: Callable[[Expression, ConcreteState], bool],
    steps: Mapping[str, Iterable[int]] = MappingProxyType({}),
    constants: Sequence[int] = (),
) -> tuple[Expression, ...]:
    """The equalities that hold where a condition of the loop does, or where it does not.

    A loop that first does one thing and then another has such phases (Sharma et al. 2011). Each
    equality is joined by *or* with the end of its phase. Of a phase that runs hardly reach, those
    are proposed that the steps keep, with the program's constants on the other side.

    Args:
        names: the variables to relate.
        states: from runs at one loop head.
        switches: the conditions that may tell phases apart.
        holds: whether a condition holds in a state.
        steps: the constants by which each variable moves.
        constants: what sums may be equal to.
    """
    small = _small(names, states)
    found: dict[Expression, None] = {}
    for switch in list(switches)[:_MOST_SWITCHES]:
        for phase in (switch, negation(switch)):
            inside = [state for state in small if holds(phase, state)]
            if len(inside) < _ENOUGH:
                equalities = _kept_by_steps(names, steps, constants)
            elif len(inside) < len(small):
                equalities = _equalities(names, inside, _TOGETHER_IN_PHASE)
            else:
                continue
            for equality in equalities:
                found[Binary("||", negation(phase), equality)] = None
    return tuple(found)


def _kept_by_steps(
    names: Sequence[str], steps: Mapping[str, Iterable[int]], constants: Sequence[int]
) -> Iterator[Expression]:
    """Equalities of a constant and a sum of two variables that may keep still when both move."""
    for a, b in combinations(names, 2):
        for x, y in _slopes(steps.get(a, ()), steps.get(b, ())):
            for constant in constants:
                yield _equality((a, b), (-constant, x, y))


def _small(names: Sequence[str], states: Sequence[ConcreteState]) -> list[ConcreteState]:
    return [s for s in states if all(abs(s[name]) <= _LARGEST_VALUE for name in names)]


def _equalities(
    names: Sequence[str], states: Sequence[ConcreteState], together: int
) -> Iterator[Expression]:
    sample = states[:: max(1, len(states) // _SAMPLE)]
    for count in range(1, together + 1):
        if comb(len(names), count) > _MOST_SETS:
            return
        for chosen in combinations(names, count):
            for coefficients in _null_space([[1, *(s[n] for n in chosen)] for s in sample]):
                # With a zero factor it is an equality of fewer variables, which was found before.
                if (
                    all(coefficients[1:])
                    and max(map(abs, coefficients[1:])) <= _LARGEST_COEFFICIENT
                ):
                    yield _equality(chosen, coefficients)


def _null_space(rows: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """A basis of the whole numbers c with c · row = 0 for every row."""
    width = len(rows[0])
    reduced = _reduced(rows)
    pivots = [next(i for i, value in enumerate(row) if value) for row in reduced]
    for free in sorted(set(range(width)) - set(pivots)):
        solution = [Fraction(0)] * width
        solution[free] = Fraction(1)
        for pivot, row in zip(pivots, reduced, strict=True):
            solution[pivot] = -row[free]
        scale = lcm(*(value.denominator for value in solution))
        whole = [int(value * scale) for value in solution]
        divisor = gcd(*whole)
        yield [value // divisor for value in whole]


def _reduced(rows: Sequence[Sequence[int]]) -> list[_Row]:
    """The reduced row echelon form, without rows of zeros."""
    reduced: list[_Row] = []
    for values in rows:
        row = [Fraction(value) for value in values]
        for other in reduced:
            pivot = next(i for i, value in enumerate(other) if value)
            row = _minus(row, row[pivot], other)
        pivot = next((i for i, value in enumerate(row) if value), None)
        if pivot is None:
            continue
        row = [value / row[pivot] for value in row]
        reduced = [_minus(other, other[pivot], row) for other in reduced] + [row]
        if len(reduced) == len(row):  # no other row can change what these span
            break
    return reduced


def _minus(row: _Row, factor: Fraction, other: _Row) -> _Row:
    return [a - factor * b for a, b in zip(row, other, strict=True)] if factor else row


def _equality(names: Sequence[str], coefficients: Sequence[int]) -> Expression:
    """An equality with positive coefficients on both sides, such as 2 * j + i == 41."""
    constant, *factors = coefficients
    sides: tuple[list[Expression], list[Expression]] = ([], [])
    for name, factor in zip(names, factors, strict=True):
        sides[factor < 0].append(_times(abs(factor), Identifier(name)))
    if constant:
        sides[constant < 0].append(Constant(abs(constant)))
    return Binary("==", *(_sum(side) for side in (sides if sides[0] else sides[::-1])))


def _bounds(
    names: Sequence[str],
    states: Sequence[ConcreteState],
    steps: Mapping[str, Iterable[int]],
    wide: bool,
) -> Iterator[Expression]:
    terms = {name: Identifier(name) for name in names}
    for name, term in terms.items():
        yield from _extremes(term, [s[name] for s in states])
    if wide:
        # Where both variables wrap around, a difference that wraps around too stays the same.
        for a, b in combinations([name for name in names if steps.get(name)], 2):
            if set(steps[a]) == set(steps[b]):
                yield from _extremes(Binary("-", terms[a], terms[b]), [s[a] - s[b] for s in states])
        terms = {name: Cast(_WIDE, term) for name, term in terms.items()}
    for a, b in combinations(names, 2):
        yield from _extremes(Binary("-", terms[a], terms[b]), [s[a] - s[b] for s in states])
        yield from _extremes(Binary("+", terms[a], terms[b]), [s[a] + s[b] for s in states])
        for x, y in _slopes(steps.get(a, ()), steps.get(b, ())):
            if (x, abs(y)) == (1, 1):
                continue
            left, right = _times(x, terms[a]), _times(abs(y), terms[b])
            difference = Binary("-" if y < 0 else "+", left, right)
            yield from _extremes(difference, [x * s[a] + y * s[b] for s in states])


def _slopes(one: Iterable[int], other: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The factors with which two variables keep their sum when each is moved by such a step."""
    found = set()
    for a, b in product(one, other):
        divisor = gcd(a, b) or 1
        x, y = b // divisor, -a // divisor
        found.add((x, y) if x > 0 else (-x, -y))
    yield from sorted(f for f in found if f[0] and f[1])


def _extremes(term: Expression, values: Sequence[int]) -> Iterator[Expression]:
    yield Binary(">=", term, Constant(min(values)))
    yield Binary("<=", term, Constant(max(values)))


def _times(factor: int, variable: Expression) -> Expression:
    return variable if factor == 1 else Binary("*", Constant(factor), variable)


def _sum(terms: Sequence[Expression]) -> Expression:
    total = terms[0] if terms else Constant(0)
    for term in terms[1:]:
        total = Binary("+", total, term)
    return total
