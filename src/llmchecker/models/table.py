"""A language model given as an exact table, for tests and worked examples."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import torch

from llmchecker.deployed.chat import Start
from llmchecker.errors import InvalidDistribution, UnusableText
from llmchecker.models.distributions import TOLERANCE, Distributions

_T = TypeVar("_T")


class TableContinuations:
    """Continuations by table look-up.

    Args:
        model: whose table it is.
        prompt: tokens with which every text begins.
    """

    def __init__(self, model: "TableModel", prompt: tuple[int, ...]) -> None:
        self._model = model
        self._prompt = prompt

    def map(
        self, function: Callable[[Distributions], _T], suffixes: np.ndarray, extended: bool = False
    ) -> Iterator[_T]:
        """Apply a function to the distributions after the prompt and each suffix, all at once."""
        del extended
        texts = [(*self._prompt, *suffix) for suffix in suffixes.tolist()]
        rows = [[float(p) for p in self._model.distribution(text)] for text in texts]
        distributions = Distributions.of_probabilities(torch.tensor(rows, dtype=torch.float64))
        row = distributions.invalid_row()
        if row is not None:
            (text,) = self._model.decode([texts[row]])
            raise InvalidDistribution(
                f"{self._model.name} gives no probabilities after {text!r}: {rows[row]} are not "
                f"all between 0 and 1 with a sum of 1, up to {TOLERANCE}"
            )
        yield function(distributions)


class TableModel:
    """A language model given as a function, exact and small: for tests and worked examples.

    Args:
        vocabulary: the text of each token.
        distribution: the next token's distribution after a tuple of tokens.
        end_tokens: tokens that end a text.
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        distribution: Callable[[tuple[int, ...]], Sequence[float]],
        end_tokens: frozenset[int] = frozenset(),
        name: str = "table",
    ) -> None:
        self.is_cut = False
        self.name = name
        self.vocabulary = tuple(vocabulary)
        self.vocabulary_size = self.told = len(self.vocabulary)
        self.end_tokens = end_tokens
        self.distribution = distribution

    def encode(self, start: Start) -> tuple[int, ...]:
        """Tokens of a text in which tokens are separated by nothing: the longest match first."""
        if not isinstance(start, str):
            raise UnusableText(f"{self.name} is a table, which answers no messages")
        text = start
        by_length = sorted(range(self.vocabulary_size), key=lambda t: -len(self.vocabulary[t]))
        tokens = []
        while text:
            token = next((t for t in by_length if text.startswith(self.vocabulary[t])), None)
            if token is None:
                raise ValueError(f"no token of the table begins {text!r}")
            tokens.append(token)
            text = text[len(self.vocabulary[token]) :]
        return tuple(tokens)

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        """The texts of whole token sequences, tokens that end a text left out."""
        return [
            "".join(self.vocabulary[t] for t in sequence if t not in self.end_tokens)
            for sequence in sequences
        ]

    def continuations(self, prompt: Sequence[int], deepest: int = 0) -> TableContinuations:
        """Open the continuations of a prompt."""
        del deepest
        return TableContinuations(self, tuple(prompt))
