"""How each kind of server is asked for next tokens, and how its answers are read.

What is asked for are the probabilities of the model itself: at temperature 1, before any penalty or
truncation, whatever a server applies by default.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from llmchecker.errors import ConfigError, InvalidDistribution, RequestRefused, SourceUnavailable
from llmchecker.serving.client import ServerClient

GivenUp = Callable[[], bool]
Told = tuple[list[int], list[float]]
"""Tokens and the logarithms of their probabilities, as a server tells them of one text."""

_PLAIN_VLLM = {
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
_PLAIN_LLAMA_CPP = {
    "n_predict": 1,
    "temperature": 1.0,
    "samplers": ["temperature"],
    "stream": False,
}

_NEVER = -100.0
"""What vLLM adds to the logit of an excluded token: it leaves a share of e^-100 of it."""


@dataclass(frozen=True)
class Serving:
    """What a server says of itself and of one model.

    Attributes:
        model: its name for the model.
        version: of the server's program.
        longest: tokens of the longest text that it reads; None if it does not say.
        vocabulary_size: of the model; None if it does not say.
    """

    model: str
    version: str
    longest: int | None
    vocabulary_size: int | None


class Dialect(Protocol):
    """What is asked of a server, in its own terms."""

    def serving(self, client: ServerClient, served_as: str | None) -> Serving:
        """What the server says of itself and of a model, by its name or as its only one."""
        ...

    def tokens_of(self, client: ServerClient, model: str, text: str) -> list[int]:
        """The tokens that the server makes of a text, without special ones around it."""
        ...

    def told(
        self, client: ServerClient, model: str, texts: list[list[int]], n: int, given_up: GivenUp
    ) -> list[Told]:
        """The n most probable next tokens after each text, and maybe one more that was drawn."""
        ...

    def drawn(
        self,
        client: ServerClient,
        model: str,
        text: list[int],
        without: Sequence[int],
        seed: int,
        given_up: GivenUp,
    ) -> int:
        """A next token that the server draws by a seed, none of those that are excluded."""
        ...


class Vllm:
    """vLLM's server, by its routes that are those of OpenAI."""

    def serving(self, client: ServerClient, served_as: str | None) -> Serving:
        """What the server says of itself and of a model, by its name or as its only one."""
        entry = _entry(client, served_as)
        version = _read(client, "/version", lambda answer: str(answer["version"]))
        return Serving(entry["id"], version, entry.get("max_model_len"), None)

    def tokens_of(self, client: ServerClient, model: str, text: str) -> list[int]:
        """The tokens that the server makes of a text, without special ones around it."""
        question = {"model": model, "prompt": text, "add_special_tokens": False}
        return list(_found(lambda: client.ask("/tokenize", question)["tokens"]))

    def told(
        self, client: ServerClient, model: str, texts: list[list[int]], n: int, given_up: GivenUp
    ) -> list[Told]:
        """The n most probable next tokens after each text, and maybe one more that was drawn."""
        question = {"model": model, "prompt": texts, "logprobs": n, **_PLAIN_VLLM}
        try:
            answer = client.ask("/v1/completions", question, given_up)
        except RequestRefused as error:
            if "logprobs" not in str(error):
                raise
            raise ConfigError(
                f"{error}: start it with --max-logprobs {n}, or ask it for fewer by `tokens` of "
                "the model"
            ) from error

        def read() -> list[Told]:
            choices = sorted(answer["choices"], key=lambda choice: choice["index"])
            _demand_all(len(choices), len(texts))
            _demand_read(answer["usage"]["prompt_tokens"], sum(map(len, texts)))
            return [_without_drawn(choice["logprobs"], n) for choice in choices]

        return _found(read)

    def drawn(
        self,
        client: ServerClient,
        model: str,
        text: list[int],
        without: Sequence[int],
        seed: int,
        given_up: GivenUp,
    ) -> int:
        """A next token that the server draws by a seed, none of those that are excluded."""
        never = {str(token): _NEVER for token in without}
        about = {"model": model, "prompt": [text], "logprobs": 1, "seed": seed, "logit_bias": never}
        answer = client.ask("/v1/completions", about | _PLAIN_VLLM, given_up)
        return _found(lambda: _id(answer["choices"][0]["logprobs"]["tokens"][0]))


class LlamaCpp:
    """The server of llama.cpp, by its own routes.

    Args:
        ordinary: a token that is a whole character. The server is made to draw it where only
            probabilities are wanted: it tells none beside a token that ends in a part of one.
    """

    def __init__(self, ordinary: int) -> None:
        self._ordinary = ordinary

    def serving(self, client: ServerClient, served_as: str | None) -> Serving:
        """What the server says of itself and of a model, by its name or as its only one."""
        entry = _entry(client, served_as)
        settings = client.ask("/props")
        version = _found(lambda: str(settings["build_info"]))
        longest = _found(lambda: settings["default_generation_settings"]["n_ctx"])
        return Serving(entry["id"], version, longest, (entry.get("meta") or {}).get("n_vocab"))

    def tokens_of(self, client: ServerClient, model: str, text: str) -> list[int]:
        """The tokens that the server makes of a text, without special ones around it."""
        question = {"model": model, "content": text, "add_special": False, "parse_special": False}
        return list(_found(lambda: client.ask("/tokenize", question)["tokens"]))

    def told(
        self, client: ServerClient, model: str, texts: list[list[int]], n: int, given_up: GivenUp
    ) -> list[Told]:
        """The n most probable next tokens after each text, before anything is drawn."""
        question = _PLAIN_LLAMA_CPP | {
            "model": model,
            "prompt": texts,
            "n_probs": n,
            "post_sampling_probs": False,
            "logit_bias": [[self._ordinary, 1e6]],
        }
        answer = client.ask("/completion", question, given_up)

        def read() -> list[Told]:
            results = [answer] if isinstance(answer, dict) else answer
            _demand_all(len(results), len(texts))
            by_index = sorted(results, key=lambda result: result["index"])
            for result, text in zip(by_index, texts, strict=True):
                _demand_read(len(text) if not result["truncated"] else -1, len(text))
                _demand_read(result["tokens_evaluated"], len(text))
            heads = [result["completion_probabilities"][0]["top_logprobs"] for result in by_index]
            return [([t["id"] for t in head], [t["logprob"] for t in head]) for head in heads]

        return _found(read)

    def drawn(
        self,
        client: ServerClient,
        model: str,
        text: list[int],
        without: Sequence[int],
        seed: int,
        given_up: GivenUp,
    ) -> int:
        """A next token that the server draws by a seed, none of those that are excluded."""
        about = {
            "model": model,
            "prompt": text,
            "seed": seed,
            "return_tokens": True,
            "logit_bias": [[token, False] for token in without],
        }
        answer = client.ask("/completion", about | _PLAIN_LLAMA_CPP, given_up)
        return _found(lambda: answer["tokens"][0])


def serving_of_writer(client: ServerClient, served_as: str | None) -> Serving:
    """What a server that only writes says of a model: its name, which is all that they agree on.

    Raises:
        ConfigError: it serves several and none is named, or not the one that is.
    """
    return Serving(_entry(client, served_as)["id"], "", None, None)


def _entry(client: ServerClient, served_as: str | None) -> dict[str, Any]:
    """What the server says of a model, by its name or as its only one.

    Raises:
        ConfigError: it serves several and none is named, or not the one that is.
    """
    entries = _read(client, "/v1/models", lambda answer: {str(e["id"]): e for e in answer["data"]})
    if served_as is None and len(entries) == 1:
        return next(iter(entries.values()))
    if served_as not in entries:
        wanted = "no model is named" if served_as is None else f"none of them is {served_as!r}"
        raise ConfigError(
            f"{client.address} serves {', '.join(map(repr, entries)) or 'no model'}, and {wanted} "
            "by `served_as` of the model"
        )
    return entries[served_as]


def _read(client: ServerClient, path: str, read: Callable[[Any], Any]) -> Any:
    answer = client.ask(path)
    return _found(lambda: read(answer))


def _found(read: Callable[[], Any]) -> Any:
    """What is read from an answer, if it has the form that the server's documentation says."""
    try:
        return read()
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise InvalidDistribution(
            f"the answer is not as the documentation of the server says: {error!r}"
        ) from error


def _demand_all(found: int, texts: int) -> None:
    if found != texts:
        raise InvalidDistribution(f"{texts} texts were asked about, and {found} answers came")


def _demand_read(found: int, tokens: int) -> None:
    """Refuse an answer about another text: one that was cut, or has a token put before it."""
    if found != tokens:
        raise InvalidDistribution(f"{tokens} tokens were sent, and the server read {found}")


def _without_drawn(logprobs: dict[str, Any], n: int) -> Told:
    """The n most probable tokens: where the drawn one is none of them, it is told besides."""
    (head,), drawn = logprobs["top_logprobs"], logprobs["tokens"][0]
    if len(head) == n + 1 and drawn in head and head[drawn] <= min(head.values()):
        head = {token: logprob for token, logprob in head.items() if token != drawn}
    return [_id(token) for token in head], list(head.values())


def _id(token: Any) -> int:
    match = re.fullmatch(r"token_id:([0-9]{1,10})", token)
    if match is None:
        raise InvalidDistribution(f"{token!r} is no token id, as was asked for")
    return int(match[1])


def demand_drawn(token: Any, without: Sequence[int], vocabulary_size: int) -> int:
    """A drawn token that is none of the excluded.

    Raises:
        InvalidDistribution: it is one of them, or no token.
    """
    if type(token) is not int or not 0 <= token < vocabulary_size:
        raise InvalidDistribution(f"{token!r} is no token from 0 to {vocabulary_size - 1}")
    if token in without:
        raise InvalidDistribution(f"it drew the token {token}, which was excluded")
    return token


def demand_same(fetched: Serving, now: Serving, address: str) -> None:
    """Refuse a server that no longer serves what it served when the model was fetched.

    Raises:
        SourceUnavailable: model, version or limits are others now.
    """
    if fetched != now:
        raise SourceUnavailable(
            f"{address} served {fetched} when the model was fetched, and serves {now} now; delete "
            "the model's directory to fetch it again, and its trees are grown anew"
        )
