"""Where a server is, and how it is asked, as a configuration says it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from llmchecker.errors import ConfigError
from llmchecker.fetching.sources import Source, parse_source

ServerApi = Literal["vllm", "llama.cpp", "openai", "openai-chat"]

WRITING = ("openai", "openai-chat")
"""The kinds of servers that only write texts: they tell no distributions, or too little of them."""

SERVER = "server.json"
"""The file of a model directory that says which server answers for the model, and as what."""

SERVER_KEYS = ("api", "tokenizer", "tokens", "served_as", "key_from", "requests", "seconds")
"""The keys of a model in a configuration that are for servers alone."""

_OF_WEIGHTS = ("kind", "dtype", "device", "file", "parts", "sha256", "decoding")
"""The keys that are for models whose weights are loaded: a server has its own."""

_OF_HEADS = {"openai": ("tokenizer", "tokens"), "openai-chat": ("tokenizer",)}
"""The keys that servers do not have which only write; a chat has a longest answer in `tokens`."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class ServerSource:
    """A model that a server answers for.

    Attributes:
        source: the server's address.
        api: how the server is asked.
        tokenizer: a directory with the model's tokenizer; None for a server that only writes.
        tokens: how many of the most probable next tokens the server is asked for; of `openai-chat`
            the most tokens of an answer.
        served_as: the server's name for the model; None if it serves only one.
        key_from: the environment variable that holds the key for the server; None for no key. The
            key itself stands in no file.
        requests: how many requests are under way at once.
        seconds: how long one request may take.

    Raises:
        ConfigError: a field has a value that it cannot have.
    """

    source: Source
    api: ServerApi
    tokenizer: Source | None = None
    tokens: int = 100
    served_as: str | None = None
    key_from: str | None = None
    requests: int = 16
    seconds: float = 60.0

    def __post_init__(self) -> None:
        for name, wrong, right in (
            ("source", self.source.scheme != "server", "server:http://host:port"),
            ("api", self.api not in get_args(ServerApi), " or ".join(get_args(ServerApi))),
            ("tokenizer", not self._has_its_tokenizer, "path:directory"),
            ("tokens", self.tokens < 1, "at least 1"),
            ("key_from", not _is_variable(self.key_from), "the name of an environment variable"),
            ("requests", self.requests < 1, "at least 1"),
            ("seconds", not self.seconds > 0, "above 0"),
        ):
            if wrong:
                value = getattr(self, name)
                # whoever writes a key instead of a variable's name must not find it in a log
                shown = "something else" if name == "key_from" else str(value)
                raise ConfigError(f"{name} is {shown}; it must be {right}")

    @property
    def writes_only(self) -> bool:
        """Whether it tells no distributions, so that no tree can be grown of it."""
        return self.api in WRITING

    @property
    def _has_its_tokenizer(self) -> bool:
        if self.writes_only:
            return self.tokenizer is None
        return self.tokenizer is not None and self.tokenizer.scheme == "path"

    @property
    def address(self) -> str:
        """The server's address, without a slash at its end."""
        return self.source.name.rstrip("/")

    @property
    def about(self) -> dict[str, Any]:
        """The fields by name, as the record of the model's directory holds them."""
        tokenizer = None if self.tokenizer is None else str(self.tokenizer)
        return vars(self) | {"source": str(self.source), "tokenizer": tokenizer}


def server_source(source: Source, entry: Mapping[str, Any]) -> ServerSource:
    """The served model of a configuration.

    Args:
        source: the server's address.
        entry: the keys of the model as they are written, without defaults.

    Raises:
        ConfigError: a key is missing, is for other models, or has a value that it cannot have.
    """
    unwanted = _OF_HEADS.get(entry.get("api"), ())
    for key in ("api", "tokenizer"):
        if key not in entry and key not in unwanted:
            raise ConfigError(f"the key {key!r} is missing, which {source} needs")
    for key in unwanted:
        if key in entry:
            raise ConfigError(
                f"{key} is for a server that tells distributions; one with the api "
                f"{entry['api']} only writes texts"
            )
    for key in _OF_WEIGHTS:
        if key in entry:
            raise ConfigError(
                f"{key} is for a model whose weights are loaded here; what {source} answers is "
                "decided where it was started, and asked at temperature 1 without truncation"
            )
    given = {key: entry[key] for key in SERVER_KEYS if key in entry}
    if "tokenizer" in given:
        given["tokenizer"] = parse_source(entry["tokenizer"])
    return ServerSource(source, **given)


def _is_variable(name: str | None) -> bool:
    return name is None or bool(_VARIABLE.fullmatch(name))
