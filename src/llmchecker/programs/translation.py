"""C text made ready for the parser: the first translation phases (C11 5.1.1.2), in their order.

First, a line that ends in a backslash is joined to the next, even inside a `//` comment. Then
comments become spaces. Then directives are read, of which only one is supported: `#include` of a
header of the C library. No file is ever opened. A header declares nothing here, since known
functions need no declaration. All else that could give the text another meaning to a compiler is
refused: trigraphs, digraphs, macros, pragmas, attributes, and words that are reserved for the
compiler.
"""

import re

from llmchecker.errors import UnreadableProgram, UnsupportedProgram

HEADERS = frozenset(
    f"{name}.h" for name in ("assert", "limits", "stdbool", "stddef", "stdint", "stdio", "stdlib")
)
"""Headers that may be included. None of their macros changes a program that is covered."""

STOPS = frozenset(("abort", "exit"))
"""Functions that end the run."""

FAILURES = frozenset(("reach_error", "__VERIFIER_error", "__assert_fail"))
"""Functions that must never be called."""

_PIECES = re.compile(
    r"""(?P<text>"(?:\\.|[^"\\\n])*") | (?P<character>'(?:\\.|[^'\\\n])*')
    | (?P<block>/\*.*?\*/) | (?P<line>//[^\n]*) | (?P<code>.)""",
    flags=re.DOTALL | re.VERBOSE,
)

_TRIGRAPH = re.compile(r"\?\?[=/'()!<>-]")
_DIGRAPH = re.compile(r"<:|:>|<%|%>|%:")
_FOREIGN = re.compile(r"[^\t\n -~]|[\\@`\"']")
_WORD = re.compile(r"(?<![\w$])[A-Za-z_$][\w$]*", flags=re.ASCII)
_RESERVED = re.compile(r"__|_[A-Z]")
_KNOWN_WORD = re.compile(r"_Bool|__VERIFIER_\w+|__ESBMC_\w+|__assert_fail")
_GNU_WORDS = frozenset(("asm", "typeof"))

_ATTRIBUTES = r"__attribute__\s*\(\(\s*{0}(?:\s*,\s*{0})*\s*\)\)".format(
    r"(?:noreturn|__noreturn__|nothrow|__nothrow__|leaf|__leaf__)"
)
_PROTOTYPE = re.compile(
    rf"(?<![\w$])(?P<kept>(?:extern\s+)?void\s+(?:{'|'.join(sorted(STOPS | FAILURES))})"
    r"\s*\([^(){};]*\))"
    rf"(?P<attributes>(?:\s*{_ATTRIBUTES})*)\s*;"
)
"""A declaration of a known function that never returns; only there an attribute may say so."""


def translated(source: str, file: str) -> str:
    """The text without comments, directives and the contents of strings; lines keep their numbers.

    Args:
        source: the C text.
        file: the file's name in messages.

    Raises:
        UnsupportedProgram: a compiler may read the text otherwise than the parser does.
        UnreadableProgram: a string or a character constant does not end.
    """
    text = _without_comments(_joined(_unix_lines(source, file), file), file)
    text = _without_includes(text, file)
    _refuse_reserved_words(text, file)
    return _PROTOTYPE.sub(_without_attributes, text)


def _unix_lines(source: str, file: str) -> str:
    """The text with `\\n` at the ends of lines.

    A lone carriage return is refused: it ends a line for some programs and not for others.
    """
    text = source.replace("\r\n", "\n")
    _refuse_match(re.search("\r", text), text, file, "a carriage return inside a line")
    # The compiler's options decide whether it replaces trigraphs.
    _refuse_match(_TRIGRAPH.search(text), text, file, "a trigraph")
    return text


def _joined(text: str, file: str) -> str:
    """The text with each line that ends in a backslash joined to the next (phase 2).

    One empty line follows for each that was joined, so that later lines keep their numbers.
    """
    # Some compilers join such lines too; the standard does not.
    found = re.search(r"\\[ \t\v\f]+$", text, flags=re.MULTILINE)
    _refuse_match(found, text, file, "a backslash before spaces at the end of a line")
    joined: list[str] = []
    waiting = 0
    for line in text.split("\n"):
        if waiting:
            joined[-1] = joined[-1].removesuffix("\\") + line
        else:
            joined.append(line)
        if line.endswith("\\"):
            waiting += 1
        elif waiting:
            joined += [""] * waiting
            waiting = 0
    return "\n".join(joined)


def _without_comments(text: str, file: str) -> str:
    """The text with a space for each comment (phase 3), and with empty strings.

    Strings are emptied because they are mere messages in every program that is covered.
    """
    parts: list[str] = []
    line = 1
    directive = False  # whether the line is a directive: messages show those with their strings
    for match in _PIECES.finditer(text):
        piece = match.group()
        kind = match.lastgroup
        if kind in ("text", "character") and parts and re.match(r"[\w$]", parts[-1][-1:]):
            raise UnsupportedProgram(f"{file}:{line}: a prefix of {piece} is not supported")
        if kind == "code" and piece in "\"'":
            raise UnreadableProgram(f"{file}:{line}: {piece} is opened and not closed")
        if kind == "code" and _FOREIGN.match(piece):
            raise UnsupportedProgram(f"{file}:{line}: the character {piece!r} is not supported")
        lines = piece.count("\n")
        directive = not lines and (directive or piece == "#")
        if kind == "text" and not directive:
            piece = '""'
        parts.append({"block": " " + "\n" * lines, "line": " "}.get(kind, piece))
        line += lines
    return "".join(parts)


def _without_includes(text: str, file: str) -> str:
    """The text without its directives (phase 4); refused are all but known `#include`s."""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if "#" not in _masked(line):
            continue
        found = re.fullmatch(r"[ \t]*#[ \t]*include[ \t]*<([^<>]*)>[ \t]*", line)
        if not found or found[1] not in HEADERS:
            known = ", ".join(f"<{name}>" for name in sorted(HEADERS))
            hint = f"; what may be included: {known}" if "include" in line else ""
            raise UnsupportedProgram(f"{file}:{number}: {line.strip()!r} is not supported{hint}")
        lines[number - 1] = ""
    return "\n".join(lines)


def _refuse_reserved_words(text: str, file: str) -> None:
    """Refuse digraphs, and words that belong to the compiler: `__attribute__`, `asm`, …"""
    # Prototypes from a library's headers give their parameters reserved names, which is harmless.
    masked = _masked(_PROTOTYPE.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text))
    _refuse_match(_DIGRAPH.search(masked), masked, file, "a digraph")
    for match in _WORD.finditer(masked):
        word = match.group()
        reserved = _RESERVED.match(word) and not _KNOWN_WORD.fullmatch(word)
        if reserved or word in _GNU_WORDS:
            _refuse_match(match, masked, file, f"{word!r}, a word of the compiler,")


def _without_attributes(match: re.Match[str]) -> str:
    return match["kept"] + re.sub(r"[^\n]", " ", match["attributes"]) + ";"


def _masked(text: str) -> str:
    """The text with spaces instead of character constants and strings."""
    return "".join(
        " " * len(match.group()) if match.lastgroup in ("text", "character") else match.group()
        for match in _PIECES.finditer(text)
    )


def _refuse_match(match: re.Match[str] | None, text: str, file: str, what: str) -> None:
    if match:
        line = text.count("\n", 0, match.start()) + 1
        raise UnsupportedProgram(f"{file}:{line}: {what} is not supported")
