"""Absorbing (final) scores, which a text keeps in every continuation.

A text that can no longer become JSON scores 0, and so does every continuation of it. A quantifier
declares such scores after its limits, see `ScoreRange`. After a text with a final score, the
quantifier's range is that score alone. Refinement, decided masses and bounds all use this module,
so that they agree.
"""

import math
from collections.abc import Collection, Mapping

import numpy as np

from llmchecker.properties.logic.valuations import ScoreRange

_MAX_COMBINATIONS = 1024
"""Maximum number of combinations of final scores of several quantifiers.

Above it no score counts as final, which makes bounds wider and never wrong.
"""


class FinalScores:
    """Combinations of texts' final scores as numbers; 0 means no final score.

    Args:
        names: names of the quantifiers in the formula.
        ranges: range of each quantifier by name.
    """

    def __init__(self, names: Collection[str], ranges: Mapping[str, ScoreRange]) -> None:
        final_scores = {name: ranges[name][2:] for name in sorted(names) if name in ranges}
        self._final_scores = {name: scores for name, scores in final_scores.items() if scores}
        self._ranges = ranges
        if math.prod(len(scores) + 1 for scores in self._final_scores.values()) > _MAX_COMBINATIONS:
            self._final_scores = {}

    def find_combinations(self, columns: Mapping[str, np.ndarray], n: int) -> np.ndarray:
        """Return (n,) int64: the number of each text's combination.

        Args:
            columns: (n,) scores by name.
            n: number of texts.
        """
        numbers = np.zeros(n, dtype=np.int64)
        for name, final_scores in self._final_scores.items():
            # mixed radix: each quantifier has a digit, 0 for no final score
            numbers *= len(final_scores) + 1
            for digit, score in enumerate(final_scores, 1):
                numbers[columns[name] == score] += digit
        return numbers

    def narrow_ranges(self, combination: int) -> dict[str, ScoreRange]:
        """Return the ranges of the scores of all continuations of a text.

        Args:
            combination: number of the text's combination.
        """
        ranges = dict(self._ranges)
        # the last quantifier has the lowest digit
        for name, final_scores in reversed(self._final_scores.items()):
            combination, digit = divmod(combination, len(final_scores) + 1)
            if digit:
                score = final_scores[digit - 1]
                ranges[name] = (score, score)
        return ranges
