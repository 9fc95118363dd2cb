"""Translation phases of C text before parsing (C11 5.1.1.2), in order.

First, a line that ends in a backslash is joined to the next, even inside a `//` comment. Then
comments are replaced by spaces, and assertions in them by calls. Then `preprocessor` executes the
directives. Other text with another meaning for a compiler is rejected: trigraphs, digraphs,
attributes that change a program's behaviour, and words of the compiler.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

from llmchecker.errors import UnreadableProgram, UnsupportedProgram
from loop_invariants.frontend.preprocessing.preprocessor import (
    GCC_KEYWORDS,
    format_directive,
    preprocess,
    restore_lines,
)

STOP_FUNCTIONS = frozenset(("abort", "exit"))
"""Functions that end the run."""

ERROR_FUNCTION = "__LLMChecker_error"
"""Function whose calls represent the errors that the user names."""

NAMED_ASSERTION = "__LLMChecker_assert"
"""Function whose calls represent the assertions that the user names."""

FAILURE_FUNCTIONS = frozenset(("reach_error", "__VERIFIER_error", "__assert_fail", ERROR_FUNCTION))
"""Functions that must never be called."""

_LEXEME = re.compile(
    r"""(?P<text>"(?:\\.|[^"\\\n])*") | (?P<character>'(?:\\.|[^'\\\n])*')
    | (?P<block>/\*.*?\*/) | (?P<line>//[^\n]*) | (?P<code>.)""",
    flags=re.DOTALL | re.VERBOSE,
)

_ACSL_ASSERTION = re.compile(r"/[/*]@\s*assert\b\s*(?P<said>.+?)\s*;?\s*", flags=re.DOTALL)
_C_EXPRESSION = re.compile(r"(?:(?!==>|-->|\^\^)[\w\s\[\]().<>=!&|+*/%?:-])+")
"""Text of words and operators that C also has."""

_MAX_CONTEXT = 2000
"""Maximum number of characters of context around a comment."""

ANNOTATION_FUNCTION = "__VERIFIER_remark"
"""Function whose calls represent the assertions in annotations."""

_TRIGRAPH = re.compile(r"\?\?[=/'()!<>-]")
_DIGRAPH = re.compile(r"<:|:>|<%|%>|%:")
_FORBIDDEN_CHARACTER = re.compile(r"[^\t\n -~]|[\\@`\"']")
_FOREIGN_CHARACTER = re.compile(r"[^\t\n\v\f\r -~]|[@`]")
"""Characters of no token of C, unless they are letters."""

_LINE_MARKER = re.compile(
    r"^[ \t]*#[ \t]*(?:line[ \t]+)?\d+(?:[ \t]+\"[^\"\n]*\")?[ \t\d]*$", flags=re.MULTILINE
)
"""A line marker of an earlier preprocessing: the line of another file."""

_ATTRIBUTE = re.compile(r"(?<![\w$])__attribute(?:__)?\s*\(\s*\(")
_MAX_DECLARATION_LENGTH = 400
"""Maximum number of characters of a declaration before an attribute."""

_WORD = re.compile(r"(?<![\w$])[A-Za-z_$][\w$]*", flags=re.ASCII)

_COMPILER_WORD = re.compile(
    r"_Alignas|_Alignof|_Atomic|_Complex|_Generic|_Imaginary|_Noreturn|_Pragma"
    r"|_Thread_local|_Float\w*|_Decimal\w*|_Sat|_Fract|_Accum|_BitInt|asm|typeof|typeof_unqual"
    r"|__(alignof|asm|attribute|complex|imag|real|typeof|label|FUNCTION|PRETTY_FUNCTION|null"
    r"|thread|auto_type|volatile|seg_fs|seg_gs|transaction_atomic|transaction_relaxed)(__)?"
    r"|__(?!builtin_(?:bswap(?:16|32|64)|alloca)\b)(builtin|sync|atomic|has|is|u?int128|float|fp|bf)\w*"
    r"|__func__|__[A-Z0-9_]+__"
)
"""Words with a meaning of the compiler.

Functions of gcc that preprocessed headers use are rejected at their calls. Other words that begin
with two underscores, or with one and a capital letter, may be names that the text declares. An
undeclared name is rejected like any other.
"""

_IGNORED_ATTRIBUTES = frozenset(
    "noinline nothrow leaf unused used pure const nonnull warn_unused_result always_inline cold "
    "hot format deprecated artificial access returns_nonnull no_instrument_function packed aligned "
    "transparent_union malloc alloc_size visibility sentinel noclone".split()
)
"""Attributes of gcc without an effect on behaviour, or only on memory layout."""

_PROMISES = frozenset("pure const nonnull returns_nonnull malloc alloc_size".split())
"""Attributes that promise something to the compiler, which a definition in the text may break."""

_DEFINITION = re.compile(r"(?<![\w$])([A-Za-z_]\w*)\s*\((?:[^(){};]|\([^(){};]*\))*\)\s*\{")
"""Beginning of a function's definition; the group is the name."""

_NAMES_OF_STOPS = "|".join(sorted(STOP_FUNCTIONS | FAILURE_FUNCTIONS))
_NORETURN_DECLARATION = re.compile(rf"(?<![\w$])void\s+(?:{_NAMES_OF_STOPS})\s*\([^(){{}};]*\)\s*")
"""Beginning of a declaration that a `noreturn` attribute may follow."""

_FUNCTION_DECLARATION = re.compile(r"(?<![\w$])([A-Za-z_]\w*)\s*\([^(){};]*\)\s*\Z")
"""End of a function's declaration; the group is the name."""

_MODE_TYPEDEF = re.compile(
    r"(?<![\w$])typedef(\s+(?:un)?signed)?\s+int\s+(\w+)\s+__attribute__\s*\(\s*\(\s*"
    r"__mode__\s*\(\s*__(QI|HI|SI|DI|word)__\s*\)\s*\)\s*\)\s*;"
)
_MODE_TYPES = {"QI": "char", "HI": "short", "SI": "int", "DI": "long", "word": "long"}
"""C types for gcc's modes of integer width."""


def translate(
    source: str, file: str, sibling_files: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Remove comments, directives and string contents; lines keep their numbers.

    Args:
        source: C text.
        file: name of the file in messages.
        sibling_files: texts of the headers in the same folder, by name.

    Raises:
        UnsupportedProgram: a compiler may interpret the text differently from the parser.
        UnreadableProgram: a string or a character constant has no end.
    """
    text = _apply_early_phases(source, file)
    # A text without directives stays as it is.
    if re.search(r"^\s*#", text, flags=re.MULTILINE):
        headers = {name: _apply_early_phases(part, name) for name, part in sibling_files.items()}
        output = preprocess(text, file, headers)
        text = _empty_strings(restore_lines(output, file, text.count("\n") + 1))
    text = _WORD.sub(lambda match: GCC_KEYWORDS.get(match.group(), match.group()), text)
    text = _remove_attributes(_MODE_TYPEDEF.sub(_rewrite_mode_typedef, text))
    # After preprocessing, so that words in skipped parts do not matter.
    _check_compiler_words(text, file)
    return text


def _apply_early_phases(source: str, file: str) -> str:
    """Join lines and remove comments in the text of one file (phases 1 to 3)."""
    # A function of this name would be confused with an annotation.
    _check_no_match(
        re.search(ANNOTATION_FUNCTION, source), source, file, f"the name {ANNOTATION_FUNCTION}"
    )
    text = _replace_comments(_join_lines(_normalize_line_ends(source, file), file), file)
    # The text itself has the lines that messages name.
    text = _LINE_MARKER.sub("", text)
    for number, line in enumerate(text.split("\n"), 1):
        # Only a line that begins with `#` is a directive.
        if re.search(r"\S.*#", _mask_literals(line)) and not re.match(r"\s*#", line):
            raise UnsupportedProgram(
                f"{file}:{number}: {format_directive(line)} is not supported; rewrite it"
            )
    return text


def _normalize_line_ends(source: str, file: str) -> str:
    """Convert line ends to `\\n`.

    A lone carriage return is rejected: only some programs treat it as a line end.
    """
    text = source.replace("\r\n", "\n")
    # A file of another kind, not a text.
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise UnreadableProgram(f"{file}:{line}: a null character is not C; correct the file")
    _check_no_match(re.search("\r", text), text, file, "a carriage return inside a line")
    # Options of the compiler decide whether it replaces trigraphs.
    _check_no_match(_TRIGRAPH.search(text), text, file, "a trigraph")
    return text


def _join_lines(text: str, file: str) -> str:
    """Join each line that ends in a backslash to the next (phase 2).

    An empty line follows for each joined line, so that later lines keep their numbers.
    """
    # Some compilers also join such lines; the standard does not.
    match = re.search(r"\\[ \t\v\f]+$", text, flags=re.MULTILINE)
    _check_no_match(match, text, file, "a backslash before spaces at the end of a line")
    logical_lines: list[str] = []
    joined_count = 0
    for line in text.split("\n"):
        if joined_count:
            logical_lines[-1] = logical_lines[-1].removesuffix("\\") + line
        else:
            logical_lines.append(line)
        if line.endswith("\\"):
            joined_count += 1
        elif joined_count:
            logical_lines += [""] * joined_count
            joined_count = 0
    return "\n".join(logical_lines)


def _replace_comments(text: str, file: str) -> str:
    """Replace each comment by a space (phase 3), and empty the strings.

    Strings are emptied because they are only messages in all supported programs.
    """
    parts: list[str] = []
    line = 1
    directive = False  # whether the line is a directive, which messages quote with its strings
    for match in _LEXEME.finditer(text):
        piece = match.group()
        kind = match.lastgroup
        # After other words than these prefixes, an apostrophe is one of prose.
        word_end = "".join(parts[-2:])
        if kind == "character" and re.search(r"[\w$]\Z(?<!\b[LuU])", word_end):
            raise UnreadableProgram(f"{file}:{line}: an apostrophe in a word is not C; correct it")
        # A prefix such as `L` changes the type of a literal.
        if kind in ("text", "character") and parts and re.match(r"[\w$]", parts[-1][-1:]):
            raise UnsupportedProgram(
                f"{file}:{line}: a prefix of {piece} is not supported; remove it"
            )
        if kind == "code" and piece in "\"'":
            raise UnreadableProgram(f"{file}:{line}: {piece} is opened and not closed; close it")
        # C allows letters beyond ASCII in identifiers, but no other such characters.
        if kind == "code" and _FOREIGN_CHARACTER.match(piece) and not piece.isidentifier():
            raise UnreadableProgram(
                f"{file}:{line}: the character {piece!r} is not C; correct the text"
            )
        if kind == "code" and _FORBIDDEN_CHARACTER.match(piece):
            raise UnsupportedProgram(
                f"{file}:{line}: the character {piece!r} is not supported; remove it"
            )
        lines = piece.count("\n")
        directive = not lines and (directive or piece == "#")
        if kind == "text" and not directive:
            piece = '""'
        if kind in ("block", "line"):
            # A directive ends with its line, so no statement can be inserted.
            annotation = (
                "" if directive else _translate_assertion(piece, "".join(parts[-_MAX_CONTEXT:]))
            )
            # The line breaks of a comment keep the numbers of later lines.
            piece = f" {annotation}" + "\n" * lines
        parts.append(piece)
        line += lines
    return "".join(parts)


def _translate_assertion(annotation: str, preceding_text: str) -> str:
    """Translate an assertion annotation, `//@ assert x > 0;`, to a call; else empty.

    Args:
        annotation: comment, with its delimiters.
        preceding_text: end of the text before the comment. After an incomplete statement, an
            additional statement would have another meaning.
    """
    assertion = _ACSL_ASSERTION.fullmatch(annotation.removesuffix("*/"))
    if not assertion:
        return ""
    # The name of the call appears in the error message.
    if not re.search(r"[;{}:]\s*\Z", preceding_text):
        return f"{ANNOTATION_FUNCTION}_inside_a_statement();"
    condition = " ".join(assertion["said"].split())
    condition = re.sub(r"\\(true|false)\b", lambda match: str(int(match[1] == "true")), condition)
    return (
        f"{ANNOTATION_FUNCTION}({condition});"
        if _C_EXPRESSION.fullmatch(condition)
        else f"{ANNOTATION_FUNCTION}_beyond_C();"
    )


def _rewrite_mode_typedef(typedef: re.Match[str]) -> str:
    """Replace gcc's integer width in a typedef by a C type; keep line numbers."""
    sign, name, mode = typedef.groups()
    lines = "\n" * typedef.group().count("\n")
    return f"typedef {(sign or ' signed').strip()} {_MODE_TYPES[mode]} {name};{lines}"


def _remove_attributes(text: str) -> str:
    """Remove attributes without an effect on behaviour; keep others for an error."""
    parts: list[str] = []
    position = 0
    defined_names = set(_DEFINITION.findall(text)) if _ATTRIBUTE.search(text) else set()
    while match := _ATTRIBUTE.search(text, position):
        end = _find_closing_parentheses(text, match.end())
        # An unclosed attribute is not C, which the parser reports.
        if end is None:
            break
        preceding_text = "".join((*parts, text[position : match.start()]))[
            -_MAX_DECLARATION_LENGTH:
        ]
        ignored_attributes = _IGNORED_ATTRIBUTES
        declaration = _FUNCTION_DECLARATION.search(preceding_text)
        if re.search(_NORETURN_DECLARATION.pattern + r"\Z", preceding_text) or (
            # For a function that is never called, `noreturn` has no effect.
            declaration and len(re.findall(rf"(?<![\w$]){declaration[1]}(?![\w$])", text)) == 1
        ):
            ignored_attributes = _IGNORED_ATTRIBUTES | {"noreturn"}
        # The attribute is after or before the name of its function.
        following_text = re.split(r"[;{]", text[end:], maxsplit=1)[0]
        named = set(re.findall(r"[A-Za-z_]\w*", following_text)) | {declaration and declaration[1]}
        if named & defined_names:
            ignored_attributes -= _PROMISES
        attribute_list = text[match.end() : end].rstrip()
        names = re.findall(r"\w+", _remove_parentheses(attribute_list))
        replacement = (
            ""
            if {name.strip("_") for name in names} <= ignored_attributes
            else text[match.start() : end]
        )
        # The line breaks of a removed attribute keep the numbers of later lines.
        line_breaks = "\n" * text.count("\n", match.start(), end) if not replacement else ""
        parts += [text[position : match.start()], replacement, line_breaks]
        position = end
    return "".join((*parts, text[position:]))


def _find_closing_parentheses(text: str, start: int) -> int | None:
    """Return the index after the two parentheses open at `start`; else None."""
    depth = 2
    for position in range(start, len(text)):
        depth += (text[position] == "(") - (text[position] == ")")
        if depth == 0:
            return position + 1
    return None


def _remove_parentheses(text: str) -> str:
    """Replace all text inside parentheses in an attribute by spaces."""
    parts, depth = [], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        parts.append(character if depth == 0 else " ")
    return "".join(parts)


def _check_compiler_words(text: str, file: str) -> None:
    """Reject digraphs and words of the compiler such as `__attribute__` and `asm`."""
    # Strings and characters may contain any words.
    masked_text = _mask_literals(text)
    _check_no_match(_DIGRAPH.search(masked_text), masked_text, file, "a digraph")
    for match in _WORD.finditer(masked_text):
        if _COMPILER_WORD.fullmatch(match.group()):
            _check_no_match(match, masked_text, file, f"{match.group()!r}, a word of the compiler,")


def _mask_literals(text: str) -> str:
    """Replace character constants and strings by spaces."""
    return "".join(
        " " * len(match.group()) if match.lastgroup in ("text", "character") else match.group()
        for match in _LEXEME.finditer(text)
    )


def _empty_strings(text: str) -> str:
    """Empty the strings of macros, as those of the text."""
    return "".join(
        '""' if match.lastgroup == "text" else match.group() for match in _LEXEME.finditer(text)
    )


def _check_no_match(match: re.Match[str] | None, text: str, file: str, construct: str) -> None:
    if match:
        line = text.count("\n", 0, match.start()) + 1
        raise UnsupportedProgram(f"{file}:{line}: {construct} is not supported; rewrite it")
