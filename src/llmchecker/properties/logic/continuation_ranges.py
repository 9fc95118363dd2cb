"""Ranges of the scores that the continuations of a text can have.

    quantifier              text         range of its continuations
    json                    "{]"         0 to 0: the text can no longer become JSON
    pattern "^Yes"          "No"         0 to 0
    length in words         "a b c"      from 3

A quantifier declares one range for all texts. Some texts narrow it. A *final* score, which the
quantifier declares after its limits (see `ScoreRange`), is the score of every continuation. The
state of a transducer may narrow the range further (see `TokenTransducer`). Refinement, decided
masses and bounds all use this module, so that they agree.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from llmchecker.properties.logic.ast import STEP, Atom
from llmchecker.properties.logic.valuations import ScoreRange, select_critical_scores
from llmchecker.utils.row_groups import find_distinct

NO_LIMIT = np.iinfo(np.int64)
"""The int64 numbers that stand for no minimum and no maximum."""

_MAX_NUMBERS = 1024
"""Maximum number of combinations of ranges.

Texts with further combinations count as texts with the declared ranges, which makes bounds wider
and never wrong.
"""


class ContinuationRanges:
    """Combinations of ranges as numbers; 0 stands for the declared ranges.

    Args:
        atoms: the atoms of the formula.
        ranges: declared range of each quantifier by name.
    """

    def __init__(self, atoms: Sequence[Atom], ranges: Mapping[str, ScoreRange]) -> None:
        names = sorted(frozenset().union(*(atom.variables for atom in atoms)) - {STEP})
        self._ranges = ranges
        self._names = [name for name in names if name in ranges]
        self._final_scores = {name: ranges[name][2:] for name in self._names}
        self._critical_scores = {
            name: _find_critical_scores(name, atoms, ranges[name]) for name in self._names
        }
        declared = [limit for name in self._names for limit in _convert_limits(ranges[name])]
        self._declared = np.array(declared, dtype=np.int64)
        self._numbers = {tuple(declared): 0}
        self._combinations = [tuple(declared)]

    def number_texts(
        self,
        columns: Mapping[str, np.ndarray],
        n: int,
        limits: Mapping[str, np.ndarray] | None = None,
    ) -> np.ndarray:
        """Return (n,) int64: the number of each text's combination.

        Args:
            columns: (n,) scores by name.
            n: number of texts.
            limits: (2, n) int64 by name, the least and the greatest score of all continuations of
                each text, where they are known; `NO_LIMIT` has the numbers for no limit.
        """
        limits = {} if limits is None else limits
        if not any(self._final_scores[name] or name in limits for name in self._names):
            return np.zeros(n, dtype=np.int64)
        combinations = np.repeat(self._declared[:, np.newaxis], n, axis=1)
        for index, name in enumerate(self._names):
            low, high = combinations[2 * index : 2 * index + 2]
            if name in limits:
                np.maximum(low, limits[name][0], out=low)
                np.minimum(high, limits[name][1], out=high)
                self._widen(name, low, high)
            if self._final_scores[name]:
                is_final = np.isin(columns[name], self._final_scores[name])
                low[is_final] = high[is_final] = columns[name][is_final]
        distinct, inverse = find_distinct(combinations)
        numbers = np.array(list(map(self._number, map(tuple, distinct.tolist()))), dtype=np.int64)
        return numbers[inverse] if n else np.zeros(0, dtype=np.int64)

    def _number(self, combination: tuple[int, ...]) -> int:
        number = self._numbers.get(combination)
        if number is None:
            if len(self._numbers) >= _MAX_NUMBERS:
                return 0
            number = self._numbers[combination] = len(self._combinations)
            self._combinations.append(combination)
        return number

    def _widen(self, name: str, low: np.ndarray, high: np.ndarray) -> None:
        """Move limits outwards to scores at which an atom may change its truth.

        So that texts whose continuations have the same truths have the same number.
        """
        critical_scores = self._critical_scores[name]
        if critical_scores is None:
            return
        low[:] = critical_scores[np.searchsorted(critical_scores, low, side="right") - 1]
        high[:] = critical_scores[np.searchsorted(critical_scores, high, side="left")]

    def narrow_ranges(self, number: int) -> dict[str, ScoreRange]:
        """Return the ranges of the scores of all continuations of a text.

        Args:
            number: number of the text's combination.
        """
        ranges = dict(self._ranges)
        # number 0 keeps limits beyond int64
        if number:
            combination = iter(self._combinations[number])
            for name, low, high in zip(self._names, combination, combination, strict=False):
                ranges[name] = (
                    None if low == NO_LIMIT.min else low,
                    None if high == NO_LIMIT.max else high,
                )
        return ranges


def _convert_limits(limits: ScoreRange) -> tuple[int, int]:
    """Return a range's limits as int64, moved outwards where they are beyond."""
    low, high = limits[:2]
    return (
        NO_LIMIT.min if low is None else min(max(low, NO_LIMIT.min), NO_LIMIT.max),
        NO_LIMIT.max if high is None else max(min(high, NO_LIMIT.max), NO_LIMIT.min),
    )


def _find_critical_scores(
    name: str, atoms: Sequence[Atom], limits: ScoreRange
) -> np.ndarray | None:
    """Return sorted scores between which no atom changes its truth, with no limit at both ends.

    The result is None if the atoms have other variables or are not linear.
    """
    own_atoms = [atom for atom in atoms if name in atom.variables]
    if any(atom.variables != {name} for atom in own_atoms):
        return None
    scores = select_critical_scores(name, own_atoms, 0, limits)
    if scores is None or not all(NO_LIMIT.min < score < NO_LIMIT.max for score in scores):
        return None
    return np.array([NO_LIMIT.min, *scores, NO_LIMIT.max], dtype=np.int64)
