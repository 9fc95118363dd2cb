"""Texts as Markdown, in which no text becomes a link, a picture, a mention or HTML.

    max words 8                  max words 8
    contains "[a](b) @team"      `contains "[a](b) @team"`

A text without marks stays as it is, and any other becomes code, in which GitHub's Markdown obeys no
mark. So the source of a page is as readable as the page.
"""

import re
from collections.abc import Iterable

from llmchecker.utils.printable_text import escape_unprintable

_PLAIN = re.compile(
    r"""(?:
        [^\W_] | [^\x00-\x7f] | [ ,.;()'"%=+/?-]  # letters, digits and harmless punctuation
        | (?<=[^\W_])_(?=[^\W_])                  # an underscore within a word
        | :(?=[ ]|$) | (?<=[0-9]):(?=[0-9])       # no emoji, no address
        | (?<=[ ])(?:[<>]=?|&)(?=[ ])             # no element, no entity
        | !(?=[ ]|$)                              # no picture
        | \[[0-9., +e-]*\](?![\[(:])              # an interval, which is no link
    )*""",
    re.VERBOSE,
)
_ACTIVE = re.compile(r"^(?:[=+-]+|[0-9]+[.)])(?:[ ]|$)|www\.|\bGH-[0-9]", re.IGNORECASE)
"""Beginnings of lists and rules, addresses and references of plain texts."""


def format_text(text: str) -> str:
    """Format a text within a line: unchanged without marks, else as code."""
    shown = escape_unprintable(text)
    words = shown.strip(" ")
    # a cell may be padded
    if _PLAIN.fullmatch(words) and not _ACTIVE.search(words):
        return shown
    return format_code(text)


def format_code(text: str) -> str:
    """Format a text as code within a line; empty for an empty text."""
    shown = escape_unprintable(text)
    if not shown:
        return ""
    fence = "`" * (1 + _find_longest_fence(shown))
    ends = {shown[0], shown[-1]}
    # a backtick would join the fence, and readers remove the spaces of both ends
    space = " " if "`" in ends or (ends == {" "} and shown.strip()) else ""
    return f"{fence}{space}{shown}{space}{fence}"


def format_cell(text: str) -> str:
    """Format a text as a cell of a table."""
    return _escape_bars(format_text(text), text)


def format_code_cell(text: str) -> str:
    """Format a text as code in a cell of a table."""
    return _escape_bars(format_code(text), text)


def _escape_bars(markdown: str, text: str) -> str:
    """Escape the bars of a formatted text, at which a table is divided even inside of code."""
    if re.search(r"\\\|", text) is None:
        return markdown.replace("|", "\\|")
    # readers disagree on a backslash before a bar, so that no mark is left
    shown = re.sub(r"[^\w ]|_", lambda mark: f"&#{ord(mark[0])};", escape_unprintable(text))
    return f"<code>{shown}</code>"


def format_block(lines: Iterable[str]) -> str:
    """Format lines of text as a block of code."""
    shown = [escape_unprintable(line) for line in lines]
    fence = "`" * max(3, 1 + max(map(_find_longest_fence, shown), default=0))
    return "\n".join([f"{fence}text", *shown, fence])


def _find_longest_fence(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
