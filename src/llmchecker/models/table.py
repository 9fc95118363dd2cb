"""A language model given as an exact table, for tests and worked examples."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import torch

from llmchecker.models.distributions import Distributions

_T = TypeVar("_T")


class TableContinuations:
    """Continuations by table look-up.

    Args:
        distribution: the next token's distribution after a tuple of tokens.
    """

    def __init__(
        self, distribution: Callable[[tuple[int, ...]], Sequence[float]], prompt: tuple[int, ...]
    ) -> None:
        self._distribution = distribution
        self._prompt = prompt

    def map(
        self, function: Callable[[Distributions], _T], suffixes: np.ndarray, extended: bool = False
    ) -> Iterator[_T]:
        """Apply a function to the distributions after the prompt and each suffix, all at once."""
        del extended
        rows = [self._distribution((*self._prompt, *suffix)) for suffix in suffixes.tolist()]
        table = torch.tensor([[float(p) for p in row] for row in rows], dtype=torch.float64)
        yield function(Distributions.of_probabilities(table))


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
        self.name = name
        self.vocabulary = tuple(vocabulary)
        self.vocabulary_size = len(self.vocabulary)
        self.end_tokens = end_tokens
        self._distribution = distribution

    def encode(self, text: str) -> tuple[int, ...]:
        """Tokens of a text in which tokens are separated by nothing: the longest match first."""
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
        return [
            "".join(self.vocabulary[t] for t in sequence if t not in self.end_tokens)
            for sequence in sequences
        ]

    def continuations(self, prompt: Sequence[int]) -> TableContinuations:
        return TableContinuations(self._distribution, tuple(prompt))
