"""Values, white space and regular expressions of JavaScript, in which promptfoo is written."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import quickjs
import regex

from llmchecker_promptfoo.report import NotConverted


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
_ATOM = r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)|[^\\]"
"""A character or an escape."""
_TOKEN = re.compile(
    r"(?P<group>\((?:\?(?::|=|!|<=|<!|<[A-Za-z_]\w*>))?)|(?P<close>\))"
    r"|(?P<set>\[\^?(?:\\.|[^\]\\])*\])|(?P<quantifier>(?:[*+?]|\{\d+(?:,\d*)?\})\??)"
    rf"|(?P<atom>{_ATOM})",
    re.DOTALL | re.ASCII,
)
"""A part of a regular expression that is valid in JavaScript."""
_MEMBER = re.compile(rf"({_ATOM})(?:-({_ATOM}))?", re.DOTALL)
"""A member of a set, or two with a hyphen between them."""
_LOOK_AROUNDS = ("(?=", "(?!", "(?<=", "(?<!")
_PLAIN_ATOMS = {
    "^": "^",
    # Python's `$` also matches before a last line break
    "$": r"$(?!\n)",
    "|": "|",
    ".": f"[^{_LINE_ENDS}]",
    r"\b": _BOUNDARY,
    r"\B": _NO_BOUNDARY,
}


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
    try:
        quickjs.Context().eval(f"new RegExp({json.dumps(pattern)})")
        return _translate_valid(pattern)
    except quickjs.JSException as error:
        reason = str(error).partition("\n")[0].removeprefix("SyntaxError: ")
        raise NotConverted(
            f"the regular expression '{pattern}' is no JavaScript: {reason}"
        ) from error
    except (NotConverted, regex.error, OverflowError, RecursionError) as error:
        raise NotConverted(f"the regular expression '{pattern}': {error}") from error


def _translate_valid(pattern: str) -> Translation:
    """Translate a regular expression that is valid in JavaScript."""
    tokens = list(_TOKEN.finditer(pattern))
    parts: list[str] = []
    groups: list[str] = []
    counts_units = False
    for number, token in enumerate(tokens):
        text = token[0]
        following = tokens[number + 1]["quantifier"] if number + 1 < len(tokens) else None
        is_wide = False
        match token.lastgroup:
            case "group":
                if text == "(" and following and following.startswith("?"):
                    raise NotConverted("such a group is no JavaScript")
                groups.append(text)
                # without references, the name of a group has no meaning
                text = "(?:" if text.endswith(">") else text
            case "close":
                if groups.pop() in _LOOK_AROUNDS and following:
                    raise NotConverted("an assertion cannot be repeated")
            case "set":
                text, is_wide = _translate_set(text)
            case "atom":
                text, is_wide = _translate_atom(text)
        # any number of characters is also any number of halves of them
        counts_units |= is_wide and (following is None or following[0] not in "*+")
        parts.append(text)
    translated = "".join(parts)
    regex.compile(translated)
    return Translation(translated, counts_units)


def _translate_atom(atom: str) -> tuple[str, bool]:
    """Translate an atom outside of a set; return also whether it is beyond U+FFFF."""
    if atom in _PLAIN_ATOMS:
        return _PLAIN_ATOMS[atom], atom == "."
    if _is_class(atom):
        return f"[{'^' if atom.isupper() else ''}{_CLASSES[atom[1].lower()]}]", atom.isupper()
    character = _read_character(atom)
    return _escape(character), ord(character) > 0xFFFF


def _translate_set(text: str) -> tuple[str, bool]:
    """Translate a set of characters; return also whether it has some beyond U+FFFF."""
    is_negated = text.startswith("[^")
    members: list[str] = []
    classes: set[str] = set()
    is_wide = is_negated
    for first, last in _MEMBER.findall(text[1 + is_negated : -1]):
        if last and not _is_class(first) and not _is_class(last):
            start, end = _read_character(first), _read_character(last)
            members.append(f"{_escape(start)}-{_escape(end)}")
            is_wide |= ord(end) > 0xFFFF
            continue
        # next to a class, the hyphen is a character
        for member in (first, "-", last) if last else (first,):
            if _is_class(member):
                classes.add(member)
                members.append((_COMPLEMENTS if member.isupper() else _CLASSES)[member[1].lower()])
                is_wide |= member.isupper()
            else:
                character = "\b" if member == r"\b" else _read_character(member)
                members.append(_escape(character))
                is_wide |= ord(character) > 0xFFFF
    is_any = any({f"\\{name}", f"\\{name.upper()}"} <= classes for name in _CLASSES)
    if is_any or not members:
        # `[\s\S]` and `[^]` are every character, `[]` and `[^\s\S]` are none
        return (_ANY, True) if is_any != is_negated else ("(?!)", False)
    return f"[{'^' if is_negated else ''}{''.join(members)}]", is_wide


def _is_class(atom: str) -> bool:
    return len(atom) == 2 and atom[1].lower() in _CLASSES


def _read_character(atom: str) -> str:
    """Return the character of an atom."""
    name = atom[1:]
    if not name:
        return atom
    if name in _CONTROLS:
        return _CONTROLS[name]
    if len(name) > 1:
        number = int(name[1:], 16)
        if 0xD800 <= number < 0xE000:
            raise NotConverted("it has half a character")
        return chr(number)
    # letters and digits are references, octal numbers, or letters that other languages use
    if name.isalnum():
        raise NotConverted(f"{atom} is not the same in other languages")
    return name


def _escape(character: str) -> str:
    """Escape a character, in a set or outside."""
    if character.isalnum() or character in " _!\"%',/:;<=>@`" or ord(character) > 0x7F:
        return character
    if character in _CONTROLS.values():
        return "\\" + next(name for name, value in _CONTROLS.items() if value == character)
    return f"\\{character}" if character.isprintable() else f"\\x{ord(character):02x}"
