"""Texts of models and users, and values of their files, in a printable form."""

import json
from collections.abc import Mapping

_JOINERS = "\u200c\u200d"
"""Unprintable characters that join emoji and letters of some scripts."""
_MAX_LEVELS = 20
"""Maximum depth of nested lists and mappings in a message."""


def escape_unprintable(text: str) -> str:
    """Replace unprintable characters, also line breaks, by Python's escapes."""
    return "".join(c if c.isprintable() or c in _JOINERS else repr(c)[1:-1] for c in text)


def shorten(text: str, max_characters: int) -> str:
    """Return a text, or its first characters and an ellipsis."""
    return text if len(text) <= max_characters else f"{text[:max_characters]}…"


def quote_value(value: object, max_characters: int = 100) -> str:
    """Quote a value of YAML or JSON in a message, shortened: `null`, `'a text'`, `[1, true]`."""
    return shorten(_quote(value, _MAX_LEVELS), max_characters)


def _quote(value: object, levels: int) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, Mapping | list) and not levels:
        return "…"
    if isinstance(value, Mapping):
        items = (f"{_quote(key, 0)}: {_quote(item, levels - 1)}" for key, item in value.items())
        return f"{{{', '.join(items)}}}"
    if isinstance(value, list):
        return f"[{', '.join(_quote(item, levels - 1) for item in value)}]"
    try:
        return repr(value)
    # Python refuses to print integers of thousands of digits
    except ValueError:
        return "a huge number"
