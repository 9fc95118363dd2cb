"""Names of figures, and the patterns that define them."""

import re
from collections.abc import Iterable


def find_mismatches(figures: Iterable[str], definitions: Iterable[str]) -> list[str]:
    """Return the figures without a definition, and the definitions without a figure.

    In a definition, a word in braces stands for any text.
    """
    figures = list(figures)
    patterns = {
        name: re.compile(re.sub(r"\\\{\w+\\\}", "(.+)", re.escape(name))) for name in definitions
    }
    undefined = [f for f in figures if not any(p.fullmatch(f) for p in patterns.values())]
    unused = [name for name, p in patterns.items() if not any(map(p.fullmatch, figures))]
    return undefined + unused
