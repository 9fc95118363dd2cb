"""Requirements in words, with their content.

{ max_words: 50, at_least: 0.9 }    max words 50, at least 0.9
P<=0.001 [ F leaks > 0 ]            F leaks > 0, with leaks = words(words=["swordfish"])
"""

from collections.abc import Mapping
from typing import Any

from llmchecker.checking.measurement import Threshold
from llmchecker.properties.definitions import (
    PROBABILITY_KEYS,
    REPEAT_KEYS,
    format_definitions,
    format_settings,
)
from llmchecker.properties.logic.ast import Expectation, Probability
from llmchecker.properties.logic.query import Query

_COMPARISONS = {">=": "at least", ">": "above", "<=": "at most", "<": "below"}


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
        # the threshold of repeats is that of one answer
        if any(name in entry for name in REPEAT_KEYS):
            return f"{format_definitions({}, entry)['assertion']}: one answer"
        assertion = {name: entry[name] for name in entry if name not in PROBABILITY_KEYS}
        return format_definitions({}, assertion)["assertion"]
    text = " ".join(entry.split())
    if isinstance(query.root, Expectation):
        text = f"{query.root.quantifier} of the answer"
    if isinstance(query.root, Probability):
        text = " ".join(query.path_text.split())
    contents = [f"{name} = {format_settings(settings[name])}" for name in settings]
    return f"{text}, with {' and '.join(contents)}" if contents else text


def describe_threshold(threshold: Threshold | None) -> str:
    """Describe a threshold, as `at least 0.95`; empty for none."""
    if threshold is None:
        return ""
    return f"{_COMPARISONS[threshold.comparison]} {threshold.number:f}"
