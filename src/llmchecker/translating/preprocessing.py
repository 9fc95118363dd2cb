"""Directives of C: `#include` of known headers, macros, and conditions (C11 6.10), done by pcpp.

Refused by name are what pcpp and a compiler could do differently, or what only a compiler can know:
tokens pasted by `##`, conditions on names that the compiler may define, other files, pragmas. No
file is opened: the texts of those that may be included are given.
"""

import re
from collections.abc import Iterator, Mapping

from pcpp import OutputDirective, Preprocessor

from llmchecker.errors import UnreadableProgram, UnsupportedProgram
from llmchecker.translating.headers import HEADERS, header_text, may_be_defined

_MOST_TOKENS = 3_000_000
"""The most tokens that macros may be expanded to, on the way and in the end."""

_MOST_INCLUDED = 200
"""The most headers that are included, each as often as it is: one may include itself for ever."""

_MOST_SHOWN = 80
"""Characters of a directive that a message shows, at most."""

_DIRECTIVES = frozenset("include define undef if ifdef ifndef elif else endif".split())
_MARKER = re.compile(r"\s*#\s*(?:line\s+)?\d+(?:\s+\"[^\"]*\")?[\s\d]*")
"""A line marker, which a preprocessor leaves behind: it names a line of another file."""

_NUMBER = re.compile(r"(?<![\w.$])\.?\d(?:[eEpP][+-]|[\w.])*")
_INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|\d+)([uU]?(?:ll|LL|[lL])?|(?:ll|LL|[lL])[uU])")


def preprocessed(text: str, file: str, beside: Mapping[str, str]) -> str:
    """The text after its directives were carried out; every line keeps its number.

    Args:
        text: C text without comments and joined lines.
        file: the file's name in messages.
        beside: the texts of the headers that lie beside it, by name, without comments and joined
            lines too.

    Raises:
        UnsupportedProgram: a directive is not covered; the message names it with its line.
        UnreadableProgram: a directive is no C.
    """
    text = _without_markers(text, file)
    if not re.search(r"^\s*#", text, flags=re.MULTILINE):
        return text
    words = frozenset(re.findall(r"\w+", " ".join((text, *beside.values()))))
    headers = {n: _plain(_without_markers(header, n), n) for n, header in beside.items()}
    return _Carrier(file, words, headers).carried_out(_plain(text, file))


def _without_markers(text: str, file: str) -> str:
    """The text with empty lines for line markers; `#` is left in directives and constants alone."""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if "#" not in line or re.match(r"\s*#", line):
            lines[number - 1] = "" if _MARKER.fullmatch(line) else line
        elif "#" in re.sub(r"'[^']*'|\"(?:\\.|[^\"\\])*\"", "", line):
            raise UnsupportedProgram(f"{file}:{number}: {_shown(line)} is not supported")
    return "\n".join(lines)


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
        beside: the texts of the headers that lie beside it, by name.
    """

    def __init__(self, file: str, words: frozenset[str], beside: Mapping[str, str]) -> None:
        super().__init__()
        self.macros.clear()
        self.expand_linemacro = self.expand_filemacro = self.expand_countermacro = False
        self._file = file
        self._words = words
        self._beside = beside
        self._tokens = 0
        self._included = 0
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
        directive, self._included = self.lastdirective, self._included + 1
        if self._included > _MOST_INCLUDED:
            raise self._refused(directive, f"including more than {_MOST_INCLUDED} headers")
        named = _text(tokens)
        text = self._header(named)
        added = [t for t in self.parsegen(text + "\n", named, named) if "\n" not in t.value]
        last = next((token.value for token in reversed(added) if token.value.strip()), ";")
        if last not in (";", "}"):
            # What follows the directive could be the arguments of a macro.
            raise self._refused(directive, f"the header {named}, which ends in {last!r},")
        for token in added:
            token.lineno = directive.lineno
            yield token

    def _header(self, named: str) -> str:
        """The text of a header: in quotes, one beside the file comes first (C11 6.10.2p3)."""
        name, marks = named[1:-1], named[:1] + named[-1:]
        if marks == '""' and name in self._beside:
            return self._beside[name]
        if marks in ('""', "<>") and name in HEADERS:
            if name == "assert.h" and "NDEBUG" in self.macros:
                raise self._refused(self.lastdirective, "<assert.h> with NDEBUG")
            return header_text(name, self._words)
        if marks == "<>" and name in self._beside:
            return self._beside[name]
        known = ", ".join(f"<{name}>" for name in sorted(HEADERS))
        hint = f"; what may be included: headers beside the file, {known}"
        raise self._refused(self.lastdirective, f"#include {named}", hint)

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
        place = getattr(token, "source", "").strip('<>"') or self._file
        self._refusal = UnsupportedProgram(
            f"{place}:{token.lineno}: {shown} is not supported{hint}"
        )
        return self._refusal


def _text(tokens) -> str:
    return "".join(token.value for token in tokens)
