"""Short names of models of well-known providers.

    openai:gpt-4o-mini           https://api.openai.com, key in OPENAI_API_KEY
    anthropic:claude-haiku-4-5   https://api.anthropic.com, key in ANTHROPIC_API_KEY
    openrouter:qwen/qwen3-8b     https://openrouter.ai/api, key in OPENROUTER_API_KEY
    ollama:llama3.2:3b           http://127.0.0.1:11434, no key

A short name stands for the keys of a model that returns texts alone. Other keys, such as `prices`
and `requests`, are as for any other server.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llmchecker.errors import ConfigError
from llmchecker.models.servers.settings import ApiName


@dataclass(frozen=True)
class _Provider:
    """A provider.

    Attributes:
        address: the address before the path of its API.
        api: its API.
        key_from: the usual environment variable with its key; None for no key.
    """

    address: str
    api: ApiName
    key_from: str | None


_PROVIDERS = {
    "openai": _Provider("https://api.openai.com", "openai-chat", "OPENAI_API_KEY"),
    "anthropic": _Provider("https://api.anthropic.com", "anthropic", "ANTHROPIC_API_KEY"),
    "openrouter": _Provider("https://openrouter.ai/api", "openai-chat", "OPENROUTER_API_KEY"),
    "ollama": _Provider("http://127.0.0.1:11434", "ollama", None),
}

PROVIDER_SCHEMES = tuple(f"{name}:" for name in _PROVIDERS)
"""Beginnings of short names."""

_NAMED_KEYS = ("api", "served_as", "tokenizer")
"""Keys that a short name has itself, or that its API rejects."""


def expand_provider(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a model with those that a short name as its source stands for.

    Args:
        keys: the keys of the model; without a short name they are returned unchanged.

    Raises:
        ConfigError: the short name names no model, or a key contradicts it.
    """
    source = keys.get("source")
    if not isinstance(source, str) or not source.startswith(PROVIDER_SCHEMES):
        return dict(keys)
    scheme, _, name = source.partition(":")
    provider = _PROVIDERS[scheme]
    if not name or name != name.strip():
        raise ConfigError(f"{source!r} names no model; write {scheme}:MODEL")
    for key in _NAMED_KEYS:
        if keys.get(key) is not None:
            raise ConfigError(f"{key}: {source} names the API and the model; remove the key")
    defaults = {"label": source, "api": provider.api, "served_as": name}
    if provider.key_from is not None:
        defaults["key_from"] = provider.key_from
    given = {key: value for key, value in keys.items() if value is not None and value != ""}
    return {**defaults, **given, "source": f"server:{provider.address}"}
