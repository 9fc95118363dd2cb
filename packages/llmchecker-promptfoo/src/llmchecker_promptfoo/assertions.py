"""Assertions of promptfoo as conditions on the whole answer."""

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from llmchecker.errors import ConfigError
from llmchecker.properties.assertions import build_assertion
from llmchecker.utils.printable_text import quote_value
from llmchecker_promptfoo.documents import FILE_SCHEME, parse_js_yaml, read_value
from llmchecker_promptfoo.graders import (
    GRADED,
    WITHOUT_VALUE,
    convert_grader,
    describe_difference,
)
from llmchecker_promptfoo.javascript import (
    SPACE_CLASS,
    format_js_value,
    format_json,
    translate_regex,
)
from llmchecker_promptfoo.report import NotConverted, Place, Report
from llmchecker_promptfoo.templates import has_template, render

ASSERT_SET = "assert-set"
_NEGATION = "not-"
_DRAFT = "http://json-schema.org/draft-07/schema#"
"""The draft of JSON Schema that promptfoo's validator implements."""
_VALUE_KEYWORDS = ("const", "enum", "default", "examples")
"""Keywords of JSON Schema whose values are no schemas."""
_NAME_KEYWORDS = ("properties", "patternProperties", "definitions", "$defs", "dependencies")
"""Keywords of JSON Schema whose values have names of schemas as keys."""
_TEXT_KINDS = {
    "contains": "contains",
    "icontains": "icontains",
    "starts-with": "starts_with",
    "ends-with": "ends_with",
}
_LIST_KINDS = {
    name: name.replace("-", "_")
    for name in ("contains-any", "contains-all", "icontains-any", "icontains-all")
}
_WORDS = {"type": "pattern", "pattern": f"[^{SPACE_CLASS}]+", "match": "count"}
_COUNTS = {
    "word-count": ("spaced_words", _WORDS),
    "character-count": ("characters", {"type": "length", "unit": "characters"}),
}
"""The property of each assertion about a number, with its settings."""
_HARMLESS_KEYS = {"type", "value", "threshold", "weight", "metric", "metricOnly", "provider"}
_HARMLESS_KEYS |= {"rubricPrompt", "config", "description"}
"""Keys of an assertion that are converted, or matter to assertions without a counterpart."""

_TYPES = (
    "agent-rubric answer-relevance assert-set bertscore bleu character-count classifier contains "
    "contains-all contains-any contains-html contains-json contains-sql contains-xml "
    "context-faithfulness context-recall context-relevance conversation-relevance cost ends-with "
    "equals factuality finish-reason g-eval gleu guardrails human icontains icontains-all "
    "icontains-any is-html is-json is-refusal is-sql is-valid-function-call "
    "is-valid-openai-function-call is-valid-openai-tools-call is-xml javascript latency "
    "levenshtein llm-rubric max-score meteor model-graded-closedqa model-graded-factuality "
    "moderation perplexity perplexity-score pi python regex rouge-n ruby search-rubric "
    "select-best similar similar:cosine similar:dot similar:euclidean skill-used starts-with "
    "tool-call-f1 trace-error-spans trace-span-count trace-span-duration trajectory:goal-success "
    "trajectory:step-count trajectory:tool-args-match trajectory:tool-sequence "
    "trajectory:tool-used webhook word-count"
).split()
_EXPECTED = re.compile(
    rf"(not-)?({'|'.join(map(re.escape, _TYPES))})(?:\((\d+(?:\.\d+)?)\))?(?::(.*))?", re.DOTALL
)
_PREFIXES = {
    "javascript:": "javascript",
    "fn:": "javascript",
    "eval:": "javascript",
    "grade:": "llm-rubric",
    "llm-rubric:": "llm-rubric",
    "python:": "python",
}
_PROGRAM = re.compile(r"file://.*\.(py|[cm]?[jt]s)(:.*)?", re.DOTALL)


@dataclass(frozen=True)
class Condition:
    """A condition on the whole answer.

    Attributes:
        path: the path formula, such as `F contains = 1`.
        properties: the settings of its quantifiers by name.
        entry: the assertion of a suite, such as `{"contains": "yes"}`; None for a query.
        is_exact_score: whether promptfoo's score is 1 if it holds, and else 0.
        weight: its share of the score to which a threshold applies.
    """

    path: str
    properties: Mapping[str, Mapping[str, Any]]
    entry: Mapping[str, Any] | None = None
    is_exact_score: bool = True
    weight: Fraction = Fraction(1)


@dataclass(frozen=True)
class Context:
    """What an assertion is converted with.

    Attributes:
        variables: the variables of its test.
        folder: folder of the configuration.
        custom: names of filters that the configuration defines.
        report: the list of what is not converted.
    """

    variables: Mapping[str, Any]
    folder: Path
    report: Report
    custom: frozenset[str] = field(default_factory=frozenset)


def parse_expected(text: str) -> dict[str, Any]:
    """Parse a cell of a column `__expected`, such as `contains: yes`; a plain text means equals."""
    for prefix, kind in _PREFIXES.items():
        if text.startswith(prefix):
            return {"type": kind, "value": text.removeprefix(prefix)}
    if _PROGRAM.fullmatch(text):
        return {"type": "python" if ".py" in text else "javascript", "value": text}
    match = _EXPECTED.fullmatch(text)
    if match is None:
        return {"type": "equals", "value": text}
    assertion: dict[str, Any] = {"type": f"{match[1] or ''}{match[2]}"}
    if match[4] is not None:
        assertion["value"] = _parse_expected_value(match[2], match[4])
    if match[3] is not None:
        assertion["threshold"] = float(match[3])
    return assertion


def _parse_expected_value(kind: str, text: str) -> str | list[str]:
    if kind in _LIST_KINDS:
        # split before the templates are rendered, whose values may have commas
        with contextlib.suppress(NotConverted):
            return _split_commas(text)
    return text if kind.endswith("-json") else text.strip()


def convert_assertion(assertion: Any, place: Place, context: Context) -> Condition:
    """Convert an assertion.

    Raises:
        NotConverted: it has no counterpart.
    """
    if not isinstance(assertion, Mapping):
        raise NotConverted(f"{quote_value(assertion)} is no assertion")
    if "$ref" in assertion:
        raise NotConverted(f"the reference {assertion['$ref']} leads to no part of the file")
    full_type = assertion.get("type")
    if not isinstance(full_type, str):
        raise NotConverted("the assertion has no type")
    kind = full_type.removeprefix(_NEGATION)
    is_known = kind in (*_TEXT_KINDS, *_LIST_KINDS, *_COUNTS) or kind in (
        *("equals", "regex", "is-json", "is-refusal", "classifier", *GRADED),
    )
    if not is_known:
        raise NotConverted(f"{full_type} has no counterpart")
    for name in assertion.keys() - _HARMLESS_KEYS:
        # a transformed output is another text than the answer
        raise NotConverted(f"{full_type} with {name} has no counterpart")
    prefix = "" if kind == full_type else "not_"
    if "value" not in assertion and kind not in ("is-json", "is-refusal", *WITHOUT_VALUE):
        raise NotConverted(f"{full_type} has no value")
    value = _render_value(assertion.get("value"), context)
    try:
        return _convert(kind, prefix, value, assertion, place, context)
    except NotConverted as error:
        raise NotConverted(f"{full_type}: {error}") from error


def _render_value(value: Any, context: Context) -> Any:
    """Render the templates of a value, and read its file."""
    if isinstance(value, str):
        if value.startswith(FILE_SCHEME):
            return read_value(value, context.folder)
        if value.startswith("package:"):
            raise NotConverted(f"{value} is a program")
        return render(value, context.variables, context.custom)
    if isinstance(value, list):
        return [_render_value(item, context) if isinstance(item, str) else item for item in value]
    # promptfoo leaves templates in mappings as they are
    if has_template(value):
        raise NotConverted("a mapping has a template, which promptfoo does not render")
    return value


def _convert(
    kind: str,
    prefix: str,
    value: Any,
    assertion: Mapping[str, Any],
    place: Place,
    context: Context,
) -> Condition:
    if kind in _COUNTS:
        return _convert_count(kind, prefix, value)
    if kind == "equals" and (value is None or isinstance(value, Mapping | list)):
        # promptfoo compares these with the parsed answer
        return _build(f"{prefix}json", {"const": value})
    if kind == "equals":
        return _build(f"{prefix}equals", _check_text(format_js_value(value)))
    if kind in ("contains", "icontains") and type(value) in (int, float):
        value = format_js_value(value)
    if kind in _TEXT_KINDS:
        return _build(prefix + _TEXT_KINDS[kind], _check_text(value))
    if kind in _LIST_KINDS:
        return _build(prefix + _LIST_KINDS[kind], _parse_texts(kind, value))
    if kind == "regex":
        translation = translate_regex(_check_text(value))
        if translation.counts_units:
            note = "regex: an emoji counts as one character, and as two in promptfoo"
            context.report.omit(place, note)
        return _build(f"{prefix}matches", translation.pattern)
    if kind == "is-json":
        return _build(f"{prefix}json", _parse_schema(value))
    if kind == "is-refusal":
        note = "is-refusal: `refuses` knows other phrases than promptfoo, and no empty answers"
        context.report.omit(place, note)
        return _build(f"{prefix}refuses", True, is_exact_score=False)
    if kind in GRADED:
        settings = convert_grader(kind, value, assertion)
        context.report.omit(place, describe_difference(kind))
        return _build(f"{prefix}judge", settings, is_exact_score=False)
    return _convert_classifier(prefix, value, assertion, place, context)


def _build(kind: str, value: Any, *, is_exact_score: bool = True) -> Condition:
    try:
        assertion = build_assertion(kind, value)
    except ConfigError as error:
        raise NotConverted(error) from error
    return Condition(assertion.path, assertion.properties, {kind: value}, is_exact_score)


def _check_text(value: Any) -> str:
    if not isinstance(value, str):
        raise NotConverted(f"the value {format_json(value)} is no text")
    if not value:
        raise NotConverted("the value is an empty text")
    return value


def _parse_texts(kind: str, value: Any) -> list[str]:
    if isinstance(value, str):
        texts = _split_commas(value)
    elif isinstance(value, list):
        if any(isinstance(item, Mapping | list) for item in value):
            raise NotConverted("an item of the list is no text")
        texts = [format_js_value(item) for item in value]
    else:
        raise NotConverted("the value is neither a text nor a list")
    if kind.endswith("any") and "" in texts:
        raise NotConverted("an empty text is in every answer")
    texts = [text for text in texts if text]
    if not texts:
        raise NotConverted("the list is empty")
    return texts


def _split_commas(text: str) -> list[str]:
    """Split a text at its commas, except those in quotes: `'"1,000", in stock'` has two parts.

    Raises:
        NotConverted: a quote is not closed.
    """
    parts: list[str] = []
    position = 0
    quoted = re.compile(r'"((?:[^"\\]|\\["\\]|\\(?!["\\])|"")*)"\s*(?=,|\Z)')
    while True:
        position = len(text) - len(re.sub(r"\A[\s,]*", "", text[position:]))
        if position == len(text):
            return parts
        if text[position] == '"':
            match = quoted.match(text, position)
            if match is None:
                raise NotConverted("a quote of the value is not closed before a comma")
            parts.append(re.sub(r'\\(["\\])|"(")', r"\1\2", match[1]))
            position = match.end()
        else:
            part = text[position:].partition(",")[0]
            parts.append(part.strip())
            position += len(part)


def _parse_schema(value: Any) -> Any:
    """Return the schema of `is-json`: a mapping, or YAML or JSON as a text."""
    if value is None or value == "":
        return True
    schema = parse_js_yaml(value) if isinstance(value, str) else value
    if schema is True:
        return True
    if not isinstance(schema, Mapping):
        raise NotConverted("the value is no schema that an answer can satisfy")
    draft = schema.get("$schema", _DRAFT)
    if str(draft).rstrip("#") != _DRAFT.rstrip("#"):
        raise NotConverted(f"promptfoo does not read schemas of {draft}")
    # validators check formats in different ways, and patterns as ECMA 262 says
    if _has_format(schema):
        raise NotConverted("the schema has `format`, which promptfoo checks in its own way")
    return {"$schema": _DRAFT, **schema}


def _has_format(value: Any, *, is_schema: bool = True) -> bool:
    """Return whether a schema has the keyword `format`, and not only a property of this name."""
    if isinstance(value, list):
        return any(_has_format(item) for item in value)
    if not isinstance(value, Mapping):
        return False
    if is_schema and "format" in value:
        return True
    return any(
        _has_format(item, is_schema=not is_schema or name not in _NAME_KEYWORDS)
        for name, item in value.items()
        if not is_schema or name not in _VALUE_KEYWORDS
    )


def _convert_count(kind: str, prefix: str, value: Any) -> Condition:
    """Convert a number of words or characters, or a range of it, to a query."""
    name, settings = _COUNTS[kind]
    limits = value if isinstance(value, Mapping) else {"min": value, "max": value}
    signs = {"min": ">=", "max": "<="}
    if not limits or not limits.keys() <= signs.keys():
        raise NotConverted("the value has neither min nor max, or other keys than these")
    numbers = {key: _parse_count(limits[key]) for key in signs if key in limits}
    if numbers.get("min", 0) > numbers.get("max", float("inf")):
        raise NotConverted("min is greater than max")
    atoms = " & ".join(f"{name} {signs[key]} {number}" for key, number in numbers.items())
    return Condition(f"F (G {'!' if prefix else ''}({atoms}))", {name: settings})


def _parse_count(value: Any) -> int:
    if isinstance(value, str) and re.fullmatch(r"\s*\d+(\.0*)?\s*", value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**31:
        raise NotConverted(f"{quote_value(value)} is no number of at least 0")
    if value != int(value):
        raise NotConverted(f"{quote_value(value)} is no whole number")
    return int(value)


def _convert_classifier(
    prefix: str, value: Any, assertion: Mapping[str, Any], place: Place, context: Context
) -> Condition:
    """Convert a classifier, whose model must be put into a directory."""
    match = re.fullmatch(
        r"huggingface:text-classification:([\w.-]+(?:/[\w.-]+)?)", str(assertion.get("provider"))
    )
    if match is None or not isinstance(value, str):
        raise NotConverted("it has no label, or its provider is no huggingface:text-classification")
    threshold = assertion.get("threshold", 1)
    percent = Fraction(str(threshold)) * 100 if type(threshold) in (int, float) else Fraction(-1)
    if not 0 <= percent <= 100 or percent.denominator != 1:
        raise NotConverted("the threshold is no whole number of percent")
    directory = f"models/{match[1].replace('/', '_')}"
    context.report.omit(
        place, f"{match[1]}: put the files of this classifier into {directory} next to the suite"
    )
    settings = {"directory": directory, "label": value, "percent": int(percent)}
    return _build(f"{prefix}classifier", settings, is_exact_score=False)
