"""Texts that the horizon cuts, and all texts that continue them.

A beginning has a score in each state up to the horizon, and no end. A path formula has a truth on
it, where the last state repeats. On a longer text, which has any consistent scores and ends at any
later step or never, the formula may have the other truth. All beginnings are explored by the
formula's obligations (see `progression`), so that formulas of equal meaning have equal results.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np

from llmchecker.errors import CheckFailed
from llmchecker.properties.logic.ast import (
    STEP,
    Arithmetic,
    Atom,
    Formula,
    Label,
    Number,
    Operation,
    Variable,
    find_distinct,
)
from llmchecker.properties.logic.progression import Progression
from llmchecker.properties.logic.valuations import (
    ScoreRange,
    TooManyValuations,
    enumerate_valuations,
)

_MAX_LETTERS = 1024
"""Maximum number of valuations of a state."""
_MAX_MOVES = 200_000
"""Maximum number of pairs of an obligation and a letter that are read."""
_MAX_NEW_MOVES = 2_000
"""Maximum number of these pairs that are computed, which takes longer."""
_LATER_STEP = '"later step"'
"""The variable of any step beyond those that are read one by one; no quantifier has its name."""
_MAX_STEPS = 256
"""Maximum number of steps beyond the horizon that are read one by one."""

_END = Label("end")
_Letter = tuple[bool, ...]


class TooManyBeginnings(Exception):
    """Error of a formula with more obligations or valuations than are explored."""


@lru_cache(maxsize=1024)
def find_changed_truths(path: Formula, length: int) -> frozenset[bool]:
    """Find the truths of a path formula on beginnings that a continuation may change.

    Args:
        path: a path formula that single texts decide.
        length: the horizon in tokens.

    Raises:
        TooManyBeginnings: the formula has too many obligations, atoms or steps.
    """
    try:
        return _CutTexts(path).find_changed_truths(length)
    except (CheckFailed, TooManyValuations) as error:
        raise TooManyBeginnings from error


class _CutTexts:
    """The beginnings of one path formula."""

    def __init__(self, path: Formula) -> None:
        atoms = find_distinct(path, Atom)
        # their truths are known at each step
        self._step_atoms = [atom for atom in atoms if atom.is_step_only]
        self._score_atoms = [atom for atom in atoms if not atom.is_step_only]
        self._atoms = [*self._step_atoms, *self._score_atoms]
        self._progression = Progression(path)
        self._has_step = any(STEP in atom.variables for atom in self._atoms)
        self._mixes_step = any(STEP in atom.variables for atom in self._score_atoms)
        self._ranges: dict[str, ScoreRange] = {
            name: (None, None) for atom in self._atoms for name in atom.variables - {STEP}
        }
        numbers = [abs(n) for atom in self._atoms if STEP in atom.variables for n in _numbers(atom)]
        self._largest_step = max(numbers, default=0)
        self._later_atoms = list(map(_rename_step, self._atoms))
        self._moves: dict[tuple[int, _Letter], int] = {}
        self._truths: dict[tuple[int, _Letter, bool], bool] = {}
        self._scores: dict[int, list[_Letter]] = {}
        self._count = 0

    def find_changed_truths(self, length: int) -> frozenset[bool]:
        """Find the truths as `find_changed_truths` of the module."""
        obligations, previous = frozenset([self._progression.initial_obligation]), None
        for step in range(length):
            # without steps, the same obligations leave the same ones at each further step
            if not self._has_step and obligations == previous:
                break
            previous = obligations
            obligations = self._advance(obligations, self._list_letters(step))
        letters = self._list_letters(length)
        changed = set()
        for truth in (False, True):
            left = {
                self._progress(obligation, letter)
                for obligation, letter in self._pair(obligations, letters)
                if self._holds(obligation, letter, False) == truth
            }
            if self._can_become(not truth, frozenset(left), length + 1):
                changed.add(truth)
        return frozenset(changed)

    def _can_become(self, truth: bool, obligations: frozenset[int], step: int) -> bool:
        """Return whether any continuation from a step on gives any obligation a truth."""
        last = step
        if self._has_step:
            # beyond these steps no comparison of a step and a number changes
            last = min(max(step, self._largest_step + 2), step + _MAX_STEPS)
        for number in range(step, last):
            letters = self._list_letters(number)
            if self._is_possible(truth, obligations, letters):
                return True
            obligations = self._advance(obligations, letters)
        letters = self._list_later_letters(last)
        reached: frozenset[int] = frozenset()
        while not obligations <= reached:
            obligations -= reached
            if self._is_possible(truth, obligations, letters):
                return True
            reached |= obligations
            obligations = self._advance(obligations, letters)
        return False

    def _is_possible(
        self, truth: bool, obligations: frozenset[int], letters: list[_Letter]
    ) -> bool:
        """Return whether a text that ends, or is cut, at this step gives a truth."""
        return any(
            self._holds(obligation, letter, has_ended) == truth
            for obligation, letter in self._pair(obligations, letters)
            for has_ended in (True, False)
        )

    def _advance(self, obligations: frozenset[int], letters: list[_Letter]) -> frozenset[int]:
        return frozenset(
            self._progress(obligation, letter)
            for obligation, letter in self._pair(obligations, letters)
        )

    def _pair(
        self, obligations: frozenset[int], letters: list[_Letter]
    ) -> Iterable[tuple[int, _Letter]]:
        self._count += len(obligations) * len(letters)
        if self._count > _MAX_MOVES:
            raise TooManyBeginnings
        return ((obligation, letter) for obligation in obligations for letter in letters)

    def _progress(self, obligation: int, letter: _Letter) -> int:
        # a satisfied (0) or violated (1) obligation stays
        if obligation <= 1:
            return obligation
        key = (obligation, letter)
        if key not in self._moves:
            if len(self._moves) >= _MAX_NEW_MOVES:
                raise TooManyBeginnings
            self._moves[key] = self._progression.progress(obligation, self._value(letter, False))
        return self._moves[key]

    def _holds(self, obligation: int, letter: _Letter, has_ended: bool) -> bool:
        """Return whether an obligation holds if a letter repeats for ever."""
        if obligation <= 1:
            return obligation == 0
        key = (obligation, letter, has_ended)
        if key not in self._truths:
            valuation = self._value(letter, has_ended)
            self._truths[key] = self._progression.holds_under_stutter(obligation, valuation)
        return self._truths[key]

    def _value(self, letter: _Letter, has_ended: bool) -> Mapping[Formula, bool]:
        return {**dict(zip(self._atoms, letter, strict=True)), _END: has_ended}

    def _list_letters(self, step: int) -> list[_Letter]:
        """List the consistent truths of the atoms at a step."""
        columns = {STEP: np.array([step])}
        known = tuple(bool(atom.evaluate(columns)[0]) for atom in self._step_atoms)
        return [known + scores for scores in self._list_scores(step)]

    def _list_scores(self, step: int) -> list[_Letter]:
        """List the consistent truths of the atoms over quantifiers at a step."""
        # atoms without the step have the same truths at each step
        step = step if self._mixes_step else 0
        if step not in self._scores:
            rows = enumerate_valuations(self._score_atoms, step, self._ranges, _MAX_LETTERS)
            self._scores[step] = _list_rows(rows)
        return self._scores[step]

    def _list_later_letters(self, step: int) -> list[_Letter]:
        """List the truths that the atoms may have at a step or any later one."""
        if not self._has_step:
            return self._list_letters(step)
        ranges = {**self._ranges, _LATER_STEP: (step, None)}
        return _list_rows(enumerate_valuations(self._later_atoms, step, ranges, _MAX_LETTERS))


def _list_rows(rows: np.ndarray) -> list[_Letter]:
    return [tuple(row) for row in rows.tolist()]


def _numbers(expression: Atom | Arithmetic) -> Iterable[int]:
    match expression:
        case Number(value):
            yield value
        case Atom(left, _, right) | Operation(_, left, right):
            yield from _numbers(left)
            yield from _numbers(right)


def _rename_step(atom: Atom) -> Atom:
    return replace(atom, left=_rename(atom.left), right=_rename(atom.right))


def _rename(expression: Arithmetic) -> Arithmetic:
    match expression:
        case Variable(name) if name == STEP:
            return Variable(_LATER_STEP)
        case Operation(_, left, right):
            return replace(expression, left=_rename(left), right=_rename(right))
    return expression
