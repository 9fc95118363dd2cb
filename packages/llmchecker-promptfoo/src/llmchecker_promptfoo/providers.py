"""Providers of promptfoo: the decoding and the length of the first one."""

import re
from collections.abc import Mapping
from typing import Any

from llmchecker.suites.suite_file import SuiteKeys
from llmchecker_promptfoo.http_provider import convert_http_provider, is_http_provider
from llmchecker_promptfoo.report import NotConverted, Place, Report

_TOKEN_KEYS = (
    *("max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens"),
    *("maxOutputTokens", "maxTokens", "num_predict"),
)
"""Keys with the number of tokens of an answer, by provider."""
_MAX_LENGTH = 10_000
_DECODING_RANGES = {"temperature": (0, 1_000_000), "top_p": (1e-9, 1)}
"""Settings of the decoding, with their smallest and largest values."""
_ACCESS_KEYS = (
    "apiKey apiKeyEnvar apiHost apiBaseUrl apiVersion organization region deployment_id headers "
    "cost timeout"
).split()
"""Keys that say how to reach a provider, and not how it writes."""
_PYTHON = re.compile(r"python:|file://.*\.py(:\w+)?$")
"""A provider that is a function of Python."""


def find_first_provider(
    content: Mapping[str, Any], place: Place
) -> tuple[Mapping[str, Any], Place]:
    """Return the keys of the first provider, and its place; no keys without one."""
    return next(iter(_list_providers(content, place)), ({}, place))


def convert_providers(
    content: Mapping[str, Any], place: Place, report: Report, *, has_model: bool, has_chats: bool
) -> dict[str, Any]:
    """Convert the first provider: its decoding and length, or an application behind HTTP.

    Args:
        content, place: the configuration.
        report: the list of what is not converted.
        has_model: whether the suite has another model.
        has_chats: whether a prompt is a chat, which an application gets in another form.
    """
    first, *others = _list_providers(content, place) or [({}, place)]
    keys, first_place = first
    application: dict[str, Any] | None = None
    is_python = bool(_PYTHON.match(str(keys.get("id"))))
    if "id" in keys:
        reason = "providers are not converted; name the model by `model`"
        if is_python:
            reason = "a program of a configuration does not run; give its function to lc.texts"
        if is_http_provider(keys) and not has_model:
            try:
                if has_chats:
                    raise NotConverted("the provider gets chats as one text")
                application = convert_http_provider(keys)
            except NotConverted as error:
                reason = f"{error}; name the model by `model`"
        if application is None:
            report.omit(first_place, f"{keys['id']}: {reason}")
    for other, other_place in others:
        reason = "only the settings of the first provider are converted"
        report.omit(other_place, f"{other.get('id')}{_describe(other)}: {reason}")
    settings, settings_place = keys.get("config"), first_place.child("config")
    # the length is written even if it is the default, as longer answers are cut there
    converted: dict[str, Any] = {"length": SuiteKeys.model_fields["length"].default}
    if application is not None:
        return {"model": application, **converted}
    # the settings of a function are its own
    if isinstance(settings, Mapping) and not is_python:
        converted |= _convert_settings(settings, settings_place, report)
    return converted


def _describe(provider: Mapping[str, Any]) -> str:
    """Return the decoding of a provider in parentheses; empty without one."""
    settings = provider.get("config")
    if not isinstance(settings, Mapping):
        return ""
    parts = [f"{name} {settings[name]}" for name in _DECODING_RANGES if name in settings]
    return f" ({', '.join(parts)})" if parts else ""


def _list_providers(
    content: Mapping[str, Any], place: Place
) -> list[tuple[Mapping[str, Any], Place]]:
    key = "targets" if "targets" in content else "providers"
    value, place = content.get(key), place.child(key)
    providers: list[tuple[Mapping[str, Any], Place]] = []
    for entry, entry_place in place.list_items(value):
        if isinstance(entry, str):
            providers.append(({"id": entry}, entry_place))
        elif isinstance(entry, Mapping) and "id" not in entry and len(entry) == 1:
            # the old form has the id as its only key
            ((name, keys),) = entry.items()
            keys = keys if isinstance(keys, Mapping) else {}
            providers.append(({"id": name, **keys}, entry_place.child(name)))
        elif isinstance(entry, Mapping):
            providers.append((entry, entry_place))
    return providers


def _convert_settings(settings: Mapping[str, Any], place: Place, report: Report) -> dict[str, Any]:
    """Convert the settings of a provider, and list the others."""
    converted: dict[str, Any] = {}
    decoding: dict[str, Any] = {}
    for name, value in settings.items():
        if name in _ACCESS_KEYS or value is None:
            continue
        if name in _DECODING_RANGES and _is_within(value, *_DECODING_RANGES[name]):
            decoding[name] = value
        elif name in _TOKEN_KEYS and _is_within(value, 1, _MAX_LENGTH) and type(value) is int:
            converted["length"] = value
        elif name in (*_DECODING_RANGES, *_TOKEN_KEYS):
            report.omit(place.child(name), f"{name} {value} has no counterpart in a suite")
        else:
            # a value may be a secret
            report.omit(place.child(name), f"{name} of the provider has no counterpart")
    # other settings have no effect on the most probable token
    if decoding.get("temperature") == 0:
        return {"decoding": "greedy"} | converted
    return ({"decoding": decoding} if decoding else {}) | converted


def _is_within(value: Any, low: float, high: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
