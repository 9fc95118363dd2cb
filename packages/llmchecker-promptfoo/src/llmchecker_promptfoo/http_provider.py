"""The provider of promptfoo for an application behind HTTP, as a model with the api `json`."""

import json
import re
from collections.abc import Mapping
from typing import Any

from llmchecker_promptfoo.report import NotConverted

_ADDRESS = re.compile(r"https?://[^\s{}]+")
_PROMPT = re.compile(r"\{\{-?\s*prompt\s*-?\}\}")
_NAME = re.compile(r"\{([^\W\d][\w -]*)\}")
"""A name in braces, which a body of a suite would read as a placeholder."""
_EXPRESSION = re.compile(
    r"\s*json((?:\.[A-Za-z_][A-Za-z0-9_]*|\[[0-9]+\]|\[\"[^\"\\]+\"\]|\['[^'\\]+'\])*)\s*;?\s*"
)
_STEP = re.compile(r"\.([A-Za-z0-9_]+)|\[([0-9]+)\]|\[[\"']([^\"']+)[\"']\]")
_KEY = re.compile(r"(Bearer )?\{\{\s*env\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_SECRET = re.compile(r"auth|key|token|secret|cookie", re.IGNORECASE)
"""Names of headers whose values may be secrets."""
_CONFIG_KEYS = ("url", "method", "headers", "body", "transformResponse", "responseParser")


def is_http_provider(keys: Mapping[str, Any]) -> bool:
    """Return whether a provider is an application behind HTTP."""
    name = keys.get("id")
    return isinstance(name, str) and (name in ("http", "https") or bool(_ADDRESS.match(name)))


def convert_http_provider(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a provider to the keys of a model.

    Raises:
        NotConverted: a part of it has no counterpart.
    """
    config = keys.get("config")
    config = config if isinstance(config, Mapping) else {}
    for name in config.keys() - set(_CONFIG_KEYS):
        raise NotConverted(f"{name} of the provider has no counterpart")
    address = config.get("url") or keys["id"]
    if not isinstance(address, str) or not _ADDRESS.fullmatch(address):
        raise NotConverted("the address of the provider is no constant")
    if str(config.get("method", "POST")).upper() != "POST":
        raise NotConverted("a suite sends its requests by POST")
    transform = config.get("transformResponse", config.get("responseParser"))
    headers, key_from = _convert_headers(config.get("headers") or {})
    return {
        "source": address,
        "api": "json",
        "body": _convert_body(config.get("body")),
        "answer": _convert_expression(transform),
        **({"headers": headers} if headers else {}),
        **({"key_from": key_from} if key_from else {}),
    }


def _convert_body(body: Any) -> dict[str, Any]:
    if isinstance(body, str):
        try:
            body = json.loads(body)
        except ValueError as error:
            raise NotConverted("the body of the provider is no JSON") from error
    if not isinstance(body, Mapping) or not _PROMPT.search(json.dumps(body)):
        raise NotConverted("the body of the provider is no object with {{prompt}}")
    converted: dict[str, Any] = _convert_value(body)
    return converted


def _convert_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _convert_value(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_convert_value(each) for each in value]
    if not isinstance(value, str):
        return value
    parts = _PROMPT.split(value)
    if any("{{" in part or "{%" in part for part in parts):
        raise NotConverted("a template in the body of the provider is not {{prompt}}")
    return "{prompt}".join(_NAME.sub(r"{{\1}}", part) for part in parts)


def _convert_expression(expression: Any) -> str:
    """Return the JSON pointer of an expression such as `json.choices[0].text`."""
    match = _EXPRESSION.fullmatch(expression) if isinstance(expression, str) else None
    if match is None:
        raise NotConverted("transformResponse is no path such as json.reply.text")
    steps = (name or index or quoted for name, index, quoted in _STEP.findall(match[1]))
    return "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in steps)


def _convert_headers(headers: Any) -> tuple[dict[str, str], str | None]:
    """Return the headers, and the environment variable with the key; None without one."""
    if not isinstance(headers, Mapping):
        raise NotConverted("the headers of the provider are no mapping")
    converted: dict[str, str] = {}
    key_from: str | None = None
    for name, value in headers.items():
        if name.lower() == "content-type":
            if value != "application/json":
                raise NotConverted("the body of the provider is no JSON")
            continue
        key = _KEY.fullmatch(value) if isinstance(value, str) else None
        if key is not None and key_from is None:
            key_from = key[2]
            # a bearer is sent so by itself
            if name.lower() != "authorization" or not key[1]:
                converted[name] = f"{key[1] or ''}{{key}}"
        elif not isinstance(value, str) or "{" in value or _SECRET.search(name):
            raise NotConverted(f"the header {name} may be a secret; name its variable by key_from")
        else:
            converted[name] = value
    return converted, key_from
