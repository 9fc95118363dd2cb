"""Certain bounds of a query that single texts do not decide, while its tree grows.

Storm computes them on the tree of the explored texts: of a nested P, E or A, of an expected score
without a range, and of more comparisons than a monitor reads. It takes longer than a sum, so that
the bounds are computed anew whenever the passes have doubled, and at the end. Until then those of
the smaller tree hold.
"""

import time
from collections.abc import Callable

from llmchecker.checking.answer import select_trivial_interval
from llmchecker.checking.bounds import bound_figures
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.errors import CheckFailed, ImpossibleCondition
from llmchecker.properties.logic.ast import PathQuantifier, Probability
from llmchecker.properties.property import Property
from llmchecker.utils.interval import PROBABILITIES

_GROWTH = 2
"""The ratio of the passes of two computations, which limits their costs to a multiple of one."""
_MAX_TIME_SHARE = 1 / 8
"""The largest share of the remaining time that the last computation may have taken.

The next one takes longer, and the bounds of the final tree are computed in any case.
"""


class StormBounds:
    """The bounds of a query on a growing tree.

    Attributes:
        answer: the bounds of the answer, which without =? is a truth.
        figure: the bounds of the probability that a P, E or A compares, otherwise of the answer.
        notes: the reason why the bounds say nothing, or are wider than need be.

    Args:
        asked: the query and its quantifiers.
    """

    def __init__(self, asked: Property) -> None:
        self._query = asked.query
        self.answer = select_trivial_interval(asked.query)
        has_probability = isinstance(asked.query.root, Probability | PathQuantifier)
        self.figure = PROBABILITIES if has_probability else self.answer
        self.notes: tuple[str, ...] = ()
        self._passes = 0
        self._next_passes = 1
        self._seconds = 0.0  # those of the last computation

    def update(self, passes: int, build: Callable[[], ScoredTree], seconds_left: float) -> None:
        """Narrow the bounds if the passes have doubled and time allows it.

        Args:
            passes: number of passes of the tree.
            build: returns the tree.
            seconds_left: the time until the work must end; infinite without a limit.
        """
        is_late = self._seconds > _MAX_TIME_SHARE * seconds_left
        if passes < self._next_passes or is_late:
            return
        start_time = time.monotonic()
        try:
            self.complete(passes, build)
        # the final tree shows whether the condition is possible
        except ImpossibleCondition:
            self._next_passes = _GROWTH * passes
        self._seconds = time.monotonic() - start_time

    def complete(self, passes: int, build: Callable[[], ScoredTree]) -> None:
        """Narrow the bounds to those of the tree so far.

        Args:
            passes, build: as in `update`.

        Raises:
            ImpossibleCondition: no text can satisfy the condition of a conditional.
        """
        if passes == self._passes:
            return
        try:
            answer, figure, note = bound_figures(build(), self._query)
        # a failure leaves the bounds of the smaller tree, which hold
        except ImpossibleCondition:
            raise
        except CheckFailed as error:
            self.notes = (f"the bounds say nothing: {error}",)
        else:
            # rounding may move the bounds of a larger tree outwards
            self.answer, self.figure = self.answer.cut(answer), self.figure.cut(figure)
            self.notes = () if note is None else (note,)
        self._passes, self._next_passes = passes, _GROWTH * passes
