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

from llmchecker.checking.anytime.checked_query import CheckedQuery
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
from llmchecker.properties.logic.monitor import Monitor
from llmchecker.properties.logic.query import Query
from llmchecker.properties.logic.valuations import (
    ScoreRange,
    TooManyValuations,
    enumerate_valuations,
)
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
            _check_turn_atom(query, atom, turn_count)


def _check_turn_atom(query: Query, atom: Atom, turn_count: int) -> None:
    """Check that a comparison with `turn` is true in at least one turn."""
    truths = _replace_turn(atom).evaluate({STEP: np.arange(turn_count)})
    if not truths.any():
        turns = format_count(turn_count, "turn")
        raise InvalidQuery(f"{query.text}: {atom} never holds; the conversation has {turns}")


class TurnMonitor:
    """A monitor of one path formula along the turns of a conversation.

    A conversation is *decided* once every continuation gives the formula the same truth.

    Attributes:
        initial_obligation: the obligation before the first turn.
        final_names: the quantifiers whose scores of beginnings may decide, since they are final.

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
        asked: CheckedQuery,
        turn_count: int,
        early_ends: frozenset[int] = frozenset(),
        *,
        decides_early: bool = True,
    ) -> None:
        root = asked.query.root
        assert isinstance(root, Probability)
        self._final_scores = {
            name: frozenset(limits[2:]) for name, limits in asked.ranges.items() if limits[2:]
        }
        # an answer has a score of its own, so that no score is final beyond it
        self._ranges: dict[str, ScoreRange] = {
            name: (limits[0], limits[1]) for name, limits in asked.ranges.items()
        }
        self._ranges[_ENDED] = (0, 1)
        self._turn_count, self._last_turns = turn_count, early_ends | {turn_count}
        # turn t is step t - 1 of the monitor
        self._monitor = Monitor(_rewrite(root.path), turn_count - 1, self._ranges)
        self.initial_obligation = self._monitor.initial_obligation
        self._decides_early = decides_early
        self.final_names = frozenset(self._final_scores) if decides_early else frozenset[str]()
        # many answers have equal scores, always in the same order
        self._letters: dict[tuple[int, ...], int] = {}
        self._possible_truths: dict[tuple[int, int, tuple[int | None, ...]], bool | None] = {}

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
        values = {**scores, STEP: turn - 1, _ENDED: int(has_ended)}
        key = tuple(values.values())
        if key not in self._letters:
            columns = {name: np.array([value]) for name, value in values.items()}
            (letter,) = self._monitor.compute_letters(columns, np.array([False])).tolist()
            self._letters[key] = letter
        return self._read_letter(obligation, turn, self._letters[key], is_last)

    def decide_beginning(
        self, obligation: int, turn: int, scores: Mapping[str, int]
    ) -> bool | None:
        """Return the truth that every continuation of the beginning of an answer has.

        Args:
            obligation, turn: as in `read`.
            scores: the scores of the beginning by quantifier.
        """
        kept = tuple(
            scores[name] if scores[name] in final else None
            for name, final in self._final_scores.items()
        )
        if all(score is None for score in kept):
            return None
        key = (obligation, turn, kept)
        if key not in self._possible_truths:
            self._possible_truths[key] = self._find_common_truth(obligation, turn, kept)
        return self._possible_truths[key]

    def _find_common_truth(
        self, obligation: int, turn: int, kept: tuple[int | None, ...]
    ) -> bool | None:
        """Return the truth of all answers with these final scores; None if there are several."""
        ranges = dict(self._ranges)
        for name, score in zip(self._final_scores, kept, strict=True):
            if score is not None:
                ranges[name] = (score, score)
        try:
            rows = enumerate_valuations(self._monitor.atoms, turn - 1, ranges)
        except TooManyValuations:
            return None
        letters = [sum(1 << bit for bit in np.flatnonzero(row).tolist()) for row in rows]
        # the rest of the answer may show whether it ends the conversation
        ends = {turn == self._turn_count, turn in self._last_turns}
        truths = {
            self._read_letter(obligation, turn, letter, is_last)[1]
            for letter in letters
            for is_last in ends
        }
        return truths.pop() if len(truths) == 1 else None

    def _read_letter(
        self, obligation: int, turn: int, letter: int, is_last: bool
    ) -> tuple[int, bool | None]:
        after = self._monitor.progress(obligation, letter)
        if is_last:
            return after, self._monitor.holds_under_stutter(obligation, letter)
        if not self._decides_early:
            return after, None
        # The monitor lets a text stop at any step, which few conversations do. So it may decide
        # late, and never wrongly.
        return after, self._monitor.decide(after, turn, letter)


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
