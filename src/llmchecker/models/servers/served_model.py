"""A model on a server: its most probable next tokens, and tokens that it samples."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TypeVar

import numpy as np
from transformers import PreTrainedTokenizerBase

from llmchecker.errors import UnusableText, prefix_errors
from llmchecker.models.decoding.chat_template import Start
from llmchecker.models.servers.apis import (
    ServedModelInfo,
    ServerApi,
    check_sampled_token,
)
from llmchecker.models.servers.http_client import ServerClient, ServerSession
from llmchecker.models.servers.top_logprobs import TopLogprobs, parse_top_logprobs
from llmchecker.models.transformers.base import TokenizedModel
from llmchecker.utils.number_format import format_count

_MAX_SHOWN_CHARACTERS = 40
"""Number of a text's last characters in messages; many texts have the same beginning."""

_T = TypeVar("_T")


class ServedModel(TokenizedModel):
    """A language model on a server, with a local tokenizer.

    Args:
        name: name of the model in trees and messages.
        tokenizer: the model's tokenizer.
        end_tokens: ids of the tokens that end a text.
        vocabulary_size: number of tokens of the model.
        listed_tokens: number of most probable next tokens in a response.
        client: HTTP client of the server.
        api: API of the server.
        info: the server's description of itself and of the model.
        files: sha256 of every file of the model's directory, by name.
    """

    def __init__(
        self,
        name: str,
        tokenizer: PreTrainedTokenizerBase,
        end_tokens: frozenset[int],
        vocabulary_size: int,
        listed_tokens: int,
        client: ServerClient,
        api: ServerApi,
        info: ServedModelInfo,
        files: Mapping[str, str],
    ) -> None:
        super().__init__(name, tokenizer, end_tokens)
        self.vocabulary_size = vocabulary_size
        # a small model may have fewer tokens than the configured number
        self.listed_tokens = min(listed_tokens, vocabulary_size)
        self.client = client
        self.api = api
        self.info = info
        self.files = files

    def encode(self, start: Start) -> tuple[int, ...]:
        """Return the tokens of a prompt; `start_token` for an empty prompt."""
        return super().encode(start) or (self.start_token,)

    def open_prefix(self, prompt: Sequence[int], max_length: int = 0) -> "_ServedPrefix":
        """Open the continuations of a prompt."""
        return _ServedPrefix(self, prompt, max_length)


class _ServedPrefix:
    """Continuations whose next tokens a server returns, by concurrent requests.

    Args:
        model: the served model.
        prompt: token ids at the beginning of every text.
        max_length: number of tokens after the prompt in the longest text, as far as known.

    Raises:
        UnusableText: the texts are too long for the server.
    """

    def __init__(self, model: ServedModel, prompt: Sequence[int], max_length: int = 0) -> None:
        self._model = model
        self._prompt = list(prompt)
        self._check_length(max_length)

    def map_next(
        self,
        function: Callable[[np.ndarray, TopLogprobs], _T],
        continuations: np.ndarray,
        will_extend: bool = False,
    ) -> Iterator[_T]:
        """Apply a function to the top log probabilities after continuations, in batches.

        Raises:
            InvalidDistribution: an answer is not part of a distribution; the message names server
                and text.
            SourceUnavailable: the server does not answer.
        """
        # nothing is stored between requests
        del will_extend
        self._check_length(continuations.shape[1])
        size = self._model.client.limits.texts
        starts = range(0, len(continuations), size)
        texts = [continuations[first : first + size].tolist() for first in starts]
        answers = self._model.client.map_concurrently(self._request_top_logprobs, texts)
        for first, distributions in zip(starts, answers, strict=True):
            yield function(np.arange(first, first + len(distributions)), distributions)

    def read_ahead(self, continuations: Sequence[Sequence[int]]) -> None:
        """Do nothing: a server shares beginnings itself."""

    def sample_next(
        self, continuations: np.ndarray, excluded: Sequence[np.ndarray], seeds: Sequence[int]
    ) -> np.ndarray:
        """Let the server sample next tokens, in proportion to the model's probabilities.

        Args:
            continuations: (n, d) int64, the token ids after the prompt.
            excluded: the excluded token ids of each continuation.
            seeds: the seed of each continuation, below 2^32 - 1.

        Returns:
            (n,) int64, token ids.

        Raises:
            InvalidDistribution: the server sampled an excluded token.
            SourceUnavailable: the server does not answer.
        """
        model = self._model

        async def sample_one(session: ServerSession, number: int) -> int:
            text, excluded_tokens = (
                self._join_prompt(continuations[number].tolist()),
                excluded[number].tolist(),
            )
            with _prefix_errors(model, text):
                token = await model.api.sample_token(
                    session, model.info.model, text, excluded_tokens, seeds[number]
                )
                return check_sampled_token(token, excluded_tokens, model.vocabulary_size)

        return np.fromiter(
            model.client.map_concurrently(sample_one, range(len(continuations))), dtype=np.int64
        )

    async def _request_top_logprobs(
        self, session: ServerSession, continuations: list[list[int]]
    ) -> TopLogprobs:
        model, texts = self._model, [self._join_prompt(suffix) for suffix in continuations]
        with _prefix_errors(model, texts[0]):
            answers = await model.api.top_logprobs(
                session, model.info.model, texts, model.listed_tokens
            )
        rows = []
        for text, (tokens, logprobs) in zip(texts, answers, strict=True):
            with _prefix_errors(model, text):
                rows.append(
                    parse_top_logprobs(tokens, logprobs, model.listed_tokens, model.vocabulary_size)
                )
        token_rows, probability_rows = zip(*rows, strict=True)
        return TopLogprobs(np.stack(token_rows), np.stack(probability_rows), model.vocabulary_size)

    def _join_prompt(self, continuation: list[int]) -> list[int]:
        return [*self._prompt, *continuation]

    def _check_length(self, max_length: int) -> None:
        # a request generates one token after the text
        limit, tokens = self._model.info.longest, len(self._prompt) + max_length + 1
        if limit is not None and tokens > limit:
            raise UnusableText(
                f"{self._model.name}: {self._model.client.address} reads at most "
                f"{format_count(limit, 'token')}, but prompt and continuation have {tokens}; "
                "shorten the prompt or L"
            )


def _prefix_errors(model: ServedModel, text: list[int]) -> AbstractContextManager[None]:
    """Prefix errors with the model, the server and the end of a text."""
    (text_end,) = model.decode_unfinished([text])
    return prefix_errors(
        f"{model.name} at {model.client.address}, after {text_end[-_MAX_SHOWN_CHARACTERS:]!r}"
    )
