"""Scores that a text keeps whatever follows it, and what they leave possible there.

A text that can no longer become JSON scores 0, and so does every continuation of it. A quantifier
declares such scores behind its limits, see `Range`. After a text with one of them, the range of the
quantifier is that score alone. Refinement, decided masses and the bounds for the whole model all
ask here, so that they agree.
"""

import math
from collections.abc import Collection, Mapping

import numpy as np

from llmchecker.queries.valuations import Range

MOST_COMBINATIONS = 1024
"""The largest number of combinations of final scores of several quantifiers.

Beyond it no score counts as final, which makes bounds wider and never wrong.
"""


class FinalScores:
    """Which final scores texts have, as one number for each combination; 0 stands for none.

    Args:
        names: of the quantifiers that matter.
        ranges: of these quantifiers.
    """

    def __init__(self, names: Collection[str], ranges: Mapping[str, Range]) -> None:
        final = {name: ranges[name][2:] for name in sorted(names) if name in ranges}
        self._final = {name: scores for name, scores in final.items() if scores}
        self._ranges = ranges
        if math.prod(len(scores) + 1 for scores in self._final.values()) > MOST_COMBINATIONS:
            self._final = {}

    def combinations(self, columns: Mapping[str, np.ndarray], n: int) -> np.ndarray:
        """(n,) int64: the combination that each of some texts has.

        Args:
            columns: (n,) scores by name.
        """
        numbers = np.zeros(n, dtype=np.int64)
        for name, final in self._final.items():
            numbers *= len(final) + 1
            for place, score in enumerate(final, 1):
                numbers[columns[name] == score] += place
        return numbers

    def ranges_after(self, combination: int) -> dict[str, Range]:
        """The ranges within which the continuations of a text with a combination score."""
        ranges = dict(self._ranges)
        for name, final in reversed(self._final.items()):
            combination, place = divmod(combination, len(final) + 1)
            if place:
                ranges[name] = (final[place - 1],) * 2
        return ranges
