"""A model that a server answers for: heads of its distributions, and tokens that it draws."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
from transformers import PreTrainedTokenizerBase

from llmchecker.deployed.chat import Start
from llmchecker.errors import LLMCheckerError, UnusableText
from llmchecker.models.transformer import Tokenized
from llmchecker.serving.client import ServerClient
from llmchecker.serving.dialects import Dialect, GivenUp, Serving, demand_drawn
from llmchecker.serving.heads import Heads, checked_head

TEXTS_A_REQUEST = 8
"""Texts that one request asks about: HTTP costs less, and one failure loses little."""

_T = TypeVar("_T")


class ServedModel(Tokenized):
    """A language model behind a server, read by a tokenizer on this machine.

    Args:
        name: of the model.
        tokenizer: of the model.
        end_tokens: tokens that end a text.
        vocabulary_size: of the model.
        told: how many of the most probable next tokens the server is asked for.
        client: of the server.
        dialect: of the server.
        serving: what the server says of itself and of the model.
        files: the sha256 of every file of the model's directory.
    """

    def __init__(
        self,
        name: str,
        tokenizer: PreTrainedTokenizerBase,
        end_tokens: frozenset[int],
        vocabulary_size: int,
        told: int,
        client: ServerClient,
        dialect: Dialect,
        serving: Serving,
        files: Mapping[str, str],
    ) -> None:
        super().__init__(name, tokenizer, end_tokens)
        self.vocabulary_size = vocabulary_size
        self.told = min(told, vocabulary_size)
        self.client = client
        self.dialect = dialect
        self.serving = serving
        self.files = files

    def encode(self, start: Start) -> tuple[int, ...]:
        """Tokens of a prompt: for an empty one the token that begins, or else ends, a text."""
        return super().encode(start) or (self.first_token,)

    def continuations(self, prompt: Sequence[int], deepest: int = 0) -> "ServedContinuations":
        """Open the continuations of a prompt."""
        return ServedContinuations(self, prompt, deepest)


class ServedContinuations:
    """Continuations whose next tokens a server tells, several requests at once.

    Args:
        model: the model.
        prompt: the tokens with which every text begins.
        deepest: how many tokens the longest text will have after the prompt, as far as is known.

    Raises:
        UnusableText: the texts are too long for the server.
    """

    def __init__(self, model: ServedModel, prompt: Sequence[int], deepest: int = 0) -> None:
        self._model = model
        self._prompt = list(prompt)
        self._demand_room(deepest)

    def map(
        self, function: Callable[[Heads], _T], suffixes: np.ndarray, extended: bool = False
    ) -> Iterator[_T]:
        """Apply a function to the heads after the prompt and each suffix, a few rows at a time.

        Raises:
            InvalidDistribution: an answer is no head of a distribution; server and text are named.
            SourceUnavailable: the server does not answer.
        """
        del extended
        self._demand_room(suffixes.shape[1])
        parts = range(0, len(suffixes), TEXTS_A_REQUEST)
        texts = [suffixes[first : first + TEXTS_A_REQUEST].tolist() for first in parts]
        for heads in self._model.client.concurrently(self._heads, texts):
            yield function(heads)

    def drawn(
        self, suffixes: np.ndarray, without: Sequence[np.ndarray], seeds: Sequence[int]
    ) -> np.ndarray:
        """Next tokens that the server draws, in proportion to the model's probabilities.

        Args:
            suffixes: (n, d) int64, the tokens after the prompt.
            without: for each suffix the tokens that are excluded.
            seeds: for each suffix, below 2^32 - 1.

        Returns:
            (n,) int64.

        Raises:
            InvalidDistribution: the server drew an excluded token.
            SourceUnavailable: the server does not answer.
        """
        model = self._model

        def draw(number: int, given_up: GivenUp) -> int:
            text, never = self._text(suffixes[number].tolist()), without[number].tolist()
            with _named(model, text):
                token = model.dialect.drawn(
                    model.client, model.serving.model, text, never, seeds[number], given_up
                )
                return demand_drawn(token, never, model.vocabulary_size)

        return np.fromiter(model.client.concurrently(draw, range(len(suffixes))), dtype=np.int64)

    def _heads(self, suffixes: list[list[int]], given_up: GivenUp) -> Heads:
        model, texts = self._model, [self._text(suffix) for suffix in suffixes]
        with _named(model, texts[0]):
            told = model.dialect.told(
                model.client, model.serving.model, texts, model.told, given_up
            )
        rows = []
        for text, (tokens, logprobs) in zip(texts, told, strict=True):
            with _named(model, text):
                rows.append(checked_head(tokens, logprobs, model.told, model.vocabulary_size))
        tokens, known = map(np.stack, zip(*rows, strict=True))
        return Heads(tokens, known, model.vocabulary_size)

    def _text(self, suffix: list[int]) -> list[int]:
        return [*self._prompt, *suffix]

    def _demand_room(self, deepest: int) -> None:
        longest, tokens = self._model.serving.longest, len(self._prompt) + deepest + 1
        if longest is not None and tokens > longest:
            raise UnusableText(
                f"{self._model.name}: {self._model.client.address} reads texts of {longest} tokens "
                f"at most, and the prompt with what follows has {tokens}"
            )


@contextmanager
def _named(model: ServedModel, text: list[int]) -> Iterator[None]:
    """Name the server and the text in whatever error the block raises."""
    try:
        yield
    except LLMCheckerError as error:
        (shown,) = model.decode([text])
        named = f"{model.name} at {model.client.address}, after {shown!r}: {error}"
        raise type(error)(named) from error
