"""Assertions: short forms of requirements, each standing for a query.

    { contains: Madrid, at_least: 0.95 }       P>=0.95 [ F contains = 1 ]
    { not_contains: sorry, at_least: 0.95 }    P>=0.95 [ G contains = 0 ]
    { max_words: 50, at_least: 0.9 }           P>=0.9 [ G words <= 50 ]

    { contains: Madrid, all_of: 2, at_least: 0.25 }    P>=0.5 [ F contains = 1 ]

`contains` stays true once a text contains it, so F expresses that the answer contains it. Other
assertions may become false again. `F (G …)` expresses that they hold for the whole answer.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Any

from llmchecker.errors import ConfigError, did_you_mean
from llmchecker.properties.definitions import PROBABILITY_KEYS, REPEAT_KEYS
from llmchecker.properties.repeats import MAX_REPEATS, find_limit_of_one
from llmchecker.utils.printable_text import quote_value

AT_LEAST, AT_MOST = PROBABILITY_KEYS
"""Keys of the probability of an assertion."""

PART_KEY, _PARTS = "of", ("answer", "thought", "output")
"""Key of the part of a text that an assertion reads, and its values."""

_NEGATION = "not_"
_PROMPTFOO_KINDS = {
    **{"is-json": "json", "not-is-json": "not_json"},
    **{"regex": "matches", "not-regex": "not_matches"},
    **{"is-refusal": "refuses", "not-is-refusal": "not_refuses"},
}
"""Assertions of promptfoo with another name here."""
_MAX_SHOWN = 60
"""The largest number of characters of a value in a message."""
_NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?")
_VALID_JSON = 2
"""The score of a whole text that is valid JSON."""
_ANY_CASE = "(?i)"
"""The flag of a regular expression that matches upper and lower case alike."""


@dataclass(frozen=True)
class Assertion:
    """A path formula with its quantifiers.

    Attributes:
        path: the path formula, such as `F contains = 1`.
        properties: settings of its quantifiers by name.
    """

    path: str
    properties: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def format_query(self, probability: Decimal | None = None, *, at_most: bool = False) -> str:
        """Format the query: a threshold, or `P=?` without a probability."""
        bound = "=?" if probability is None else f"{'<=' if at_most else '>='}{probability:f}"
        return f"P{bound} [ {self.path} ]"

    def read_part(self, part: Any) -> "Assertion":
        """Return the assertion about a part: the answer, its thought, or the whole output.

        Raises:
            ConfigError: the part is unknown, or the assertion reads no text or has a part already.
        """
        if part not in _PARTS:
            hint = did_you_mean(str(part), _PARTS) or ";"
            raise ConfigError(f"of: {quote_value(part)} is unknown{hint} use {', '.join(_PARTS)}")
        if not self.properties or any(PART_KEY in each for each in self.properties.values()):
            raise ConfigError("of: no effect on this assertion; remove it")
        if part == _PARTS[0]:
            return self
        return replace(
            self,
            properties={
                name: {**settings, PART_KEY: part} for name, settings in self.properties.items()
            },
        )


def build_assertion(kind: str, value: Any = None, key: str | None = None) -> Assertion:
    """Build an assertion from its kind and value.

    Args:
        kind: a name in `KINDS`, or `not_` and such a name.
        value: the value: a text, a list of texts, a number or a JSON Schema; None for kinds
            without a value.
        key: the key or the option with the value, for messages; None for the kind.

    Raises:
        ConfigError: the kind is unknown, or the value is unusable.
    """
    _check_kind(kind)
    try:
        return KINDS[kind.removeprefix(_NEGATION)](value, kind.startswith(_NEGATION))
    except ConfigError as error:
        raise ConfigError(f"{key or kind}: {error}") from error


def _check_kind(kind: str) -> None:
    if kind.removeprefix(_NEGATION) not in KINDS:
        negations = (f"{_NEGATION}{each}" for each in KINDS)
        hint = did_you_mean(kind, (*KINDS, *negations, AT_LEAST, AT_MOST)) or ";"
        raise ConfigError(f"{kind}: there is no such assertion{hint} known are {', '.join(KINDS)}")


def find_kind(entry: Mapping[str, Any]) -> str:
    """Return the key of an entry that is the kind of its assertion.

    Raises:
        ConfigError: a key is unknown, or the entry has not exactly one assertion.
    """
    kinds = [key for key in entry if key not in (*PROBABILITY_KEYS, *REPEAT_KEYS, PART_KEY)]
    for kind in kinds:
        _check_kind(kind)
    if len(kinds) != 1:
        raise ConfigError(
            f"{quote_value(dict(entry))}: it has {len(kinds)} assertions; write exactly one"
        )
    return kinds[0]


def parse_assertion(entry: Mapping[str, Any]) -> tuple[str, Assertion]:
    """Parse an entry such as `{contains: Madrid, at_least: 0.95}`, with or without `of`.

    Returns:
        The query with a threshold, and the assertion.

    Raises:
        ConfigError: the entry has no probability, or not exactly one assertion.
    """
    _check_form(entry)
    probabilities = {key: entry[key] for key in (AT_LEAST, AT_MOST) if key in entry}
    repeats = {key: entry[key] for key in REPEAT_KEYS if key in entry}
    kind = find_kind(entry)
    if len(probabilities) != 1:
        raise ConfigError(
            f"{quote_value(dict(entry))}: write a probability, {AT_LEAST} or {AT_MOST}"
        )
    assertion = build_assertion(kind, entry[kind])
    if PART_KEY in entry:
        assertion = assertion.read_part(entry[PART_KEY])
    ((key, value),) = probabilities.items()
    probability = _find_probability_of_one(parse_probability(key, value), key == AT_MOST, repeats)
    return assertion.format_query(probability, at_most=key == AT_MOST), assertion


def _find_probability_of_one(
    probability: Decimal, is_upper: bool, repeats: Mapping[str, Any]
) -> Decimal:
    """Return the limit of one answer's probability; the given one without repeats."""
    if not repeats:
        return probability
    if len(repeats) > 1:
        raise ConfigError(f"any_of: {REPEAT_KEYS[0]} excludes it; write one of the two")
    ((key, value),) = repeats.items()
    try:
        count = _check_number(value)
    except ConfigError:
        count = 0
    if not 2 <= count <= MAX_REPEATS:
        raise ConfigError(
            f"{key}: {quote_value(value)} is no number of answers; write one from 2 to "
            f"{MAX_REPEATS}"
        )
    is_all = key == REPEAT_KEYS[0]
    return find_limit_of_one(probability, count, is_all=is_all, is_upper=is_upper)


def check_names(entries: Mapping[str, Any]) -> None:
    """Check that a mapping of requirements by name is not meant as one assertion.

    Raises:
        ConfigError: it has the form of an assertion of promptfoo, or of one without a probability.
    """
    _check_form(entries)
    for key, value in entries.items():
        kind = key.removeprefix(_NEGATION)
        # a requirement may have the name of an assertion; a query has brackets
        is_requirement = is_assertion(value) or (isinstance(value, str) and "[" in value)
        is_value = not isinstance(value, Mapping) or kind in _MAPPING_KINDS
        if kind in KINDS and is_value and not is_requirement:
            parse_assertion(entries)


def _check_form(entry: Mapping[str, Any]) -> None:
    """Check that an entry is not `{type: contains, value: Madrid}`, as promptfoo writes it."""
    name = entry.get("type")
    if not isinstance(name, str) or "[" in name:
        return
    kind = _PROMPTFOO_KINDS.get(name, name.replace("-", "_"))
    known = f"known are {', '.join(KINDS)}"
    if kind.removeprefix(_NEGATION) in KINDS:
        value = json.dumps(entry.get("value", True), ensure_ascii=False, default=str)
        shown = value if len(value) <= _MAX_SHOWN else "…"
        known = f"write {{{kind}: {shown}, {AT_LEAST}: 0.95}}"
    raise ConfigError(f"type: {name!r}: the name of an assertion is its key here; {known}")


def check_query_text(text: str) -> None:
    """Check that a requirement in one text is not meant as an assertion, which is a mapping.

    Raises:
        ConfigError: it begins with the name of an assertion, as in `contains: Madrid`.
    """
    name, colon, value = (part.strip() for part in text.partition(":"))
    if name.removeprefix(_NEGATION) in KINDS:
        shown = json.dumps(value, ensure_ascii=False) if colon else "true"
        shown = shown if len(shown) <= _MAX_SHOWN else "…"
        raise ConfigError(
            f"an assertion is no text; write {{{name}: {shown}, {AT_LEAST}: 0.95}} without quotes "
            "around it"
        )


def is_assertion(entry: Any) -> bool:
    """Return whether an entry of a suite file is an assertion, and not a mapping of names."""
    return isinstance(entry, Mapping) and bool({AT_LEAST, AT_MOST} & entry.keys())


def select_texts(place: str, entry: Mapping[str, Any], texts: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry with texts and probabilities exactly as the suite file contains them.

    Args:
        place: the key of the entry.
        entry: the entry as plain data, in which 3.10 is a number.
        texts: the entry with each scalar as text, in which 3.10 is `3.10`.

    Raises:
        ConfigError: a template is without quotes, so that YAML reads a mapping.
    """
    for key, value in entry.items():
        if key.removeprefix(_NEGATION) not in _MAPPING_KINDS:
            check_quotes(f"{place}: {key}", value, texts[key])
    return {
        key: _select_text(value, texts[key]) if _is_text(key) else value
        for key, value in entry.items()
    }


def check_quotes(place: str, value: Any, texts: Any) -> None:
    """Check that a text is no template without quotes, which YAML reads as a mapping.

    Args:
        place: its key.
        value: the text, or a list of texts.
        texts: the same with each scalar as text.

    Raises:
        ConfigError: the value is a mapping of a name to nothing.
    """
    if isinstance(value, list):
        for item, text in zip(value, texts, strict=True):
            check_quotes(place, item, text)
    elif isinstance(value, Mapping) and list(texts.values()) == [""]:
        template = f"{{{next(iter(texts))}}}"
        raise ConfigError(f'{place}: {template} is a mapping in YAML; write "{template}" in quotes')


def _select_text(value: Any, text: Any) -> Any:
    if isinstance(value, list):
        return [_select_text(item, part) for item, part in zip(value, text, strict=True)]
    # null is a value that is missing, and no text
    return value if value is None or isinstance(value, Mapping) else text


def _is_text(key: str) -> bool:
    return key in (AT_LEAST, AT_MOST) or key.removeprefix(_NEGATION) in _TEXT_KINDS


def parse_probability(key: str, value: Any) -> Decimal:
    """Parse a probability from 0 to 1, exactly as written."""
    text = str(value).strip()
    if isinstance(value, bool) or not _NUMBER.fullmatch(text):
        raise ConfigError(f"{key}: {quote_value(value)} is not a number; write one from 0 to 1")
    number = Decimal(text)
    if not 0 <= number <= 1:
        raise ConfigError(
            f"{key}: {quote_value(value)} is not a probability; write one from 0 to 1"
        )
    return number


def _check_text(value: Any) -> str:
    if isinstance(value, Mapping):
        raise ConfigError(f"value: {quote_value(value)} is a mapping, no text; write it in quotes")
    if value is None:
        raise ConfigError("value: null is no text; write a text, in quotes if it is null")
    if not isinstance(value, str):
        raise ConfigError(f"value: {quote_value(value)} is no text; write one text")
    if not value:
        raise ConfigError("value: the text is empty; write a text")
    return value


def _check_texts(value: Any) -> list[str]:
    # one text or several: the file does not say
    if isinstance(value, str) and (separator := re.search(r"[,;|\n]", value)):
        parts = quote_value([part.strip() for part in value.split(separator[0])])
        shown = quote_value(value)
        raise ConfigError(f"value: {shown} is one text; write a list such as {parts}, or [{shown}]")
    texts = value if isinstance(value, list | tuple) else [value]
    if not texts:
        raise ConfigError("value: the list is empty; write a text")
    return [_check_text(text) for text in texts]


def _check_number(value: Any) -> int:
    # the cell of a column is a text
    if isinstance(value, str) and re.fullmatch(r"\s*[0-9]{1,9}\s*", value):
        return int(value)
    if type(value) is not int or value < 0:
        raise ConfigError(
            f"value: {quote_value(value)} is no count; write a whole number of at least 0"
        )
    return value


def _check_true(value: Any) -> None:
    """Check that the value of an assertion without a value is true or absent."""
    if value not in (None, True):
        raise ConfigError(f"value: {quote_value(value)} is not true; write true")


def _pattern(text: str, match: str = "found") -> dict[str, Any]:
    return {"type": "pattern", "pattern": text, "match": match}


def _build_monotone(name: str, settings: Mapping[str, Any], is_negated: bool) -> Assertion:
    """Build an assertion that stays true once it is true."""
    path = f"G {name} = 0" if is_negated else f"F {name} = 1"
    return Assertion(path, {name: settings})


def _build_final(name: str, settings: Mapping[str, Any], is_negated: bool, truth: int) -> Assertion:
    """Build an assertion about the whole answer."""
    return Assertion(f"F (G {name} {'!=' if is_negated else '='} {truth})", {name: settings})


def _contains(value: Any, is_negated: bool, flags: str = "") -> Assertion:
    pattern = _pattern(flags + re.escape(_check_text(value)))
    return _build_monotone("contains", pattern, is_negated)


def _contains_any(value: Any, is_negated: bool, flags: str = "") -> Assertion:
    alternatives = "|".join(map(re.escape, _check_texts(value)))
    return _build_monotone("contains", _pattern(f"{flags}(?:{alternatives})"), is_negated)


def _contains_all(value: Any, is_negated: bool, flags: str = "") -> Assertion:
    # every text at any position: a look-ahead for each
    parts = "".join(f"(?=.*{re.escape(text)})" for text in _check_texts(value))
    return _build_monotone("contains", _pattern(f"(?s){flags}\\A{parts}"), is_negated)


def _equals(value: Any, is_negated: bool) -> Assertion:
    return _build_final("equals", _pattern(re.escape(_check_text(value)), "whole"), is_negated, 1)


def _matches(value: Any, is_negated: bool) -> Assertion:
    return _build_final("matches", _pattern(_check_text(value)), is_negated, 1)


def _starts_with(value: Any, is_negated: bool) -> Assertion:
    return _build_monotone("starts", _pattern(rf"\A{re.escape(_check_text(value))}"), is_negated)


def _ends_with(value: Any, is_negated: bool) -> Assertion:
    return _build_final("matches", _pattern(rf"{re.escape(_check_text(value))}\Z"), is_negated, 1)


def _json(value: Any, is_negated: bool) -> Assertion:
    # true and an empty value demand valid JSON of any kind
    schema = True if value is None else value
    if not isinstance(schema, bool | Mapping):
        raise ConfigError(f"value: {quote_value(schema)} is no schema; write true or a JSON Schema")
    return _build_final("json", {"type": "json", "schema": schema}, is_negated, _VALID_JSON)


def _max_length(value: Any, is_negated: bool, unit: str) -> Assertion:
    limit = _check_number(value)
    # a longer text never has a smaller length
    path = f"F {unit} > {limit}" if is_negated else f"G {unit} <= {limit}"
    return Assertion(path, {unit: {"type": "length", "unit": unit}})


def _min_length(value: Any, is_negated: bool, unit: str) -> Assertion:
    limit = _check_number(value)
    path = f"G {unit} < {limit}" if is_negated else f"F {unit} >= {limit}"
    return Assertion(path, {unit: {"type": "length", "unit": unit}})


def _refuses(value: Any, is_negated: bool) -> Assertion:
    _check_true(value)
    return _build_monotone("refuses", {"type": "refuses"}, is_negated)


def _ends(value: Any, is_negated: bool) -> Assertion:
    _check_true(value)
    return Assertion('G !"end"' if is_negated else 'F "end"')


def _classifier(value: Any, is_negated: bool) -> Assertion:
    if not isinstance(value, Mapping) or not {"directory", "label"} <= value.keys():
        raise ConfigError(
            f"value: {quote_value(value)} is incomplete; write directory, label and percent"
        )
    percent = _check_number(value.get("percent", 50))
    settings = {key: item for key, item in value.items() if key != "percent"}
    comparison = "<" if is_negated else ">="
    path = f"F (G classified {comparison} {percent})"
    return Assertion(path, {"classified": {"type": "classifier", **settings}})


def _judge(value: Any, is_negated: bool) -> Assertion:
    if not isinstance(value, Mapping) or "model" not in value:
        raise ConfigError(
            f"value: {quote_value(value)} is no judge; write model, and question or rubric"
        )
    settings = {key: item for key, item in value.items() if key != "grade"}
    # a question is answered by yes (1) or no (0)
    if "grade" not in value and "rubric" in value:
        raise ConfigError("grade: it is missing; write the least grade that is good enough")
    grade = _check_number(value.get("grade", 1))
    path = f"F (G judged {'<' if is_negated else '>='} {grade})"
    return Assertion(path, {"judged": {"type": "judge", **settings}})


LIST_KINDS = ("contains_any", "icontains_any", "contains_all", "icontains_all")
"""Kinds whose value is a list of texts."""
_TEXT_KINDS = frozenset(
    {
        *("contains", "icontains", *LIST_KINDS),
        *("equals", "matches", "starts_with", "ends_with"),
    }
)
"""Kinds whose value is a text or a list of texts."""
_MAPPING_KINDS = ("json", "classifier", "judge")
"""Kinds whose value may be a mapping."""

KINDS: Mapping[str, Callable[[Any, bool], Assertion]] = {
    "contains": _contains,
    "icontains": partial(_contains, flags=_ANY_CASE),
    "contains_any": _contains_any,
    "icontains_any": partial(_contains_any, flags=_ANY_CASE),
    "contains_all": _contains_all,
    "icontains_all": partial(_contains_all, flags=_ANY_CASE),
    "equals": _equals,
    "matches": _matches,
    "starts_with": _starts_with,
    "ends_with": _ends_with,
    "json": _json,
    "max_words": partial(_max_length, unit="words"),
    "min_words": partial(_min_length, unit="words"),
    "max_characters": partial(_max_length, unit="characters"),
    "min_characters": partial(_min_length, unit="characters"),
    "max_sentences": partial(_max_length, unit="sentences"),
    "min_sentences": partial(_min_length, unit="sentences"),
    "refuses": _refuses,
    "ends": _ends,
    "classifier": _classifier,
    "judge": _judge,
}
"""Builders of assertions by name; each takes the value, and whether it is negated."""
