"""Values, white space and regular expressions of JavaScript, in which promptfoo is written."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

import regex

from llmchecker.suites.promptfoo.report import NotConverted


class Undefined:
    """The value of a variable or key that does not exist."""


UNDEFINED = Undefined()

WHITESPACE = "\t\n\v\f\r \xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B)))
WHITESPACE += "\u2028\u2029\u202f\u205f\u3000\ufeff"
"""The characters of `\\s`, which `trim` removes."""


def format_js_value(value: Any) -> str:
    """Format a value as `String(value)` does.

    Raises:
        NotConverted: the value is a mapping or a date, whose text nobody means.
    """
    match value:
        case str():
            return value
        case bool():
            return str(value).lower()
        case int() | float():
            return _format_number(float(value))
        case None:
            return "null"
        case Undefined():
            return "undefined"
        case list():
            return ",".join("" if item is None else format_js_value(item) for item in value)
        case Mapping():
            raise NotConverted("a mapping is inserted, as [object Object]")
    raise NotConverted(f"{value} is a date; put it in quotes")


def _format_number(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0:
        return "0"
    # both languages print the shortest decimal number that reads back as the same float
    if 1e-6 <= abs(number) < 1e21:
        text = f"{Decimal(repr(number)):f}"
        return text.rstrip("0").removesuffix(".") if "." in text else text
    digits, _, exponent = f"{Decimal(repr(number)).normalize():e}".partition("e")
    return f"{digits}e{int(exponent):+d}"


def format_json(value: Any) -> str:
    """Format a value as `JSON.stringify(value)` does."""
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False)
        case list():
            return f"[{','.join(map(format_json, value))}]"
        case Mapping():
            items = (f"{format_json(key)}:{format_json(item)}" for key, item in value.items())
            return f"{{{','.join(items)}}}"
        case float() if not math.isfinite(value):
            return "null"
    return format_js_value(value)


def is_truthy(value: Any) -> bool:
    """Return whether a value counts as true: an empty list does."""
    if isinstance(value, list | Mapping):
        return True
    return not isinstance(value, Undefined) and bool(value) and value == value


_DIGIT, _WORD = "0-9", "0-9A-Za-z_"
_LINE_ENDS = r"\n\r\u2028\u2029"
SPACE_CLASS = r"\t-\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
"""The same characters as the members of a set in a regular expression."""
_CLASSES = {"d": _DIGIT, "w": _WORD, "s": SPACE_CLASS}
"""Members of the classes of characters, which are larger in Python."""
_COMPLEMENTS = {
    "d": r"\x00-/:-\U0010ffff",
    "w": r"\x00-/:-@\[-\^`{-\U0010ffff",
    "s": r"\x00-\x08\x0e-\x1f!-\x9f\xa1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e"
    r"\u2030-\u205e\u2060-\u2fff\u3001-\ufefe\uff00-\U0010ffff",
}
"""Members of the complements of these classes."""
_ANY = r"[\x00-\U0010ffff]"
_BOUNDARY = rf"(?:(?<![{_WORD}])(?=[{_WORD}])|(?<=[{_WORD}])(?![{_WORD}]))"
_NO_BOUNDARY = rf"(?:(?<![{_WORD}])(?![{_WORD}])|(?<=[{_WORD}])(?=[{_WORD}]))"
_CONTROLS = {"t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r"}
_QUANTIFIER = regex.compile(r"[*+?]|\{(\d+)(?:,(\d*))?\}")
_GROUP = regex.compile(r"\((?:\?(?::|=|!|<=|<!|<([A-Za-z_]\w*)>))?")
_LOOK_AROUNDS = ("(?=", "(?!", "(?<=", "(?<!")


@dataclass(frozen=True)
class Translation:
    """A regular expression with the meaning of JavaScript's in Python and in JavaScript.

    Attributes:
        pattern: the expression.
        counts_units: whether it may count a character beyond U+FFFF once, and JavaScript twice.
    """

    pattern: str
    counts_units: bool


def translate_regex(pattern: str) -> Translation:
    """Translate a regular expression of `new RegExp(pattern)`.

    The classes of characters, `.`, `$` and word boundaries are written out, because Python's are
    larger; other parts are the same.

    Raises:
        NotConverted: the expression is no JavaScript, or its meaning is another one.
    """
    return _RegexTranslator(pattern).translate()


class _RegexTranslator:
    """A translator of one regular expression, which reads it from left to right."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._position = 0
        self._parts: list[str] = []
        self._groups: list[str] = []
        self._counts_units = False

    def translate(self) -> Translation:
        while self._position < len(self._pattern):
            self._translate_term()
        if self._groups:
            self._raise_error("a parenthesis is not closed")
        translated = "".join(self._parts)
        try:
            regex.compile(translated)
        except (regex.error, OverflowError, RecursionError) as error:
            raise NotConverted(f"the regular expression '{self._pattern}': {error}") from error
        return Translation(translated, self._counts_units)

    def _raise_error(self, reason: str) -> NoReturn:
        raise NotConverted(f"the regular expression '{self._pattern}': {reason}")

    def _translate_term(self) -> None:
        """Translate an atom or an assertion with its quantifier."""
        character = self._pattern[self._position]
        is_wide = False
        can_repeat = True
        match character:
            case "(":
                self._open_group()
                return
            case ")":
                if not self._groups:
                    self._raise_error("a parenthesis is not opened")
                can_repeat = self._groups.pop() not in _LOOK_AROUNDS
                self._add(")")
            case "|":
                self._add("|")
                return
            case "^":
                self._add("^")
                can_repeat = False
            case "$":
                # Python's `$` also matches before a last line break
                self._add(r"$(?!\n)")
                can_repeat = False
            case ".":
                self._add(f"[^{_LINE_ENDS}]")
                is_wide = True
            case "[":
                is_wide = self._translate_set()
            case "\\":
                is_wide, can_repeat = self._translate_escape()
            case "*" | "+" | "?":
                self._raise_error("nothing to repeat")
            case "{" if _QUANTIFIER.match(self._pattern, self._position):
                self._raise_error("nothing to repeat")
            case _:
                self._add(_escape(character))
                is_wide = ord(character) > 0xFFFF
        self._translate_quantifier(is_wide, can_repeat)

    def _add(self, part: str, length: int = 1) -> None:
        self._parts.append(part)
        self._position += length

    def _open_group(self) -> None:
        match = _GROUP.match(self._pattern, self._position)
        if match is None or self._pattern.startswith("?", match.end()):
            self._raise_error("such a group is no JavaScript")
        group = match[0]
        self._groups.append(group)
        # without references, the name of a group has no meaning
        self._add("(?:" if match[1] else group, len(group))

    def _translate_quantifier(self, is_wide: bool, can_repeat: bool) -> None:
        match = _QUANTIFIER.match(self._pattern, self._position)
        if match is None:
            self._counts_units |= is_wide
            return
        if not can_repeat:
            self._raise_error("an assertion cannot be repeated")
        # any number of characters is also any number of halves of them
        self._counts_units |= is_wide and match[0] not in ("*", "+")
        self._add(match[0], len(match[0]))
        if self._pattern.startswith("?", self._position):
            self._add("?")
        if _QUANTIFIER.match(self._pattern, self._position):
            self._raise_error("nothing to repeat")

    def _translate_escape(self) -> tuple[bool, bool]:
        """Translate an escape outside of a set; return whether it is wide, and can be repeated."""
        name = self._pattern[self._position + 1 : self._position + 2]
        if name in ("b", "B"):
            self._add(_BOUNDARY if name == "b" else _NO_BOUNDARY, 2)
            return False, False
        if name.lower() in _CLASSES:
            self._add(f"[{'^' if name.isupper() else ''}{_CLASSES[name.lower()]}]", 2)
            return name.isupper(), True
        character = self._read_character()
        self._parts.append(_escape(character))
        return False, True

    def _read_character(self) -> str:
        """Read an escape that stands for one character, and move behind it."""
        name = self._pattern[self._position + 1 : self._position + 2]
        if name in _CONTROLS:
            self._position += 2
            return _CONTROLS[name]
        hexadecimal = regex.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4}))").match(
            self._pattern, self._position
        )
        if hexadecimal:
            self._position = hexadecimal.end()
            number = int(hexadecimal[1] or hexadecimal[2], 16)
            if 0xD800 <= number < 0xE000:
                self._raise_error("it has half a character")
            return chr(number)
        # letters and digits are references, octal numbers, or letters that other languages use
        if not name or name.isalnum():
            self._raise_error(f"\\{name} is not the same in other languages")
        self._position += 2
        return name

    def _translate_set(self) -> bool:
        """Translate a set of characters; return whether it has characters beyond U+FFFF."""
        self._position += 1
        is_negated = self._pattern.startswith("^", self._position)
        self._position += is_negated
        members: list[str] = []
        # a range needs single characters on both sides
        last: str | None = None
        names: set[str] = set()
        is_wide = is_negated
        while True:
            if self._position >= len(self._pattern):
                self._raise_error("a set is not closed")
            if self._pattern[self._position] == "]":
                self._position += 1
                break
            if (
                self._pattern[self._position] == "-"
                and last is not None
                and not self._pattern.startswith("]", self._position + 1)
                and self._position + 1 < len(self._pattern)
            ):
                start = last
                self._position += 1
                end = self._read_member()
                if len(end) == 1:
                    if end < start:
                        self._raise_error("a range of a set is in the wrong order")
                    members[-1] = f"{_escape(start)}-{_escape(end)}"
                    is_wide |= ord(end) > 0xFFFF
                    last = None
                    continue
                # next to a class, the hyphen is a character
                members.append(_escape("-"))
                member = end
            else:
                member = self._read_member()
            if len(member) == 1:
                members.append(_escape(member))
                is_wide |= ord(member) > 0xFFFF
                last = member
                continue
            last = None
            names.add(member)
            is_wide |= member[1].isupper()
            classes = _COMPLEMENTS if member[1].isupper() else _CLASSES
            members.append(classes[member[1].lower()])
        is_any = any({f"\\{name}", f"\\{name.upper()}"} <= names for name in _CLASSES)
        if is_any or not members:
            # `[\s\S]` and `[^]` are every character, `[]` and `[^\s\S]` are none
            self._parts.append(_ANY if is_any != is_negated else "(?!)")
            return is_any != is_negated
        self._parts.append(f"[{'^' if is_negated else ''}{''.join(members)}]")
        return is_wide

    def _read_member(self) -> str:
        r"""Read a member of a set: a character, or a class such as `\d`."""
        character = self._pattern[self._position]
        if character != "\\":
            self._position += 1
            return character
        name = self._pattern[self._position + 1 : self._position + 2]
        if name.lower() in _CLASSES:
            self._position += 2
            return f"\\{name}"
        if name == "b":
            self._position += 2
            return "\b"
        return self._read_character()


def _escape(character: str) -> str:
    """Escape a character, in a set or outside."""
    if character.isalnum() or character in " _!\"%',/:;<=>@`" or ord(character) > 0x7F:
        return character
    if character in _CONTROLS.values():
        return "\\" + next(name for name, value in _CONTROLS.items() if value == character)
    return f"\\{character}" if character.isprintable() else f"\\x{ord(character):02x}"
