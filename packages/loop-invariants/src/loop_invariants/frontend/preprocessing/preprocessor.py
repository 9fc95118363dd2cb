"""Preprocessor: `#include` of known headers, macros and conditions (C11 6.10).

It is based on pcpp, and rejects constructs that a compiler could treat differently: token pasting
by `##`, conditions on names that a compiler may define, other files, pragmas. It opens no files:
the texts of possible headers are arguments.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from pcpp import Preprocessor

from llmchecker.errors import ProgramError, UnreadableProgram, UnsupportedProgram
from loop_invariants.frontend.preprocessing.libc_headers import (
    HEADERS,
    build_header,
    can_be_predefined,
)

_Token = Any
_Tokens = Sequence[Any]
"""Tokens of pcpp, which has no types."""

_MAX_TOKENS = 3_000_000
"""Maximum number of tokens that macros expand to, intermediate ones included."""

_MAX_INCLUDES = 200
"""Maximum number of includes, repetitions included: a header may include itself."""

_MAX_SHOWN_CHARACTERS = 80
"""Maximum number of characters of a directive in a message."""

_OTHER_DIRECTIVES = frozenset(
    "line error warning pragma ident sccs include_next import assert unassert embed elifdef "
    "elifndef region endregion".split()
)
"""Directives of C and compilers that are not supported."""

_LINE_MARKER = re.compile(r"\s*#\s*(?:line\s+)?\d+(?:\s+\"[^\"]*\")?[\s\d]*")
"""A line marker of an earlier preprocessing: the line of another file."""

_LITERAL_INCLUDE = re.compile(r"\s*#\s*include\s*[\"<]")
"""An include that contains the name of its file, without a macro."""

_NUMBER = re.compile(r"(?<![\w.$])\.?\d(?:[eEpP][+-]|[\w.])*")
_INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|\d+)([uU]?(?:ll|LL|[lL])?|(?:ll|LL|[lL])[uU])")


def preprocess(text: str, file: str, sibling_files: Mapping[str, str]) -> str:
    """Execute the directives of a text; every line keeps its number.

    Args:
        text: C text without comments and joined lines.
        file: name of the file in messages.
        sibling_files: texts of the headers in the same folder, by name, also without comments and
            joined lines.

    Raises:
        UnsupportedProgram: a directive is not supported; the message has its line.
        UnreadableProgram: a directive is not C.
    """
    text = _remove_line_markers(text, file)
    # A text without directives stays as it is.
    if not re.search(r"^\s*#", text, flags=re.MULTILINE):
        return text
    identifiers = frozenset(re.findall(r"\w+", " ".join((text, *sibling_files.values()))))
    headers = {
        n: _normalize_numbers(_remove_line_markers(header, n), n)
        for n, header in sibling_files.items()
    }
    return _DirectiveProcessor(file, identifiers, headers).process(_normalize_numbers(text, file))


def _remove_line_markers(text: str, file: str) -> str:
    """Replace line markers by empty lines; reject `#` in other lines of code."""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        # Only a line that begins with `#` is a directive.
        if "#" not in line or re.match(r"\s*#", line):
            lines[number - 1] = "" if _LINE_MARKER.fullmatch(line) else line
        elif "#" in re.sub(r"'[^']*'|\"(?:\\.|[^\"\\])*\"", "", line):
            raise UnsupportedProgram(
                f"{file}:{number}: {_format_line(line)} is not supported; rewrite it"
            )
    return "\n".join(lines)


def _format_line(line: str) -> str:
    line = line.strip()
    return repr(line if len(line) <= _MAX_SHOWN_CHARACTERS else f"{line[:_MAX_SHOWN_CHARACTERS]}…")


def _normalize_numbers(text: str, file: str) -> str:
    """Rewrite numbers and names so that pcpp reads each as a single token."""

    def normalize(match: re.Match[str]) -> str:
        integer = _INTEGER.fullmatch(match.group())
        if integer is None:
            line = text.count("\n", 0, match.start()) + 1
            raise UnsupportedProgram(
                f"{file}:{line}: the constant {match.group()} beside directives is not supported; "
                "remove it"
            )
        # `long long` has the width of `long`, and pcpp does not support its suffix.
        return integer[1] + integer[2].lower().replace("ll", "l")

    if "$" in text:
        line = text.count("\n", 0, text.index("$")) + 1
        raise UnsupportedProgram(
            f"{file}:{line}: '$' beside directives is not supported; remove it"
        )
    return _NUMBER.sub(normalize, text)


class _DirectiveProcessor(Preprocessor):  # type: ignore[misc]  # pcpp has no types
    """A preprocessor for one file.

    Args:
        file: name of the file in messages.
        words: all words of the text.
        sibling_files: texts of the headers in the same folder, by name.
    """

    def __init__(self, file: str, words: frozenset[str], sibling_files: Mapping[str, str]) -> None:
        super().__init__()
        # pcpp defines macros such as `__DATE__`, which are rejected by name instead.
        self.macros.clear()
        self.expand_linemacro = self.expand_filemacro = self.expand_countermacro = False
        self._file = file
        self._words = words
        self._sibling_files = sibling_files
        self._token_count = 0
        self._include_count = 0
        self._pending_error: ProgramError | None = None

    def process(self, text: str) -> str:
        """Return the text without directives and with expanded macros."""
        lines = [""] * (text.count("\n") + 1)
        # pcpp requires a line end after a directive.
        self.parse(text + "\n", "")
        last_token = None
        try:
            for token in iter(self.token, None):
                value = '""' if token.type == self.t_STRING else token.value
                if "\n" in value:
                    continue
                line_index = token.lineno - 1
                # Two adjacent tokens from macros must not become one token.
                macro_origin = getattr(token, "expanded_from", None) or getattr(
                    last_token, "expanded_from", None
                )
                is_joined = last_token is not None and last_token.value == "^" and value == "="
                lines[line_index] += f" {value}" if macro_origin and not is_joined else value
                last_token = token
        except RecursionError as error:
            raise UnsupportedProgram(
                f"{self._file}: macros nested too deeply are not supported; expand them"
            ) from error
        except (IndexError, AttributeError, TypeError, ValueError) as error:
            # pcpp raises these errors for incomplete directives.
            location = getattr(self.lastdirective, "lineno", "?")
            raise UnreadableProgram(
                f"{self._file}:{location}: a directive is not C; correct it"
            ) from error
        return "\n".join(line.rstrip() for line in lines)

    def on_error(self, file: str, line: int, msg: str) -> None:
        """Raise the error of a wrong directive, or of the evaluation of a directive."""
        # pcpp reports errors of its callbacks here, without their message.
        if self._pending_error is not None:
            raise self._pending_error
        raise UnreadableProgram(f"{self._file}:{line or '?'}: {msg}; correct it")

    def on_directive_handle(
        self, directive: _Token, toks: _Tokens, ifpassthru: bool, precedingtoks: _Tokens
    ) -> bool:
        """Remember the current directive, also in skipped parts of the text."""
        self.lastdirective = directive
        return True

    def on_directive_unknown(
        self, directive: _Token, toks: _Tokens, ifpassthru: bool, precedingtoks: _Tokens
    ) -> NoReturn:
        """Reject a directive that pcpp does not implement."""
        if directive.value not in _OTHER_DIRECTIVES:
            self._pending_error = UnreadableProgram(
                f"{self._file}:{directive.lineno}: #{directive.value[:_MAX_SHOWN_CHARACTERS]} is "
                "no directive of C; correct it"
            )
            raise self._pending_error
        raise self._build_error(directive, f"#{directive.value} {_join_tokens(toks)}")

    def on_unknown_macro_in_defined_expr(self, tok: _Token) -> bool:
        """Evaluate `defined` for a macro that the text does not define: false."""
        self._check_unknown_macro(tok.value)
        return False

    def on_unknown_macro_in_expr(self, ident: str) -> int:
        """Evaluate a name in a condition that is not a macro: 0 (C11 6.10.1p4)."""
        self._check_unknown_macro(ident)
        return 0

    def on_unknown_macro_function_in_expr(self, ident: str) -> NoReturn:
        """Reject a call in a condition of a name that is not a macro."""
        raise self._build_error(self.lastdirective, f"a condition that calls {ident}")

    def include(self, tokens: _Tokens, original_line: _Tokens) -> Iterator[_Token]:
        """Yield the tokens of a header, all at the line of the directive."""
        directive, self._include_count = self.lastdirective, self._include_count + 1
        if self._include_count > _MAX_INCLUDES:
            raise self._build_error(directive, f"including more than {_MAX_INCLUDES} headers")
        header_name = _join_tokens(tokens)
        if header_name.startswith('"') and not _LITERAL_INCLUDE.match(_join_tokens(original_line)):
            # The search for headers expands no macros, so a header of this name may be missing.
            raise self._build_error(
                directive, f"an #include whose name a macro builds, {header_name},"
            )
        text = self._find_header(header_name)
        header_tokens = [
            t for t in self.parsegen(text + "\n", header_name, header_name) if "\n" not in t.value
        ]
        last_value = next(
            (token.value for token in reversed(header_tokens) if token.value.strip()), ";"
        )
        if last_value not in (";", "}"):
            # The text after the directive could be the arguments of a macro in the header.
            raise self._build_error(
                directive, f"the header {header_name}, which ends in {last_value!r},"
            )
        for token in header_tokens:
            token.lineno = directive.lineno
            yield token

    def _find_header(self, quoted_name: str) -> str:
        """Return a header; quotes search the program's folder first (C11 6.10.2p3)."""
        name, marks = quoted_name[1:-1], quoted_name[:1] + quoted_name[-1:]
        if marks == '""' and "/" in name:
            # Such a file has priority over the C library, and only one folder is searched.
            fix = "put the header into the folder of the program"
            raise self._build_error(self.lastdirective, f"#include {quoted_name}", fix)
        if marks == '""' and name in self._sibling_files:
            return self._sibling_files[name]
        if marks in ('""', "<>") and name in HEADERS:
            # The macro NDEBUG would disable all assertions.
            if name == "assert.h" and "NDEBUG" in self.macros:
                raise self._build_error(self.lastdirective, "<assert.h> with NDEBUG")
            return build_header(name, self._words)
        if marks == "<>" and name in self._sibling_files:
            return self._sibling_files[name]
        # the headers of C end in .h, those of the C++ library do not
        if marks == "<>" and "." not in name:
            shown, line = quoted_name[:_MAX_SHOWN_CHARACTERS], self.lastdirective.lineno
            self._pending_error = UnreadableProgram(
                f"{self._file}:{line}: #include {shown} is C++ and not C; verify a C program"
            )
            raise self._pending_error
        fix = "include a header that docs/covered_c.md lists, or one of the program's folder"
        raise self._build_error(self.lastdirective, f"#include {quoted_name}", fix)

    def define(self, tokens: Any) -> None:
        """Define a macro; reject one that pastes tokens or has variable arguments."""
        if not isinstance(tokens, str):
            name = tokens[0].value if tokens else ""
            if any("##" in token.value for token in tokens if token.type != self.t_STRING):
                raise self._build_error(tokens[0], f"## in the macro {name}")
            if name in ("", "defined") or "..." in _join_tokens(tokens).replace(" ", ""):
                raise self._build_error(self.lastdirective, f"the macro {name}")
        super().define(tokens)

    def collect_args(self, tokenlist: _Tokens, ignore_errors: bool = False) -> Any:
        """Collect the arguments of a macro; reject a call that a directive interrupts."""
        arguments = super().collect_args(tokenlist, ignore_errors)
        if arguments[0] == 0:
            problem = f"a macro whose arguments do not end: {_join_tokens(tokenlist[:9]).strip()}"
            raise self._build_error(tokenlist[0], problem)
        return arguments

    def expand_macros(self, tokens: _Tokens, expanding_from: Sequence[str] = ()) -> Any:
        """Expand macros, up to a maximum number of tokens."""
        # The limit also counts intermediate tokens, since macros can grow exponentially.
        self._token_count += len(tokens)
        if self._token_count > _MAX_TOKENS:
            raise UnsupportedProgram(
                f"{self._file}: macros of more than {_MAX_TOKENS:,} tokens are not supported; "
                "expand them"
            )
        expansion = super().expand_macros(tokens, list(expanding_from))
        self._token_count += len(expansion)
        return expansion

    def _check_unknown_macro(self, name: str) -> None:
        if can_be_predefined(name):
            problem = f"a condition on {name}, which a compiler may define,"
            raise self._build_error(self.lastdirective, problem)

    def _build_error(
        self, token: _Token, construct: str, fix: str = "rewrite it"
    ) -> UnsupportedProgram:
        description = _format_line(construct) if construct.startswith("#") else construct
        location = getattr(token, "source", "").strip('<>"') or self._file
        self._pending_error = UnsupportedProgram(
            f"{location}:{token.lineno}: {description} is not supported; {fix}"
        )
        return self._pending_error


def _join_tokens(tokens: _Tokens) -> str:
    return "".join(token.value for token in tokens)
