"""The interface of a language model: a tokenizer and next-token distributions."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

import numpy as np

from llmchecker.models.continuation import Continuation, ContinuationTask
from llmchecker.models.decoding.chat_template import Start
from llmchecker.models.distribution import Distributions

_T = TypeVar("_T")


class Prefix(Protocol):
    """Next-token distributions after texts that share a prompt."""

    def map_next(
        self,
        function: Callable[[np.ndarray, Distributions], _T],
        continuations: np.ndarray,
        will_extend: bool = False,
    ) -> Iterator[_T]:
        """Apply a function to the next-token distributions after each continuation.

        Args:
            function: maps a few rows and their distributions to a result; called in any thread.
                The rows are (m,) int64, positions in `continuations`; every position occurs in
                one call.
            continuations: (n, d) int64, the token ids after the prompt, d >= 0.
            will_extend: whether later calls will pass longer continuations that begin with these.

        Yields:
            The function's results for a few rows at a time, n rows in all, in the given order.

        Raises:
            InvalidDistribution: an answer is not a distribution; the message names its text and
                model.
        """
        ...

    def read_ahead(self, continuations: Sequence[Sequence[int]]) -> None:
        """Read texts that later calls will pass or continue, all in shared batches.

        It changes no result. A model that stores nothing of a text does nothing.

        Args:
            continuations: token ids after the prompt, of any lengths.
        """
        ...


class ContinuationStream(Protocol):
    """Continuations of one prompt, which later calls may request in advance."""

    def continue_texts(
        self, tasks: Sequence[ContinuationTask], expected: Sequence[ContinuationTask] = ()
    ) -> Iterator[Continuation]:
        """Sample a continuation of each text, and yield them in order.

        Args:
            tasks: the texts.
            expected: tasks of a later call, with which the server may begin.

        Raises:
            InvalidDistribution: an answer is not part of a distribution, or the tokens do not
                follow it.
        """
        ...


class TopLogprobsPrefix(Prefix, Protocol):
    """Next-token distributions that list only the most probable tokens."""

    def open_stream(self) -> AbstractContextManager[ContinuationStream]:
        """Open a stream of continuations; requests that are under way end with it."""
        ...


class LanguageModel(Protocol):
    """A tokenizer and a next-token distribution.

    Attributes:
        name: name of the model in trees and messages.
        vocabulary_size: number of tokens.
        listed_tokens: number of most probable next tokens that each distribution lists. If it is
            less than `vocabulary_size`, `open_prefix` returns a `TopLogprobsPrefix`.
        is_truncated: whether decoding leaves few tokens with a probability above 0.
        compares_prompt: whether decoding compares texts with the prompt. Tokens of the prompt and
            of the continuation then have different effects.
        end_tokens: ids of the tokens that end a text.
        token_pieces: (vocabulary,) the text that each token adds to a text of whole characters;
            None for a token of single bytes or one that ends within a character. None for a model
            whose tokens do not add a text of their own.
        batch_texts: number of texts that the model evaluates about as fast as one.
        probability_spread: largest difference between probabilities of the same text in batches of
            different sizes, before decoding, measured on a few texts when the model was loaded;
            None for float32, float64 and models that do not compute in this process.
    """

    name: str
    vocabulary_size: int
    listed_tokens: int
    is_truncated: bool
    compares_prompt: bool
    end_tokens: frozenset[int]
    batch_texts: int
    probability_spread: float | None

    @property
    def token_pieces(self) -> Sequence[str | None] | None: ...

    def encode(self, start: Start) -> tuple[int, ...]:
        """Return the tokens of a prompt, including the special tokens that precede it.

        Raises:
            UnusableText: the model does not accept messages, or cannot encode the text.
        """
        ...

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        """Return the texts of whole token sequences, without special tokens."""
        ...

    def decode_unfinished(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        """Return the texts of token sequences that may go on.

        They are those of `decode`, but for the bytes of an incomplete character at the end, which
        are left out.
        """
        ...

    def open_prefix(
        self, prompt: Sequence[int], max_length: int = 0, *, batch_invariant: bool = True
    ) -> Prefix:
        """Open the continuations of a prompt.

        Args:
            max_length: number of tokens of the longest continuation, as far as known. Texts that
                are too long are rejected before any computation.
            batch_invariant: whether a processor must compute the same bits of a text in every
                batch, which makes small batches slow.

        Raises:
            UnusableText: the model cannot read the texts; raised at once or by a later call.
        """
        ...
