"""APIs of servers: requests for next tokens, and the parsing of the responses.

Requests are for the probabilities of the model itself: at temperature 1, before any penalty or
truncation. They override the defaults of a server.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

from llmchecker.errors import ConfigError, InvalidDistribution, RequestRefused, SourceUnavailable
from llmchecker.models.servers.http_client import ServerSession
from llmchecker.models.servers.schema import (
    LlamaCppContinuation,
    LlamaCppSample,
    LlamaCppTopLogprobs,
    ModelEntry,
    ModelList,
    PropsResponse,
    TokenizeResponse,
    TokenLogprob,
    VersionResponse,
    VllmCompletion,
    VllmLogprobs,
    choose_model,
    quote,
)
from llmchecker.utils.number_format import format_count

_TokenLogprobs = tuple[list[int], list[float]]
"""Token ids and log probabilities after one text, as the server returns them."""

_SampledTokens = tuple[list[int], list[_TokenLogprobs]]
"""Tokens of a continuation, and the most probable tokens at the position of each."""

# Explicit values of all settings, since a server's defaults may truncate or add penalties.
_VLLM_SETTINGS = {
    "max_tokens": 1,
    "n": 1,
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "return_tokens_as_token_ids": True,
}
_LLAMA_CPP_SETTINGS = {
    "n_predict": 1,
    "temperature": 1.0,
    "samplers": ["temperature"],
    "stream": False,
}

_EXCLUSION_BIAS = -100.0
"""Logit bias of an excluded token for vLLM, which scales its probability by e^-100."""


@dataclass(frozen=True)
class ServedModelInfo:
    """A server's description of itself and of one model.

    Attributes:
        model: the server's name for the model.
        version: version of the server's program.
        longest: number of tokens of the longest text that the server accepts; None if unknown.
        vocabulary_size: number of tokens of the model; None if unknown.
    """

    model: str
    version: str
    longest: int | None
    vocabulary_size: int | None


@dataclass(frozen=True)
class ContinuationQuestion:
    """Settings of a request for continuations of one text.

    Attributes:
        count: number of continuations.
        max_tokens: largest number of tokens of each.
        listed_tokens: number of most probable tokens at each position.
        seed: seed of the first continuation; the next ones have the next seeds.
    """

    count: int
    max_tokens: int
    listed_tokens: int
    seed: int


class ServerApi(Protocol):
    """The requests of one kind of server."""

    async def read_model_info(
        self, session: ServerSession, served_as: str | None
    ) -> ServedModelInfo:
        """Return the description of the server and of a model, by default its only one."""
        ...

    async def tokenize(self, session: ServerSession, model: str, text: str) -> list[int]:
        """Return the server's tokens of a text, without special tokens around it."""
        ...

    async def top_logprobs(
        self,
        session: ServerSession,
        model: str,
        texts: list[list[int]],
        n: int,
    ) -> list[_TokenLogprobs]:
        """Return the n most probable next tokens after each text."""
        ...

    async def sample_token(
        self,
        session: ServerSession,
        model: str,
        text: list[int],
        excluded: Sequence[int],
        seed: int,
    ) -> int:
        """Sample a next token with a seed, without the excluded tokens."""
        ...

    @property
    def max_continuations(self) -> int:
        """Largest number of continuations in a request."""
        ...

    @property
    def slots(self) -> int | None:
        """Number of texts that the server continues at once; None if unknown."""
        ...

    async def sample_continuations(
        self, session: ServerSession, model: str, text: list[int], question: ContinuationQuestion
    ) -> list[_SampledTokens]:
        """Sample continuations of a text, each with a seed of its own."""
        ...


class Vllm:
    """The API of vLLM: its own and its OpenAI-compatible routes."""

    # a failure loses all continuations of a request
    max_continuations = 64
    slots = None

    async def read_model_info(
        self, session: ServerSession, served_as: str | None
    ) -> ServedModelInfo:
        """Return the description of the server and of a model, by default its only one."""
        entry = await _find_model_entry(session, served_as)
        answer = await session.request(VersionResponse, "/version")
        return ServedModelInfo(entry.id, answer.version, entry.max_model_len, None)

    async def tokenize(self, session: ServerSession, model: str, text: str) -> list[int]:
        """Return the server's tokens of a text, without special tokens around it."""
        payload = {"model": model, "prompt": text, "add_special_tokens": False}
        answer = await session.request(TokenizeResponse, "/tokenize", payload)
        return answer.tokens

    async def top_logprobs(
        self,
        session: ServerSession,
        model: str,
        texts: list[list[int]],
        n: int,
    ) -> list[_TokenLogprobs]:
        """Return the n most probable next tokens after each text."""
        payload = {"model": model, "prompt": texts, "logprobs": n, **_VLLM_SETTINGS}
        found = await _complete(session, payload, len(texts), sum(map(len, texts)))
        return [heads[0] for _, heads in (_read_vllm_tokens(each, 1, n) for each in found)]

    async def sample_token(
        self,
        session: ServerSession,
        model: str,
        text: list[int],
        excluded: Sequence[int],
        seed: int,
    ) -> int:
        """Sample a next token with a seed, without the excluded tokens."""
        # JSON keys are strings
        logit_bias = {str(token): _EXCLUSION_BIAS for token in excluded}
        payload = {
            "model": model,
            "prompt": [text],
            "logprobs": 1,
            "seed": seed,
            "logit_bias": logit_bias,
        }
        (found,) = await _complete(session, payload | _VLLM_SETTINGS, 1, len(text))
        _check_token_count(len(found.tokens), 1)
        return found.tokens[0]

    async def sample_continuations(
        self, session: ServerSession, model: str, text: list[int], question: ContinuationQuestion
    ) -> list[_SampledTokens]:
        """Sample continuations of a text, each with a seed of its own."""
        # vLLM adds the index of a continuation to the seed
        payload = _VLLM_SETTINGS | {
            "model": model,
            "prompt": [text],
            "logprobs": question.listed_tokens,
            "n": question.count,
            "max_tokens": question.max_tokens,
            "seed": question.seed,
        }
        found = await _complete(session, payload, question.count, len(text))
        return [
            _read_vllm_tokens(each, question.max_tokens, question.listed_tokens) for each in found
        ]


class LlamaCpp:
    """The API of llama.cpp's server, by its own routes.

    Args:
        plain_token: id of a token that is a whole character. Requests for probabilities force the
            server to draw it. The server returns no probabilities with a token that ends in part of
            a character.
    """

    # it gives all continuations of a request the same seed
    max_continuations = 1

    def __init__(self, plain_token: int) -> None:
        self._plain_token = plain_token
        self.slots: int | None = None

    async def read_model_info(
        self, session: ServerSession, served_as: str | None
    ) -> ServedModelInfo:
        """Return the description of the server and of a model, by default its only one."""
        entry = await _find_model_entry(session, served_as)
        settings = await session.request(PropsResponse, "/props")
        max_length = settings.default_generation_settings.n_ctx
        self.slots = settings.total_slots
        size = None if entry.meta is None else entry.meta.n_vocab
        return ServedModelInfo(entry.id, settings.build_info, max_length, size)

    async def tokenize(self, session: ServerSession, model: str, text: str) -> list[int]:
        """Return the server's tokens of a text, without special tokens around it."""
        payload = {"model": model, "content": text, "add_special": False, "parse_special": False}
        answer = await session.request(TokenizeResponse, "/tokenize", payload)
        return answer.tokens

    async def top_logprobs(
        self,
        session: ServerSession,
        model: str,
        texts: list[list[int]],
        n: int,
    ) -> list[_TokenLogprobs]:
        """Return the n most probable next tokens after each text."""
        payload = _LLAMA_CPP_SETTINGS | {
            "model": model,
            "prompt": texts,
            "n_probs": n,
            "post_sampling_probs": False,
            "logit_bias": [[self._plain_token, 1e6]],
        }
        # the response to a single text is an object instead of a list
        if len(texts) == 1:
            results = [await session.request(LlamaCppTopLogprobs, "/completion", payload)]
        else:
            results = await session.request(list[LlamaCppTopLogprobs], "/completion", payload)
        _check_order([result.index for result in results], len(texts))
        for result, text in zip(results, texts, strict=True):
            # a truncated prompt counts as another text
            _check_prompt_tokens(-1 if result.truncated else result.tokens_evaluated, len(text))
        heads = [result.completion_probabilities[0].top_logprobs for result in results]
        return [_split_head(head) for head in heads]

    async def sample_token(
        self,
        session: ServerSession,
        model: str,
        text: list[int],
        excluded: Sequence[int],
        seed: int,
    ) -> int:
        """Sample a next token with a seed, without the excluded tokens."""
        payload = {
            "model": model,
            "prompt": text,
            "seed": _reduce_seed(seed),
            "return_tokens": True,
            "logit_bias": [[token, False] for token in excluded],
        }
        answer = await session.request(LlamaCppSample, "/completion", payload | _LLAMA_CPP_SETTINGS)
        _check_order([answer.index], 1)
        return answer.tokens[0]

    async def sample_continuations(
        self, session: ServerSession, model: str, text: list[int], question: ContinuationQuestion
    ) -> list[_SampledTokens]:
        """Sample continuations of a text, each with a seed of its own."""
        payload = _LLAMA_CPP_SETTINGS | {
            "model": model,
            "prompt": text,
            "n_predict": question.max_tokens,
            "n_probs": question.listed_tokens,
            "post_sampling_probs": False,
            "seed": _reduce_seed(question.seed),
            "return_tokens": True,
        }
        answer = await session.request(LlamaCppContinuation, "/completion", payload)
        _check_order([answer.index], 1)
        _check_prompt_tokens(-1 if answer.truncated else answer.tokens_evaluated, len(text))
        tokens, positions = answer.tokens, answer.completion_probabilities
        _check_token_count(len(tokens), question.max_tokens)
        if len(positions) == len(tokens):
            return [(tokens, [_split_head(position.top_logprobs) for position in positions])]
        # a token that ends in part of a character has no list, and it is not marked which one
        texts = [text + tokens[:count] for count in range(len(tokens))]
        return [(tokens, await self.top_logprobs(session, model, texts, question.listed_tokens))]


async def _find_model_entry(session: ServerSession, served_as: str | None) -> ModelEntry:
    """Return the server's entry of a model, by name or its only one.

    Raises:
        ConfigError: `served_as` is None and the server has several models, or the server lacks the
            named model.
    """
    models = await session.request(ModelList, "/v1/models")
    entries = {entry.id: entry for entry in models.data}
    return entries[choose_model(session.address, served_as, entries)]


def _check_order(indices: list[int], texts: int) -> None:
    """Check that every text has one answer, in the order of the texts."""
    if indices != list(range(texts)):
        raise InvalidDistribution(
            f"index: answers to {format_count(texts, 'text')} are numbered "
            f"{quote(str(indices), 100)}; the server must number them 0 to {texts - 1}"
        )


def _check_prompt_tokens(actual: int, expected: int) -> None:
    """Check that the server read all tokens, without truncation or an added token."""
    if actual != expected:
        raise InvalidDistribution(f"prompt tokens: the server read {actual} instead of {expected}")


def _check_token_count(count: int, max_tokens: int) -> None:
    """Check that a continuation is not longer than requested."""
    if count > max_tokens:
        raise InvalidDistribution(
            f"tokens: the server wrote {count} instead of at most {max_tokens}"
        )


async def _complete(
    session: ServerSession, payload: dict[str, Any], choices: int, prompt_tokens: int
) -> list[VllmLogprobs]:
    """Return the choices of vLLM's answer to a request for completions.

    Args:
        session: the session.
        payload: the request.
        choices: number of texts that it requests.
        prompt_tokens: number of tokens of all of its prompts.
    """
    try:
        answer = await session.request(VllmCompletion, "/v1/completions", payload)
    except RequestRefused as error:
        # the server limits the number of log probabilities when it starts
        if "logprobs" not in str(error):
            raise
        raise ConfigError(
            f"{error}; start it with --max-logprobs {payload['logprobs']}, or lower `tokens` of "
            "the model"
        ) from error
    _check_order([choice.index for choice in answer.choices], choices)
    _check_prompt_tokens(answer.usage.prompt_tokens, prompt_tokens)
    return [choice.logprobs for choice in answer.choices]


def _read_vllm_tokens(logprobs: VllmLogprobs, max_tokens: int, n: int) -> _SampledTokens:
    """Return the tokens that vLLM drew, and the n most probable tokens at each position."""
    tokens, heads = logprobs.tokens, logprobs.top_logprobs
    _check_token_count(len(tokens), max_tokens)
    if len(heads) != len(tokens):
        raise InvalidDistribution(
            f"top_logprobs: the server lists {len(heads)} positions of {len(tokens)}"
        )
    return tokens, [
        _drop_sampled_token(token, head, n) for token, head in zip(tokens, heads, strict=True)
    ]


def _split_head(head: Sequence[TokenLogprob]) -> _TokenLogprobs:
    return [each.id for each in head], [each.logprob for each in head]


def _reduce_seed(seed: int) -> int:
    """Return a number of 32 bits for a seed; consecutive seeds have unrelated numbers."""
    # llama.cpp draws another seed for 2^32 - 1
    return int(np.random.SeedSequence(seed).generate_state(1)[0]) % (2**32 - 1)


def _drop_sampled_token(sampled_token: int, head: dict[int, float], n: int) -> _TokenLogprobs:
    """Return the n most probable tokens, without a sampled token outside them."""
    # vLLM adds the sampled token if it is not among the n most probable
    if len(head) == n + 1 and sampled_token in head and head[sampled_token] <= min(head.values()):
        head = {token: logprob for token, logprob in head.items() if token != sampled_token}
    return list(head), list(head.values())


def check_sampled_token(token: int, excluded: Sequence[int], vocabulary_size: int) -> int:
    """Check that a sampled token is in the vocabulary and not excluded, and return it.

    Raises:
        InvalidDistribution: the token is excluded, or outside the vocabulary.
    """
    if token >= vocabulary_size:
        raise InvalidDistribution(f"token: {token} is not from 0 to {vocabulary_size - 1}")
    if token in excluded:
        raise InvalidDistribution(f"token: {token} was sampled although the request excludes it")
    return token


def check_unchanged(
    recorded_info: ServedModelInfo, current_info: ServedModelInfo, address: str
) -> None:
    """Check that a server has the model, version and limits of its fetched record.

    Raises:
        SourceUnavailable: the model, the version or a limit has changed.
    """
    recorded_fields, current_fields = asdict(recorded_info), asdict(current_info)
    changes = ", ".join(
        f"{key} was {quote(str(recorded_fields[key]))!r} and is {quote(str(current_fields[key]))!r}"
        for key in recorded_fields
        if recorded_fields[key] != current_fields[key]
    )
    if changes:
        raise SourceUnavailable(
            f"{address}: {changes}; delete the model's directory to fetch it again"
        )
