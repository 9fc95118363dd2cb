r"""Regular expressions that an automaton can match, parsed to a syntax tree.

    (?i)^\W*yes\b    Sequence(Anchor("\A"), Repeat(Atom("\W")), Atom("y"), ..., Anchor("\b"))

The syntax is the part of the package `regex` that finite automata match exactly. Atoms match single
characters and keep their source, because `regex` itself decides which characters they match.
"""

import re
from collections.abc import Iterator
from collections.abc import Sequence as Items
from dataclasses import dataclass

_GLOBAL_FLAGS = re.compile(r"\(\?([ims]+)\)")
_GROUP = re.compile(
    r"\((?:\?(?:P?<[A-Za-z_]\w*>|(?P<flags>[ims]*(?:-[ims]+)?):|(?P<look><?[=!])))?"
)
_COUNT = re.compile(r"\{(?:(?P<exact>\d+)|(?P<least>\d*),(?P<most>\d*))\}")
_ESCAPED_ATOM = re.compile(
    r"\\(?:[wWdDsSntrfva]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[pP]\{\^?[\w :=-]+\})"
)
_SET = re.compile(r"\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]", re.DOTALL)
_ANCHORS = (r"\A", r"\Z", r"\b", r"\B")


class UnsupportedPattern(Exception):
    """Error for a pattern that an automaton cannot match exactly."""


@dataclass(frozen=True)
class Atom:
    """Single character of a set.

    Attributes:
        source: regular expression of the set, with its flags.
    """

    source: str


@dataclass(frozen=True)
class Anchor:
    r"""Condition on a position in the text: `\A`, `\Z`, `\b`, `\B`, `(?m)^` or `(?m)$`."""

    name: str


@dataclass(frozen=True)
class LastLineEnd:
    """Condition of `$` without the flag m: the end, or a line break at the end."""


@dataclass(frozen=True)
class Sequence:
    """Parts that follow each other."""

    parts: tuple["Syntax", ...]


@dataclass(frozen=True)
class Alternatives:
    """Parts of which one matches, the first ones by preference."""

    parts: tuple["Syntax", ...]


@dataclass(frozen=True)
class Repeat:
    """Part that matches several times in sequence.

    Attributes:
        minimum: minimum number of times.
        maximum: maximum number of times; None for no limit.
        is_lazy: whether fewer times are preferred.
    """

    part: "Syntax"
    minimum: int
    maximum: int | None
    is_lazy: bool


@dataclass(frozen=True)
class Lookahead:
    """Condition on the text that follows a position."""

    part: "Syntax"
    is_negated: bool


@dataclass(frozen=True)
class Lookbehind:
    """Condition on the character before a position.

    Attributes:
        atoms: sets of which one contains the character.
        has_start: whether the start of the text satisfies the condition too.
        is_negated: whether the condition must not hold.
    """

    atoms: tuple[Atom, ...]
    has_start: bool
    is_negated: bool


Syntax = Atom | Anchor | LastLineEnd | Sequence | Alternatives | Repeat | Lookahead | Lookbehind


def parse_pattern(pattern: str) -> Syntax:
    """Parse a pattern that compiles in the package `regex`.

    Raises:
        UnsupportedPattern: an automaton cannot match the pattern exactly.
    """
    position = 0
    flags: frozenset[str] = frozenset()
    # only at the start do global flags have the same meaning in all versions of `regex`
    while found := _GLOBAL_FLAGS.match(pattern, position):
        flags |= frozenset(found[1])
        position = found.end()
    parser = _Parser(pattern, position)
    syntax = parser.parse_alternatives(flags)
    if parser.position < len(pattern):
        raise UnsupportedPattern(f"{pattern[parser.position :]!r} is not closed")
    return syntax


def is_nullable(syntax: Syntax) -> bool:
    """Return whether a pattern may match the empty text at some position."""
    match syntax:
        case Atom():
            return False
        case Sequence(parts):
            return all(map(is_nullable, parts))
        case Alternatives(parts):
            return any(map(is_nullable, parts))
        case Repeat(part, minimum):
            return minimum == 0 or is_nullable(part)
        case _:
            return True


def iter_parts(syntax: Syntax) -> Iterator[Syntax]:
    """Yield a pattern and all its parts."""
    yield syntax
    match syntax:
        case Sequence(parts) | Alternatives(parts) | Lookbehind(parts):
            for part in parts:
                yield from iter_parts(part)
        case Repeat(part) | Lookahead(part):
            yield from iter_parts(part)


def has_part(syntax: Syntax, *kinds: type[Syntax]) -> bool:
    """Return whether a pattern has a part of one of the kinds."""
    return any(isinstance(part, kinds) for part in iter_parts(syntax))


class _Parser:
    """Recursive descent over a pattern.

    Attributes:
        position: position of the next character to read.
    """

    def __init__(self, pattern: str, position: int) -> None:
        self._pattern = pattern
        self.position = position

    def parse_alternatives(self, flags: frozenset[str]) -> Syntax:
        parts = [self._parse_sequence(flags)]
        while self._next == "|":
            self.position += 1
            parts.append(self._parse_sequence(flags))
        return parts[0] if len(parts) == 1 else Alternatives(tuple(parts))

    @property
    def _next(self) -> str:
        return self._pattern[self.position : self.position + 1]

    def _parse_sequence(self, flags: frozenset[str]) -> Syntax:
        parts: list[Syntax] = []
        while self._next not in ("", "|", ")"):
            parts.append(self._parse_repeat(self._parse_item(flags)))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _parse_repeat(self, part: Syntax) -> Syntax:
        if self._next not in ("*", "+", "?", "{"):
            return part
        # packages differ on the repetition of what matches no character
        if is_nullable(part) and has_part(part, Anchor, LastLineEnd, Lookahead, Lookbehind):
            raise UnsupportedPattern(r"a repeated condition such as (\b|a)*")
        minimum, maximum = self._parse_count()
        is_lazy = self._next == "?"
        self.position += is_lazy
        if self._next in ("*", "+", "?", "{"):
            raise UnsupportedPattern("possessive or repeated repetition")
        return Repeat(part, minimum, maximum, is_lazy)

    def _parse_count(self) -> tuple[int, int | None]:
        if self._next != "{":
            self.position += 1
            sign = self._pattern[self.position - 1]
            return int(sign == "+"), 1 if sign == "?" else None
        found = self._match(_COUNT)
        if found["exact"]:
            return int(found["exact"]), int(found["exact"])
        if not found["least"] and not found["most"]:
            raise UnsupportedPattern("{,}")
        return int(found["least"] or 0), int(found["most"]) if found["most"] else None

    def _match(self, expression: re.Pattern[str]) -> re.Match[str]:
        found = expression.match(self._pattern, self.position)
        if found is None:
            raise UnsupportedPattern(f"the syntax {self._pattern[self.position :]!r}")
        self.position = found.end()
        return found

    def _parse_item(self, flags: frozenset[str]) -> Syntax:
        match self._next:
            case "(":
                return self._parse_group(flags)
            case "[":
                return _build_atom(self._match(_SET)[0], flags)
            case "\\":
                return self._parse_escape(flags)
            case "*" | "+" | "?" | "{":
                raise UnsupportedPattern(f"the syntax {self._pattern[self.position :]!r}")
            case character:
                self.position += 1
                if character == ".":
                    return _build_atom(".", flags)
                if character == "^":
                    return Anchor("(?m)^" if "m" in flags else r"\A")
                if character == "$":
                    return Anchor("(?m)$") if "m" in flags else LastLineEnd()
                return _build_literal(character, flags)

    def _parse_escape(self, flags: frozenset[str]) -> Syntax:
        escape = self._pattern[self.position : self.position + 2]
        if escape in _ANCHORS:
            self.position += 2
            return Anchor(escape)
        # the escape of punctuation or a space is the character itself
        if len(escape) == 2 and not escape[1].isalnum():
            self.position += 2
            return _build_literal(escape[1], flags)
        return _build_atom(self._match(_ESCAPED_ATOM)[0], flags)

    def _parse_group(self, flags: frozenset[str]) -> Syntax:
        found = self._match(_GROUP)
        if found["flags"]:
            added, _, removed = found["flags"].partition("-")
            flags = (flags | frozenset(added)) - frozenset(removed)
        elif found[0] == "(" and self._next == "?":
            raise UnsupportedPattern(f"the syntax {self._pattern[self.position - 1 :]!r}")
        part = self.parse_alternatives(flags)
        if self._next != ")":
            raise UnsupportedPattern("a group is not closed")
        self.position += 1
        look = found["look"]
        if not look:
            return part
        if look.startswith("<"):
            is_negated = look == "<!"
            alternatives: Items[Syntax] = part.parts if isinstance(part, Alternatives) else (part,)
            atoms = tuple(item for item in alternatives if isinstance(item, Atom))
            starts = [item for item in alternatives if item == Anchor(r"\A")]
            if len(atoms) + len(starts) < len(alternatives):
                raise UnsupportedPattern("a lookbehind of several characters")
            return Lookbehind(atoms, bool(starts), is_negated)
        return Lookahead(part, is_negated=look == "!")


def _build_atom(source: str, flags: frozenset[str]) -> Atom:
    # the flag m is about positions
    letters = "".join(sorted(flags - {"m"}))
    return Atom(f"(?{letters}:{source})" if letters else source)


def _build_literal(character: str, flags: frozenset[str]) -> Atom:
    return _build_atom(rf"\U{ord(character):08X}", flags)
