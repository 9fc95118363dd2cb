"""Syntax tree of queries, Storm's notation of it, and evaluation of atoms."""

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property, partial
from typing import Any, TypeGuard, TypeVar

import numpy as np

STEP = "step"
LABELS = ("rest", "end")

_RESERVED_NAMES = frozenset(
    """A C E F G I M P Pmax Pmin R Rmax Rmin S U W X bool ceil clock const ctmc double dtmc end
    endinit endinvariant endmodule endobservables endrewards endsystem false filter floor formula
    func global init invariant int kind label log max mdp min mod module nondeterministic observable
    observables of pomdp popta pow prob probabilistic pta rate rest rewards round smg step
    stochastic system true uid""".split()
)
"""Forbidden names of quantifiers: words of PRISM and queries, chain variables."""

_COMPARISONS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_CONNECTIVES: Mapping[str, Callable[..., np.ndarray]] = {
    "!": operator.invert,
    "=>": lambda premise, conclusion: ~premise | conclusion,
    "&": lambda *truths: np.logical_and.reduce(truths),
    "|": lambda *truths: np.logical_or.reduce(truths),
}


def _select_smaller(left: Any, right: Any) -> Any:
    """Return the smaller number, of each state for arrays."""
    # NumPy would turn two Python integers, which have no limit, into one of 64 bits
    both_numbers = isinstance(left, int) and isinstance(right, int)
    return min(left, right) if both_numbers else np.minimum(left, right)


def _select_larger(left: Any, right: Any) -> Any:
    """Return the larger number, of each state for arrays."""
    both_numbers = isinstance(left, int) and isinstance(right, int)
    return max(left, right) if both_numbers else np.maximum(left, right)


_OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "min": _select_smaller,
    "max": _select_larger,
}

_Kind = TypeVar("_Kind")
_Value = TypeVar("_Value", int, np.ndarray)


def is_variable_name(name: str) -> bool:
    """Return whether a name can be a variable in queries and in PRISM."""
    return name.isascii() and name.isidentifier() and name not in _RESERVED_NAMES


@dataclass(frozen=True)
class Number:
    """An integer constant."""

    value: int

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True)
class Variable:
    """The variable `step` or a quantifier."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Operation:
    """A sum, difference, product, minimum or maximum, or a quotient that is rounded down (`//`).

    A divisor is a constant above 0.
    """

    operator: str
    left: "Arithmetic"
    right: "Arithmetic"

    def __str__(self) -> str:
        match self.operator:
            case "min" | "max":
                return f"{self.operator}({self.left}, {self.right})"
            # the operator / of PRISM does not round
            case "//":
                return f"floor({self.left} / {self.right})"
        return f"({self.left} {self.operator} {self.right})"


Arithmetic = Number | Variable | Operation


@dataclass(frozen=True)
class Atom:
    """A comparison of two integer expressions, true or false in a single state."""

    left: Arithmetic
    comparison: str
    right: Arithmetic

    def __str__(self) -> str:
        return f"{self.left} {self.comparison} {self.right}"

    @cached_property
    def variables(self) -> frozenset[str]:
        """Names of the variables in the atom."""
        return frozenset(_iter_variables(self.left)) | frozenset(_iter_variables(self.right))

    @property
    def is_step_only(self) -> bool:
        """Whether the atom has no quantifier; its truth is then known in `rest` too."""
        # a suite asks this of thousands of queries, whose sets of names would stay in memory
        return all(
            name == STEP for side in (self.left, self.right) for name in _iter_variables(side)
        )

    def evaluate(self, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return (n,) bool: the states in which the atom holds, exactly.

        Where an intermediate number could exceed int64, Python integers are used. They are slower
        and unbounded.

        Args:
            columns: (n,) integers for each variable of the atom, and for `step`.
        """
        # int64 wraps around without an error; object arrays compute with Python integers
        if self.compute_max_magnitude(columns) >= 2**63:
            columns = {name: column.astype(object) for name, column in columns.items()}
        truth = _COMPARISONS[self.comparison](
            evaluate_arithmetic(self.left, columns), evaluate_arithmetic(self.right, columns)
        )
        # an atom of constants gives one value for all states
        return np.broadcast_to(np.asarray(truth, dtype=bool), columns[STEP].shape)

    def compute_max_magnitude(self, columns: Mapping[str, np.ndarray]) -> int:
        """Return an upper bound of the absolute value of every number in `evaluate`."""
        sizes = {
            name: max(abs(int(columns[name].min())), abs(int(columns[name].max())))
            if len(columns[name])
            else 0
            for name in self.variables
        }
        return max(
            _compute_max_magnitude(self.left, sizes), _compute_max_magnitude(self.right, sizes)
        )


@dataclass(frozen=True)
class Literal:
    """The constant `true` or `false`."""

    value: bool

    def __str__(self) -> str:
        return "true" if self.value else "false"


@dataclass(frozen=True)
class Label:
    """The label `"rest"` or `"end"`: the states of that kind."""

    name: str


@dataclass(frozen=True)
class Connective:
    """A connective `!`, `&`, `|` or `=>` with its operands."""

    operator: str
    operands: tuple["Formula", ...]


@dataclass(frozen=True)
class Temporal:
    """A temporal operator: X, F or G with one operand, or U, W or R with two.

    F, G and U may have a `bound`, a maximum number of steps. The `bound` of X is the number of
    steps, 1 by default. All other bounds are rewritten to these two (see `derived`).
    """

    operator: str
    operands: tuple["Formula", ...]
    bound: int | None = None


@dataclass(frozen=True)
class Probability:
    """The operator `P>=p`, `P>p`, `P<=p` or `P<p` of a path formula.

    A `threshold` of None is `P=?`.
    """

    comparison: str
    threshold: Decimal | None
    path: "Formula"


@dataclass(frozen=True)
class PathQuantifier:
    """The operator `E [ … ]` (a path satisfies the formula) or `A [ … ]` (all do).

    Every path of the bounded process descends its tree and then stays in the loop of a leaf. Its
    probability is a finite product of transitions above 0, and so is above 0. Hence E holds if and
    only if the path formula's probability is above 0, and A exactly if it is 1. In a chain with
    larger loops this would be wrong.
    """

    quantifier: str
    path: "Formula"

    @property
    def probability(self) -> Probability:
        """The equivalent formula on a finite tree: P>0 for E, P>=1 for A."""
        if self.quantifier == "E":
            return Probability(">", Decimal(0), self.path)
        return Probability(">=", Decimal(1), self.path)


Formula = Atom | Literal | Label | Connective | Temporal | Probability | PathQuantifier


def is_proposition(formula: object) -> TypeGuard[Atom | Literal | Label]:
    """Return whether a formula is an atom, a literal or a label."""
    return isinstance(formula, Atom | Literal | Label)


def evaluate_proposition(
    formula: Formula,
    evaluate_atom: Callable[[Atom], np.ndarray],
    labels: Mapping[str, np.ndarray],
) -> np.ndarray:
    """Return (n,) bool: the states in which a formula without P, E, A and temporal operators holds.

    Args:
        formula: the formula.
        evaluate_atom: returns (n,) bool, the states in which an atom holds.
        labels: (n,) bool for each label, at least one.
    """
    match formula:
        case Literal(value):
            return np.full(len(next(iter(labels.values()))), value)
        case Label(name):
            return labels[name]
        case Atom():
            return evaluate_atom(formula)
        case Connective(operator, operands):
            truths = [evaluate_proposition(each, evaluate_atom, labels) for each in operands]
            return _CONNECTIVES[operator](*truths)
    raise AssertionError(formula)


@dataclass(frozen=True)
class Conditional:
    """The conditional probability `P=? [ path || given ]` of two path formulas.

    It is P(path & given) / P(given), and undefined where P(given) is 0.
    """

    path: Formula
    condition: Formula


@dataclass(frozen=True)
class Expectation:
    """An expected score: `R{"quantifier"}=? [ I=step ]`, after a number of steps.

    A text that has ended keeps its score. The score of a `rest` is unknown, and adds 0 in the
    bounded process. The value is the sum of the known texts' scores, weighted by their
    probabilities. It is not divided by the sum of these probabilities.

    Attributes:
        quantifier: name of the quantifier.
        step: number of steps; None for the last state, which repeats for ever (`[ S ]`).
        is_sum: whether the score is the sum over the first `step` states (`[ C<=step ]`).
    """

    quantifier: str
    step: int | None
    is_sum: bool = False

    @property
    def last_step(self) -> int | None:
        """Number of steps after which no state counts; None if every state may count."""
        if self.step is None or not self.is_sum:
            return self.step
        # the start string is the first state
        return max(0, self.step - 1)

    def count_scores(self) -> int:
        """Return the number of scores of a path that are added up."""
        return self.step if self.is_sum and self.step is not None else 1

    def __str__(self) -> str:
        """Return the part of the query between the brackets."""
        if self.step is None:
            return "S"
        return f"C<={self.step}" if self.is_sum else f"I={self.step}"


Root = Formula | Conditional | Expectation
"""Root of a query: a formula over states, or a numeric query."""


def find_operands(formula: Root) -> tuple[Formula, ...]:
    """Return the formulas that a formula connects, in the order of the text."""
    match formula:
        case Connective(_, operands) | Temporal(_, operands):
            return operands
        case Probability(_, _, path) | PathQuantifier(_, path):
            return (path,)
        case Conditional(path, condition):
            return path, condition
    return ()


def subformulas(formula: Root) -> Iterator[Root]:
    """Yield the formula and all formulas in it, outermost first, left to right."""
    yield formula
    for operand in find_operands(formula):
        yield from subformulas(operand)


def find_distinct(root: Root, kind: type[_Kind]) -> tuple[_Kind, ...]:
    """Return the distinct formulas of a kind in a formula, in their order in the text."""
    return tuple(dict.fromkeys(each for each in subformulas(root) if isinstance(each, kind)))


def map_formulas(root: Root, rewrite: Callable[[Formula], Formula]) -> Root:
    """Return a root whose outermost formulas a function rewrote."""
    match root:
        case Conditional(path, condition):
            return Conditional(rewrite(path), rewrite(condition))
        case Expectation():
            return root
    return rewrite(root)


def _map_operands(formula: Formula, rewrite: Callable[[Formula], Formula]) -> Formula:
    """Return a formula of which a function rewrote the operands, or the path."""
    match formula:
        case Connective(_, operands) | Temporal(_, operands):
            return replace(formula, operands=tuple(map(rewrite, operands)))
        case Probability(_, _, path) | PathQuantifier(_, path):
            return replace(formula, path=rewrite(path))
    return formula


def rewrite_for_graph_decision(formula: Formula) -> Formula:
    """Rewrite a formula so that Storm decides it without rounding if possible.

    Storm decides P>=1, P>0, P<1 and P<=0 on the graph for F and U without a bound, and for LTL. For
    X and for step bounds it adds probabilities instead, and in float64 0.7 + 0.2 + 0.1 is less than
    1. A conjunction with `X true`, which always holds, makes such a formula LTL.
    """
    if isinstance(formula, PathQuantifier):
        formula = formula.probability
    formula = _map_operands(formula, rewrite_for_graph_decision)
    match formula:
        # other thresholds need the number itself, which the graph does not give
        case Probability(_, threshold, path) if threshold in (0, 1) and _has_step_bounds(path):
            always = Temporal("X", (Literal(True),))
            return replace(formula, path=Connective("&", (path, always)))
    return formula


def cap_step_bounds(formula: Formula, max_steps: int) -> Formula:
    """Return a formula with no step bound above `max_steps`.

    It is equivalent on a chain in which every path reaches a loop of one state within `max_steps`
    steps. The time or memory of other tools can grow with the bound.
    """
    formula = _map_operands(formula, partial(cap_step_bounds, max_steps=max_steps))
    if isinstance(formula, Temporal) and formula.bound is not None:
        return replace(formula, bound=min(formula.bound, max_steps))
    return formula


def _has_step_bounds(path: Formula) -> bool:
    """Return whether a path formula has X or step bounds outside nested P, E, A."""
    match path:
        case Temporal(operator, operands, bound):
            return operator == "X" or bound is not None or any(map(_has_step_bounds, operands))
        case Connective(_, operands):
            return any(map(_has_step_bounds, operands))
    return False


def format_for_storm(formula: Formula, format_atom: Callable[[Atom | Literal], str]) -> str:
    """Format a formula in Storm's syntax.

    Storm lacks G<=n, W and R, which are replaced by their duals.

    Args:
        formula: the formula.
        format_atom: function that formats an atom or literal.
    """
    match formula:
        case Atom() | Literal():
            return format_atom(formula)
        case Label(name):
            return f'"{name}"'
        case Probability(comparison, threshold, path):
            # without an exponent: `f` formats the decimal exactly
            bound = "?" if threshold is None else f"{threshold:f}"
            return f"P{comparison}{bound} [ {format_for_storm(path, format_atom)} ]"
        case PathQuantifier():
            return format_for_storm(formula.probability, format_atom)
    operands = [_parenthesize(operand, format_atom) for operand in formula.operands]
    bound = "" if isinstance(formula, Connective) or formula.bound is None else f"<={formula.bound}"
    # the duals: G a = !F !a, a W b = !(!b U (!a & !b)), a R b = !(!a U !b)
    match formula.operator, operands:
        case "X", [operand] if isinstance(formula, Temporal) and formula.bound is not None:
            return f"F[{formula.bound},{formula.bound}] {operand}"
        case "=>", [left, right]:
            return f"(!{left}) | {right}"
        case "G", [operand] if bound:
            return f"!(F{bound} (!{operand}))"
        case "W", [left, right]:
            return f"!((!{right}) U ((!{left}) & (!{right})))"
        case "R", [left, right]:
            return f"!((!{left}) U (!{right}))"
        case name, [operand]:
            return f"{name}{bound} {operand}" if name != "!" else f"!{operand}"
        case name, [left, right]:
            return f"{left} {name}{bound} {right}"
    raise AssertionError(formula)


def _parenthesize(formula: Formula, format_atom: Callable[[Atom | Literal], str]) -> str:
    text = format_for_storm(formula, format_atom)
    # `format_atom` adds parentheses where an expression needs them
    return text if isinstance(formula, Atom | Literal | Label) else f"({text})"


def _iter_variables(expression: Arithmetic) -> Iterator[str]:
    match expression:
        case Variable(name):
            yield name
        case Operation(_, left, right):
            yield from _iter_variables(left)
            yield from _iter_variables(right)


def evaluate_arithmetic(expression: Arithmetic, values: Mapping[str, _Value]) -> _Value | int:
    """Return the value of an expression.

    Args:
        expression: the expression.
        values: integers, or arrays of integers, for each variable of the expression.
    """
    match expression:
        case Number(value):
            return value
        case Variable(name):
            return values[name]
        case Operation(name, left, right):
            result: _Value | int = _OPERATIONS[name](
                evaluate_arithmetic(left, values), evaluate_arithmetic(right, values)
            )
            return result


def _compute_max_magnitude(expression: Arithmetic, magnitudes: Mapping[str, int]) -> int:
    """Return the largest absolute value of the expression or of a part of it."""
    match expression:
        case Number(value):
            return abs(value)
        case Variable(name):
            return magnitudes[name]
        case Operation(name, left, right):
            left_magnitude, right_magnitude = (
                _compute_max_magnitude(left, magnitudes),
                _compute_max_magnitude(right, magnitudes),
            )
            # the operands too: with a factor 0 the product is small, but not the other factor
            return max(
                left_magnitude,
                right_magnitude,
                left_magnitude * right_magnitude
                if name == "*"
                else left_magnitude + right_magnitude,
            )
