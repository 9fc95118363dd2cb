"""The least and greatest probabilities of path formulas, with margins, and their thresholds.

`TreeSums` computes them by sums over the texts of a tree, and `Satisfaction` by Storm.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from llmchecker.properties.logic.ast import Formula, PathQuantifier, Probability

MIN_NORMAL = float(np.finfo(np.float64).tiny)
"""The smallest normal float64; smaller products lose digits or become 0."""


@dataclass(frozen=True)
class Probabilities:
    """The least or the greatest probability of a path formula in each of m states.

    Attributes:
        values: (m,) float64, as computed; exactly 0 and 1 where the graph shows it.
        low, high: (m,) float64, from 0 to 1; the true probability is between them.
        is_zero, is_one: (m,) bool, whether the graph shows the probability to be exactly 0 or 1.
    """

    values: np.ndarray
    low: np.ndarray
    high: np.ndarray
    is_zero: np.ndarray
    is_one: np.ndarray


class Evaluator(ABC):
    """An evaluator of formulas in the start state of a process."""

    @abstractmethod
    def compute_probabilities(self, path: Formula, minimize: bool) -> Probabilities:
        """Compute the least or the greatest probability of a path formula."""

    def evaluate(self, formula: Formula, certain: bool) -> np.ndarray:
        """Return (1,) bool: whether a P, E or A surely holds, or else may hold."""
        probability = formula.probability if isinstance(formula, PathQuantifier) else formula
        assert isinstance(probability, Probability)
        return compare_with_threshold(probability, certain, self.compute_probabilities)

    def is_three_valued(self, path: Formula) -> bool:
        """Return whether a P, E or A in a formula may hold without surely holding."""
        return False


def compare_with_threshold(
    formula: Probability,
    certain: bool,
    compute: Callable[[Formula, bool], Probabilities],
) -> np.ndarray:
    """Return (m,) bool: whether a P with a threshold holds in each state.

    Args:
        formula: a P with a threshold.
        certain: whether it must surely hold, and not only may hold.
        compute: computes the least probability of a path formula, or else the greatest.
    """
    assert formula.threshold is not None
    # a lower limit surely holds if the least probability meets it, an upper if the greatest does
    minimize = certain == (formula.comparison in (">", ">="))
    found, threshold = compute(formula.path, minimize), Fraction(formula.threshold)
    limit = found.low if minimize else found.high
    # no probability is below 0 and none above 1: thresholds 0 and 1 need the graph only
    if threshold in (0, 1):
        limit = np.select([found.is_zero, found.is_one], [0.0, 1.0], 0.5)
    # The comparison is exact: a float is at least the threshold if it is at least the smallest
    # float that is.
    nearest = float(threshold)
    below = nearest if Fraction(nearest) <= threshold else np.nextafter(nearest, -1.0)
    above = nearest if Fraction(nearest) >= threshold else np.nextafter(nearest, 2.0)
    match formula.comparison:
        case ">=":
            return limit >= above
        case ">":
            return limit > below
        case "<=":
            return limit <= below
    return limit < above
