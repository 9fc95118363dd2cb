"""APIs of servers with distributions: requests for continuations, and the parsing of responses.

Requests are for the probabilities of the model itself: at temperature 1, before any penalty or
truncation. They override the defaults of a server.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from llmchecker.errors import (
    ConfigError,
    InvalidDistribution,
    RefusedPart,
    RequestRefused,
    SourceUnavailable,
)
from llmchecker.models.servers.http_client import ServerSession
from llmchecker.models.servers.schema import (
    LlamaCppCompletion,
    ModelEntry,
    ModelList,
    PropsResponse,
    TokenizeResponse,
    VersionResponse,
    VllmCompletion,
    VllmLogprobs,
    choose_model,
    parse_vllm_token,
    quote,
)
from llmchecker.utils.number_format import format_count
from llmchecker.utils.printable_text import quote_value

# Explicit values of all settings, since a server's defaults may truncate or add penalties.
_VLLM_SETTINGS = {
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
    "temperature": 1.0,
    "samplers": ["temperature"],
    "stream": False,
    "return_tokens": True,
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
    """A request for continuations of texts.

    Attributes:
        texts: the tokens of the texts.
        listed_tokens: number of most probable tokens at each position.
        max_tokens: largest number of tokens of each continuation.
        count: number of continuations of each text.
        seed: seed of the first continuation of a text; the next ones have the next seeds. None if
            only the list after each text counts.
        excluded: tokens that are not sampled; their request returns no lists.
    """

    texts: Sequence[Sequence[int]]
    listed_tokens: int
    max_tokens: int = 1
    count: int = 1
    seed: int | None = None
    excluded: Sequence[int] = ()


@dataclass(frozen=True)
class SampledTokens:
    """A continuation as a server returns it.

    Attributes:
        tokens: the sampled tokens.
        listed_tokens, logprobs: the most probable tokens at the position of each, and their
            logarithms of probabilities.
    """

    tokens: Sequence[int]
    listed_tokens: Sequence[Sequence[int]]
    logprobs: Sequence[Sequence[float]]


class ServerApi(ABC):
    """The requests of one kind of server.

    Attributes:
        max_continuations: largest number of continuations of a text in a request.
        slots: number of texts that the server continues at once; None if unknown.
    """

    max_continuations = 1
    slots: int | None = None

    @abstractmethod
    async def read_model_info(
        self, session: ServerSession, served_as: str | None
    ) -> ServedModelInfo:
        """Return the description of the server and of a model, by default its only one."""

    @abstractmethod
    async def tokenize(self, session: ServerSession, model: str, text: str) -> list[int]:
        """Return the server's tokens of a text, without special tokens around it."""

    @abstractmethod
    async def continue_texts(
        self, session: ServerSession, model: str, question: ContinuationQuestion
    ) -> list[SampledTokens]:
        """Return the continuations of each text, text by text."""


class Vllm(ServerApi):
    """The API of vLLM: its own and its OpenAI-compatible routes."""

    # a failure loses all continuations of a request
    max_continuations = 16

    async def read_model_info(
        self, session: ServerSession, served_as: str | None
    ) -> ServedModelInfo:
        entry = await _find_model_entry(session, served_as)
        answer = await session.request(VersionResponse, "/version")
        return ServedModelInfo(entry.id, answer.version, entry.max_model_len, None)

    async def tokenize(self, session: ServerSession, model: str, text: str) -> list[int]:
        payload = {"model": model, "prompt": text, "add_special_tokens": False}
        return (await session.request(TokenizeResponse, "/tokenize", payload)).tokens

    async def continue_texts(
        self, session: ServerSession, model: str, question: ContinuationQuestion
    ) -> list[SampledTokens]:
        payload = _VLLM_SETTINGS | {
            "model": model,
            "prompt": question.texts,
            "logprobs": question.listed_tokens,
            "max_tokens": question.max_tokens,
            "n": question.count,
        }
        if question.seed is not None:
            # vLLM adds the index of a continuation to the seed
            payload["seed"] = question.seed
        if question.excluded:
            # JSON keys are strings
            bias = {str(token): _EXCLUSION_BIAS for token in question.excluded}
            payload |= {"logprobs": 1, "logit_bias": bias}
        answer = await _complete(session, payload)
        _check_order([each.index for each in answer.choices], len(question.texts) * question.count)
        _check_prompt_tokens(answer.usage.prompt_tokens, sum(map(len, question.texts)))
        return [_read_vllm_tokens(each.logprobs, question) for each in answer.choices]


class LlamaCpp(ServerApi):
    """The API of llama.cpp's server, by its own routes.

    It gives all continuations of a request the same seed.

    Args:
        plain_token: id of a token that is a whole character. Requests for probabilities force the
            server to draw it. The server returns no probabilities with a token that ends in part of
            a character.
    """

    def __init__(self, plain_token: int) -> None:
        self._plain_token = plain_token

    async def read_model_info(
        self, session: ServerSession, served_as: str | None
    ) -> ServedModelInfo:
        entry = await _find_model_entry(session, served_as)
        settings = await session.request(PropsResponse, "/props")
        max_length = settings.default_generation_settings.n_ctx
        self.slots = settings.total_slots
        size = None if entry.meta is None else entry.meta.n_vocab
        return ServedModelInfo(entry.id, settings.build_info, max_length, size)

    async def tokenize(self, session: ServerSession, model: str, text: str) -> list[int]:
        payload = {"model": model, "content": text, "add_special": False, "parse_special": False}
        return (await session.request(TokenizeResponse, "/tokenize", payload)).tokens

    async def continue_texts(
        self, session: ServerSession, model: str, question: ContinuationQuestion
    ) -> list[SampledTokens]:
        payload = _LLAMA_CPP_SETTINGS | {
            "model": model,
            "prompt": question.texts,
            "n_predict": question.max_tokens,
        }
        if question.seed is None:
            payload["logit_bias"] = [[self._plain_token, 1e6]]
        else:
            payload["seed"] = _reduce_seed(question.seed)
        if question.excluded:
            payload["logit_bias"] = [[token, False] for token in question.excluded]
        else:
            payload |= {"n_probs": question.listed_tokens, "post_sampling_probs": False}
        # the response to a single text is an object instead of a list
        if len(question.texts) == 1:
            answers = [await session.request(LlamaCppCompletion, "/completion", payload)]
        else:
            answers = await session.request(list[LlamaCppCompletion], "/completion", payload)
        _check_order([each.index for each in answers], len(question.texts))
        found = []
        for text, answer in zip(question.texts, answers, strict=True):
            # a truncated prompt counts as another text
            _check_prompt_tokens(-1 if answer.truncated else answer.tokens_evaluated, len(text))
            _check_token_count(len(answer.tokens), question.max_tokens)
            sampled = _read_llama_cpp_tokens(answer)
            if not question.excluded and len(sampled.listed_tokens) != len(sampled.tokens):
                sampled = await self._add_lists(session, model, question, text, sampled)
            found.append(sampled)
        return found

    async def _add_lists(
        self,
        session: ServerSession,
        model: str,
        question: ContinuationQuestion,
        text: Sequence[int],
        sampled: SampledTokens,
    ) -> SampledTokens:
        """Return a continuation with the lists of its positions, requested text by text."""
        # a token that ends in part of a character has no list, and it is not marked which one
        if question.seed is None:
            raise InvalidDistribution("completion_probabilities: a text has no list")
        texts = [[*text, *sampled.tokens[:count]] for count in range(len(sampled.tokens))]
        lists = await self.continue_texts(
            session, model, ContinuationQuestion(texts, question.listed_tokens)
        )
        return SampledTokens(
            sampled.tokens,
            [each.listed_tokens[0] for each in lists],
            [each.logprobs[0] for each in lists],
        )


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


async def _complete(session: ServerSession, payload: dict[str, Any]) -> VllmCompletion:
    """Return vLLM's answer to a request for completions."""
    try:
        return await session.request(VllmCompletion, "/v1/completions", payload)
    except RequestRefused as error:
        if RefusedPart.LOG_PROBABILITIES not in error.parts:
            raise
        raise ConfigError(
            f"{error}; start it with --max-logprobs {payload['logprobs']}, or lower `tokens` of "
            "the model"
        ) from error


def _read_vllm_tokens(logprobs: VllmLogprobs, question: ContinuationQuestion) -> SampledTokens:
    """Return the tokens that vLLM drew, and the most probable tokens at each position."""
    tokens, heads = logprobs.tokens, logprobs.top_logprobs
    _check_token_count(len(tokens), question.max_tokens)
    if len(heads) != len(tokens):
        raise InvalidDistribution(
            f"top_logprobs: the server lists {len(heads)} positions of {len(tokens)}"
        )
    listed, values = [], []
    for token, head in zip(tokens, heads, strict=True):
        try:
            ids, numbers = list(map(parse_vllm_token, head)), list(head.values())
        except ValueError as error:
            raise InvalidDistribution(f"top_logprobs: {error}") from error
        # vLLM adds the sampled token if it is not among the most probable ones
        is_longer = len(ids) == question.listed_tokens + 1
        if is_longer and token in ids and numbers[ids.index(token)] <= min(numbers):
            del numbers[ids.index(token)]
            ids.remove(token)
        listed.append(ids)
        values.append(numbers)
    return SampledTokens(tokens, listed, values)


def _read_llama_cpp_tokens(answer: LlamaCppCompletion) -> SampledTokens:
    """Return the tokens that llama.cpp drew, and the most probable tokens at some positions."""
    heads = [position.top_logprobs for position in answer.completion_probabilities]
    return SampledTokens(
        answer.tokens,
        [[each.id for each in head] for head in heads],
        [[each.logprob for each in head] for head in heads],
    )


def _reduce_seed(seed: int) -> int:
    """Return a number of 32 bits for a seed; consecutive seeds have unrelated numbers."""
    # llama.cpp draws another seed for 2^32 - 1
    return int(np.random.SeedSequence(seed).generate_state(1)[0]) % (2**32 - 1)


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
        f"{key} was {quote_value(recorded_fields[key])} and is {quote_value(current_fields[key])}"
        for key in recorded_fields
        if recorded_fields[key] != current_fields[key]
    )
    if changes:
        raise SourceUnavailable(
            f"{address}: {changes}; delete the model's directory to fetch it again"
        )
