"""Product automaton: token transducers and monitors, read one token further at once.

A text is in one state of each transducer and leaves one obligation of each formula. From there
every token leads to a text on which the formulas are decided or not. Tokens of one class of all
transducers lead to equal texts, so a *row* has one entry for each class of the product and not for
each token (Willard and Louf 2023, "Efficient Guided Generation for LLMs", index a vocabulary by the
states of one automaton in the same way).

A token without a piece of its own, such as a byte, and a quantifier without a transducer are
*opaque*: what they lead to is known only after the text was decoded and scored.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from llmchecker.checking.decided_mass import UNDECIDED, decide_texts
from llmchecker.errors import TooManyStates
from llmchecker.models.decoding.answer_reader import WHOLE_OUTPUT, AnswerReader
from llmchecker.processes.process import Process, Stage
from llmchecker.properties.logic.ast import STEP
from llmchecker.properties.logic.continuation_ranges import NO_LIMIT
from llmchecker.properties.logic.monitor import PathMonitor
from llmchecker.properties.quantifiers.interface import Quantifier, find_part
from llmchecker.properties.transducers.interface import HasTransducer, TokenTransducer
from llmchecker.properties.transducers.reader_transducer import (
    STOPPED,
    THINKING,
    ReaderTransducer,
    StopTransducer,
)
from llmchecker.properties.transducers.token_classes import Row as TransducerRow
from llmchecker.properties.transducers.token_classes import TokenClasses, TransducerTable
from llmchecker.utils.row_groups import find_distinct

OPAQUE = -1
"""The number of a state that is not known."""

_UNKNOWN_SITUATION = 0
"""The number of the situation of a text whose scores are not known."""

_MAX_SITUATION_SCORE = 8
"""Scores beyond this and its negative count as equal in a situation."""

MAX_ROW_ENTRIES = 2**21
"""The largest number of rows times that of classes that is kept, about 100 MB for a quantifier."""


@dataclass(frozen=True)
class TextStates:
    """The states of n texts.

    Attributes:
        controls: (quantifiers, n) int32, the state of each transducer; `OPAQUE` if it is unknown.
        counts: (quantifiers, n) int64, the count of each transducer.
        scores: (quantifiers, n) int64, the score of each quantifier.
        obligations: (formulas, n) int64, the obligation of each formula after the text.
        truth: (formulas, n) int8: 0, 1 or `UNDECIDED`.
        truth_if_ended: (formulas, n) int8, the truth if the last letter of the text repeats.
        is_open_ended: (n,) bool, whether a token's piece continues the text: False within a
            character.
        reading: (n,) int32, the state of the reader; `OPAQUE` if it is unknown.
    """

    controls: np.ndarray
    counts: np.ndarray
    scores: np.ndarray
    obligations: np.ndarray
    truth: np.ndarray
    truth_if_ended: np.ndarray
    is_open_ended: np.ndarray
    reading: np.ndarray

    def select(self, rows: np.ndarray) -> "TextStates":
        """Return the states of some of the texts."""
        return TextStates(*(column[..., rows] for column in vars(self).values()))


@dataclass(frozen=True)
class Row:
    """What each class of tokens leads to from the state of a text.

    Attributes:
        number: the number of the row, which no other row of its automaton has.
        truth: (formulas, classes) int8: 0, 1 or `UNDECIDED`.
        scores: (quantifiers, classes) int64; 0 where they are unknown.
        controls: (quantifiers, classes) int32; `OPAQUE` where they are unknown.
        gains: (quantifiers, classes) int64, the count that the tokens add.
        obligations: (formulas, classes) int64, the obligation after each next text.
        truth_if_ended: (formulas, classes) int8, the truth if the last letter of the text repeats.
        situations: (classes,) int64, the situation of each next text; see `number_situations`.
        is_known: (classes,) bool, whether the next text needs no look at its characters.
        has_ended: (classes,) bool, whether the next text has ended, as far as that is known.
        reading: (classes,) int32, the state of the reader; `OPAQUE` where it is unknown.
    """

    number: int
    truth: np.ndarray
    scores: np.ndarray
    controls: np.ndarray
    gains: np.ndarray
    obligations: np.ndarray
    truth_if_ended: np.ndarray
    situations: np.ndarray
    is_known: np.ndarray
    has_ended: np.ndarray
    reading: np.ndarray

    @cached_property
    def is_undecided(self) -> np.ndarray:
        """(classes,) bool: whether at least one formula is undecided."""
        undecided: np.ndarray = (self.truth == UNDECIDED).any(axis=0)
        return undecided


@dataclass(frozen=True)
class TextRows:
    """The rows of n texts, of which many share a row.

    Attributes:
        rows: the distinct rows.
        row_of: (n,) int64, the index of each text's row.
    """

    rows: tuple[Row, ...]
    row_of: np.ndarray

    def __getitem__(self, text: int) -> Row:
        """Return the row of a text."""
        row = int(self.row_of[text])
        return self.rows[row]

    def select(self, texts: np.ndarray) -> "TextRows":
        """Return the rows of some of the texts."""
        return TextRows(self.rows, self.row_of[texts])

    def gather(self, name: str, texts: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """Return the entries of a column of `Row` for pairs of a text and a class.

        Args:
            name: the name of the column, whose last axis has the classes.
            texts, classes: integers of equal shape.
        """
        columns = np.stack([getattr(row, name) for row in self.rows], axis=-2)
        entries: np.ndarray = columns[..., self.row_of[texts], classes]
        return entries


class SharedNumbers:
    """Numbers of rows and situations, which several automata of one tree share."""

    def __init__(self) -> None:
        self.rows = itertools.count()
        self.situations: dict[tuple[int, ...], int] = {}


class ProductAutomaton:
    """Transducers of quantifiers and monitors of formulas over one vocabulary.

    In a message of a simulated user no quantifier reads a token, and no obligation changes.

    Attributes:
        class_of: (vocabulary,) int64, the class of each token.
        class_count: number of classes.
        has_piece: (vocabulary,) bool, whether a token is whole characters.
        has_ended: (classes,) bool, whether a class ends every text.

    Args:
        process: the process of the texts.
        stage: a stage of the writer whose tokens are read.
        monitors: monitors of the formulas, all with the same horizon.
        quantifiers: the quantifiers that the formulas name, by name.
        keeps_scores: whether a token that adds no text leaves every score as it is. A beginning
            without a score of its own is no text whose score could be kept.
        numbers: the numbers of rows and situations; None for numbers of its own.
    """

    def __init__(
        self,
        process: Process,
        stage: Stage,
        monitors: Sequence[PathMonitor],
        quantifiers: Mapping[str, Quantifier],
        *,
        keeps_scores: bool = True,
        numbers: SharedNumbers | None = None,
    ) -> None:
        self.monitors, self._names = tuple(monitors), tuple(quantifiers)
        self._process, model = process, stage.writer
        pieces = model.token_pieces
        self._reads = stage.is_answer
        self._reader = stage.reader if self._reads else WHOLE_OUTPUT
        self.tables = _build_tables(pieces, quantifiers if self._reads else {}, self._reader)
        # the reader has a state of its own, since a stop ends texts that no quantifier reads
        self._stops = _build_table(StopTransducer(self._reader), pieces) if self._reader else None
        is_end = np.zeros(model.vocabulary_size, dtype=bool)
        is_end[list(model.end_tokens)] = True
        self.has_piece = np.array([piece is not None for piece in pieces or [None] * len(is_end)])
        adds_text = np.array([piece != "" for piece in pieces or [None] * len(is_end)])
        components = [
            np.zeros(len(is_end), np.int64) if table is None else table.classes.class_of
            for table in (*self.tables, self._stops)
        ]
        classes, self.class_of = find_distinct(np.stack([~is_end, adds_text, *components]))
        self.class_count, self.has_ended = len(classes), classes[:, 0] == 0
        self._components = classes[:, 2:].T
        # where no text is added, every score stays
        self._is_silent = (classes[:, 1] == 0) & keeps_scores
        is_opaque = None in self.tables or (bool(self._reader) and self._stops is None)
        self._is_readable = (classes[:, 2:] >= 0).all(axis=1) & (not is_opaque)
        self._rows: dict[tuple[int, ...], Row] = {}
        numbers = numbers or SharedNumbers()
        self._numbers, self._situations = numbers.rows, numbers.situations
        self._unknown_row: Row | None = None

    def start(self, start: str, continuation: str, index: int) -> tuple[int, int]:
        """Return the state and the count of a quantifier's transducer after a text.

        Returns:
            `OPAQUE` and 0 without a transducer, or if the text leads to too many states.
        """
        return _start(self.tables[index], start, continuation)

    def start_reading(self, continuation: str) -> int:
        """Return the state of the reader after a text; `OPAQUE` if it is unknown."""
        return _start(self._stops, "", continuation)[0] if self._reader else 0

    def find_thinking(self, reading: np.ndarray) -> np.ndarray:
        """Return (n,) bool: whether texts end within a thought, by the states of the reader."""
        if self._stops is None:
            return np.zeros(len(reading), dtype=bool)
        scores = np.where(reading == OPAQUE, 0, self._stops.scores[np.maximum(reading, 0)])
        is_thinking: np.ndarray = scores & THINKING > 0
        return is_thinking

    def find_rows(self, states: TextStates, step: int) -> "TextRows":
        """Return the row of each text of one length."""
        keys = np.concatenate(
            [
                *(states.controls, states.counts, states.scores, states.obligations, states.truth),
                states.reading[np.newaxis],
            ]
        ).T.tolist()
        rows = [
            self._find_row(tuple(key), states, position, step) if is_open else self._get_unknown()
            for position, (key, is_open) in enumerate(
                zip(keys, states.is_open_ended.tolist(), strict=True)
            )
        ]
        distinct = {row.number: row for row in rows}
        index_of = {number: index for index, number in enumerate(distinct)}
        return TextRows(tuple(distinct.values()), np.array([index_of[row.number] for row in rows]))

    def _find_row(self, key: tuple[int, ...], states: TextStates, position: int, step: int) -> Row:
        key = (step, *key)
        if key not in self._rows:
            # a row is computed again if it is needed again
            if len(self._rows) * self.class_count > MAX_ROW_ENTRIES:
                self._rows.clear()
            self._rows[key] = self._build_row(states, position, step)
        return self._rows[key]

    def _get_unknown(self) -> Row:
        """Return the row of a text after which every token is opaque."""
        if self._unknown_row is None:
            formulas, quantifiers, n = len(self.monitors), len(self._names), self.class_count
            self._unknown_row = Row(
                next(self._numbers),
                np.full((formulas, n), UNDECIDED, dtype=np.int8),
                np.zeros((quantifiers, n), dtype=np.int64),
                np.full((quantifiers, n), OPAQUE, dtype=np.int32),
                np.zeros((quantifiers, n), dtype=np.int64),
                np.zeros((formulas, n), dtype=np.int64),
                np.zeros((formulas, n), dtype=np.int8),
                np.full(n, _UNKNOWN_SITUATION),
                np.zeros(n, dtype=bool),
                self.has_ended,
                np.full(n, OPAQUE, dtype=np.int32),
            )
        return self._unknown_row

    def _build_row(self, states: TextStates, position: int, step: int) -> Row:
        n, quantifiers = self.class_count, len(self._names)
        stage = self._process.find_stage(step + 1)
        reading, has_stopped = self._read_stops(int(states.reading[position]))
        has_ended = stage.find_ended(step + 1, has_stopped)
        is_whole = stage.find_whole(step + 1, has_ended)
        # what a reader holds back of a text is read at its end
        is_read = is_whole & bool(self._reader)
        is_silent = self._is_silent & ~is_read
        controls = np.full((quantifiers, n), OPAQUE, dtype=np.int32)
        gains, scores = np.zeros((2, quantifiers, n), dtype=np.int64)
        is_known = self._is_readable & (reading != OPAQUE)
        for index, table in enumerate(self.tables):
            row = _read_row(table, int(states.controls[index, position]))
            if table is None or row is None:
                is_known[:] = False
                continue
            component = np.maximum(self._components[index], 0)
            controls[index] = row.next_states[component]
            gains[index] = row.gains[component]
            count = int(states.counts[index, position])
            scores[index] = count + gains[index]
            scores[index] += np.where(
                is_read, table.end_scores[controls[index]], table.scores[controls[index]]
            )
        is_known |= is_silent
        silent = np.flatnonzero(is_silent | (not self._reads))
        for column, own in (
            (controls, states.controls),
            (gains, np.zeros_like(states.counts)),
            (scores, states.scores),
        ):
            column[:, silent] = own[:, position, np.newaxis]
        # what is in the part may tell whether it ends the text
        is_known &= ~is_whole if stage.is_last is None else True
        truth, obligations, truth_if_ended = self.decide(
            step + 1,
            has_ended,
            is_whole if stage.is_last else np.zeros_like(is_whole),
            scores,
            np.repeat(states.obligations[:, position, np.newaxis], n, axis=1),
            np.repeat(states.truth[:, position, np.newaxis], n, axis=1),
            self.find_limits(
                controls,
                states.counts[:, position, np.newaxis] + gains,
                # a token without text leaves open whether bytes may still change the text before
                self._is_readable & ~self._is_silent,
            ),
            is_known,
        )
        # the next part begins after the characters of this one
        is_known &= ~is_whole | ~(truth == UNDECIDED).any(axis=0)
        situations = self.number_situations(step + 1, obligations, truth_if_ended, scores)
        situations[~is_known] = _UNKNOWN_SITUATION
        return Row(
            next(self._numbers),
            truth,
            scores,
            controls,
            gains,
            obligations,
            truth_if_ended,
            situations,
            is_known,
            has_ended,
            reading,
        )

    def _read_stops(self, state: int) -> tuple[np.ndarray, np.ndarray]:
        """Return (classes,) the next states of the reader, and whether they have ended."""
        if not self._reader:
            return np.zeros(self.class_count, dtype=np.int32), self.has_ended
        row = _read_row(self._stops, state)
        if row is None or self._stops is None:
            return np.full(self.class_count, OPAQUE, dtype=np.int32), self.has_ended
        component = self._components[-1]
        reading = np.where(component >= 0, row.next_states[component], OPAQUE)
        is_stop = (reading != OPAQUE) & (self._stops.scores[reading] & STOPPED > 0)
        return reading.astype(np.int32), self.has_ended | is_stop

    def number_situations(
        self, step: int, obligations: np.ndarray, truth_if_ended: np.ndarray, scores: np.ndarray
    ) -> np.ndarray:
        """Return (n,) int64: equal numbers for texts whose continuations matter alike.

        Args:
            step: number of tokens of the texts.
            obligations, truth_if_ended: (formulas, n) of the texts.
            scores: (quantifiers, n) of the texts.
        """
        # scores far apart would give every text a situation of its own
        near_scores = np.clip(scores, -_MAX_SITUATION_SCORE, _MAX_SITUATION_SCORE)
        distinct, inverse = find_distinct(
            np.concatenate([obligations, truth_if_ended, near_scores])
        )
        numbers = [
            self._situations.setdefault((step, *row), len(self._situations) + 1)
            for row in map(tuple, distinct.tolist())
        ]
        situations: np.ndarray = np.array(numbers, dtype=np.int64)[inverse]
        return situations

    def find_limits(
        self, controls: np.ndarray, counts: np.ndarray, is_final: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Return (2, n) int64 by quantifier: the limits of the scores of all continuations.

        Args:
            controls, counts: (quantifiers, n) of the texts.
            is_final: (n,) bool, the texts of whole characters that no further token changes. The
                others have no limits.
        """
        found: dict[str, np.ndarray] = {}
        if not self._reads:
            return found
        for name, table, numbers, count in zip(
            self._names, self.tables, controls, counts, strict=True
        ):
            if table is None or table.limits is None:
                continue
            limits = table.limits[:, np.maximum(numbers, 0)]
            for limit, missing in zip(limits, (NO_LIMIT.min, NO_LIMIT.max), strict=True):
                has_limit = is_final & (numbers != OPAQUE) & (limit != missing)
                limit[:] = np.where(has_limit, limit + count, missing)
            found[name] = limits
        return found

    def decide(
        self,
        step: int,
        has_ended: np.ndarray,
        is_terminal: np.ndarray,
        scores: np.ndarray,
        obligations: np.ndarray,
        truth: np.ndarray,
        limits: Mapping[str, np.ndarray],
        is_known: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Progress every formula by the step of n texts.

        Args:
            step: number of tokens of the texts.
            has_ended: (n,) bool, whether an end token ended each text.
            is_terminal: (n,) bool, whether no token follows a text.
            scores: (quantifiers, n) int64.
            obligations: (formulas, n) int64, before this step.
            truth: (formulas, n), before this step.
            limits: as in `find_limits`.
            is_known: (n,) bool, the texts whose scores are known; None for all.

        Returns:
            (formulas, n) int8, the truth; (formulas, n) int64, the obligations after the step; and
            (formulas, n) int8, the truth if the last letters repeat.
        """
        n = len(has_ended)
        columns = dict(zip(self._names, scores, strict=True))
        columns[STEP] = np.full(n, step)
        new_truth, new_obligations = truth.astype(np.int8), obligations.copy()
        truth_if_ended = np.zeros_like(new_truth)
        if not self._reads:
            return new_truth, new_obligations, truth_if_ended
        for index, monitor in enumerate(self.monitors):
            letters = monitor.compute_letters(columns, has_ended, limits)
            use = np.ones(n, dtype=bool) if is_known is None else is_known
            decisions, after, stutters = decide_texts(
                monitor, step, obligations[index, use], letters[use], is_terminal[use]
            )
            # a decided text stays decided: its mass has counted at the text that decided it
            is_open = new_truth[index, use] == UNDECIDED
            new_truth[index, use] = np.where(is_open, decisions, new_truth[index, use])
            new_obligations[index, use] = after
            truth_if_ended[index, use] = stutters
        return new_truth, new_obligations, truth_if_ended


def _read_row(table: TransducerTable | None, state: int) -> TransducerRow | None:
    """Return the transitions of a state; None if they are not known."""
    if table is None or state == OPAQUE:
        return None
    try:
        return table.row(state)
    except TooManyStates:
        return None


def _start(table: TransducerTable | None, start: str, continuation: str) -> tuple[int, int]:
    """Return the state and the count after a text; `OPAQUE` and 0 where they are unknown."""
    if table is None:
        return OPAQUE, 0
    try:
        state, count = table.start(start)
        if continuation:
            state, gain = table.advance_text(state, continuation)
            count += gain
    except TooManyStates:
        return OPAQUE, 0
    return state, count


def _build_tables(
    pieces: Sequence[str | None] | None,
    quantifiers: Mapping[str, Quantifier],
    reader: AnswerReader,
) -> list[TransducerTable | None]:
    """Return the table of each quantifier's transducer; None for an opaque quantifier."""
    tables: list[TransducerTable | None] = []
    for quantifier in quantifiers.values():
        transducer = (
            quantifier.build_transducer()
            if pieces is not None and isinstance(quantifier, HasTransducer)
            else None
        )
        if transducer is not None and reader:
            transducer = ReaderTransducer(reader, find_part(quantifier), transducer)
        tables.append(_build_table(transducer, pieces))
    return tables


def _build_table(
    transducer: TokenTransducer | None, pieces: Sequence[str | None] | None
) -> TransducerTable | None:
    """Return the table of a transducer over a vocabulary; None without either."""
    if pieces is None or transducer is None:
        return None
    return TransducerTable(transducer, TokenClasses.from_pieces(transducer, pieces))
