"""The truth of a path formula, or a score, of whole answers, whose division into tokens is unknown.

A text grows token by token, and a path formula is about all texts on the way. Of an answer only the
empty text at the start and the whole text at the end are known to be among them. Every other one is
a beginning of the answer. So `F φ` is true if φ holds at the start or at the end, false if φ holds
for no beginning, and else unknown. `F (G φ)` is about the end alone, and always known. So is the
score after all tokens of the horizon, because a text that has ended keeps its score.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from llmchecker.errors import InvalidQuery
from llmchecker.models.decoding.answer_reader import WHOLE_OUTPUT, AnswerReader
from llmchecker.properties.logic.ast import (
    STEP,
    Atom,
    Connective,
    Expectation,
    Formula,
    Label,
    Probability,
    Temporal,
    evaluate_proposition,
    is_proposition,
    subformulas,
)
from llmchecker.properties.property import Property
from llmchecker.properties.quantifiers.interface import Quantifier, check_parts, find_part
from llmchecker.properties.scores import score_pairs

_MAX_BEGINNINGS = 20_000
"""Largest number of characters of an answer whose beginnings are all scored."""

_FIX = "write F (G …) for the whole answer, or use a model with probabilities"


class AnswerMonitor:
    """A monitor of whole answers.

    Args:
        asked: the query, its quantifiers and the horizon.
        start: the text before the answers, for quantifiers that read it.
        reader: what is read of the answers, whose stops the provider has applied.

    Raises:
        InvalidQuery: whole answers do not decide the query.
        ConfigError: a quantifier reads thoughts that the answers do not have.
    """

    def __init__(self, asked: Property, start: str, reader: AnswerReader = WHOLE_OUTPUT) -> None:
        check_decidable(asked)
        if reader.text_marks is None:
            check_parts(asked.quantifiers, reader)
        self._reader, self._has_stop = replace(reader, stop=()), bool(reader.stop)
        root = asked.query.root
        self._quantifiers, self._start = asked.quantifiers, start
        self._scored: str | None = None
        if isinstance(root, Expectation):
            self._scored = root.quantifier
            return
        assert isinstance(root, Probability)
        self._path = _remove_bounds(root.path, asked.length)

    def evaluate(self, text: str, has_ended: bool) -> int | None:
        """Return the truth of the formula, or the score of an answer.

        The truth is None if it depends on the tokens.

        Args:
            text: the answer.
            has_ended: whether the model ended it.
        """
        return self.read(text, has_ended)[0]

    def read(self, text: str, has_ended: bool) -> tuple[int | None, dict[str, int]]:
        """Return what `evaluate` returns, and the scores that decide it.

        The scores are those of the first beginning that decides an operator, or of the whole text.

        Raises:
            ConfigError: a quantifier reads thoughts, and the answer has no marks of one.
        """
        reader = self._reader.find_marks(text)
        check_parts(self._quantifiers, reader)
        if (name := self._scored) is not None:
            start = self._start
            quantifier = self._quantifiers[name]
            reading = reader.read(text, is_whole=True)
            read = reading.select(find_part(quantifier))
            score = int(score_pairs(quantifier, [(start, read)], name)[0])
            return score, {name: score}
        answer = _Answer(self._quantifiers, self._start, text, has_ended, reader)
        found = self._evaluate(self._path, answer)
        return found, answer.scores

    def decide(self, beginning: str) -> bool | None:
        """Return the truth of the formula in all answers that a text begins; None if they differ.

        Args:
            beginning: a text after a whole number of tokens.

        Raises:
            ConfigError: as in `read`.
        """
        marks = self._reader.text_marks
        content = beginning.lstrip()
        # the text may become the mark of a thought
        may_begin_mark = marks is not None and marks.begin.startswith(content)
        # a provider removes a stop, and its first characters may be in the text
        if self._scored is not None or may_begin_mark or self._has_stop:
            return None
        reader = self._reader.find_marks(beginning)
        answer = _Answer(
            self._quantifiers, self._start, beginning, False, reader, is_beginning=True
        )
        return self._decide(self._path, answer)

    def _decide(self, formula: Formula, answer: "_Answer") -> bool | None:
        match formula:
            case Connective(operator, operands):
                return _connect(operator, [self._decide(each, answer) for each in operands])
            # F (G φ) and G (F φ) are about the end
            case Temporal(_, (Temporal(),)):
                return None
            case Temporal("F", (operand,)):
                return True if answer.evaluate(operand, answer.certain_positions).any() else None
            case Temporal("G", (operand,)):
                has_met = answer.evaluate(_negate(operand), answer.certain_positions).any()
                return False if has_met else None
        return bool(answer.evaluate(formula, [0])[0])

    def _evaluate(self, formula: Formula, answer: "_Answer") -> bool | None:
        match formula:
            case Connective(operator, operands):
                return _connect(operator, [self._evaluate(each, answer) for each in operands])
            case Temporal("F", (operand,)):
                return _evaluate_eventually(operand, answer)
            case Temporal("G", (operand,)):
                found = _evaluate_eventually(_negate(operand), answer)
                return None if found is None else not found
        # a formula without a temporal operator is about the first text
        return bool(answer.evaluate(formula, [0])[0])


class _Answer:
    """The texts on the way to an answer: its beginnings, then the whole answer after its end.

    Args:
        quantifiers: the quantifiers by name.
        start: the text before the answer.
        text: the answer.
        has_ended: whether the model ended it.
        reader: what is read of the answer.
        is_beginning: whether the text may go on.

    Attributes:
        scores: the scores that decided the last evaluation of each quantifier.
    """

    def __init__(
        self,
        quantifiers: Mapping[str, Quantifier],
        start: str,
        text: str,
        has_ended: bool,
        reader: AnswerReader,
        *,
        is_beginning: bool = False,
    ) -> None:
        self._reader, self._is_beginning = reader, is_beginning
        self._quantifiers, self._start, self.text = quantifiers, start, text
        self._has_ended = has_ended
        self.scores: dict[str, int] = {}

    @property
    def certain_positions(self) -> list[int]:
        """The texts that the model certainly wrote on the way, the last one at the end."""
        whole = len(self.text)
        return [0, whole, whole + 1] if self._has_ended else [0, whole]

    def evaluate(self, formula: Formula, positions: Sequence[int]) -> np.ndarray:
        """Return (n,) bool: the truth of a formula over states, at some texts.

        Args:
            formula: a formula without temporal operators.
            positions: numbers of characters; one more than all is the answer after its end.
        """
        variables = {
            name
            for each in subformulas(formula)
            if isinstance(each, Atom)
            for name in each.variables
        }
        beginnings = [self.text[:position] for position in positions]
        readings = [
            self._reader.read(
                beginning, is_whole=position >= len(self.text) and not self._is_beginning
            )
            for beginning, position in zip(beginnings, positions, strict=True)
        ]
        columns = {}
        for name in variables:
            quantifier = self._quantifiers[name]
            part = find_part(quantifier)
            pairs = [(self._start, reading.select(part)) for reading in readings]
            columns[name] = score_pairs(quantifier, pairs, name)
        names = list(columns)
        columns[STEP] = np.zeros(len(beginnings), dtype=np.int64)
        is_end = np.array(positions) > len(self.text)
        truth = evaluate_proposition(formula, lambda atom: atom.evaluate(columns), {"end": is_end})
        # the first text that meets the formula decides, or else the last one
        index = int(np.argmax(truth)) if truth.any() else -1
        self.scores |= {name: int(columns[name][index]) for name in names}
        return truth


def check_decidable(asked: Property) -> None:
    """Check that whole answers can decide a query.

    Raises:
        InvalidQuery: they cannot; the message names the part that needs the tokens.
    """
    root, text = asked.query.root, asked.query.text
    if isinstance(root, Expectation):
        _check_score(root, asked)
        return
    if not isinstance(root, Probability):
        raise InvalidQuery(
            f"{text}: texts alone decide only a single P or a score; write P>=0.9 [ … ]"
        )
    _check_path(_remove_bounds(root.path, asked.length), text)


def _check_score(root: Expectation, asked: Property) -> None:
    text, obstacle = asked.query.text, asked.estimation_obstacle
    if root.is_sum or root.step not in (None, asked.length):
        raise InvalidQuery(
            f"{text}: {root} needs the division into tokens; write I={asked.length}, the "
            "horizon, for the whole answer"
        )
    if obstacle is not None:
        raise InvalidQuery(f"{text}: {obstacle}; use a quantifier with a range")


def _check_path(formula: Formula, text: str) -> None:
    match formula:
        case Connective(_, operands):
            for operand in operands:
                _check_path(operand, text)
        case Temporal("F" | "G", (operand,), None):
            # F (G φ) and G (F φ) are about the end
            if _is_lasting(formula) and isinstance(operand, Temporal):
                (operand,) = operand.operands
            _check_state(operand, text)
        case _:
            _check_state(formula, text)


def _check_state(formula: Formula, text: str) -> None:
    for each in subformulas(formula):
        if isinstance(each, Temporal):
            problem = f"{_name_operator(each)} here needs the division into tokens"
        elif isinstance(each, Atom) and STEP in each.variables:
            problem = f"`{each}` needs the number of tokens"
        elif isinstance(each, Label) and each.name != "end":
            problem = f'"{each.name}" needs probabilities'
        elif is_proposition(each) or isinstance(each, Connective):
            continue
        else:
            problem = "a P, E or A inside another needs probabilities"
        raise InvalidQuery(f"{text}: {problem}, which texts alone do not have; {_FIX}")


def _name_operator(formula: Temporal) -> str:
    """Return a temporal operator with its bound, as a query has it."""
    if formula.bound is None:
        return formula.operator
    return (
        f"F={formula.bound}" if formula.operator == "X" else f"{formula.operator}<={formula.bound}"
    )


def _remove_bounds(formula: Formula, length: int) -> Formula:
    """Return a formula without step bounds that no text exceeds."""
    match formula:
        # after all tokens of the horizon a path is in its last state
        case Temporal("X", (operand,), bound) if (bound or 1) >= length:
            return Temporal("F", (Temporal("G", (_read_last_state(operand),)),))
        case Connective(operator, operands):
            return Connective(operator, tuple(_remove_bounds(each, length) for each in operands))
        case Temporal(operator, operands, bound):
            kept = None if bound is not None and bound >= length else bound
            operands = tuple(_remove_bounds(each, length) for each in operands)
            return Temporal(operator, operands, kept)
    return formula


def _read_last_state(formula: Formula) -> Formula:
    """Return the state formula that is equivalent if all states of a path are the same."""
    match formula:
        case Connective(operator, operands):
            return Connective(operator, tuple(map(_read_last_state, operands)))
        case Temporal("W", (left, right)):
            return _read_last_state(Connective("|", (left, right)))
        case Temporal(_, operands):
            return _read_last_state(operands[-1])
    return formula


def _is_lasting(formula: Formula) -> bool:
    """Return whether a formula is F (G φ) or G (F φ), which are about the end alone."""
    match formula:
        case Temporal("F", (Temporal("G", _, None),)) | Temporal("G", (Temporal("F", _, None),)):
            return True
    return False


def _negate(formula: Formula) -> Formula:
    # !(F φ) is G !φ
    if isinstance(formula, Temporal):
        dual = {"F": "G", "G": "F"}[formula.operator]
        return Temporal(dual, (_negate(formula.operands[0]),))
    return Connective("!", (formula,))


def _evaluate_eventually(operand: Formula, answer: _Answer) -> bool | None:
    """Return the truth of `F operand` on an answer."""
    if isinstance(operand, Temporal):
        last = answer.certain_positions[-1:]
        return bool(answer.evaluate(operand.operands[0], last)[0])
    if answer.evaluate(operand, answer.certain_positions).any():
        return True
    if len(answer.text) > _MAX_BEGINNINGS:
        return None
    beginnings = range(1, len(answer.text))
    is_possible = bool(beginnings) and answer.evaluate(operand, beginnings).any()
    return None if is_possible else False


def _connect(operator: str, truths: Sequence[bool | None]) -> bool | None:
    """Return the truth of a connective, where None is an unknown truth."""
    if operator == "!":
        return None if truths[0] is None else not truths[0]
    if operator == "=>":
        truths = [_connect("!", truths[:1]), truths[1]]
    # one false operand decides a conjunction, and a true one a disjunction
    deciding = operator != "&"
    if deciding in truths:
        return deciding
    return None if None in truths else not deciding
