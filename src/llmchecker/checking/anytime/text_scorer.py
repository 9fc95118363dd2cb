"""Decoding of an explored tree's texts, and their scores by plain calls of the quantifiers."""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

import numpy as np

from llmchecker.errors import ConfigError
from llmchecker.models.decoding.answer_reader import Reading
from llmchecker.processes.process import Part
from llmchecker.properties.quantifiers.interface import Quantifier, find_part
from llmchecker.properties.scores import score_pairs, score_texts, split_text
from llmchecker.trees.expansion import decode_texts
from llmchecker.trees.text_tree import StateKind


class TextScorer:
    """The decoding and the plain scores of the texts of a part.

    Attributes:
        part: the part.

    Args:
        part: likewise.
        quantifiers: the quantifiers by name.
        end_scores: names of the quantifiers whose scores of beginnings no formula depends on.
    """

    def __init__(
        self, part: Part, quantifiers: Mapping[str, Quantifier], end_scores: Collection[str]
    ) -> None:
        self.part, self._quantifiers = part, quantifiers
        self._model, self._messages = part.stage.writer, part.messages
        self._end_scores, self._reader = frozenset(end_scores), part.stage.reader

    @cached_property
    def start_text(self) -> str:
        """The text of the prompt."""
        (text,) = self._model.decode_unfinished([self.part.prompt])
        return text

    def decode(self, sequences: np.ndarray, has_ended: np.ndarray) -> list[str]:
        """Return the texts of token sequences.

        Args:
            sequences: (n, length) int64, the tokens of the prompt and of texts of one length.
            has_ended: (n,) bool, whether the last token ends the text.
        """
        kinds = np.where(has_ended, StateKind.END, StateKind.TEXT)
        texts: list[str] = decode_texts(self._model, sequences, kinds).tolist()
        return texts

    def split(self, text: str) -> tuple[str, str]:
        """Return the start string and the continuation of a text as quantifiers read them."""
        return split_text(self.start_text, text, self._messages)

    def read(self, text: str, *, is_whole: bool) -> Reading:
        """Return what is read of the continuation in a text."""
        return self._reader.read(self.split(text)[1], is_whole=is_whole)

    def show(self, text: str, *, is_whole: bool) -> str:
        """Return a text as a person receives it, without what a stop ends or holds back."""
        if not self._reader:
            return text
        start = text[: len(text) - len(self.split(text)[1])]
        return start + self.read(text, is_whole=is_whole).output

    def find_open_ends(self, sequences: np.ndarray) -> np.ndarray:
        """Return (n,) bool: whether a token's piece continues the text of each sequence."""
        if self._model.token_pieces is None:
            return np.zeros(len(sequences), dtype=bool)
        detokenizer = getattr(self._model, "detokenizer", None)
        # every token of a table is whole characters
        if detokenizer is None:
            return np.ones(len(sequences), dtype=bool)
        characters = map(detokenizer.character_ends.find_incomplete, sequences.tolist())
        return np.array([character is None for character in characters], dtype=bool)

    def score(self, name: str, texts: Sequence[str], is_whole: np.ndarray) -> np.ndarray:
        """Return (n,) int64: the scores of texts by a quantifier's plain call.

        A beginning has the least score of the range if no formula depends on it.

        Args:
            name: the quantifier's name.
            texts: the texts.
            is_whole: (n,) bool, whether no token follows a text.
        """
        quantifier = self._quantifiers[name]
        scores = np.full(len(texts), quantifier.minimum or 0)
        # a judge of whole answers reads no beginnings
        is_used = is_whole | (name not in self._end_scores)
        if pairs := [
            self._select(quantifier, text, whole)
            for text, whole, use in zip(texts, is_whole.tolist(), is_used.tolist(), strict=True)
            if use
        ]:
            scores[is_used] = score_pairs(quantifier, pairs, name)
        return scores

    def _select(self, quantifier: Quantifier, text: str, is_whole: bool) -> tuple[str, str]:
        """Return the start and the part of a text that a quantifier reads."""
        start, continuation = self.split(text)
        if not self._reader:
            return start, continuation
        return start, self.read(text, is_whole=is_whole).select(find_part(quantifier))

    def score_empty(self, name: str) -> int:
        """Return the score of a part without tokens, after messages."""
        quantifier = self._quantifiers[name]
        if name in self._end_scores:
            return quantifier.minimum or 0
        return int(score_texts(quantifier, "", [""], name, self._messages)[0])

    def compare(
        self,
        texts: Sequence[str],
        is_whole: np.ndarray,
        scores: np.ndarray,
        is_scored: np.ndarray,
    ) -> np.ndarray:
        """Return (quantifiers, n) the plain scores of texts.

        Args:
            texts, is_whole: as in `score`.
            scores: (quantifiers, n) int64, the scores by the transducers.
            is_scored: (n,) bool, whether the transducers gave scores.

        Raises:
            ConfigError: a plain score is another one than that of the transducer.
        """
        plain = np.zeros((len(self._quantifiers), len(texts)), dtype=np.int64)
        for index, name in enumerate(self._quantifiers):
            plain[index] = self.score(name, texts, is_whole)
            differs = (plain[index] != scores[index]) & is_scored
            if differs.any():
                position = int(np.flatnonzero(differs)[0])
                raise ConfigError(
                    f"quantifier {name!r}: its transducer gives "
                    f"{scores[index, position]} for {texts[position]!r}, its call "
                    f"{plain[index, position]}; correct the transducer"
                )
        return plain
