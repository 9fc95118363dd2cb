"""Requirements in words, with their content.

{ max_words: 50, at_least: 0.9 }    max words 50, at least 0.9
P<=0.001 [ F leaks > 0 ]            F leaks > 0, with leaks = words(words=["swordfish"])
"""

import json
from collections.abc import Mapping
from typing import Any

from llmchecker.checking.measurement import Threshold
from llmchecker.properties.logic.ast import Expectation, Probability
from llmchecker.properties.logic.query import Query
from llmchecker.suites.assertions import AT_LEAST, AT_MOST

_PROBABILITIES = (AT_LEAST, AT_MOST)
_COMPARISONS = {">=": "at least", ">": "above", "<=": "at most", "<": "below"}


def format_assertion(entry: Mapping[str, Any]) -> str:
    """Format an assertion with its probability, as `contains "Madrid", at least 0.95`."""
    # the assertion before its probability, in any order of the file
    names = sorted(entry, key=lambda name: name in _PROBABILITIES)
    return ", ".join(f"{name.replace('_', ' ')} {_format_value(name, entry)}" for name in names)


def describe_requirement(
    entry: str | Mapping[str, Any], query: Query, settings: Mapping[str, Mapping[str, Any]]
) -> str:
    """Describe what a requirement demands of a text, without its threshold.

    Args:
        entry: the query as text, or an assertion.
        query: the parsed query.
        settings: the settings of its quantifiers in the suite, by name.
    """
    if not isinstance(entry, str):
        assertion = {name: value for name, value in entry.items() if name not in _PROBABILITIES}
        # `refuses: true` is in words `refuses`
        return format_assertion(assertion).removesuffix(" true")
    text = " ".join(entry.split())
    if isinstance(query.root, Expectation):
        text = f"{query.root.quantifier} of the answer"
    if isinstance(query.root, Probability):
        text = text[text.index("[") + 1 : text.rindex("]")].strip()
    contents = [f"{name} = {_format_settings(settings[name])}" for name in settings]
    return f"{text}, with {' and '.join(contents)}" if contents else text


def describe_threshold(threshold: Threshold | None) -> str:
    """Describe a threshold, as `at least 0.95`; empty for none."""
    if threshold is None:
        return ""
    return f"{_COMPARISONS[threshold.comparison]} {threshold.number:f}"


def _format_settings(settings: Mapping[str, Any]) -> str:
    """Format a quantifier, as `words(words=["swordfish"])`."""
    options = (
        # a pattern keeps its backslashes
        f'{name}="{value}"' if isinstance(value, str) else f"{name}={_dump(value)}"
        for name, value in settings.items()
        if name != "type"
    )
    return f"{settings.get('type', 'quantifier')}({', '.join(options)})"


def _format_value(name: str, entry: Mapping[str, Any]) -> str:
    # a probability is a text, so that no digit is lost
    return str(entry[name]) if name in _PROBABILITIES else _dump(entry[name])


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
