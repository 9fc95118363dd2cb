"""A path formula read along a text, token by token, until nothing that follows can change it.

A text is *decided* once every continuation up to the horizon gives the formula the same truth,
whatever a continuation can show of itself: the same chaos as in the bounds for the whole model.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property

import numpy as np

from llmchecker.errors import InvalidQuery
from llmchecker.queries.formulas import (
    Atom,
    Formula,
    Label,
    PathQuantifier,
    Probability,
    subformulas,
)
from llmchecker.queries.progression import Progression
from llmchecker.queries.valuations import Range, valuations

MOST_SITUATIONS = 20_000
"""Demands at steps whose outcomes are worked out; a text beyond counts as undecided, soundly."""

MOST_ATOMS = 62
"""Atoms whose truth values are the bits of one whole number, with one more for the end."""

BOTH = frozenset((False, True))


def is_read_along_texts(path: Formula) -> bool:
    """Whether single texts decide a path formula: no P, E or A stands in it, and no "rest".

    What is true of a nested P depends on all continuations of a text at once; and which texts are
    "rest" depends on the tree, not on the model.
    """
    return not any(
        isinstance(part, Probability | PathQuantifier) or part == Label("rest")
        for part in subformulas(path)
    )


class Reading:
    """One path formula, read along texts of at most `length` tokens.

    What is still to be satisfied is *pending*; it is known by the numbers of a `Progression`, which
    are equal for two texts where both need the same of what follows. What a text shows at one step
    is a *word*: a bit for each atom, and one above them where the text has ended.

    Args:
        path: without P, E, A and "rest".
        length: the horizon: a text of so many tokens stays as it is for ever.
        ranges: of each quantifier, so that no continuation scores what no text can.

    Raises:
        InvalidQuery: the formula cannot be read along a text.
    """

    def __init__(self, path: Formula, length: int, ranges: Mapping[str, Range]) -> None:
        if not is_read_along_texts(path):
            raise InvalidQuery(
                'a P, E or A inside another, or "rest", is not decided by single texts'
            )
        self.atoms = tuple(dict.fromkeys(f for f in subformulas(path) if isinstance(f, Atom)))
        if len(self.atoms) > MOST_ATOMS:
            raise InvalidQuery(
                f"{len(self.atoms)} comparisons are more than the {MOST_ATOMS} that are read "
                "along a text"
            )
        self.length = length
        self._ranges = ranges
        self._ended = 1 << len(self.atoms)
        self._progression = Progression(path)
        self.start = self._progression.start
        self._after: dict[tuple[int, int], int] = {}
        self._forever: dict[tuple[int, int], bool] = {}
        self._outcomes: dict[tuple[int, int], frozenset[bool]] = {}

    def words(self, truths: Iterable[np.ndarray], ended: np.ndarray) -> np.ndarray:
        """(n,) int64: what texts show of themselves.

        Args:
            truths: (n,) bool for each of `atoms`.
            ended: (n,) bool.
        """
        words = np.where(ended, self._ended, 0).astype(np.int64)
        for bit, truth in enumerate(truths):
            words |= np.where(truth, 1 << bit, 0)
        return words

    def after(self, pending: int, word: int) -> int:
        """What is pending at the next step, given what is pending at a step and what it shows.

        Raises:
            CheckFailed: the formula leaves too many demands.
        """
        key = (pending, word)
        if key not in self._after:
            self._after[key] = self._progression.after(pending, self._valuation(word))
        return self._after[key]

    def forever(self, pending: int, word: int) -> bool:
        """Whether what is pending holds of a text that shows the same from here on for ever."""
        key = (pending, word)
        if key not in self._forever:
            self._forever[key] = self._progression.forever(pending, self._valuation(word))
        return self._forever[key]

    def truth(self, pending: int, step: int) -> bool | None:
        """What is decided of a text: true, false, or None where continuations differ.

        Args:
            pending: at `step`, which is the step after the text's last.
        """
        outcomes = self._possible(pending, step)
        return next(iter(outcomes)) if len(outcomes) == 1 else None

    def _possible(self, pending: int, step: int) -> frozenset[bool]:
        """The truths that what is pending at a step can have, whatever text stands there.

        The text may show any consistent truth values of the atoms at this step and at every later
        one up to the horizon, and may end at any of them.
        """
        key = (pending, step)
        if key not in self._outcomes:
            if len(self._outcomes) >= MOST_SITUATIONS:
                return BOTH
            self._outcomes[key] = self._possible_at(pending, step)
        return self._outcomes[key]

    def _possible_at(self, pending: int, step: int) -> frozenset[bool]:
        found: set[bool] = set()
        for word in self._consistent[step]:
            found.add(self.forever(pending, word | self._ended))
            if step == self.length:
                found.add(self.forever(pending, word))
            elif len(found) < 2:
                found |= self._possible(self.after(pending, word), step + 1)
            if len(found) == 2:
                return BOTH
        return frozenset(found)

    @cached_property
    def _consistent(self) -> list[list[int]]:
        """The words that a text of each step can show, as long as it goes on."""
        by_step = (valuations(self.atoms, step, self._ranges) for step in range(self.length + 1))
        return [[sum(1 << bit for bit in np.flatnonzero(row)) for row in rows] for rows in by_step]

    def _valuation(self, word: int) -> dict[Formula, bool]:
        shown = {atom: bool(word >> bit & 1) for bit, atom in enumerate(self.atoms)}
        return shown | {Label("end"): bool(word & self._ended)}


class OpenReading:
    """What stands for a `Reading` where single texts do not decide a query.

    Every text is undecided until it ends or has `length` tokens.
    """

    atoms: tuple[Atom, ...] = ()
    start = 0

    def __init__(self, length: int) -> None:
        self.length = length

    def words(self, truths: Iterable[np.ndarray], ended: np.ndarray) -> np.ndarray:
        """Nothing is told of a text but that it is there."""
        return np.zeros(len(ended), dtype=np.int64)

    def after(self, pending: int, word: int) -> int:
        """Nothing changes from step to step."""
        return pending

    def forever(self, pending: int, word: int) -> bool:
        """A text that ended is known."""
        return True

    def truth(self, pending: int, step: int) -> bool | None:
        """Any other text is not."""
        return None
