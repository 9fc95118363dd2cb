"""The mean or ratio of means that answers a query, and its parts by text."""

from dataclasses import dataclass

import numpy as np

from llmchecker.properties.logic.ast import Expectation
from llmchecker.properties.logic.monitor import PathMonitor
from llmchecker.properties.property import Property


@dataclass(frozen=True)
class Estimand:
    """The quantity that samples estimate: E[numerator] / E[denominator].

    Each text that decides the query has shares of *outcomes*, which add up to 1. For a probability
    the outcomes are φ and !φ, and for a conditional φ & ψ, !φ & ψ and !ψ. A text has one of them.
    For an expected score the first share is the score, scaled to [0, 1]. The numerator is the
    first share, and the denominator the sum of the first two.

    Attributes:
        monitors: the monitors of the formulas that must be decided.
        is_ratio: whether the denominator varies.
        offset, size: the answer is `offset` + `size` times the quantity.
        is_score: whether the numerator is the first quantifier's score.
    """

    monitors: tuple[PathMonitor, ...]
    is_ratio: bool = False
    is_score: bool = False
    offset: float = 0.0
    size: float = 1.0

    @classmethod
    def from_query(cls, asked: Property, monitors: tuple[PathMonitor, ...] = ()) -> "Estimand":
        """Return the estimand of a query.

        Args:
            asked: the query.
            monitors: the monitors of its formulas; those of one answer by default.

        If samples cannot estimate the answer, it only counts the texts that the monitors decide.
        """
        if asked.estimation_obstacle is not None:
            return cls(monitors or asked.monitors)
        if isinstance(asked.query.root, Expectation):
            scores = asked.value_range
            return cls(
                asked.monitors, is_score=True, offset=scores.lower, size=max(1, scores.width)
            )
        return cls(monitors or asked.monitors, is_ratio=len(asked.paths) > 1)

    def compute_shares(self, truth: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Return (outcomes, n) float64: the share of each outcome of decided texts.

        Args:
            truth: (formulas, n), 0 or 1.
            scores: (quantifiers, n) int64.
        """
        # a conditional's formulas are φ & ψ and !φ & ψ, of which at most one holds
        shares = [(scores[0] - self.offset) / self.size] if self.is_score else list(truth == 1)
        return np.stack([*shares, 1.0 - sum(shares)])

    def compute_numerator_if_ended(
        self, truth_if_ended: np.ndarray, scores: np.ndarray
    ) -> np.ndarray:
        """Return (n,) float64: the numerators of texts, as if each of them ended.

        Args:
            truth_if_ended: (formulas, n), 0 or 1.
            scores: (quantifiers, n) int64.
        """
        if self.is_score:
            numerator = ((scores[0] - self.offset) / self.size).clip(0.0, 1.0)
        else:
            numerator = truth_if_ended[0].astype(float)
        found: np.ndarray = numerator
        return found

    def to_answer(self, value: float) -> float:
        """Return the answer for a value of the quantity."""
        return self.offset + self.size * value
