"""Linear candidates from concrete runs: affine equalities and octagon bounds.

A relation that holds in every observed state need not hold in all states, so it is only a
candidate. The equalities are the affine hull (Karr 1976) of small sets of variables. The bounds are
octagons (Miné 2006). Both are computed from states, not from the program.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, product
from math import comb, gcd, lcm
from types import MappingProxyType

from loop_invariants.interpreter.evaluator import ConcreteState
from loop_invariants.ir.expressions import (
    Binary,
    Cast,
    Constant,
    Expression,
    Identifier,
    Type,
    negate,
)
from loop_invariants.ir.polynomials import build_comparison, build_product, scale

_MAX_VARIABLES = 4
"""Maximum number of variables in an equality: `x - i == y - j` needs 4."""

_MAX_SUBSETS = 20_000
"""Maximum number of subsets of a size: of over 27 variables, none of size 4."""

_MAX_VARIABLES_IN_PHASE = 2
_MAX_BRANCH_CONDITIONS = 8
_MIN_STATES = 4
"""Minimum number of states of a phase for its equalities."""

_MAX_VALUE = 10**6
_MAX_COEFFICIENT = 20
"""Maximum factor of a variable: larger factors are mostly coincidences."""
_SAMPLE_SIZE = 40
"""Approximate number of states for equalities: exact fractions are slow."""

_MAX_SAFE_VALUE = 2**30
"""A 32-bit number below this value is far from wrapping around."""

_INT64 = Type(64)

_Row = list[Fraction]


def find_relations(
    variables: Sequence[Identifier],
    states: Sequence[ConcreteState],
    steps: Mapping[Identifier, Iterable[int]] = MappingProxyType({}),
    wide: bool = False,
) -> tuple[Expression, ...]:
    """Find bounds of all states, and equalities of a sample of states.

    Equalities come before bounds, and few variables before many. States with a value above a
    million are excluded: near the limits of a type values wrap around, which breaks equalities.

    Args:
        variables: the variables to relate.
        states: states of runs at a loop head.
        steps: the constants by which each variable moves. For two moving variables, bounds on the
            difference are scaled by their steps, such as `k - 2000 * i >= 0`.
        wide: whether bounds of sums and differences are computed in 64 bits, where they do not
            wrap around.
    """
    small_states = _select_small_states(variables, states)
    # A single state satisfies far too many equalities.
    if len(small_states) < 2:
        return ()
    equalities = _iter_equalities(variables, small_states, _MAX_VARIABLES)
    relations = dict.fromkeys([*equalities, *_iter_bounds(variables, small_states, steps, wide)])
    return tuple(relations)


def drift_bounds(
    variables: Collection[Identifier],
    states: Sequence[ConcreteState],
    steps: Mapping[Identifier, Iterable[int]],
    constants: Sequence[int],
    wide: bool = False,
) -> tuple[Expression, ...]:
    """Find bounds on the drift of a variable relative to another variable's steps.

    Where each iteration does `x = x + y` and `i = i + 1` with `y <= 1000`, `x - 1000 * i` never
    grows. A term that cannot grow is largest at the begin of a run. Only such bounds are returned.

    Args:
        variables: the variables that move by amounts other than constants.
        states: states of runs at a loop head.
        steps: the constants by which other variables move.
        constants: the possible drifts in each step.
        wide: whether sums are computed in 64 bits, where they do not wrap around.
    """
    bounds: dict[Expression, None] = {}
    for variable, other in product(variables, steps):
        small_states = _select_small_states((variable, other), states)
        directions = {step > 0 for step in steps[other] if step}
        # The other variable must move in a single direction to measure the steps.
        if variable == other or len(small_states) < 2 or len(directions) != 1:
            continue
        first_value = (min if directions == {True} else max)(s[other.name] for s in small_states)
        x, t = (Cast(_INT64, v) if wide else v for v in (variable, other))
        for factor in sorted({abs(c) for c in constants if c}):
            for operator, sign in (("-", -1), ("+", 1)):
                values = [s[variable.name] + sign * factor * s[other.name] for s in small_states]
                # Only an extreme value at the first step may bound the whole run.
                initial_values = [
                    v
                    for v, s in zip(values, small_states, strict=True)
                    if s[other.name] == first_value
                ]
                total = Binary(operator, x, build_product(factor, (t,)))
                if min(values) in initial_values:
                    bounds[Binary(">=", total, Constant(min(values)))] = None
                if max(values) in initial_values:
                    bounds[Binary("<=", total, Constant(max(values)))] = None
        if wide:
            # Where no extreme comes first, the term may still stay far from the limits of its type.
            for operator in ("-", "+"):
                total = Binary(operator, x, t)
                bounds[Binary(">=", total, Constant(-_MAX_SAFE_VALUE))] = None
                bounds[Binary("<=", total, Constant(_MAX_SAFE_VALUE))] = None
    return tuple(bounds)


def conditional_equalities(
    variables: Sequence[Identifier],
    states: Sequence[ConcreteState],
    branch_conditions: Iterable[Expression],
    is_satisfied: Callable[[Expression, ConcreteState], bool],
    steps: Mapping[Identifier, Iterable[int]] = MappingProxyType({}),
    constants: Sequence[int] = (),
) -> tuple[Expression, ...]:
    """Find equalities that hold only where a condition of the loop holds, or does not.

    A loop that changes its behaviour has such phases (Sharma et al. 2011). Each equality is a
    disjunction with the negation of its phase. For a phase with too few states, the result
    contains the sums that the steps preserve, equal to the program's constants.

    Args:
        variables: the variables to relate.
        states: states of runs at a loop head.
        branch_conditions: the conditions that may separate phases.
        is_satisfied: checks whether a condition holds in a state.
        steps: the constants by which each variable moves.
        constants: the possible values of sums.
    """
    small_states = _select_small_states(variables, states)
    disjunctions: dict[Expression, None] = {}
    for condition in list(branch_conditions)[:_MAX_BRANCH_CONDITIONS]:
        for phase in (condition, negate(condition)):
            phase_states = [state for state in small_states if is_satisfied(phase, state)]
            if len(phase_states) < _MIN_STATES:
                equalities = _iter_step_equalities(variables, steps, constants)
            elif len(phase_states) < len(small_states):
                equalities = _iter_equalities(variables, phase_states, _MAX_VARIABLES_IN_PHASE)
            # A phase that contains every state has the equalities of `find_relations`.
            else:
                continue
            for equality in equalities:
                disjunctions[Binary("||", negate(phase), equality)] = None
    return tuple(disjunctions)


def _iter_step_equalities(
    variables: Sequence[Identifier],
    steps: Mapping[Identifier, Iterable[int]],
    constants: Sequence[int],
) -> Iterator[Expression]:
    """Yield equalities of a constant and a sum that the variables' steps preserve."""
    for a, b in combinations(variables, 2):
        for x, y in _iter_cancelling_factors(steps.get(a, ()), steps.get(b, ())):
            for constant in constants:
                yield _build_equality((a, b), (-constant, x, y))


def _select_small_states(
    variables: Sequence[Identifier], states: Sequence[ConcreteState]
) -> list[ConcreteState]:
    return [s for s in states if all(abs(s[v.name]) <= _MAX_VALUE for v in variables)]


def _iter_equalities(
    variables: Sequence[Identifier], states: Sequence[ConcreteState], max_variables: int
) -> Iterator[Expression]:
    sample = states[:: max(1, len(states) // _SAMPLE_SIZE)]
    for count in range(1, max_variables + 1):
        # Larger subsets are even more numerous, so the search ends here.
        if comb(len(variables), count) > _MAX_SUBSETS:
            return
        for subset in combinations(variables, count):
            for coefficients in _null_space([[1, *(s[v.name] for v in subset)] for s in sample]):
                # With a zero factor it is an equality of fewer variables, which a smaller subset
                # yields.
                if all(coefficients[1:]) and max(map(abs, coefficients[1:])) <= _MAX_COEFFICIENT:
                    yield _build_equality(subset, coefficients)


def _null_space(rows: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield an integer basis of the vectors c with c · row = 0 for every row."""
    width = len(rows[0])
    echelon_rows = _reduce_rows(rows)
    pivots = [next(i for i, value in enumerate(row) if value) for row in echelon_rows]
    for free_column in sorted(set(range(width)) - set(pivots)):
        solution = [Fraction(0)] * width
        solution[free_column] = Fraction(1)
        for pivot, row in zip(pivots, echelon_rows, strict=True):
            solution[pivot] = -row[free_column]
        scale = lcm(*(value.denominator for value in solution))
        integers = [int(value * scale) for value in solution]
        divisor = gcd(*integers)
        yield [value // divisor for value in integers]


def _reduce_rows(rows: Sequence[Sequence[int]]) -> list[_Row]:
    """Compute the reduced row echelon form, without rows of zeros."""
    echelon_rows: list[_Row] = []
    for values in rows:
        row = [Fraction(value) for value in values]
        for echelon_row in echelon_rows:
            pivot = next(i for i, value in enumerate(echelon_row) if value)
            row = _subtract_multiple(row, row[pivot], echelon_row)
        # A row of zeros depends on the earlier rows.
        if not any(row):
            continue
        pivot = next(i for i, value in enumerate(row) if value)
        row = [value / row[pivot] for value in row]
        echelon_rows = [
            _subtract_multiple(echelon_row, echelon_row[pivot], row) for echelon_row in echelon_rows
        ] + [row]
        if len(echelon_rows) == len(row):  # the rows span the whole space
            break
    return echelon_rows


def _subtract_multiple(row: _Row, factor: Fraction, other: _Row) -> _Row:
    return [a - factor * b for a, b in zip(row, other, strict=True)] if factor else row


def _build_equality(variables: Sequence[Identifier], coefficients: Sequence[int]) -> Expression:
    """Build an equality with positive coefficients, such as 2 * j + i == 41."""
    products = (*((variable,) for variable in variables), ())
    polynomial = dict(zip(products, (*coefficients[1:], coefficients[0]), strict=True))
    # The left side would be 0 if no coefficient were positive.
    return build_comparison("==", scale(polynomial, 1 if max(coefficients) > 0 else -1))


def _iter_bounds(
    variables: Sequence[Identifier],
    states: Sequence[ConcreteState],
    steps: Mapping[Identifier, Iterable[int]],
    wide: bool,
) -> Iterator[Expression]:
    for variable in variables:
        yield from _iter_extremes(variable, [s[variable.name] for s in states])
    if wide:
        # Where both variables wrap around, a difference that also wraps around stays the same.
        for a, b in combinations([v for v in variables if steps.get(v)], 2):
            if set(steps[a]) == set(steps[b]):
                differences = [s[a.name] - s[b.name] for s in states]
                yield from _iter_extremes(Binary("-", a, b), differences)
    for a, b in combinations(variables, 2):
        left, right = (Cast(_INT64, v) if wide else v for v in (a, b))
        factors = _iter_cancelling_factors(steps.get(a, ()), steps.get(b, ()))
        # The plain difference and sum come first, and only once.
        for x, y in dict.fromkeys(((1, -1), (1, 1), *factors)):
            terms = build_product(x, (left,)), build_product(abs(y), (right,))
            total = Binary("-" if y < 0 else "+", *terms)
            yield from _iter_extremes(total, [x * s[a.name] + y * s[b.name] for s in states])


def _iter_cancelling_factors(
    first_steps: Iterable[int], second_steps: Iterable[int]
) -> Iterator[tuple[int, int]]:
    """Yield the factors for which steps of two variables preserve their weighted sum."""
    factors = set()
    for a, b in product(first_steps, second_steps):
        divisor = gcd(a, b) or 1
        x, y = b // divisor, -a // divisor
        factors.add((x, y) if x > 0 else (-x, -y))
    yield from sorted(f for f in factors if f[0] and f[1])


def _iter_extremes(term: Expression, values: Sequence[int]) -> Iterator[Expression]:
    yield Binary(">=", term, Constant(min(values)))
    yield Binary("<=", term, Constant(max(values)))
