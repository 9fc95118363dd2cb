"""Thresholds of promptfoo's scores as one requirement on a formula over conditions.

A score is the weighted share of the assertions that hold. It reaches a threshold if and only if at
least one of the smallest sufficient sets of assertions holds, or if a weighted sum is large enough.
"""

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from llmchecker.utils.printable_text import quote_value
from llmchecker_promptfoo.assertions import Condition
from llmchecker_promptfoo.report import NotConverted

_MAX_SETS = 6
"""Maximum number of sets in a disjunction; a sum is shorter than more of them."""
_MAX_CONDITIONS = 12
"""Maximum number of conditions whose sets are enumerated."""
_MAX_WEIGHT = 1_000_000
"""Maximum sum of the weights in a formula."""

_NameProperty = Callable[[str, Mapping[str, Any]], str]
"""A function that names a property of the suite with its settings."""


def parse_fraction(value: Any, noun: str) -> Fraction:
    """Parse a number of the configuration exactly as written.

    Raises:
        NotConverted: it is no finite number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise NotConverted(f"{noun} is {quote_value(value)}, which is no number")
    return Fraction(repr(value))


def select_required(conditions: Sequence[Condition], threshold: Fraction) -> bool:
    """Return whether a threshold requires all conditions.

    Raises:
        NotConverted: the threshold requires nothing, or more than all conditions.
    """
    if not all(condition.is_exact_score for condition in conditions):
        raise NotConverted("the score of an assertion is not 0 or 1, so the threshold is not exact")
    total = sum(condition.weight for condition in conditions)
    needed = threshold * total
    if not conditions or needed <= 0:
        raise NotConverted("the threshold is reached by every answer")
    if needed > total:
        raise NotConverted("no answer reaches the threshold")
    return needed > total - min(condition.weight for condition in conditions)


def build_path(
    conditions: Sequence[Condition], threshold: Fraction, name_property: _NameProperty
) -> str:
    """Build the path formula of a threshold.

    Raises:
        NotConverted: the formula would be too long.
    """
    needed = threshold * sum(condition.weight for condition in conditions)
    sets = _find_sets(conditions, needed)
    if sets is not None:
        paths = [_name_properties(condition, name_property) for condition in conditions]
        return " | ".join(
            " & ".join(f"({paths[i]})" for i in indices)
            if len(indices) == 1 or len(sets) == 1
            else f"({' & '.join(f'({paths[i]})' for i in indices)})"
            for indices in sets
        )
    return f"F (G {_build_sum(conditions, needed, name_property)})"


def _find_sets(conditions: Sequence[Condition], needed: Fraction) -> list[tuple[int, ...]] | None:
    """Find the smallest sufficient sets of conditions; None if these are too many."""
    if len(conditions) > _MAX_CONDITIONS:
        return None
    sets: list[tuple[int, ...]] = []
    for size in range(1, len(conditions) + 1):
        for indices in itertools.combinations(range(len(conditions)), size):
            is_sufficient = sum(conditions[i].weight for i in indices) >= needed
            if is_sufficient and not any(set(known) <= set(indices) for known in sets):
                sets.append(indices)
                if len(sets) > _MAX_SETS:
                    return None
    return sets


_BINARY_PATH = re.compile(r"(?:F|G) (\w+) = ([01])|F \(G (\w+) (!?=) 1\)")
"""The paths of conditions on quantifiers that are 0 or 1."""


def _build_sum(
    conditions: Sequence[Condition], needed: Fraction, name_property: _NameProperty
) -> str:
    """Build the comparison of a weighted sum of scores that are 0 or 1."""
    weights = [condition.weight for condition in conditions]
    scale = math.lcm(needed.denominator, *(weight.denominator for weight in weights))
    if scale * sum(weights) > _MAX_WEIGHT:
        raise NotConverted("the weights have too many digits")
    terms = []
    for condition in conditions:
        match = _BINARY_PATH.fullmatch(condition.path)
        settings = next(iter(condition.properties.values()), {})
        is_binary = settings.get("type") == "pattern" and settings.get("match") != "count"
        if match is None or not is_binary:
            raise NotConverted("the threshold has too many combinations of assertions")
        name = name_property(match[1] or match[3], settings)
        is_negated = match[2] == "0" or match[4] == "!="
        factor = int(condition.weight * scale)
        term = f"(1 - {name})" if is_negated else name
        terms.append(term if factor == 1 else f"{factor} * {term}")
    return f"{' + '.join(terms)} >= {int(needed * scale)}"


def _name_properties(condition: Condition, name_property: _NameProperty) -> str:
    """Return the path of a condition with names of the suite's properties."""
    path = condition.path
    for name, settings in condition.properties.items():
        path = re.sub(rf"\b{name}\b", name_property(name, settings), path)
    return path
