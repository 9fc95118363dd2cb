"""Quantifier of a regular expression's matches in a text."""

import re
import reprlib
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar

import regex

from llmchecker.errors import ConfigError
from llmchecker.properties.quantifiers.interface import TEXT_PARTS, check_one_of, select_part
from llmchecker.properties.transducers.automaton import AutomatonTransducer
from llmchecker.properties.transducers.pattern_automaton import (
    ConjunctionTransducer,
    build_automaton,
    has_exact_partial_matches,
)
from llmchecker.properties.transducers.patterns import UnsupportedPattern, parse_pattern
from llmchecker.utils.printable_text import quote_value

_MATCH_MODES = ("found", "whole", "possible", "count")
"""Modes of matching a text."""
_MAX_SECONDS = 1_000_000
"""Maximum time limit in seconds."""
_FLAGS_OR_COMMENT = re.compile(r"\(\?(?:#|[a-zA-Z0-9-]*(?:a|x|V1))")
_POSIX_CLASS = re.compile(r"\[:\^?\w+:\]")
_PATTERN_TOKEN = re.compile(r"\\.|\[\^?\]?|.", re.DOTALL)
_SEPARATORS = r"\x1c-\x1f"


def _add_separators(pattern: str) -> str:
    """Return a pattern whose `\\s` and `\\S` have the meaning of Python's `re`.

    `\\S` in a set is unchanged, and so is a pattern with a comment or the flags a, x or V1.
    ASCII `\\s` has no separators, and the others change where a set begins.
    """
    if _FLAGS_OR_COMMENT.search(pattern):
        return pattern
    tokens = []
    in_set = False
    position = 0
    while position < len(pattern):
        # every character begins a token, so a token follows
        token = next(_PATTERN_TOKEN.finditer(pattern, position))[0]
        if in_set and token[0] != "\\":
            token = pattern[position]
        if in_set and (posix_class := _POSIX_CLASS.match(pattern, position)):
            token = posix_class[0]
        position += len(token)
        if token == r"\s":
            # a set cannot be nested, so in a set only its members are added
            token = rf"\s{_SEPARATORS}" if in_set else rf"[\s{_SEPARATORS}]"
        # in a set the complement cannot exclude single characters
        elif token == r"\S" and not in_set:
            token = rf"[^\s{_SEPARATORS}]"
        elif not in_set and token[0] == "[":
            in_set = True
        elif token == "]":
            in_set = False
        tokens.append(token)
    return "".join(tokens)


@dataclass(frozen=True)
class Pattern:
    """Match of a regular expression in a text: 1 or 0, or the number of matches.

    The syntax and meaning are as in the package `regex`, but `\\s` matches \\x1c to \\x1f as in
    Python's `re`. `docs/reference/quantifiers_form.md` lists the differences from `re`. Flags are
    part of the pattern, such as (?i) to ignore case.

    Attributes:
        pattern: str, the regular expression.
        match: `found` is 1 if the pattern matches anywhere. `whole` is 1 if it matches the whole
            text. `possible` is 1 if it matches the whole text, or the whole of some longer text
            that begins with it. `count` is the number of matches without overlap.
        of: `continuation` reads the generated text alone, `text` the start string too.
        seconds: time limit in seconds for each text.
        compiled_pattern: the compiled pattern.
        possible_reader: the automaton of `possible`; None for other modes, and for a pattern that
            is too large for an automaton, of which the package reports exact partial matches.

    Raises:
        ConfigError: the pattern does not compile, another setting is unusable, or no automaton
            decides what is `possible`.
    """

    pattern: str
    match: str = "found"
    of: str = "continuation"
    seconds: float = 5.0
    compiled_pattern: regex.Pattern[str] = field(init=False, repr=False, compare=False)
    possible_reader: AutomatonTransducer | None = field(init=False, repr=False, compare=False)

    minimum: ClassVar[int | None] = 0

    def __post_init__(self) -> None:
        if not isinstance(self.pattern, str):
            raise ConfigError(f"pattern: {quote_value(self.pattern)} is not a text")
        check_one_of("match", self.match, _MATCH_MODES)
        check_one_of("of", self.of, TEXT_PARTS)
        # bool is a subclass of int
        if isinstance(self.seconds, bool) or not isinstance(self.seconds, int | float):
            raise ConfigError(f"seconds: {quote_value(self.seconds)} is not a number")
        if not self.seconds > 0:
            raise ConfigError(f"seconds: {quote_value(self.seconds)} is not above 0")
        # the package takes greater numbers for times in the past
        if self.seconds > _MAX_SECONDS:
            raise ConfigError(
                f"seconds: {quote_value(self.seconds)} is above {_MAX_SECONDS:,}; lower it"
            )
        try:
            object.__setattr__(
                self, "compiled_pattern", regex.compile(_add_separators(self.pattern))
            )
        except (regex.error, OverflowError, RecursionError) as error:
            raise ConfigError(f"pattern {self.pattern!r}: does not compile: {error}") from error
        reader = _build_possible_reader(self) if self.match == "possible" else None
        object.__setattr__(self, "possible_reader", reader)

    @property
    def maximum(self) -> int | None:
        """Maximum score; None for a count, which has no limit."""
        return None if self.match == "count" else 1

    def __call__(self, start: str, continuation: str) -> int:
        text = select_part(start, continuation, self.of)
        try:
            return self._compute_score(text)
        # a pattern can need exponential time on one text
        except TimeoutError as error:
            raise ConfigError(
                f"pattern {self.pattern!r}: longer than {self.seconds:g} s on the text "
                f"{reprlib.repr(text)}; rewrite it without nested repetitions, or raise `seconds`"
            ) from error

    def _compute_score(self, text: str) -> int:
        match self.match:
            case "found":
                return int(self.compiled_pattern.search(text, timeout=self.seconds) is not None)
            case "whole":
                return int(self.compiled_pattern.fullmatch(text, timeout=self.seconds) is not None)
            case "possible" if self.possible_reader is not None:
                return self.possible_reader.score(self.possible_reader.read_text(text)[0])
            case "possible":
                match = self.compiled_pattern.fullmatch(text, partial=True, timeout=self.seconds)
                return int(match is not None)
            # the other mode, `count`
            case _:
                return sum(1 for _ in self.compiled_pattern.finditer(text, timeout=self.seconds))

    def _score_empty_text(self) -> int:
        """Return the score of the empty text; with `possible` that of `whole`."""
        # what is possible is not known before the automaton
        return replace(self, match="whole")("", "") if self.match == "possible" else self("", "")

    def build_transducer(self) -> AutomatonTransducer | ConjunctionTransducer | None:
        """Build the incremental form; None for a pattern that no automaton matches exactly."""
        if self.match == "possible":
            return self.possible_reader
        transducer = _build_transducer(self)
        return None if isinstance(transducer, UnsupportedPattern) else transducer


@lru_cache(maxsize=64)
def _build_transducer(
    quantifier: Pattern,
) -> AutomatonTransducer | ConjunctionTransducer | UnsupportedPattern:
    """Build the incremental form, once for the many rows of a suite that share a pattern.

    Returns:
        The incremental form, or the reason why no automaton matches exactly.
    """
    try:
        return build_automaton(
            parse_pattern(quantifier.compiled_pattern.pattern),
            quantifier.match,
            reads_start=quantifier.of == "text",
            empty_score=quantifier._score_empty_text(),
        )
    except UnsupportedPattern as reason:
        return reason
    # a pattern may nest more groups than Python calls
    except RecursionError:
        return UnsupportedPattern("deeply nested groups")


def _build_possible_reader(quantifier: Pattern) -> AutomatonTransducer | None:
    """Build the automaton of `possible`; None where the package's partial match is exact.

    A partial match decides a condition on a position, such as `\\b`, as if the text ended there.

    Raises:
        ConfigError: neither an automaton nor a partial match decides what is possible.
    """
    transducer = _build_transducer(quantifier)
    if isinstance(transducer, AutomatonTransducer):
        return transducer
    if has_exact_partial_matches(quantifier.compiled_pattern.pattern):
        return None
    raise ConfigError(
        f"pattern {quantifier.pattern!r}: `possible` cannot be decided: {transducer}; rewrite the "
        "pattern, or use `found` or `whole`"
    )
