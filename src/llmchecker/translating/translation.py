"""C text made ready for the parser: the first translation phases (C11 5.1.1.2), in their order.

First, a line that ends in a backslash is joined to the next, even inside a `//` comment. Then
comments become spaces. Then directives are carried out (`preprocessing`).
All else that could give the text another meaning to a compiler is refused: trigraphs, digraphs,
attributes that change what a program does, and words to which the compiler gives a meaning.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

from llmchecker.errors import UnreadableProgram, UnsupportedProgram
from llmchecker.translating.contracts import required
from llmchecker.translating.preprocessing import preprocessed

STOPS = frozenset(("abort", "exit"))
"""Functions that end the run."""

FAILURES = frozenset(("reach_error", "__VERIFIER_error", "__assert_fail"))
"""Functions that must never be called."""

_PIECES = re.compile(
    r"""(?P<text>"(?:\\.|[^"\\\n])*") | (?P<character>'(?:\\.|[^'\\\n])*')
    | (?P<block>/\*.*?\*/) | (?P<line>//[^\n]*) | (?P<code>.)""",
    flags=re.DOTALL | re.VERBOSE,
)

_ASSERTION = re.compile(r"/[/*]@\s*assert\b\s*(?P<said>.+?)\s*;?\s*", flags=re.DOTALL)
_IN_C = re.compile(r"(?:(?!==>|-->|\^\^)[\w\s\[\]().<>=!&|+*/%?:-])+")
"""Words and operators that C has too."""

_MOST_LOOKED_AT = 2000
"""Characters before a remark that are looked at: more is never white space alone."""

REMARK = "__VERIFIER_remark"
"""The function whose calls stand for the assertions in remarks."""

_TRIGRAPH = re.compile(r"\?\?[=/'()!<>-]")
_DIGRAPH = re.compile(r"<:|:>|<%|%>|%:")
_FOREIGN = re.compile(r"[^\t\n -~]|[\\@`\"']")
_ATTRIBUTE = re.compile(r"(?<![\w$])__attribute(?:__)?\s*\(\s*\(")
_MOST_BEFORE = 400
"""Characters before an attribute that may belong to its declaration."""

_WORD = re.compile(r"(?<![\w$])[A-Za-z_$][\w$]*", flags=re.ASCII)

_RENAMED = {
    "__extension__": "",
    "__restrict": "",
    "__restrict__": "",
    "restrict": "",
    "__inline": "inline",
    "__inline__": "inline",
    "__const": "const",
    "__const__": "const",
    "__signed": "signed",
    "__signed__": "signed",
    "__volatile__": "volatile",
}
"""Words of gcc that mean what a word of C means, or nothing to a program that is covered."""

_COMPILER = re.compile(
    r"_Alignas|_Alignof|_Atomic|_Complex|_Generic|_Imaginary|_Noreturn|_Pragma|_Static_assert"
    r"|_Thread_local|_Float\w*|_Decimal\w*|_Sat|_Fract|_Accum|_BitInt|asm|typeof|typeof_unqual"
    r"|__(alignof|asm|attribute|complex|imag|real|typeof|label|FUNCTION|PRETTY_FUNCTION|null"
    r"|thread|auto_type|volatile|seg_fs|seg_gs|transaction_atomic|transaction_relaxed)(__)?"
    r"|__(?!builtin_(?:bswap(?:16|32|64)|alloca)\b)(builtin|sync|atomic|has|is|u?int128|float|fp|bf)\w*"
    r"|__func__|__[A-Z0-9_]+__"
)
"""Words to which a compiler gives a meaning of its own.

Functions of gcc that preprocessed headers use are refused where they are called. Another word that
begins with two underscores, or with one and a capital letter, may be a name that
the text declares. Where it declares none, the name is refused like any other.
"""

_IDLE = frozenset(
    "noinline nothrow leaf unused used pure const nonnull warn_unused_result always_inline cold "
    "hot format deprecated artificial access returns_nonnull no_instrument_function packed aligned "
    "transparent_union malloc alloc_size visibility sentinel noclone".split()
)
"""Attributes of gcc that say nothing of what a program does, or only of how it lies in memory."""

_NEVER_RETURNING = re.compile(
    rf"(?<![\w$])void\s+(?:{'|'.join(sorted(STOPS | FAILURES))})\s*\([^(){{}};]*\)\s*"
)
"""The beginning of a declaration behind which an attribute may say: it never returns."""

_DECLARED = re.compile(r"(?<![\w$])([A-Za-z_]\w*)\s*\([^(){};]*\)\s*\Z")
"""The end of a function's declaration, whose name is in the group."""

_OF_MODE = re.compile(
    r"(?<![\w$])typedef(\s+(?:un)?signed)?\s+int\s+(\w+)\s+__attribute__\s*\(\s*\(\s*"
    r"__mode__\s*\(\s*__(QI|HI|SI|DI|word)__\s*\)\s*\)\s*\)\s*;"
)
_MODES = {"QI": "char", "HI": "short", "SI": "int", "DI": "long", "word": "long"}
"""Types of gcc by their width, in the words of C."""


def translated(source: str, file: str, beside: Mapping[str, str] = MappingProxyType({})) -> str:
    """The text without comments, directives and the contents of strings; lines keep their numbers.

    Args:
        source: the C text.
        file: the file's name in messages.
        beside: the texts of the headers that lie beside it, by name.

    Raises:
        UnsupportedProgram: a compiler may read the text otherwise than the parser does.
        UnreadableProgram: a string or a character constant does not end.
    """
    headers = {name: _of_code(text, name) for name, text in beside.items()}
    text = preprocessed(_of_code(source, file), file, headers)
    text = _WORD.sub(lambda match: _RENAMED.get(match.group(), match.group()), text)
    text = _without_attributes(_OF_MODE.sub(_in_c, text))
    _refuse_compiler_words(text, file)
    return text


def _of_code(source: str, file: str) -> str:
    """The text of one file with lines joined and without comments (phases 1 to 3)."""
    _refuse_match(re.search(REMARK, source), source, file, f"the name {REMARK}")
    return _without_comments(_joined(_unix_lines(source, file), file), file)


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
        if kind in ("block", "line"):
            said = "" if directive else _asserted(piece, "".join(parts[-_MOST_LOOKED_AT:]))
            said = said or required(piece, text[match.end() : match.end() + _MOST_LOOKED_AT])
            piece = f" {said}" + "\n" * lines
        parts.append(piece)
        line += lines
    return "".join(parts)


def _asserted(remark: str, before: str) -> str:
    """The statement for a remark that asserts something, `//@ assert x > 0;`; else nothing.

    Args:
        before: the end of the text before it. Behind what is no whole statement, a statement
            would mean something else.

    """
    found = _ASSERTION.fullmatch(remark.removesuffix("*/"))
    if not found:
        return ""
    if not re.search(r"[;{}:]\s*\Z", before):
        return f"{REMARK}_inside_a_statement();"
    said = " ".join(found["said"].split())
    said = re.sub(r"\\(true|false)\b", lambda match: str(int(match[1] == "true")), said)
    return f"{REMARK}({said});" if _IN_C.fullmatch(said) else f"{REMARK}_beyond_C();"


def _in_c(typedef: re.Match[str]) -> str:
    """A typedef of an integer of some width, without gcc's word for the width; lines stay."""
    sign, name, mode = typedef.groups()
    lines = "\n" * typedef.group().count("\n")
    return f"typedef {(sign or ' signed').strip()} {_MODES[mode]} {name};{lines}"


def _without_attributes(text: str) -> str:
    """The text without attributes that say nothing of what a program does; others stay."""
    parts: list[str] = []
    place = 0
    while found := _ATTRIBUTE.search(text, place):
        end = _closed(text, found.end())
        if end is None:
            break
        before = "".join((*parts, text[place : found.start()]))[-_MOST_BEFORE:]
        known = _IDLE
        declared = _DECLARED.search(before)
        if re.search(_NEVER_RETURNING.pattern + r"\Z", before) or (
            # What nobody calls may return or not.
            declared and len(re.findall(rf"(?<![\w$]){declared[1]}(?![\w$])", text)) == 1
        ):
            known = _IDLE | {"noreturn"}
        inside = text[found.end() : end].rstrip()
        names = re.findall(r"\w+", _without_parentheses(inside))
        kept = "" if {name.strip("_") for name in names} <= known else text[found.start() : end]
        lost = "\n" * text.count("\n", found.start(), end) if not kept else ""
        parts += [text[place : found.start()], kept, lost]
        place = end
    return "".join((*parts, text[place:]))


def _closed(text: str, place: int) -> int | None:
    """The place behind the two parentheses that were opened before a place."""
    depth = 2
    for at in range(place, len(text)):
        depth += (text[at] == "(") - (text[at] == ")")
        if depth == 0:
            return at + 1
    return None


def _without_parentheses(text: str) -> str:
    """What stands outside of all parentheses in the inside of an attribute."""
    parts, depth = [], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        parts.append(character if depth == 0 else " ")
    return "".join(parts)


def _refuse_compiler_words(text: str, file: str) -> None:
    """Refuse digraphs, and words that belong to the compiler: `__attribute__`, `asm`, …"""
    masked = _masked(text)
    _refuse_match(_DIGRAPH.search(masked), masked, file, "a digraph")
    for match in _WORD.finditer(masked):
        if _COMPILER.fullmatch(match.group()):
            _refuse_match(match, masked, file, f"{match.group()!r}, a word of the compiler,")


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
