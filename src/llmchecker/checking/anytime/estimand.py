"""The mean or ratio of means that answers a query, and its parts by text."""

from dataclasses import dataclass

import numpy as np

from llmchecker.checking.anytime.path_formulas import CheckedQuery
from llmchecker.properties.logic.ast import Expectation
from llmchecker.properties.logic.monitor import HorizonMonitor, Monitor


@dataclass(frozen=True)
class Estimand:
    """The quantity that samples estimate: E[numerator] / E[denominator].

    Each text that decides the query has a numerator and a denominator from 0 to 1. For a
    probability they are the truth of the formula and 1. For a conditional they are the truth of
    φ & ψ and of ψ. For an expected score they are the score, scaled to [0, 1], and 1.

    Attributes:
        monitors: the monitors of the formulas that must be decided.
        is_ratio: whether the denominator varies.
        offset, size: the answer is `offset` + `size` times the quantity.
        is_score: whether the numerator is the first quantifier's score.
    """

    monitors: tuple[Monitor | HorizonMonitor, ...]
    is_ratio: bool = False
    is_score: bool = False
    offset: float = 0.0
    size: float = 1.0

    @classmethod
    def from_query(cls, asked: CheckedQuery) -> "Estimand":
        """Return the estimand of a query.

        If samples cannot estimate the answer, it only counts the texts that the monitors decide.
        """
        if asked.estimation_obstacle is not None:
            return cls(asked.monitors)
        root = asked.query.root
        if isinstance(root, Expectation):
            low, high, *_ = asked.ranges[root.quantifier]
            # without both ends samples cannot estimate the answer
            assert low is not None
            assert high is not None
            return cls(asked.monitors, is_score=True, offset=low, size=max(1, high - low))
        return cls(asked.monitors, is_ratio=len(asked.paths) > 1)

    def compute_values(self, truth: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Return (3, n) float64: numerators, denominators and complements of decided texts.

        The complement is 1 minus the numerator.

        Args:
            truth: (formulas, n), 0 or 1.
            scores: (quantifiers, n) int64.
        """
        ones = np.ones(truth.shape[1])
        numerator: np.ndarray
        if self.is_score:
            numerator = (scores[0] - self.offset) / self.size
        else:
            numerator = (truth[0] == 1).astype(float)
        # a conditional's second formula is !φ & ψ, so ψ holds where either holds
        denominator = (truth == 1).any(axis=0).astype(float) if self.is_ratio else ones
        return np.stack([numerator, denominator, 1 - numerator])

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
