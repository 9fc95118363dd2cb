"""Settings of a served model: the address, the API and the limits of requests."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

from llmchecker.errors import ConfigError
from llmchecker.models.decoding.chat_template import Start
from llmchecker.models.servers.json_body import (
    STANDARD_NAMES,
    check_body,
    check_columns,
    list_placeholders,
)
from llmchecker.models.sources.model_directory import find_tokenizer_files
from llmchecker.models.sources.source_spec import Source, parse_source

ApiName = Literal[
    "vllm", "llama.cpp", "openai-chat", "openai-completions", "anthropic", "ollama", "json"
]

LEAST_UNLISTED = 2.0**-52
"""The least probability of all tokens that a server does not list: rounding may hide them."""

MAX_EXCESS = 1e-4
"""Largest excess over 1 of a sum of probabilities: servers round to float32 or coarser."""

_DISTRIBUTION_APIS = ("vllm", "llama.cpp")
"""APIs of servers with distributions; all others return texts alone."""

_OPENAI_SETTINGS = frozenset(
    {
        *("do_sample", "temperature", "top_p"),
        *("frequency_penalty", "presence_penalty", "logit_bias"),
        *("json_schema", "regex", "choice", "end_tokens", "ignore_eos"),
    }
)

TEXT_SETTINGS: Mapping[ApiName, frozenset[str]] = {
    "openai-chat": _OPENAI_SETTINGS,
    "openai-completions": _OPENAI_SETTINGS,
    "anthropic": frozenset({"do_sample", "temperature", "top_p", "top_k"}),
    "ollama": frozenset(
        {
            *("do_sample", "temperature", "top_p", "top_k", "min_p"),
            *("frequency_penalty", "presence_penalty", "json_schema"),
        }
    ),
    # an application has its own decoding
    "json": frozenset(),
}
"""The settings of decodings that each API of texts alone has."""

_REQUESTS, _VLLM_REQUESTS = 16, 64
"""The default number of texts that a server writes at once; vLLM computes them as one batch."""

SERVER_FILE = "server.json"
"""File of a model directory with the model's server and the server's description."""

_WEIGHT_KEYS = ("kind", "dtype", "device", "file", "parts", "sha256", "subfolder", "adapter")
"""Configuration keys of models with loaded weights; a server has its own settings."""

_DISTRIBUTION_KEYS: Mapping[str, tuple[str, ...]] = {
    "openai-completions": ("tokenizer", "tokens"),
    **dict.fromkeys(("openai-chat", "anthropic", "ollama"), ("tokenizer",)),
    "json": ("tokenizer", "tokens", "served_as"),
}
"""Keys that APIs of texts alone reject; a chat uses `tokens` as the limit of an answer."""

EXCHANGE_KEYS = ("body", "answer", "finish", "headers")
"""Keys of the requests and responses of an application of the user's own."""

_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*")
"""A JSON pointer (RFC 6901)."""
_VERSION = re.compile(r"v[0-9]+(beta|alpha)?[0-9]*")
"""The version of an API as a part of its address."""
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class ServerSource:
    """A model on a server.

    Attributes:
        source: address of the server.
        api: name of the server's API.
        tokenizer: directory with the model's tokenizer; None for a text-only server.
        tokens: number of most probable next tokens in a request; for a chat the largest number of
            tokens of an answer to a message without another limit.
        served_as: the server's name for the model; None if it has only one.
        key_from: environment variable with the key for the server; None for no key. No file
            contains the key itself.
        requests: largest number of texts that the server writes at once; None for the default of
            the API.
        seconds: time limit of a request in seconds.
        servers: addresses of further servers with the same model, which share the requests.
        body: for the api `json`, the body of a request as JSON, with placeholders; see
            `json_api.JsonApi`.
        answer, finish: for the api `json`, the JSON pointers of the text and of the reason of its
            end in a response.
        headers: for the api `json`, HTTP headers as JSON. `{key}` in them is the key, which is
            else sent as a bearer.
        top_logprobs: for the api `openai-chat`, the number of most probable tokens that each answer
            lists at each token, from 2; 0 for no log probabilities.

    Raises:
        ConfigError: a field has an invalid value.
    """

    source: Source
    api: ApiName
    tokenizer: Source | None = None
    tokens: int = 100
    served_as: str | None = None
    key_from: str | None = None
    requests: int | None = None
    seconds: float = 60.0
    servers: tuple[str, ...] = ()
    body: str | None = None
    answer: str | None = None
    finish: str | None = None
    headers: str | None = None
    top_logprobs: int = 0

    def __post_init__(self) -> None:
        for name, is_invalid, requirement in (
            ("source", self.source.scheme != "server", "server:http://host:port"),
            ("api", self.api not in get_args(ApiName), " or ".join(get_args(ApiName))),
            ("tokenizer", not self._has_valid_tokenizer, "path:directory"),
            ("tokens", self.tokens < 1, "at least 1"),
            (
                "key_from",
                not _is_variable_name(self.key_from),
                "the name of an environment variable",
            ),
            ("requests", self.concurrency < 1, "at least 1"),
            ("seconds", not self.seconds > 0, "above 0"),
            ("servers", self.is_text_only and bool(self.servers), "a key of this api"),
            ("top_logprobs", self.top_logprobs == 1, "at least 2"),
            (
                "top_logprobs",
                self.top_logprobs != 0 and self.api != "openai-chat",
                "a key of this api, but of openai-chat",
            ),
            ("servers", not self._has_valid_servers, "a list of http://host:port, each once"),
        ):
            if is_invalid:
                value = getattr(self, name)
                # a key that was written instead of a variable's name must not reach a log
                value_text = "something else" if name == "key_from" else str(value)
                raise ConfigError(f"{name}: {value_text} is not {requirement}")

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "ServerSource":
        """Return the source of a `record`, whose other keys are ignored."""
        tokenizer = record["tokenizer"]
        return cls(
            parse_source(record["source"]),
            tokenizer=None if tokenizer is None else parse_source(tokenizer),
            servers=tuple(record.get("servers", ())),
            # records may be older than the keys of applications and of log probabilities
            **{
                key: record[key]
                for key in SERVER_KEYS
                if key not in ("tokenizer", "servers")
                and (key in record or key not in (*EXCHANGE_KEYS, "top_logprobs"))
            },
        )

    @property
    def is_text_only(self) -> bool:
        """Whether the server returns no distributions, so that trees are impossible."""
        return self.api not in _DISTRIBUTION_APIS

    @property
    def is_chat(self) -> bool:
        """Whether a text-only server answers messages instead of continuing texts."""
        return self.api != "openai-completions"

    def check_prompt(self, prompt: Start, name: str) -> None:
        """Check that the API of a model that returns texts alone accepts the form of a prompt.

        Args:
            prompt: a text to continue, or messages to answer.
            name: the name of the model, for the message.

        Raises:
            ConfigError: it does not.
        """
        is_text = isinstance(prompt, str)
        if is_text == self.is_chat:
            form, use = ("start", "user") if is_text else ("messages", "start")
            raise ConfigError(f"{form}: the api {self.api} of {name} does not accept it; use {use}")
        if isinstance(prompt, str):
            return
        if self.api == "json":
            if prompt.tools:
                raise ConfigError(
                    f"tools: the application {name} has its own tools; leave them out"
                )
            check_columns(json.loads(self.body or "null"), prompt.column_values, name)
        elif prompt.columns:
            raise ConfigError(f"columns: {name} is no application; remove the key")

    @property
    def columns(self) -> frozenset[str]:
        """The names of the columns in the body of requests to an application."""
        return frozenset(list_placeholders(json.loads(self.body or "null"))) - {*STANDARD_NAMES}

    @property
    def _has_valid_tokenizer(self) -> bool:
        if self.is_text_only:
            return self.tokenizer is None
        return self.tokenizer is not None and self.tokenizer.scheme == "path"

    @property
    def _has_valid_servers(self) -> bool:
        are_addresses = all(each.startswith(("http://", "https://")) for each in self.servers)
        return are_addresses and len(set(self.addresses)) == len(self.addresses)

    @property
    def concurrency(self) -> int:
        """Largest number of texts that all servers together write at once."""
        default = _VLLM_REQUESTS if self.api == "vllm" else _REQUESTS
        return len(self.addresses) * (default if self.requests is None else self.requests)

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses of all servers, without trailing slashes."""
        return self.address, *(each.rstrip("/") for each in self.servers)

    def select_server(self, address: str) -> "ServerSource":
        """Return the source of one of the servers alone."""
        return replace(self, source=replace(self.source, name=address), servers=())

    @property
    def address(self) -> str:
        """The server's address, without a trailing slash."""
        return self.source.name.rstrip("/")

    def build_url(self, path: str, address: str | None = None) -> str:
        """Return the URL of a path at one of the addresses, by default the first.

        An address with a version, such as `https://host/openai/v1`, replaces that of the path.
        """
        address = self.address if address is None else address
        is_versioned = any(map(_VERSION.fullmatch, address.split("/")[3:]))
        return address + (path.removeprefix("/v1") if is_versioned else path)

    @property
    def local_files(self) -> dict[str, Path]:
        """The files of the tokenizer, by name; empty without one."""
        files = [] if self.tokenizer is None else find_tokenizer_files(self.tokenizer.path)
        return {file.name: file for file in files}

    @property
    def record(self) -> dict[str, Any]:
        """The fields by name, as the record of the model directory contains them."""
        tokenizer = None if self.tokenizer is None else str(self.tokenizer)
        record = vars(self) | {"source": str(self.source), "tokenizer": tokenizer}
        del record["servers"], record["top_logprobs"]
        # records may be older than the keys
        record |= {"top_logprobs": self.top_logprobs} if self.top_logprobs else {}
        return record | ({"servers": list(self.servers)} if self.servers else {})


SERVER_KEYS = tuple(field.name for field in fields(ServerSource) if field.name != "source")
"""Configuration keys of served models only."""


def parse_server_source(source: Source, entry: Mapping[str, Any]) -> ServerSource:
    """Parse the configuration of a served model.

    Args:
        source: address of the server.
        entry: the model's configuration keys, without defaults.

    Raises:
        ConfigError: a key is missing, belongs to other models, or has an invalid value.
    """
    # an unknown api is reported later, with the valid ones
    unused_keys = _DISTRIBUTION_KEYS.get(entry.get("api", ""), ())
    for key in ("api", "tokenizer"):
        if key not in entry and key not in unused_keys:
            raise ConfigError(f"{source}: the key {key!r} is missing; add it")
    for key in unused_keys:
        if key in entry:
            raise ConfigError(f"{key}: the api {entry['api']} returns only texts; remove the key")
    # a provider of texts chooses the next token by its own settings
    has_decoding = entry.get("api") in _DISTRIBUTION_KEYS
    for key in _WEIGHT_KEYS if has_decoding else (*_WEIGHT_KEYS, "decoding"):
        if key in entry:
            raise ConfigError(
                f"{key}: {source} is a server, but the key is for local weights; remove it"
            )
    _check_exchange(source, entry)
    # absent keys take the defaults of `ServerSource`
    settings = {key: entry[key] for key in SERVER_KEYS if key in entry}
    for key in ("body", "headers"):
        if key in settings:
            settings[key] = json.dumps(settings[key], ensure_ascii=False)
    if "servers" in settings:
        settings["servers"] = tuple(each.removeprefix("server:") for each in settings["servers"])
    if "tokenizer" in settings:
        settings["tokenizer"] = parse_source(entry["tokenizer"])
    return ServerSource(source, **settings)


def _check_exchange(source: Source, entry: Mapping[str, Any]) -> None:
    """Check the keys of the requests and responses of the api `json`.

    Raises:
        ConfigError: one is missing, has no effect, or is invalid.
    """
    if entry.get("api") != "json":
        for key in EXCHANGE_KEYS:
            if key in entry:
                raise ConfigError(f"{key}: only the api json has it; remove the key")
        return
    for key in ("body", "answer"):
        if key not in entry:
            raise ConfigError(f"{source}: the key {key!r} is missing; the api json needs it")
    check_body(entry["body"])
    if "{key}" in json.dumps(entry.get("headers", {})) and "key_from" not in entry:
        raise ConfigError("headers: {key} needs a key; add key_from")
    for key in ("answer", "finish"):
        if key in entry and not _POINTER.fullmatch(entry[key]):
            raise ConfigError(f"{key}: {entry[key]!r} is no JSON pointer; write /reply/text")


def _is_variable_name(name: str | None) -> bool:
    return name is None or bool(_VARIABLE_NAME.fullmatch(name))


def is_served(directory: str | Path) -> bool:
    """Return whether a model directory is that of a served model."""
    return (Path(directory) / SERVER_FILE).is_file()
