"""The mean or ratio of means that answers a query, and its parts by text."""

from dataclasses import dataclass

import numpy as np

from llmchecker.checking.anytime.partial_tree import PartialTree
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
        """Return the estimand of a query that samples can estimate."""
        root = asked.query.root
        if isinstance(root, Expectation):
            low, high, *_ = asked.ranges[root.quantifier]
            return cls(asked.monitors, is_score=True, offset=low, size=max(1, high - low))
        return cls(asked.monitors, is_ratio=len(asked.paths) > 1)

    def compute_contributions(
        self, tree: PartialTree, uids: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (n,) numerators and (n,) denominators of texts that decide the query."""
        if self.is_score:
            return (tree.scores[0, uids] - self.offset) / self.size, np.ones(len(uids))
        truth = tree.truth[:, uids] == 1
        numerator = truth[0].astype(float)
        # a conditional's second formula is !φ & ψ, so ψ holds where either holds
        return numerator, truth.any(axis=0).astype(float) if self.is_ratio else np.ones(len(uids))

    def compute_numerator_if_ended(self, tree: PartialTree, uids: np.ndarray) -> np.ndarray:
        """Return (n,) float64: the numerators of texts, as if each of them ended."""
        if self.is_score:
            return (tree.scores[0, uids] - self.offset) / self.size
        return tree.truth_if_ended[0, uids].astype(float)

    def to_answer(self, value: float) -> float:
        """Return the answer for a value of the quantity."""
        return self.offset + self.size * value
