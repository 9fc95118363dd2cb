"""Directives of C: `#include` of known headers, macros, and conditions (C11 6.10), done by pcpp.

Refused by name are what pcpp and a compiler could do differently, or what only a compiler can know:
tokens pasted by `##`, conditions on names that the compiler may define, other files, pragmas.
"""

import re
from collections.abc import Container, Iterator

from pcpp import OutputDirective, Preprocessor

from llmchecker.errors import UnreadableProgram, UnsupportedProgram
from llmchecker.translating.headers import HEADERS, header_text, may_be_defined

_MOST_TOKENS = 3_000_000
"""The most tokens that macros may be expanded to, on the way and in the end."""

_MOST_SHOWN = 80
"""Characters of a directive that a message shows, at most."""

_DIRECTIVES = frozenset("include define undef if ifdef ifndef elif else endif".split())
_MARKER = re.compile(r"\s*#\s*(?:line\s+)?\d+(?:\s+\"[^\"]*\")?[\s\d]*")
"""A line marker, which a preprocessor leaves behind: it names a line of another file."""

_NUMBER = re.compile(r"(?<![\w.$])\.?\d(?:[eEpP][+-]|[\w.])*")
_INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|\d+)([uU]?(?:ll|LL|[lL])?|(?:ll|LL|[lL])[uU])")


def preprocessed(text: str, file: str, beside: Container[str] = ()) -> str:
    """The text after its directives were carried out; every line keeps its number.

    Args:
        text: C text without comments and joined lines.
        file: the file's name in messages.
        beside: the names of the files that lie beside it, which an include in quotes may mean.

    Raises:
        UnsupportedProgram: a directive is not covered; the message names it with its line.
        UnreadableProgram: a directive is no C.
    """
    lines = text.split("\n")
    found = False
    for number, line in enumerate(lines, 1):
        if "#" not in line:
            continue
        if _MARKER.fullmatch(line):
            lines[number - 1] = ""
        elif re.match(r"\s*#", line):
            found = True
        elif "#" in re.sub(r"'[^']*'|\"(?:\\.|[^\"\\])*\"", "", line):
            raise UnsupportedProgram(f"{file}:{number}: {_shown(line)} is not supported")
    text = "\n".join(lines)
    if not found:
        return text
    carrier = _Carrier(file, frozenset(re.findall(r"\w+", text)), beside)
    return carrier.carried_out(_plain(text, file))


def _shown(line: str) -> str:
    line = line.strip()
    return repr(line if len(line) <= _MOST_SHOWN else f"{line[:_MOST_SHOWN]}…")


def _plain(text: str, file: str) -> str:
    """The text with numbers and names as pcpp can read them in one piece."""

    def number(match: re.Match[str]) -> str:
        whole = _INTEGER.fullmatch(match.group())
        if whole is None:
            line = text.count("\n", 0, match.start()) + 1
            raise UnsupportedProgram(
                f"{file}:{line}: the constant {match.group()} beside directives is not supported"
            )
        # `long long` is as wide as `long`, and pcpp does not know its suffix.
        return whole[1] + whole[2].lower().replace("ll", "l")

    if "$" in text:
        line = text.count("\n", 0, text.index("$")) + 1
        raise UnsupportedProgram(f"{file}:{line}: '$' beside directives is not supported")
    return _NUMBER.sub(number, text)


class _Carrier(Preprocessor):
    """Carries out the directives of one file.

    Args:
        file: the file's name in messages.
        words: all words of the text.
        beside: the names of the files that lie beside it.
    """

    def __init__(self, file: str, words: frozenset[str], beside: Container[str]) -> None:
        super().__init__()
        self.macros.clear()
        self.expand_linemacro = self.expand_filemacro = self.expand_countermacro = False
        self._file = file
        self._words = words
        self._beside = beside
        self._tokens = 0
        self._refusal: UnsupportedProgram | None = None

    def carried_out(self, text: str) -> str:
        """The text without directives, with macros expanded."""
        lines = [""] * (text.count("\n") + 1)
        # pcpp wants a line end behind a directive.
        self.parse(text + "\n", "")
        last = None
        try:
            for token in iter(self.token, None):
                value = '""' if token.type == self.t_STRING else token.value
                if "\n" in value:
                    continue
                here = token.lineno - 1
                # Two tokens that macros put side by side must not become one.
                made = getattr(token, "expanded_from", None) or getattr(last, "expanded_from", None)
                joined = last is not None and last.value == "^" and value == "="
                lines[here] += f" {value}" if made and not joined else value
                last = token
        except RecursionError as error:
            raise UnsupportedProgram(f"{self._file}: macros nested too deeply") from error
        except (IndexError, AttributeError, TypeError, ValueError) as error:
            # pcpp looks at parts of directives that are not there.
            place = getattr(self.lastdirective, "lineno", "?")
            raise UnreadableProgram(f"{self._file}:{place}: a directive is not C") from error
        return "\n".join(line.rstrip() for line in lines)

    def on_error(self, file: str, line: int, msg: str) -> None:
        """Called where a directive is wrong, or where evaluating one raised an error."""
        if self._refusal is not None:
            raise self._refusal
        raise UnreadableProgram(f"{self._file}:{line or '?'}: {msg}")

    def on_directive_handle(self, directive, toks, ifpassthru, precedingtoks):
        """Called at every directive, even in a part of the text that is left out."""
        self.lastdirective = directive
        return True

    def on_directive_unknown(self, directive, toks, ifpassthru, precedingtoks):
        """Called at a directive other than those that pcpp carries out."""
        raise self._refused(directive, f"#{directive.value} {_text(toks)}")

    def on_include_not_found(self, is_malformed, is_system_include, curdir, includepath):
        """Never called, since `include` opens nothing."""
        raise OutputDirective(0)

    def on_unknown_macro_in_defined_expr(self, tok):
        """Whether a macro is defined that the text does not define."""
        self._refuse_unknown(tok.value)
        return False

    def on_unknown_macro_in_expr(self, ident):
        """The value of a name in a condition that is no macro: 0 (C11 6.10.1p4)."""
        self._refuse_unknown(ident)
        return 0

    def on_unknown_macro_function_in_expr(self, ident):
        """A call in a condition of what is no macro, which is not C."""
        raise self._refused(self.lastdirective, f"a condition that calls {ident}")

    def include(self, tokens, original_line) -> Iterator:
        """The tokens that a header adds, all in the line of the directive."""
        name = _text(tokens)
        directive = self.lastdirective
        quoted = name[:1] == name[-1:] == '"' and name[1:-1] not in self._beside
        if name[1:-1] not in HEADERS or not (quoted or name[:1] + name[-1:] == "<>"):
            known = ", ".join(f"<{name}>" for name in sorted(HEADERS))
            hint = f"; what may be included: {known}"
            raise self._refused(directive, f"#include {name}", hint)
        if name[1:-1] == "assert.h" and "NDEBUG" in self.macros:
            raise self._refused(directive, "<assert.h> with NDEBUG")
        for token in list(self.parsegen(header_text(name[1:-1], self._words) + "\n", name, name)):
            token.lineno = directive.lineno
            if "\n" not in token.value:
                yield token

    def define(self, tokens) -> None:
        """Define a macro; one that pastes tokens is refused."""
        if not isinstance(tokens, str):
            name = tokens[0].value if tokens else ""
            if any("##" in token.value for token in tokens if token.type != self.t_STRING):
                raise self._refused(tokens[0], f"## in the macro {name}")
            if name in ("", "defined") or "..." in _text(tokens).replace(" ", ""):
                raise self._refused(self.lastdirective, f"the macro {name}")
        super().define(tokens)

    def collect_args(self, tokenlist, ignore_errors=False):
        """The arguments of a macro; a call that a directive interrupts is refused."""
        found = super().collect_args(tokenlist, ignore_errors)
        if found[0] == 0:
            what = f"a macro whose arguments do not end: {_text(tokenlist[:9]).strip()}"
            raise self._refused(tokenlist[0], what)
        return found

    def expand_macros(self, tokens, expanding_from=()):
        """Expand macros, up to a limit."""
        self._tokens += len(tokens)
        if self._tokens > _MOST_TOKENS:
            raise UnsupportedProgram(
                f"{self._file}: macros of more than {_MOST_TOKENS:,} tokens are not supported"
            )
        expanded = super().expand_macros(tokens, list(expanding_from))
        self._tokens += len(expanded)
        return expanded

    def _refuse_unknown(self, name: str) -> None:
        if may_be_defined(name):
            what = f"a condition on {name}, which a compiler may define,"
            raise self._refused(self.lastdirective, what)

    def _refused(self, token, what: str, hint: str = "") -> UnsupportedProgram:
        shown = _shown(what) if what.startswith("#") else what
        self._refusal = UnsupportedProgram(
            f"{self._file}:{token.lineno}: {shown} is not supported{hint}"
        )
        return self._refusal


def _text(tokens) -> str:
    return "".join(token.value for token in tokens)
