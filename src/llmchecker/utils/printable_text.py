"""Texts of models and users in a printable form."""

_JOINERS = "\u200c\u200d"
"""Unprintable characters that join emoji and letters of some scripts."""


def escape_unprintable(text: str) -> str:
    """Replace unprintable characters, also line breaks, by Python's escapes."""
    return "".join(c if c.isprintable() or c in _JOINERS else repr(c)[1:-1] for c in text)
