"""A language model given as an exact table, for tests and worked examples."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import torch

from llmchecker.errors import InvalidDistribution, UnusableText
from llmchecker.models.decoding.chat_template import Start
from llmchecker.models.distribution import SUM_TOLERANCE, Distributions

_T = TypeVar("_T")


class _TablePrefix:
    """Continuations by table look-up.

    Args:
        model: the model that owns the table.
        prompt: token ids at the beginning of every text.
    """

    def __init__(self, model: "TableModel", prompt: tuple[int, ...]) -> None:
        self._model = model
        self._prompt = prompt

    def map_next(
        self,
        function: Callable[[np.ndarray, Distributions], _T],
        continuations: np.ndarray,
        will_extend: bool = False,
    ) -> Iterator[_T]:
        """Apply a function to the distributions after each continuation, all at once."""
        # a look-up has no state to keep
        del will_extend
        texts = [(*self._prompt, *suffix) for suffix in continuations.tolist()]
        rows = [[float(p) for p in self._model.distribution(text)] for text in texts]
        distributions = Distributions.from_probabilities(torch.tensor(rows, dtype=torch.float64))
        row = distributions.find_invalid_row()
        if row is not None:
            (text,) = self._model.decode([texts[row]])
            raise InvalidDistribution(
                f"{self._model.name}: probabilities {rows[row]} after {text!r} are not between "
                f"0 and 1 with a sum of 1, up to {SUM_TOLERANCE}"
            )
        yield function(np.arange(len(texts)), distributions)

    def read_ahead(self, continuations: Sequence[Sequence[int]]) -> None:
        """Do nothing: a table stores nothing of a text."""


class TableModel:
    """A small, exact language model given as a function.

    Args:
        vocabulary: the text of each token.
        distribution: maps a tuple of token ids to the probabilities of the next token.
        end_tokens: ids of the tokens that end a text.
        name: name of the model in trees and messages.
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        distribution: Callable[[tuple[int, ...]], Sequence[float]],
        end_tokens: frozenset[int] = frozenset(),
        name: str = "table",
    ) -> None:
        self.is_truncated = self.compares_prompt = False
        self.batch_texts = 1
        self.probability_spread: float | None = None
        self.name = name
        self.vocabulary = tuple(vocabulary)
        self.vocabulary_size = self.listed_tokens = len(self.vocabulary)
        self.end_tokens = end_tokens
        self.distribution = distribution

    @property
    def token_pieces(self) -> tuple[str | None, ...]:
        """The text of each token, empty for end tokens; all are whole characters."""
        return tuple(
            "" if token in self.end_tokens else text for token, text in enumerate(self.vocabulary)
        )

    def encode(self, start: Start) -> tuple[int, ...]:
        """Return the tokens of a text, by the longest match first.

        Raises:
            UnusableText: the start is a chat, or the text contains something other than tokens.
        """
        if not isinstance(start, str):
            raise UnusableText(f"{self.name}: a table answers no messages; use a start string")
        text = start
        # an empty token would match every text and consume nothing of it
        token_ids = [t for t in range(self.vocabulary_size) if self.vocabulary[t]]
        sorted_tokens = sorted(token_ids, key=lambda t: -len(self.vocabulary[t]))
        tokens = []
        while text:
            token = next((t for t in sorted_tokens if text.startswith(self.vocabulary[t])), None)
            if token is None:
                raise UnusableText(
                    f"{self.name}: the table has no token that begins {text!r}; use its tokens"
                )
            tokens.append(token)
            text = text[len(self.vocabulary[token]) :]
        return tuple(tokens)

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        """Return the texts of whole token sequences, without end tokens."""
        return [
            "".join(self.vocabulary[t] for t in sequence if t not in self.end_tokens)
            for sequence in sequences
        ]

    def decode_unfinished(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        """Return the same texts: every token of a table is whole characters."""
        return self.decode(sequences)

    def open_prefix(
        self, prompt: Sequence[int], max_length: int = 0, *, batch_invariant: bool = True
    ) -> _TablePrefix:
        """Open the continuations of a prompt."""
        # a table reads texts of any length, and has the same bits in every batch
        del max_length, batch_invariant
        return _TablePrefix(self, tuple(prompt))
