"""Short names of models of well-known providers.

    openai:gpt-4o-mini           https://api.openai.com, key in OPENAI_API_KEY
    anthropic:claude-haiku-4-5   https://api.anthropic.com, key in ANTHROPIC_API_KEY
    openrouter:qwen/qwen3-8b     https://openrouter.ai/api, key in OPENROUTER_API_KEY
    gemini:gemini-2.5-flash      https://generativelanguage.googleapis.com, key in GEMINI_API_KEY
    ollama:llama3.2:3b           http://127.0.0.1:11434, no key

A short name stands for the keys of a model that returns texts alone. Other keys, such as `prices`
and `requests`, are as for any other server.
"""

import re
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
    "gemini": _Provider(
        "https://generativelanguage.googleapis.com/v1beta/openai", "openai-chat", "GEMINI_API_KEY"
    ),
    "ollama": _Provider("http://127.0.0.1:11434", "ollama", None),
}

_CLOUDS = {
    "azure": ("https://NAME.openai.azure.com/openai/v1", "AZURE_OPENAI_API_KEY"),
    "bedrock": (
        "https://bedrock-runtime.REGION.amazonaws.com/openai/v1",
        "AWS_BEARER_TOKEN_BEDROCK",
    ),
}
"""Address and variable of providers whose addresses depend on the account."""

_USUAL_MODELS = (
    (re.compile(r"(gpt-[3-9]|chatgpt-|o[1-9](-|$))[^/]*$"), "openai"),
    (re.compile(r"claude-[^/]*$"), "anthropic"),
    (re.compile(r"gemini-[^/]*$"), "gemini"),
    (re.compile(r"(llama|mistral|mixtral|qwen|gemma|phi|deepseek)-?[\w.-]*(:[^/]*)?$"), "ollama"),
)
"""Usual names of the models of providers."""

_OTHER_TOOLS = re.compile(r"(azure|bedrock|anthropic|gemini|google|ollama|openrouter)[:/](.+)")
"""A provider and its model as other tools write them."""

_OLLAMA_PORT = re.compile(r"://[^/]*:11434(/|$)")

PROVIDER_SCHEMES = tuple(f"{name}:" for name in _PROVIDERS)
"""Beginnings of short names."""

_NAMED_KEYS = ("api", "served_as", "tokenizer")
"""Keys that a short name has itself, or that its API rejects."""


def suggest_name(name: str) -> str | None:
    """Return what to write for a provider's model under another name; None if it is unknown."""
    for pattern, scheme in _USUAL_MODELS:
        if pattern.match(name):
            return f"{scheme}:{name}"
    match = _OTHER_TOOLS.fullmatch(name)
    if match is None:
        return None
    provider, model = match[1].replace("google", "gemini"), match[2]
    if provider not in _CLOUDS:
        return f"{provider}:{model}"
    address, key_from = _CLOUDS[provider]
    return f"{{source: {address}, api: openai-chat, served_as: {model}, key_from: {key_from}}}"


def suggest_api(address: str) -> str:
    """Return what to write for an address without an API."""
    if _OLLAMA_PORT.search(address):
        return "ollama:MODEL"
    return f"{{source: {address}, api: openai-chat, served_as: MODEL}}"


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
