"""Reading a path formula along a text, token by token, until nothing that follows can change it.

A text is *decided* once every continuation up to the horizon gives the formula the same truth. Here
a continuation may show any consistent truth values of the atoms, just as in the bounds for the
whole model (see `chaos`).
"""

from collections.abc import Mapping

import numpy as np

from llmchecker.errors import InvalidQuery
from llmchecker.queries.final_scores import FinalScores
from llmchecker.queries.formulas import (
    STEP,
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
"""The largest number of pairs of a demand and a step whose outcomes are worked out.

Beyond it a text counts as undecided, which makes bounds wider and never wrong.
"""

MOST_ATOMS = 52
"""The largest number of atoms: their truth values, the end and final scores share one int64."""

BOTH = frozenset((False, True))


def is_read_along_texts(path: Formula) -> bool:
    """Whether single texts decide a path formula, which takes that it has no P, E, A and "rest".

    The truth of a nested P depends on all continuations of a text at once. Which texts are "rest"
    depends on the tree and not on the model.
    """
    return not any(
        isinstance(part, Probability | PathQuantifier) or part == Label("rest")
        for part in subformulas(path)
    )


class Reading:
    """One path formula, read along texts of at most `length` tokens.

    The demand that a text must still meet is *pending*. It is known by its number in a
    `Progression`: two texts have the same number if they need the same of what follows. What a text
    shows at one step is a *word*: a bit for each atom, a higher bit for a text that has ended, and
    above it the number of its final scores.

    Args:
        path: without P, E, A and "rest".
        length: the horizon; a text of this many tokens stays as it is for ever.
        ranges: the declared range of each quantifier; no continuation scores outside of it.

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
        names = frozenset().union(*(atom.variables for atom in self.atoms)) - {STEP}
        self._final = FinalScores(names, ranges)
        self._ended = 1 << len(self.atoms)
        self._progression = Progression(path)
        self.start = self._progression.start
        self._after: dict[tuple[int, int], int] = {}
        self._forever: dict[tuple[int, int], bool] = {}
        self._outcomes: dict[tuple[int, int, int], frozenset[bool]] = {}
        self._consistent: dict[tuple[int, int], list[int]] = {}

    def words(self, columns: Mapping[str, np.ndarray], ended: np.ndarray) -> np.ndarray:
        """(n,) int64: the words that texts show.

        Args:
            columns: (n,) the texts' scores by name, and their `step`.
            ended: (n,) bool.
        """
        words = self._final.combinations(columns, len(ended)) * (2 * self._ended)
        words |= np.where(ended, self._ended, 0)
        for bit, atom in enumerate(self.atoms):
            words |= np.where(atom.holds(columns), 1 << bit, 0)
        return words

    def after(self, pending: int, word: int) -> int:
        """What is pending at the next step, given what is pending at a step and the word there.

        Raises:
            CheckFailed: the formula leaves too many demands.
        """
        key = (pending, word)
        if key not in self._after:
            self._after[key] = self._progression.after(pending, self._valuation(word))
        return self._after[key]

    def forever(self, pending: int, word: int) -> bool:
        """Whether what is pending holds if the text shows the same word from here on for ever."""
        key = (pending, word)
        if key not in self._forever:
            self._forever[key] = self._progression.forever(pending, self._valuation(word))
        return self._forever[key]

    def truth(self, pending: int, step: int, word: int) -> bool | None:
        """The truth that is decided for a text: true, false, or None where continuations differ.

        Args:
            pending: at `step`, which is the step after the text's last.
            word: that the text shows at its last step. Its final scores count.
        """
        outcomes = self._possible(pending, step, word // (2 * self._ended))
        return next(iter(outcomes)) if len(outcomes) == 1 else None

    def _possible(self, pending: int, step: int, final: int) -> frozenset[bool]:
        """The truths that what is pending at a step can come to, over all texts.

        The text may show any consistent truth values of the atoms at this step and at every later
        one up to the horizon, and may end at any of them; only its final scores it keeps.
        """
        key = (pending, step, final)
        if key not in self._outcomes:
            if len(self._outcomes) >= MOST_SITUATIONS:
                return BOTH
            self._outcomes[key] = self._possible_at(*key)
        return self._outcomes[key]

    def _possible_at(self, pending: int, step: int, final: int) -> frozenset[bool]:
        found: set[bool] = set()
        for word in self._possible_words(step, final):
            found.add(self.forever(pending, word | self._ended))
            if step == self.length:
                found.add(self.forever(pending, word))
            elif len(found) < 2:
                found |= self._possible(self.after(pending, word), step + 1, final)
            if len(found) == 2:
                return BOTH
        return frozenset(found)

    def _possible_words(self, step: int, final: int) -> list[int]:
        """The words that a text of a step can show, as long as it goes on, after final scores."""
        key = (step, final)
        if key not in self._consistent:
            rows = valuations(self.atoms, step, self._final.ranges_after(final))
            self._consistent[key] = [
                sum(1 << bit for bit in np.flatnonzero(row).tolist()) for row in rows
            ]
        return self._consistent[key]

    def _valuation(self, word: int) -> dict[Formula, bool]:
        shown = {atom: bool(word >> bit & 1) for bit, atom in enumerate(self.atoms)}
        return shown | {Label("end"): bool(word & self._ended)}


class OpenReading:
    """The stand-in for a `Reading` where single texts do not decide the query.

    Every text is undecided until it ends or has as many tokens as matter, so that a refinement goes
    wherever the most probability is.

    Args:
        length: the horizon.
        until: how many tokens matter; None for all up to the horizon.
    """

    atoms: tuple[Atom, ...] = ()
    start = 0

    def __init__(self, length: int, until: int | None = None) -> None:
        self.length = length
        self._until = length if until is None else until

    def words(self, columns: Mapping[str, np.ndarray], ended: np.ndarray) -> np.ndarray:
        """All texts show the same word."""
        return np.zeros(len(ended), dtype=np.int64)

    def after(self, pending: int, word: int) -> int:
        """The same is pending at every step."""
        return pending

    def forever(self, pending: int, word: int) -> bool:
        """A text that ended counts as decided."""
        return True

    def truth(self, pending: int, step: int, word: int) -> bool | None:
        """Any other text counts as undecided, as long as further tokens matter."""
        return True if step > self._until else None
