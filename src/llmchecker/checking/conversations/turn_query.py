"""Queries about conversations: path formulas over turns.

P>=0.99 [ G leaks = 0 ]                        in no turn
P>=0.9 [ G (turn = 2 => polite = 1) ]          in the second turn

The states of a conversation are its answers, the first answer first. The last state repeats for
ever, also where a conversation ends before its last turn. In a state `turn` is the number of the
answer, a quantifier is the score of the whole answer alone, and "end" is true if the model ended
the answer, which the horizon then did not cut.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from llmchecker.errors import InvalidQuery
from llmchecker.properties.logic.ast import (
    STEP,
    Arithmetic,
    Atom,
    Connective,
    Formula,
    Label,
    Number,
    Operation,
    PathQuantifier,
    Probability,
    Temporal,
    Variable,
    subformulas,
)
from llmchecker.properties.logic.continuation import extend_path
from llmchecker.properties.logic.monitor import Monitor
from llmchecker.properties.logic.query import Query
from llmchecker.properties.logic.valuations import (
    ScoreRange,
    TooManyValuations,
)
from llmchecker.properties.property import Property
from llmchecker.utils.number_format import format_count

TURN = "turn"
"""The variable with the number of the turn, from 1 on."""

_ENDED = '"end"'
"""The variable that is 1 if the model ended the answer; no quantifier can have its name."""


def check_turn_query(query: Query, quantifier_names: Collection[str], turn_count: int) -> None:
    """Check that a query is about the turns of a conversation.

    Args:
        query: the parsed query.
        quantifier_names: names of the quantifiers; `turn` is always known.
        turn_count: the number of turns.

    Raises:
        InvalidQuery: a name is unknown, a turn is beyond the last one, or the query is not a single
            P over turns.
    """
    if TURN in query.variables & set(quantifier_names):
        raise InvalidQuery(f"{query.text}: {TURN} is the number of the turn; rename the quantifier")
    if not isinstance(query.root, Probability):
        raise InvalidQuery(f"{query.text}: a conversation decides a single P; write P>=0.9 [ … ]")
    if STEP in query.variables:
        raise InvalidQuery(
            f"{query.text}: {STEP} counts tokens, and a conversation has turns; use {TURN}"
        )
    for formula in subformulas(query.root.path):
        if isinstance(formula, Probability | PathQuantifier) or formula == Label("rest"):
            raise InvalidQuery(
                f'{query.text}: a P, E, A or "rest" inside is not about single conversations; '
                "write one P for each"
            )
    query.check_references({TURN, *quantifier_names})
    for atom in query.atoms:
        if atom.variables == {TURN}:
            truths = _replace_turn(atom).evaluate({STEP: np.arange(turn_count)})
            if not truths.any():
                turns = format_count(turn_count, "turn")
                raise InvalidQuery(
                    f"{query.text}: {atom} never holds; the conversation has {turns}"
                )


def ask_about_whole_answers(query: Query, comparison: str = ">=") -> Query:
    """Return a query to which a conversation with a cut answer counts as the worse case.

    Args:
        query: the query, as of `check_turn_query`.
        comparison: the comparison of the probability with its threshold, if the query has none.
    """
    root = query.root
    if not isinstance(root, Probability):
        return query
    if root.threshold is not None:
        comparison = root.comparison
    limit = '& (G "end")' if comparison in (">=", ">") else '| (F !"end")'
    return extend_path(query, limit)


class TurnMonitor:
    """A monitor of one path formula along the turns of a conversation.

    A conversation is *decided* once every continuation gives the formula the same truth.

    Attributes:
        initial_obligation: the obligation before the first turn.

    Args:
        asked: the query and its quantifiers.
        turn_count: the largest number of turns.
        early_ends: numbers of turns before it whose answer may end the conversation.
        decides_early: whether conversations are decided before their last answer.

    Raises:
        InvalidQuery: the formula has too many atoms.
    """

    def __init__(
        self,
        asked: Property,
        turn_count: int,
        early_ends: frozenset[int] = frozenset(),
        *,
        decides_early: bool = True,
    ) -> None:
        root = asked.query.root
        assert isinstance(root, Probability)
        self._turn_count, self._early_ends = turn_count, early_ends
        ranges: dict[str, ScoreRange] = {**asked.ranges, _ENDED: (0, 1)}
        # turn t is step t - 1 of the monitor
        self._monitor = Monitor(_rewrite(root.path), turn_count - 1, ranges)
        self.initial_obligation = self._monitor.initial_obligation
        self._decides_early = decides_early
        # many answers have equal scores, always in the same order
        self._letters: dict[tuple[int, ...], int] = {}
        self._beginnings: dict[tuple[int, int, int], bool | None] = {}

    @property
    def atoms(self) -> tuple[Atom, ...]:
        """The comparisons of the formula."""
        return self._monitor.atoms

    @property
    def is_limited(self) -> bool:
        """Whether a limit left a conversation undecided that may be decided."""
        return self._monitor.is_limited

    def read(
        self, obligation: int, turn: int, scores: Mapping[str, int], has_ended: bool, is_last: bool
    ) -> tuple[int, bool | None]:
        """Return the obligation after a turn, and the truth if the turn decides it.

        Args:
            obligation: the obligation before the turn.
            turn: the number of the turn.
            scores: the scores of its answer by quantifier.
            has_ended: whether the model ended the answer.
            is_last: whether the answer ends the conversation.
        """
        key = (turn, int(has_ended), *scores.values())
        if key not in self._letters:
            columns = {name: np.array([value]) for name, value in scores.items()}
            (letter,) = self.compute_letters(turn, columns, np.array([has_ended])).tolist()
            self._letters[key] = letter
        letter = self._letters[key]
        after = self.progress(obligation, letter)
        if is_last:
            return after, self.holds_at_end(obligation, letter)
        return after, self.decide_turn(after, turn)

    def compute_letters(
        self,
        turn: int,
        columns: Mapping[str, np.ndarray],
        has_ended: np.ndarray,
        limits: Mapping[str, np.ndarray] | None = None,
    ) -> np.ndarray:
        """Return (n,) int64: the letters of answers of one turn, as `Monitor.compute_letters`."""
        columns = {
            **columns,
            STEP: np.full(len(has_ended), turn - 1),
            _ENDED: has_ended.astype(np.int64),
        }
        # the end of an answer is no end of a path
        return self._monitor.compute_letters(columns, np.zeros_like(has_ended), limits)

    def progress(self, obligation: int, letter: int) -> int:
        """Return the obligation after an answer."""
        return self._monitor.progress(obligation, letter)

    def holds_at_end(self, obligation: int, letter: int) -> bool:
        """Return whether the formula holds if the answer ends the conversation."""
        return self._monitor.holds_under_stutter(obligation, letter)

    def decide_turn(self, after: int, turn: int) -> bool | None:
        """Return the truth that every conversation has after a turn that does not end it.

        Args:
            after: the obligation after the turn.
            turn: the number of the turn.
        """
        if not self._decides_early:
            return None
        # The monitor lets a text stop at any step, which few conversations do. So it may decide
        # late, and never wrongly. The next answers have scores of their own, in any declared range.
        return self._monitor.decide(after, turn, 0)

    def decide_beginning(self, obligation: int, turn: int, letter: int) -> bool | None:
        """Return the truth that every continuation of the beginning of an answer has.

        Args:
            obligation: the obligation before the turn.
            turn: the number of the turn.
            letter: the letter of the beginning, of which only the ranges count.
        """
        ranges = self._monitor.find_ranges(letter)
        if not self._decides_early or ranges == 0:
            return None
        key = (obligation, turn, ranges)
        if key not in self._beginnings:
            self._beginnings[key] = self._find_common_truth(*key)
        return self._beginnings[key]

    def _find_common_truth(self, obligation: int, turn: int, ranges: int) -> bool | None:
        """Return the truth of all answers with scores in ranges; None if there are several."""
        try:
            letters = self._monitor.enumerate_letters(turn - 1, ranges)
        except TooManyValuations:
            return None
        truths: set[bool | None] = set()
        for letter in letters:
            # the rest of the answer may show whether it ends the conversation
            if turn == self._turn_count or turn in self._early_ends:
                truths.add(self.holds_at_end(obligation, letter))
            if turn < self._turn_count:
                truths.add(self.decide_turn(self.progress(obligation, letter), turn))
        return truths.pop() if len(truths) == 1 else None


def _rewrite(formula: Formula) -> Formula:
    """Return a formula over steps from 0 on, and with a variable in place of "end"."""
    match formula:
        case Label("end"):
            # an answer ends, but the conversation goes on, so that this is no end of a path
            return Atom(Variable(_ENDED), "=", Number(1))
        case Atom():
            return _replace_turn(formula)
        case Connective(_, operands) | Temporal(_, operands):
            return replace(formula, operands=tuple(map(_rewrite, operands)))
    return formula


def _replace_turn(atom: Atom) -> Atom:
    """Return an atom with `step + 1` in place of `turn`."""
    return Atom(_shift(atom.left), atom.comparison, _shift(atom.right))


def _shift(expression: Arithmetic) -> Arithmetic:
    match expression:
        case Variable(name) if name == TURN:
            return Operation("+", Variable(STEP), Number(1))
        case Operation(operator, left, right):
            return Operation(operator, _shift(left), _shift(right))
    return expression
