"""The certain probability of texts, from log probabilities that a provider lists with answers.

Different sequences of tokens exclude each other. So the sum of the probabilities of those that
satisfy a formula is a certain lower bound, and 1 minus the sum of those that violate it an upper
bound. A sequence counts if its tokens decide the formula:

- a whole answer of which the provider lists the end token, or which has all tokens of the horizon;
- a beginning after which every answer satisfies the formula, or every answer violates it.

A conversation is one sequence, with the tokens of its answers in turn: the messages between them
follow from the answers. A message that a simulated user writes does not, and ends the sequence.

Each number may differ from the logarithm of the provider's probability by `_LOGPROB_ERROR`. All
sums are rounded outwards. The numbers are not used if they contradict each other, leave out tokens,
or if the sampled tokens do not follow them (see `sampling_test`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from llmchecker.errors import InvalidDistribution
from llmchecker.models.servers.sampling_test import SamplingTest
from llmchecker.models.servers.settings import MAX_EXCESS
from llmchecker.models.text_answer import Finish, ListedToken, TextAnswer
from llmchecker.utils.interval import Interval, round_interval
from llmchecker.utils.printable_text import quote_value

_LOGPROB_ERROR = 1e-4
"""A limit of the error of a log probability: providers compute in float32, and round to 4 digits.
"""
_LEAST_MASS = 1e-4
"""The least probability of a sequence that counts; others would change a bound by little."""
_ROUNDING_MARGIN = 1e-9
"""A limit above the relative rounding error of a product of probabilities."""
_CUTS = (Finish.TRUNCATED, Finish.MAX_TOKENS)
"""How answers of the largest number of tokens end."""


@dataclass(frozen=True)
class _End:
    """A token that ends an answer."""

    text: str


_Tokens = tuple[str | _End, ...]
"""Texts of tokens, of which some may end an answer."""


@dataclass(frozen=True)
class _Reading:
    """An answer after whole ones.

    Attributes:
        answer: the answer.
        before: the tokens of the answers before it.
        log_mass: the logarithm of their probability.
        own: its tokens, up to the first whose text two listed tokens have.
        is_whole: whether these tokens are the whole answer.
    """

    answer: TextAnswer
    before: _Tokens
    log_mass: float
    own: _Tokens
    is_whole: bool

    @property
    def sequence(self) -> _Tokens:
        """All of the tokens."""
        return self.before + self.own

    def sum_logprobs(self, count: int) -> float:
        """Return the logarithm of the probability of the first `count` own tokens and `before`."""
        return self.log_mass + math.fsum(each.logprob for each in self.answer.tokens[:count])


class ListedMass:
    """The sequences of tokens that decide a formula or a score, and their probability.

    Attributes:
        problem: why the log probabilities are not used; None while they are.
        has_tokens: whether answers have log probabilities; None before the first answer.
        token_count: number of tested tokens.

    Args:
        decide: returns the truth of the formula in all samples whose first answer a text begins;
            None if they differ.
        length: the largest number of tokens of an answer.
        top_logprobs: number of requested log probabilities at each token, from 2.
        known_turns: number of answers of a sample that follow from those before them.
    """

    def __init__(
        self,
        decide: Callable[[str], bool | None],
        length: int,
        top_logprobs: int,
        known_turns: int = 1,
    ) -> None:
        self.problem: str | None = None
        self.has_tokens: bool | None = None
        self._find_truth, self._length, self._top_logprobs = decide, length, top_logprobs
        self._known_turns = known_turns
        self._numbers: dict[_Tokens, int] = {}
        self._longest = 0
        self._truths: dict[str, bool | None] = {}
        # the least and the largest sums for the mean value, then for 1 minus the mean
        self._sums = [Fraction(), Fraction(), Fraction(), Fraction()]
        # the log probabilities at the place after a sequence
        self._lists: dict[_Tokens, dict[str, float]] = {}
        self._lists_end: bool | None = None
        self._test = SamplingTest()

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def token_count(self) -> int:
        """Number of tested tokens."""
        return self._test.token_count

    @property
    def limits(self) -> tuple[Interval, Interval]:
        """Limits of the mean over all texts if those without a sequence have any mean from 0 to 1.

        The first interval has the least satisfied and the largest violated probability, so that a
        mean of the others within it is at most the true one; the second is its opposite.
        """
        low, high, least_violated, most_violated = self._sums
        # the errors of the sums are far above those of rounding
        return (
            round_interval(low, max(low, 1 - most_violated)),
            round_interval(min(high, 1 - least_violated), 1 - least_violated),
        )

    @property
    def certain(self) -> Interval:
        """The certain bounds of the mean."""
        low, _, least_violated, _ = self._sums
        return round_interval(low, 1 - least_violated)

    def find(self, answers: Sequence[TextAnswer]) -> int | None:
        """Return the number of the sequence with which a sample begins; None without one."""
        sequence = self._read(answers)[-1].sequence
        for count in range(min(len(sequence), self._longest) + 1):
            if (number := self._numbers.get(sequence[:count])) is not None:
                return number
        return None

    def add(self, answers: Sequence[TextAnswer], value: float | None) -> float | None:
        """Add the tokens of a sample, and return its value.

        Args:
            answers: its answers, all of which were received whole.
            value: its value from 0 to 1; None if this depends on its tokens.
        """
        readings = self._read(answers)
        if self.problem is None:
            self.problem = self._find_problem(answers, readings)
        if self.problem is not None or not self.has_tokens:
            return value
        first, last = readings[0], readings[-1]
        if (decided := self._find_decided(first)) is not None:
            count, truth = decided
            if value not in (None, float(truth)):
                self.problem = "an answer and its beginning contradict each other"
                return value
            self._insert(first.own[:count], first.sum_logprobs(count), float(truth))
            return float(truth)
        if value is not None and last.is_whole and len(readings) == len(answers):
            self._insert(last.sequence, last.sum_logprobs(len(last.own)), value)
        return value

    def _find_decided(self, reading: _Reading) -> tuple[int, bool] | None:
        """Return the number of tokens that decide the formula, and its truth; None without any."""
        text, log_mass = "", 0.0
        for count, piece in enumerate((*reading.own, _End(""))):
            if (truth := self._decide(text)) is not None:
                return count, truth
            if isinstance(piece, _End):
                break
            text += piece
            log_mass += reading.answer.tokens[count].logprob
            # the pieces of a text that is not theirs have another meaning
            is_own = piece and reading.answer.text.startswith(text)
            if not is_own or log_mass < math.log(_LEAST_MASS):
                break
        return None

    def _decide(self, beginning: str) -> bool | None:
        if beginning not in self._truths:
            self._truths[beginning] = self._find_truth(beginning)
        return self._truths[beginning]

    def _insert(self, sequence: _Tokens, log_mass: float, value: float) -> None:
        if sequence in self._numbers or log_mass < math.log(_LEAST_MASS):
            return
        self._numbers[sequence] = len(self._numbers)
        self._longest = max(self._longest, len(sequence))
        margin = len(sequence) * _LOGPROB_ERROR + _ROUNDING_MARGIN
        low, high = (Fraction(min(math.exp(log_mass + sign * margin), 1.0)) for sign in (-1, 1))
        share = Fraction(value)
        added = (share * low, share * high, (1 - share) * low, (1 - share) * high)
        self._sums = [total + each for total, each in zip(self._sums, added, strict=True)]
        if self._sums[0] + self._sums[2] > 1:
            self.problem = "the probabilities of different answers have a sum above 1"

    def _read(self, answers: Sequence[TextAnswer]) -> list[_Reading]:
        """Read answers in turn, up to the first that its tokens do not state whole."""
        readings: list[_Reading] = []
        before: _Tokens = ()
        log_mass = 0.0
        for answer in answers[: self._known_turns]:
            own = _read_own(answer)
            reading = _Reading(answer, before, log_mass, own, self._is_whole(answer, own))
            readings.append(reading)
            if not reading.is_whole:
                break
            before, log_mass = reading.sequence, reading.sum_logprobs(len(own))
        return readings

    def _is_whole(self, answer: TextAnswer, own: _Tokens) -> bool:
        """Return whether tokens are the text of an answer, and nothing follows them."""
        is_cut = answer.finish in _CUTS and len(answer.tokens) == self._length
        pieces = [each for each in own if isinstance(each, str)]
        is_text = all(pieces) and "".join(pieces) == answer.text
        return is_text and len(own) == len(answer.tokens) and (is_cut or _has_end(answer))

    def _find_problem(
        self, answers: Sequence[TextAnswer], readings: Sequence[_Reading]
    ) -> str | None:
        """Return what the tokens of answers contradict; None if nothing."""
        problems = (
            *map(self._find_gap, answers),
            *map(self._find_difference, readings),
            *map(self._find_bias, answers),
        )
        return next(filter(None, problems), None)

    def _find_gap(self, answer: TextAnswer) -> str | None:
        """Return which log probabilities an answer leaves out; None if none."""
        count, stated = len(answer.tokens), answer.answer_tokens
        # an empty answer has them if the end is listed; else the test lacks its end
        has_tokens = count > 0
        if self.has_tokens not in (None, has_tokens):
            return "only a part of the answers has them"
        self.has_tokens = has_tokens
        if has_tokens and not any(each.listed for each in answer.tokens):
            return "the most probable tokens are not listed"
        if has_tokens and stated is not None and not count <= stated <= count + 1:
            return f"an answer of {stated:,} tokens lists {count:,}"
        if answer.finish is Finish.ENDED and _has_pieces(answer):
            lists_end = _has_end(answer)
            if self._lists_end not in (None, lists_end):
                return "only a part of the answers lists the end token"
            self._lists_end = lists_end
        return None

    def _find_difference(self, reading: _Reading) -> str | None:
        """Return the difference of numbers after equal beginnings; None if they agree."""
        log_mass, own = reading.log_mass, reading.own
        for count, token in enumerate(reading.answer.tokens[: len(own) + 1]):
            probabilities = [math.exp(logprob) for _, logprob in token.listed]
            if math.fsum(probabilities) > 1 + MAX_EXCESS:
                return f"the listed probabilities have the sum {math.fsum(probabilities):.6g}"
            known = self._lists.setdefault(reading.before + own[:count], {})
            for text, number in _list_numbers(token):
                first = known.setdefault(text, number)
                if abs(first - number) > 2 * _LOGPROB_ERROR:
                    return (
                        f"{quote_value(text)} has the probabilities {math.exp(first):.6g} "
                        f"and {math.exp(number):.6g} after equal tokens"
                    )
            log_mass += token.logprob
            if log_mass < math.log(_LEAST_MASS):
                break
        return None

    def _find_bias(self, answer: TextAnswer) -> str | None:
        """Return the finding of the test of sampled tokens; None without one."""
        tokens = answer.tokens
        if self._lists_end is False:
            # later tokens are sampled where the end, whose probability is unknown, was not
            tokens = tokens[:1]
        tokens = tuple(each for each in tokens if len(dict(each.listed)) == len(each.listed))
        # a server may list the sampled token in place of the last one, or after it
        width = self._top_logprobs - 1
        cells, places = np.zeros((len(tokens), width + 1)), np.full(len(tokens), width)
        for row, token in enumerate(tokens):
            ordered = sorted(token.listed, key=lambda each: -each[1])[:width]
            cells[row, : len(ordered)] = [math.exp(min(number, 0.0)) for _, number in ordered]
            texts = [text for text, _ in ordered]
            if token.text in texts:
                places[row] = texts.index(token.text)
        cells[:, -1] = (1 - cells[:, :-1].sum(axis=1)).clip(min=np.finfo(np.float64).tiny)
        try:
            self._test.add_cells(cells, places, [each.text for each in tokens])
        except InvalidDistribution:
            return "the sampled tokens do not follow them"
        return None


def _read_own(answer: TextAnswer) -> _Tokens:
    """Return the tokens of an answer, up to the first whose text two listed tokens have."""
    is_plain = [[text for text, _ in each.listed].count(each.text) < 2 for each in answer.tokens]
    texts: list[str | _End] = [each.text for each in answer.tokens]
    if _has_end(answer):
        texts[-1] = _End(answer.tokens[-1].text)
    return tuple(texts[: is_plain.index(False)] if False in is_plain else texts)


def _has_end(answer: TextAnswer) -> bool:
    """Return whether the last listed token of an answer is its end.

    Its text is empty, or none that the answer has. White space may be one that a provider removed.
    """
    if answer.finish is not Finish.ENDED or not answer.tokens:
        return False
    last, text = answer.tokens[-1].text, "".join(each.text for each in answer.tokens)
    if not last:
        return True
    return bool(last.strip()) and text == answer.text + last


def _has_pieces(answer: TextAnswer) -> bool:
    """Return whether the tokens of an answer, but for its end, are the pieces of its text."""
    pieces = answer.tokens[:-1] if _has_end(answer) else answer.tokens
    return "".join(each.text for each in pieces) == answer.text


def _list_numbers(token: ListedToken) -> list[tuple[str, float]]:
    """Return log probabilities by text, but for texts that several listed tokens have."""
    texts = [text for text, _ in token.listed]
    numbers = [*token.listed, (token.text, token.logprob)]
    return [(text, number) for text, number in numbers if texts.count(text) < 2]
