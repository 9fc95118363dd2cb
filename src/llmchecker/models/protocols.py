"""What a language model is: a tokenizer, and the distribution of the next token after a text."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

import numpy as np

from llmchecker.deployed.chat import Start
from llmchecker.models.distributions import Distributions

_T = TypeVar("_T")


class Continuations(Protocol):
    """Next-token distributions after texts that share a prompt."""

    def map(
        self, function: Callable[[Distributions], _T], suffixes: np.ndarray, extended: bool = False
    ) -> Iterator[_T]:
        """Apply a function to the next token's distributions after the prompt and each suffix.

        Args:
            function: of the distributions after a few of the suffixes; called in any thread.
            suffixes: (n, d) int64, the tokens after the prompt, d >= 0.
            extended: whether longer suffixes that begin with these will be asked for.

        Yields:
            The function's results for a few rows at a time: n rows in all, in the order given.

        Raises:
            InvalidDistribution: an answer is no distribution; its text and the model are named.
        """
        ...


class PartialContinuations(Continuations, Protocol):
    """Next-token distributions of which the most probable tokens are told, and no others."""

    def drawn(
        self, suffixes: np.ndarray, without: Sequence[np.ndarray], seeds: Sequence[int]
    ) -> np.ndarray:
        """Next tokens that are drawn in proportion to their probabilities.

        Args:
            suffixes: (n, d) int64, the tokens after the prompt.
            without: for each suffix the tokens that are excluded.
            seeds: for each suffix, below 2^32 - 1; a seed determines the token.

        Returns:
            (n,) int64.
        """
        ...


class LanguageModel(Protocol):
    """A tokenizer and a next-token distribution.

    Attributes:
        name: in trees and messages.
        vocabulary_size: how many tokens there are.
        told: how many of the most probable next tokens are told of each distribution. If these are
            not all, `continuations` returns `PartialContinuations`.
        is_cut: whether decoding leaves few tokens a probability above 0.
        end_tokens: tokens that end a text.
    """

    name: str
    vocabulary_size: int
    told: int
    is_cut: bool
    end_tokens: frozenset[int]

    def encode(self, start: Start) -> tuple[int, ...]:
        """Tokens of a prompt, with the special tokens that the model expects before it.

        Raises:
            UnusableText: messages that the model does not answer, or text that it cannot read.
        """
        ...

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        """The texts of whole token sequences, special tokens left out."""
        ...

    def continuations(self, prompt: Sequence[int], deepest: int = 0) -> Continuations:
        """Open the continuations of a prompt.

        Args:
            deepest: tokens of the longest suffix that will be asked for, as far as is known, so
                that texts that are too long are refused before anything is computed.

        Raises:
            UnusableText: texts that the model cannot read, at once or when they are asked for.
        """
        ...
