"""Probabilities of path formulas as sums over the texts of a tree."""

from collections.abc import Callable, Mapping

import numpy as np

from llmchecker.checking.decided_mass import DecidedMass, split_mass
from llmchecker.checking.probabilities import Probabilities, compare_with_threshold
from llmchecker.properties.logic.ast import Formula, PathQuantifier, Probability
from llmchecker.properties.logic.monitor import Monitor
from llmchecker.properties.logic.valuations import ScoreRange
from llmchecker.trees.text_tree import TextTree


class PathSums:
    """An evaluator of the path formulas that single texts decide, on any tree.

    Its methods are those of `Satisfaction`, for the start state alone.

    Args:
        find_mass: returns the decided mass of a path formula.
    """

    def __init__(self, find_mass: Callable[[Formula], DecidedMass]) -> None:
        self._find_mass = find_mass

    def compute_probabilities(self, path: Formula, minimize: bool) -> Probabilities:
        """Compute the least or the greatest probability of a path formula.

        Raises:
            InvalidQuery: single texts do not decide the formula, or it has too many atoms.
            CheckFailed: the formula has too many obligations.
        """
        mass = self._find_mass(path)
        if minimize:
            share, others, ends = mass.satisfied, mass.violated + mass.undecided, mass.least
        else:
            share, others, ends = mass.satisfied + mass.undecided, mass.violated, mass.greatest
        value = 1.0 if others.is_empty else min(share.value, 1.0)
        return Probabilities(
            *map(np.atleast_1d, (value, ends.lower, ends.upper, share.is_empty, others.is_empty))
        )

    def evaluate(self, formula: Formula, certain: bool) -> np.ndarray:
        """Return (1,) bool: whether a P, E or A holds; see `Satisfaction.evaluate`."""
        probability = formula.probability if isinstance(formula, PathQuantifier) else formula
        assert isinstance(probability, Probability)
        return compare_with_threshold(probability, certain, self.compute_probabilities)

    def is_three_valued(self, path: Formula) -> bool:
        """Return False: no P, E or A is inside the formula."""
        return False


class TreeSums(PathSums):
    """An evaluator of path formulas on a tree that was grown level by level.

    Args:
        tree: the texts.
        scores: (n,) integers for each quantifier, by name; scores of `rest` states are ignored.
        score_ranges: the declared range of each quantifier.
        is_whole_model: whether to bound the whole model, and not to evaluate the bounded process.
    """

    def __init__(
        self,
        tree: TextTree,
        scores: Mapping[str, np.ndarray],
        score_ranges: Mapping[str, ScoreRange],
        *,
        is_whole_model: bool,
    ) -> None:
        super().__init__(self._split)
        self._tree, self._scores, self._score_ranges = tree, scores, score_ranges
        self._is_whole_model = is_whole_model
        self._masses: dict[Formula, DecidedMass] = {}
        self.is_limited = False
        """Whether a limit of the monitors left a text undecided that may be decided."""

    def _split(self, path: Formula) -> DecidedMass:
        if path not in self._masses:
            monitor = Monitor(path, self._tree.truncation.length, self._score_ranges)
            self._masses[path] = split_mass(
                self._tree, self._scores, monitor, is_whole_model=self._is_whole_model
            )
            self.is_limited = self.is_limited or monitor.is_limited
        return self._masses[path]
