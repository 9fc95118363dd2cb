"""Schemas of servers' responses, the choice of a listed model, and quotations in messages."""

import re
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
)

from llmchecker.errors import ConfigError, SourceUnavailable, did_you_mean
from llmchecker.models.servers.settings import MAX_EXCESS

_build_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)

_MAX_QUOTE_LENGTH = 120
"""Largest number of characters of a server's text in a message."""

_MAX_NAME_LENGTH = 300
"""Largest number of characters of a model's name or of a version."""

_TokenId = Annotated[int, Field(ge=0, lt=2**31)]
_Logprob = Annotated[float, Field(le=MAX_EXCESS)]
"""A log probability.

For a probability of 0 vLLM sends -9999.0 and llama.cpp the smallest float. Null is rejected,
because JSON libraries also write it for NaN.
"""


def _check_printable(name: str) -> str:
    if not name.isprintable():
        raise ValueError("it has control characters")
    return name


@lru_cache(2**18)
def parse_vllm_token(text: str) -> int:
    """Return the id of a token that vLLM writes as `token_id:5`.

    Raises:
        ValueError: it is written otherwise.
    """
    # an id has one spelling, so two keys of an object are two tokens
    match = re.fullmatch(r"token_id:(0|[1-9][0-9]{0,9})", text)
    if match is None:
        raise ValueError("it is not a token id; start the server without changes")
    return int(match[1])


# whatever is not a text has another spelling
_VllmToken = Annotated[_TokenId, BeforeValidator(lambda token: parse_vllm_token(str(token)))]
_Name = Annotated[str, Field(max_length=_MAX_NAME_LENGTH), AfterValidator(_check_printable)]
_Size = Annotated[int, Field(ge=1, lt=2**31)]
_Count = Annotated[int, Field(ge=0, lt=2**31)]

_Shape = TypeVar("_Shape")


class _Response(BaseModel):
    """An object of JSON without conversions of types; further keys are ignored."""

    # newer servers may add keys, so further keys are allowed
    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)


class _ModelMeta(_Response):
    """Facts about a model that llama.cpp adds to its entry."""

    n_vocab: _Size | None = None


class ModelEntry(_Response):
    """A model in the list of `/v1/models`."""

    id: _Name
    owned_by: _Name | None = None
    max_model_len: _Size | None = None
    meta: _ModelMeta | None = None


class ModelList(_Response):
    """The answer to `/v1/models`."""

    data: Annotated[list[ModelEntry], Field(max_length=10_000)]


class VersionResponse(_Response):
    """The answer of vLLM to `/version`."""

    version: _Name


class _GenerationSettings(_Response):
    """Settings of llama.cpp: its longest text in tokens."""

    n_ctx: _Size


class PropsResponse(_Response):
    """The answer of llama.cpp to `/props`."""

    build_info: _Name
    default_generation_settings: _GenerationSettings
    total_slots: _Size | None = None


class TokenizeResponse(_Response):
    """The answer to `/tokenize`."""

    tokens: Annotated[list[_TokenId], Field(max_length=10_000)]


class _Usage(_Response):
    """Tokens that vLLM read in all texts of a request."""

    prompt_tokens: _Count


class VllmLogprobs(_Response):
    """The tokens that vLLM drew, and the most probable tokens at the place of each."""

    tokens: Annotated[list[_VllmToken], Field(min_length=1)]
    top_logprobs: list[dict[str, _Logprob]]


class _VllmChoice(_Response):
    """One text of an answer of vLLM."""

    index: int
    logprobs: VllmLogprobs


class VllmCompletion(_Response):
    """The answer of vLLM to `/v1/completions`."""

    choices: list[_VllmChoice]
    usage: _Usage


class _TokenLogprob(_Response):
    """A token of llama.cpp with the logarithm of its probability."""

    id: _TokenId
    logprob: _Logprob


class _Position(_Response):
    """The most probable tokens of llama.cpp at one place of a text."""

    top_logprobs: list[_TokenLogprob]


class LlamaCppCompletion(_Response):
    """A result of llama.cpp's `/completion`, without lists for parts of characters."""

    index: int
    tokens_evaluated: _Count
    truncated: bool
    tokens: Annotated[list[_TokenId], Field(min_length=1)]
    completion_probabilities: list[_Position] = []


class _TokenUsage(_Response):
    """Tokens of a prompt and of an answer, for which a provider charges."""

    prompt_tokens: _Count | None = None
    completion_tokens: _Count | None = None


class _TextChoice(_Response):
    """A text of an answer."""

    index: _Count = 0
    text: str | None
    finish_reason: str | None = None


class _Written(_Response):
    """The part that OpenAI's answers have in common."""

    model: _Name | None = None
    system_fingerprint: _Name | None = None
    usage: _TokenUsage | None = None


class CompletionResponse(_Written):
    """The answer to `/v1/completions` of servers that return texts alone."""

    choices: list[_TextChoice]


class _Part(_Response):
    """A part of a message, of which the types of texts are read; others are thoughts or calls."""

    type: str
    text: str | None = None
    refusal: str | None = None
    name: str | None = None
    input: Any = None
    thinking: Any = None

    @property
    def thought(self) -> str:
        """The text of a thought, which is a list of parts at Mistral; empty for other parts."""
        if not isinstance(self.thinking, list):
            return _read_thought(self.thinking)
        parts = (part.get("text") for part in self.thinking if isinstance(part, dict))
        return "".join(map(_read_thought, parts))

    @property
    def content(self) -> str | None:
        """The text that a reader sees; None for a thought, a call or a picture."""
        return {"text": self.text, "output_text": self.text, "refusal": self.refusal}.get(self.type)


def _read_thought(value: Any) -> str:
    return value if isinstance(value, str) else ""


def join_parts(parts: Iterable[_Part]) -> str | None:
    """Return the text of the parts of a message; None if none of them is a text."""
    texts = [part.content for part in parts if part.content is not None]
    return "".join(texts) if texts else None


class _Message(_Response):
    """A message of a chat; its content is null where the model wrote none."""

    content: str | list[_Part] | None = None
    refusal: str | None = None
    tool_calls: list[Any] | None = None
    function_call: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    thinking: Any = None

    @property
    def thought(self) -> str:
        """The thought that is no part of the content; empty without one."""
        parts = self.content if isinstance(self.content, list) else []
        keys = (self.reasoning_content, self.reasoning, self.thinking)
        thoughts = [*map(_read_thought, keys), "".join(part.thought for part in parts)]
        return next(filter(None, thoughts), "")

    @property
    def text(self) -> str | None:
        """The content, or else the refusal; None without a text."""
        content = join_parts(self.content) if isinstance(self.content, list) else self.content
        # an empty text next to a refusal is no answer
        return content or self.refusal or content

    @property
    def calls(self) -> list[Any]:
        """The calls of tools, which no text contains."""
        return self.tool_calls or ([self.function_call] if self.function_call else [])


class _TokenProbability(_Response):
    """A token of a chat with the logarithm of its probability."""

    token: str
    logprob: _Logprob


class _ChatToken(_TokenProbability):
    """A sampled token of a chat, and the most probable tokens at its place."""

    top_logprobs: list[_TokenProbability] = []


class ChatLogprobs(_Response):
    """The log probabilities of an answer of a chat."""

    content: list[_ChatToken] | None = None


class _MessageChoice(_Response):
    """A message of an answer, whose log probabilities have other forms at some servers."""

    index: _Count = 0
    message: _Message
    finish_reason: str | None = None
    logprobs: Any = None


class ChatResponse(_Written):
    """The answer to `/v1/chat/completions`."""

    choices: list[_MessageChoice]


class _AnthropicUsage(_Response):
    """Tokens of a prompt and of an answer."""

    input_tokens: _Count
    output_tokens: _Count


class AnthropicResponse(_Response):
    """The answer to `/v1/messages`."""

    content: list[_Part]
    stop_reason: str | None = None
    model: _Name | None = None
    usage: _AnthropicUsage | None = None

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The uses of tools, as calls of other APIs."""
        uses = (part for part in self.content if part.type == "tool_use")
        return [{"name": part.name, "arguments": part.input} for part in uses]


class OllamaResponse(_Response):
    """The answer to `/api/chat`."""

    message: _Message
    done: bool
    done_reason: str | None = None
    model: _Name | None = None
    prompt_eval_count: _Count | None = None
    eval_count: _Count | None = None


class _OllamaModel(_Response):
    """A model of Ollama."""

    name: _Name


class OllamaModels(_Response):
    """The answer to `/api/tags`."""

    models: Annotated[list[_OllamaModel], Field(max_length=10_000)]


def parse_response(shape: type[_Shape], answer: Any) -> _Shape:
    """Validate a response against its schema.

    Raises:
        SourceUnavailable: a field is missing or has an invalid value; the message names it.
    """
    try:
        valid: _Shape = _build_adapter(shape).validate_python(answer)
        return valid
    except (ValidationError, RecursionError, OverflowError) as error:
        field, problem = "", type(error).__name__
        if isinstance(error, ValidationError):
            details = error.errors()[0]
            field, problem = ".".join(map(str, details["loc"])), details["msg"]
        field, problem = quote(field, 100) or "the answer", quote(problem)
        # `from None`, because the error quotes the whole response
        raise SourceUnavailable(f"{field}: {problem}; check its version and `api`") from None


def choose_model(address: str, name: str | None, listed: Iterable[str]) -> str:
    """Return the server's name of a model: the given name, or the only listed one.

    Raises:
        ConfigError: no name is given and several are listed, or the given name is not listed.
    """
    names = list(listed)
    if name is None and len(names) == 1:
        return names[0]
    if name is None or name not in names:
        problem = "no model is named" if name is None else f"{name!r} is unknown"
        hint = did_you_mean(name or "", names) or ";"
        shown = quote(", ".join(map(repr, names))) or "no model"
        raise ConfigError(
            f"{address}: {problem}{hint} it serves {shown}; name one by `served_as` of the model"
        )
    return name


def quote(text: str, limit: int = _MAX_QUOTE_LENGTH) -> str:
    """Return a server's text on one line, shortened, with control characters escaped."""
    # shorten first: a server may send a very long text
    line = " ".join(text[: 4 * limit].split())
    characters = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    return "".join(characters)[:limit]
