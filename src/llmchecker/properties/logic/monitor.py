"""Monitors: evaluation of a path formula along a text, token by token.

A text is *decided* once every continuation up to the horizon gives the formula the same truth
value. A continuation may have any consistent truth values of the atoms, as in the bounds of the
whole model (see `checking.markov.rest_abstraction`).
"""

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from llmchecker.errors import InvalidQuery
from llmchecker.properties.logic.ast import (
    STEP,
    Atom,
    Conditional,
    Connective,
    Formula,
    Label,
    PathQuantifier,
    Probability,
    find_distinct,
    subformulas,
)
from llmchecker.properties.logic.continuation_ranges import ContinuationRanges
from llmchecker.properties.logic.progression import Progression
from llmchecker.properties.logic.query import Query
from llmchecker.properties.logic.valuations import (
    ScoreRange,
    TooManyValuations,
    enumerate_valuations,
)

_MAX_SITUATIONS = 20_000
"""Maximum number of situations whose outcomes are computed.

Above it a text counts as undecided, which makes bounds wider and never wrong.
"""

MAX_ATOMS = 52
"""Maximum number of atoms, which share an int64 with the end and the number of ranges."""

_BOTH_TRUTHS = frozenset((False, True))
_Situation = tuple[int, int, int]
"""Number of an obligation, a step, and the number of the scores' ranges."""


def is_linear_time(path: Formula) -> bool:
    """Return whether single texts decide a path formula (no P, E, A and "rest").

    The truth of a nested P depends on all continuations of a text at once. Which texts are "rest"
    depends on the tree and not on the model.
    """
    return not any(
        isinstance(formula, Probability | PathQuantifier) or formula == Label("rest")
        for formula in subformulas(path)
    )


def find_path_formulas(query: Query) -> tuple[Formula, ...]:
    """Return the path formulas whose probabilities answer a query.

    A conditional of φ given ψ has two: φ & ψ and !φ & ψ. The tuple is empty where single texts do
    not decide the query: an expected score, a nested P, E or A, a combination of several, or
    "rest". It is also empty where the query has too many atoms for a monitor.
    """
    match query.root:
        case Probability(_, _, path) | PathQuantifier(_, path):
            paths: tuple[Formula, ...] = (path,)
        case Conditional(path, condition):
            paths = (
                Connective("&", (path, condition)),
                # P(given) is the sum of both, so a quotient of estimates answers the query
                Connective("&", (Connective("!", (path,)), condition)),
            )
        case _:
            return ()
    is_small = len(query.atoms) <= MAX_ATOMS
    # the truth of a nested P depends on all continuations of a text at once
    return paths if is_small and all(map(is_linear_time, paths)) else ()


class PathMonitor(Protocol):
    """What reads a path formula along texts, step by step; see `Monitor`."""

    length: int
    initial_obligation: int

    def compute_letters(
        self,
        columns: Mapping[str, np.ndarray],
        has_ended: np.ndarray,
        limits: Mapping[str, np.ndarray] | None = None,
    ) -> np.ndarray: ...
    def progress(self, obligation: int, letter: int) -> int: ...
    def holds_under_stutter(self, obligation: int, letter: int) -> bool: ...
    def decide(self, obligation: int, step: int, letter: int) -> bool | None: ...


class Monitor:
    """Monitor of one path formula along texts of at most `length` tokens.

    The *obligation* is the progressed formula: the condition on the remaining text. It is a number
    in a `Progression`. Texts with the same number need the same of their continuations. A *letter*
    is the state of a text at one step as an integer. It has a bit for each atom and a higher bit
    for a text that has ended. Above them it has the number of the ranges of its continuations'
    scores, see `ContinuationRanges`.

    Attributes:
        is_limited: whether a limit left a text undecided that may be decided.

    Args:
        path: path formula without P, E, A and "rest".
        length: horizon in tokens; a text of this length never changes.
        ranges: declared range of each quantifier; the scores of all continuations are within it.

    Raises:
        InvalidQuery: single texts do not decide the formula, or it has too many atoms.
    """

    def __init__(self, path: Formula, length: int, ranges: Mapping[str, ScoreRange]) -> None:
        if not is_linear_time(path):
            raise InvalidQuery(
                'path formula: single texts do not decide "rest" or a P, E or A inside another'
            )
        self.atoms = find_distinct(path, Atom)
        if len(self.atoms) > MAX_ATOMS:
            raise InvalidQuery(
                f"path formula: {len(self.atoms)} comparisons exceed the maximum of "
                f"{MAX_ATOMS}; split the query"
            )
        self.length = length
        self._ranges = ContinuationRanges(self.atoms, ranges)
        self._has_step = any(STEP in atom.variables for atom in self.atoms)
        self._end_bit = 1 << len(self.atoms)
        self._progression = Progression(path)
        self.initial_obligation = self._progression.initial_obligation
        # many texts share obligations and letters, so results are kept
        self._progress_cache: dict[tuple[int, int], int] = {}
        self._stutter_cache: dict[tuple[int, int], bool] = {}
        self._outcomes: dict[_Situation, frozenset[bool]] = {}
        self._letter_cache: dict[tuple[int, int], list[int]] = {}
        self.is_limited = False

    def compute_letters(
        self,
        columns: Mapping[str, np.ndarray],
        has_ended: np.ndarray,
        limits: Mapping[str, np.ndarray] | None = None,
    ) -> np.ndarray:
        """Return (n,) int64: the letters of texts.

        Args:
            columns: (n,) the texts' scores by name, and their `step`.
            has_ended: (n,) bool.
            limits: as in `ContinuationRanges.number_texts`.
        """
        numbers = self._ranges.number_texts(columns, len(has_ended), limits)
        letters = numbers * (2 * self._end_bit)
        letters |= np.where(has_ended, self._end_bit, 0)
        for bit, atom in enumerate(self.atoms):
            letters |= np.where(atom.evaluate(columns), 1 << bit, 0)
        return letters

    def progress(self, obligation: int, letter: int) -> int:
        """Return the next step's obligation, from the obligation and letter of a step.

        Raises:
            CheckFailed: the formula has too many obligations.
        """
        key = (obligation, letter)
        if key not in self._progress_cache:
            self._progress_cache[key] = self._progression.progress(
                obligation, self._decode_letter(letter)
            )
        return self._progress_cache[key]

    def holds_under_stutter(self, obligation: int, letter: int) -> bool:
        """Return whether an obligation holds if the letter repeats for ever."""
        key = (obligation, letter)
        if key not in self._stutter_cache:
            self._stutter_cache[key] = self._progression.holds_under_stutter(
                obligation, self._decode_letter(letter)
            )
        return self._stutter_cache[key]

    def decide(self, obligation: int, step: int, letter: int) -> bool | None:
        """Return the truth value of a decided text, or None for an undecided text.

        Args:
            obligation: obligation at `step`.
            step: the step after the text's last step.
            letter: letter of the text's last step, of which only the ranges count.
        """
        outcomes = self._compute_outcomes(obligation, step, self.find_ranges(letter))
        return next(iter(outcomes)) if len(outcomes) == 1 else None

    def _compute_outcomes(self, obligation: int, step: int, ranges: int) -> frozenset[bool]:
        """Return the possible truth values of an obligation at a step, over all texts.

        The text may have any consistent truth values of the atoms at this step and at later steps
        up to the horizon. It may end at any of these steps, and it keeps its ranges.
        """
        key = (obligation, step, ranges)
        # an explicit stack, since a long horizon exceeds Python's recursion limit
        stack = [key]
        while stack and len(self._outcomes) < _MAX_SITUATIONS:
            result = self._explore_situation(*stack[-1])
            if isinstance(result, tuple):
                stack.append(result)
            else:
                self._outcomes[stack.pop()] = result
        self.is_limited = self.is_limited or key not in self._outcomes
        return self._outcomes.get(key, _BOTH_TRUTHS)

    def _explore_situation(
        self, obligation: int, step: int, ranges: int
    ) -> frozenset[bool] | _Situation:
        """Return a situation's outcomes, or a later situation to compute first."""
        if (obligation, step, ranges) in self._outcomes:
            return self._outcomes[obligation, step, ranges]
        try:
            letters = self.enumerate_letters(step, ranges)
        except TooManyValuations:
            # only a satisfied (0) or violated (1) obligation is decided without the valuations
            self.is_limited = self.is_limited or obligation > 1
            return _BOTH_TRUTHS if obligation > 1 else frozenset([obligation == 0])
        outcomes: set[bool] = set()
        for letter in letters:
            # the text may end at this step
            outcomes.add(self.holds_under_stutter(obligation, letter | self._end_bit))
            # at the horizon the text stops, and its last state repeats
            if step == self.length:
                outcomes.add(self.holds_under_stutter(obligation, letter))
            elif len(outcomes) < 2:
                successor = (self.progress(obligation, letter), step + 1, ranges)
                if successor not in self._outcomes:
                    return successor
                outcomes |= self._outcomes[successor]
            # both truth values are possible: further letters cannot change that
            if len(outcomes) == 2:
                return _BOTH_TRUTHS
        return frozenset(outcomes)

    def find_ranges(self, letter: int) -> int:
        """Return the number of the ranges of a letter."""
        return letter // (2 * self._end_bit)

    def enumerate_letters(self, step: int, ranges: int) -> list[int]:
        """Return the possible letters of open texts of a step, within ranges.

        Raises:
            TooManyValuations: the atoms have too many.
        """
        # atoms without the step have the same valuations in every step
        step = step if self._has_step else 0
        key = (step, ranges)
        if key not in self._letter_cache:
            rows = enumerate_valuations(self.atoms, step, self._ranges.narrow_ranges(ranges))
            # the end bit is left out: the caller adds it
            self._letter_cache[key] = [
                sum(1 << bit for bit in np.flatnonzero(row).tolist()) for row in rows
            ]
        return self._letter_cache[key]

    def _decode_letter(self, letter: int) -> dict[Formula, bool]:
        valuation: dict[Formula, bool] = {
            atom: bool(letter >> bit & 1) for bit, atom in enumerate(self.atoms)
        }
        valuation[Label("end")] = bool(letter & self._end_bit)
        return valuation


class HorizonMonitor:
    """Substitute for a `Monitor` where single texts do not decide the query.

    Every text is undecided until it ends or has as many tokens as matter. So a refinement follows
    the highest probability.

    Args:
        length: horizon in tokens.
        max_step: number of tokens that matter; None for all up to the horizon.
    """

    atoms: tuple[Atom, ...] = ()
    initial_obligation = 0

    def __init__(self, length: int, max_step: int | None = None) -> None:
        self.length = length
        self._max_step = length if max_step is None else max_step

    def compute_letters(
        self,
        columns: Mapping[str, np.ndarray],
        has_ended: np.ndarray,
        limits: Mapping[str, np.ndarray] | None = None,
    ) -> np.ndarray:
        """Return the same letter for all texts."""
        return np.zeros(len(has_ended), dtype=np.int64)

    def progress(self, obligation: int, letter: int) -> int:
        """Return the unchanged obligation."""
        return obligation

    def holds_under_stutter(self, obligation: int, letter: int) -> bool:
        """Return true: a text that ended counts as decided."""
        return True

    def decide(self, obligation: int, step: int, letter: int) -> bool | None:
        """Return None (undecided) while further tokens matter, and then true."""
        return True if step > self._max_step else None
