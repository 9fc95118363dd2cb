"""Probabilities of path formulas, and the truth of state formulas, with what rounding leaves open.

A path formula becomes reachability (see `product`), which Storm solves. A P, E or A inside another
formula is decided first, for every state, and a label takes its place.

Every answer has two sides: what surely holds and what may hold. On a chain the two differ only
where a probability lies within rounding of a threshold. On a decision process they also differ
where choices do. Thresholds 0 and 1 are decided on the graph, so that rounding leaves nothing open.
"""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from llmchecker.chains.product import SATISFIED_STATE, VIOLATED_STATE, Process, product
from llmchecker.checking import storm
from llmchecker.queries.formulas import (
    Connective,
    Formula,
    Label,
    PathQuantifier,
    Probability,
    Temporal,
    is_proposition,
)

SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)
"""A product of probabilities below this may have lost digits, or have become 0."""
ROOT = np.zeros(1, dtype=np.int64)
"""The start state as the only start."""


@dataclass(frozen=True)
class Probabilities:
    """The least or the greatest probability of a path formula in each of m states.

    Attributes:
        values: (m,) float64, as computed; exactly 0 and 1 where the graph says so.
        low, high: (m,) float64, from 0 to 1; the true probability lies between them.
        impossible, certain: (m,) bool, whether the graph shows it to be exactly 0, exactly 1.
    """

    values: np.ndarray
    low: np.ndarray
    high: np.ndarray
    impossible: np.ndarray
    certain: np.ndarray


class Satisfaction:
    """Answers questions about one process.

    Every method may raise `CheckFailed` if a path formula leaves too many demands, and RuntimeError
    if Storm gives no answer (see `storm.reported`).

    Args:
        process: a chain or a decision process.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._random = bool(np.all(process.transitions.choices == 1))
        self._labels: dict[bytes, Label] = {}
        self._extra: dict[Label, np.ndarray] = {}
        self._decisions: dict[tuple[Formula, bool], Label] = {}

    def leaves_open(self, path: Formula) -> bool:
        """Whether some P, E or A in a formula may hold in a state without surely holding there."""
        return self._decided(path, True) != self._decided(path, False)

    def probabilities(self, path: Formula, least: bool, starts: np.ndarray = ROOT) -> Probabilities:
        """The least or greatest probability of a path formula over all choices, in each start.

        What may hold inside the formula counts for the greatest only, what surely holds for both.

        Args:
            starts: (m,) int64, states.
        """
        both = product(self._process, self._decided(path, least), starts, self._extra)
        if np.all(both.starts <= VIOLATED_STATE):
            decided = both.starts == SATISFIED_STATE
            values = decided.astype(np.float64)
            return Probabilities(values, values, values, ~decided, decided)
        n = len(both.transitions)
        model = storm.model(both.transitions, {"satisfied": np.arange(n) == SATISFIED_STATE})
        reach, at = '[ F "satisfied" ]', both.starts
        if self._random:
            values = storm.values(model, f"P=? {reach}")
            impossible = storm.truths(model, f"P<=0 {reach}", at)
            certain = storm.truths(model, f"P>=1 {reach}", at)
        elif least:
            # on a decision process Storm says that P>0 holds if it does for all choices
            values = storm.values(model, f"Pmin=? {reach}")
            impossible = ~storm.truths(model, f"P>0 {reach}", at)
            certain = storm.truths(model, f"P>=1 {reach}", at)
        else:
            values = storm.values(model, f"Pmax=? {reach}")
            impossible = storm.truths(model, f"P<=0 {reach}", at)
            certain = ~storm.truths(model, f"P<1 {reach}", at)
        return self._rounded(values[at], impossible, certain)

    def satisfying(self, formula: Formula, surely: bool, starts: np.ndarray = ROOT) -> np.ndarray:
        """(m,) bool: whether a state formula surely holds, or may hold, in each start."""
        match formula:
            case PathQuantifier():
                return self.satisfying(formula.probability, surely, starts)
            case Probability(comparison, threshold, path):
                least = surely == (comparison in (">", ">="))
                found = self.probabilities(path, least, starts)
                limit = found.low if least else found.high
                return _meets(found, comparison, Fraction(threshold), limit)
            case Connective("!", (operand,)):
                return ~self.satisfying(operand, not surely, starts)
            case Connective("=>", (left, right)):
                return ~self.satisfying(left, not surely, starts) | self.satisfying(
                    right, surely, starts
                )
            case Connective(operator, operands):
                left, right = (self.satisfying(operand, surely, starts) for operand in operands)
                return left & right if operator == "&" else left | right
        return self._process.truths[formula][starts]

    def _rounded(
        self, values: np.ndarray, impossible: np.ndarray, certain: np.ndarray
    ) -> Probabilities:
        error = self._process.relative_error
        low = np.maximum(values * (1 - error) - SMALLEST_NORMAL, 0.0)
        high = np.minimum(values * (1 + error) + SMALLEST_NORMAL, 1.0)

        def exactly(column: np.ndarray) -> np.ndarray:
            rounded = np.clip(column, 0.0, 1.0)
            return np.where(certain, 1.0, np.where(impossible, 0.0, rounded))

        return Probabilities(exactly(values), exactly(low), exactly(high), impossible, certain)

    def _decided(self, formula: Formula, surely: bool) -> Formula:
        """The formula with a label for each P, E and A in it.

        The label is on the states where the P, E or A surely holds, or where it may hold if not
        `surely`. Below an odd number of negations it is the other way around: there, what holds
        less often makes the whole formula hold more often.
        """
        match formula:
            case Probability() | PathQuantifier():
                if (formula, surely) not in self._decisions:
                    everywhere = np.arange(len(self._process))
                    held = self.satisfying(formula, surely, everywhere)
                    self._decisions[formula, surely] = self._label(held)
                return self._decisions[formula, surely]
            case Connective("!", (operand,)):
                return Connective("!", (self._decided(operand, not surely),))
            case Connective("=>", (left, right)):
                operands = self._decided(left, not surely), self._decided(right, surely)
                return Connective("=>", operands)
            case Connective() | Temporal():
                operands = tuple(self._decided(operand, surely) for operand in formula.operands)
                return replace(formula, operands=operands)
        assert is_proposition(formula)
        return formula

    def _label(self, states: np.ndarray) -> Label:
        """The label of a set of states. Equal sets have the same label."""
        key = np.packbits(states).tobytes()
        if key not in self._labels:
            self._labels[key] = Label(f"p{len(self._labels) + 1}")
            self._extra[self._labels[key]] = states
        return self._labels[key]


def _meets(
    found: Probabilities, comparison: str, threshold: Fraction, limit: np.ndarray
) -> np.ndarray:
    """(m,) bool: whether probabilities meet a threshold.

    Args:
        found: the probabilities.
        comparison: one of >=, >, <= and <.
        threshold: what they are compared with.
        limit: (m,) the side of the probabilities to compare, `low` or `high`.
    """
    if threshold == 0:
        always = np.ones(len(limit), dtype=bool)
        by_graph = {">": ~found.impossible, ">=": always, "<=": found.impossible, "<": ~always}
        return by_graph[comparison]
    if threshold == 1:
        always = np.ones(len(limit), dtype=bool)
        by_graph = {">=": found.certain, ">": ~always, "<": ~found.certain, "<=": always}
        return by_graph[comparison]
    # The comparison is exact: a float is at least the threshold if it is at least the smallest
    # float that is.
    below, above = _neighbours(threshold)
    match comparison:
        case ">=":
            return limit >= above
        case ">":
            return limit > below
        case "<=":
            return limit <= below
    return limit < above


def _neighbours(number: Fraction) -> tuple[float, float]:
    """The greatest float64 up to a number from 0 to 1, and the least float64 from the number on."""
    near = float(number)
    if Fraction(near) == number:
        return near, near
    if Fraction(near) < number:
        return near, float(np.nextafter(near, 2.0))
    return float(np.nextafter(near, -1.0)), near
