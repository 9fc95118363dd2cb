"""Formulas: the syntax tree of a query, its notation for Storm, and the truth of its atoms."""

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property

import numpy as np

STEP = "step"
LABELS = ("rest", "end")

RESERVED_NAMES = frozenset(
    """A C E F G I P Pmax Pmin R Rmax Rmin S U W X bool ceil clock const ctmc double dtmc end
    endinit endinvariant endmodule endobservables endrewards endsystem false filter floor formula
    func global init invariant int kind label log max mdp min mod module nondeterministic observable
    observables of pomdp popta pow prob probabilistic pta rate rest rewards round smg step
    stochastic system true uid""".split()
)
"""Names that no quantifier can have: words of PRISM and of queries, and variables of the chain."""

_COMPARE = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_COMPUTE = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def is_variable_name(name: str) -> bool:
    """Whether a quantifier of that name can be a variable in queries and in PRISM."""
    return name.isascii() and name.isidentifier() and name not in RESERVED_NAMES


@dataclass(frozen=True)
class Number:
    """A whole number."""

    value: int

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True)
class Variable:
    """`step` or a quantifier."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Operation:
    """A sum, difference or product."""

    operator: str
    left: "Arithmetic"
    right: "Arithmetic"

    def __str__(self) -> str:
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
        """The names of the variables in the atom."""
        return frozenset(_variables(self.left)) | frozenset(_variables(self.right))

    @property
    def over_step_only(self) -> bool:
        """Whether the atom names no quantifier. Its truth is then known in a `rest` state too."""
        return self.variables <= {STEP}

    def holds(self, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return (n,) bool: the states in which the atom holds. The answer is exact.

        Where some intermediate number could exceed int64, Python's own whole numbers are used. They
        are slower and have no limit.

        Args:
            columns: (n,) integers for each variable of the atom, and for `step`.
        """
        if self.largest(columns) >= 2**63:
            columns = {name: column.astype(object) for name, column in columns.items()}
        truth = _COMPARE[self.comparison](
            _computed(self.left, columns), _computed(self.right, columns)
        )
        return np.broadcast_to(np.asarray(truth, dtype=bool), columns[STEP].shape)

    def largest(self, columns: Mapping[str, np.ndarray]) -> int:
        """Return a limit to the absolute value of every number that `holds` computes."""
        sizes = {
            name: max(abs(int(columns[name].min())), abs(int(columns[name].max())))
            if len(columns[name])
            else 0
            for name in self.variables
        }
        return max(_largest(self.left, sizes), _largest(self.right, sizes))


@dataclass(frozen=True)
class Literal:
    """`true` or `false`."""

    value: bool

    def __str__(self) -> str:
        return "true" if self.value else "false"


@dataclass(frozen=True)
class Label:
    """`"rest"` or `"end"`: the states of that kind."""

    name: str


@dataclass(frozen=True)
class Connective:
    """`!`, `&`, `|` or `=>`, with one operand or two."""

    operator: str
    operands: tuple["Formula", ...]


@dataclass(frozen=True)
class Temporal:
    """X, F or G with one operand, or U, W or R with two.

    F, G and U may have a `bound`, the number of steps within which they are decided.
    """

    operator: str
    operands: tuple["Formula", ...]
    bound: int | None = None


@dataclass(frozen=True)
class Probability:
    """`P>=p`, `P>p`, `P<=p` or `P<p` of a path formula; `P=?` if `threshold` is None."""

    comparison: str
    threshold: Decimal | None
    path: "Formula"


@dataclass(frozen=True)
class PathQuantifier:
    """`E [ … ]`, some path satisfies the path formula, or `A [ … ]`, every path does.

    Every path of the bounded process goes down its tree and then stays in the loop of a leaf. Its
    probability is a finite product of transitions above 0, and so is above 0 itself. Hence E holds
    just where the probability of the path formula is above 0, and A just where it is 1. In a chain
    with larger loops this would be wrong.
    """

    quantifier: str
    path: "Formula"

    @property
    def probability(self) -> Probability:
        """The formula that means the same on a finite tree: P>0 for E, P>=1 for A."""
        if self.quantifier == "E":
            return Probability(">", Decimal(0), self.path)
        return Probability(">=", Decimal(1), self.path)


Formula = Atom | Literal | Label | Connective | Temporal | Probability | PathQuantifier


def is_proposition(formula: object) -> bool:
    """Whether a formula has no parts: it is an atom, a literal or a label."""
    return isinstance(formula, Atom | Literal | Label)


@dataclass(frozen=True)
class Conditional:
    """`P=? [ path || given ]`: the probability of one path formula among the paths of another.

    It is P(path & given) / P(given), and undefined where P(given) is 0.
    """

    path: Formula
    given: Formula


@dataclass(frozen=True)
class Expectation:
    """`R{"quantifier"}=? [ I=step ]`: the expected score of a quantifier after so many steps.

    A text that has ended keeps its score. The score of a `rest` is unknown, and adds 0 in the
    bounded process. The value is the sum of the known texts' scores, weighted by their
    probabilities. It is not divided by the sum of these probabilities.
    """

    quantifier: str
    step: int


Root = Formula | Conditional | Expectation
"""A whole query: a formula that is true or false in a state, or a question for a number."""


def subformulas(formula: Root) -> Iterator[Root]:
    """Yield the formula and all formulas in it, outermost first and from left to right."""
    yield formula
    match formula:
        case Connective(_, operands) | Temporal(_, operands):
            for operand in operands:
                yield from subformulas(operand)
        case Probability(_, _, path) | PathQuantifier(_, path):
            yield from subformulas(path)
        case Conditional(path, given):
            yield from subformulas(path)
            yield from subformulas(given)


def decided_on_graph(formula: Root) -> Root:
    """Return a formula that means the same, and that Storm decides without rounding if possible.

    Storm decides P>=1, P>0, P<1 and P<=0 on the graph for F and U without a bound, and for LTL. For
    X and for step bounds it adds up probabilities instead, and in float64 0.7 + 0.2 + 0.1 is less
    than 1. A conjunction with `X true`, which always holds, makes such a formula LTL.
    """
    match formula:
        case Connective(_, operands) | Temporal(_, operands):
            return replace(formula, operands=tuple(map(decided_on_graph, operands)))
        case PathQuantifier():
            return decided_on_graph(formula.probability)
        case Conditional(path, given):
            return Conditional(decided_on_graph(path), decided_on_graph(given))
        case Probability(_, threshold, path):
            path = decided_on_graph(path)
            if threshold in (0, 1) and _counts_steps(path):
                path = Connective("&", (path, Temporal("X", (Literal(True),))))
            return replace(formula, path=path)
    return formula


def bounded_within(formula: Root, steps: int) -> Root:
    """Return a formula with no step bound above `steps`.

    It means the same on a chain in which every path comes to a loop of one state within so many
    steps. Some tools take time, or memory, that grows with the bound.
    """
    match formula:
        case Connective(_, operands):
            return replace(formula, operands=tuple(bounded_within(o, steps) for o in operands))
        case Temporal(_, operands, bound):
            operands = tuple(bounded_within(operand, steps) for operand in operands)
            return replace(
                formula, operands=operands, bound=None if bound is None else min(bound, steps)
            )
        case Probability(_, _, path) | PathQuantifier(_, path):
            return replace(formula, path=bounded_within(path, steps))
        case Conditional(path, given):
            return Conditional(bounded_within(path, steps), bounded_within(given, steps))
    return formula


def _counts_steps(path: Formula) -> bool:
    """Whether a path formula has X or a step bound, outside of any P, E and A in it."""
    match path:
        case Temporal(operator, operands, bound):
            return operator == "X" or bound is not None or any(map(_counts_steps, operands))
        case Connective(_, operands):
            return any(map(_counts_steps, operands))
    return False


def in_storm(formula: Formula, naming: Callable[[Atom | Literal], str]) -> str:
    """Return a formula as Storm reads it.

    Storm lacks G<=n, W and R. Their duals stand for them.

    Args:
        naming: the notation for an atom or literal.
    """
    match formula:
        case Atom() | Literal():
            return naming(formula)
        case Label(name):
            return f'"{name}"'
        case Probability(comparison, threshold, path):
            bound = "?" if threshold is None else f"{threshold:f}"
            return f"P{comparison}{bound} [ {in_storm(path, naming)} ]"
        case PathQuantifier():
            return in_storm(formula.probability, naming)
    words = [_enclosed(operand, naming) for operand in formula.operands]
    bound = "" if isinstance(formula, Connective) or formula.bound is None else f"<={formula.bound}"
    match formula.operator, words:
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


def _enclosed(formula: Formula, naming: Callable[[Atom | Literal], str]) -> str:
    words = in_storm(formula, naming)
    return words if isinstance(formula, Atom | Literal | Label) else f"({words})"


def _variables(expression: Arithmetic) -> Iterator[str]:
    match expression:
        case Variable(name):
            yield name
        case Operation(_, left, right):
            yield from _variables(left)
            yield from _variables(right)


def _computed(expression: Arithmetic, columns: Mapping[str, np.ndarray]) -> np.ndarray | int:
    match expression:
        case Number(value):
            return value
        case Variable(name):
            return columns[name]
        case Operation(name, left, right):
            return _COMPUTE[name](_computed(left, columns), _computed(right, columns))


def _largest(expression: Arithmetic, sizes: Mapping[str, int]) -> int:
    """The largest absolute value that the expression or a part of it can have."""
    match expression:
        case Number(value):
            return abs(value)
        case Variable(name):
            return sizes[name]
        case Operation(name, left, right):
            one, other = _largest(left, sizes), _largest(right, sizes)
            # the parts themselves too: a factor 0 makes a product small, not its other factor
            return max(one, other, one * other if name == "*" else one + other)
