"""Requirements of a suite for the assertions of promptfoo's tests."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from llmchecker_promptfoo.assertions import (
    ASSERT_SET,
    Condition,
    Context,
    convert_assertion,
)
from llmchecker_promptfoo.report import NotConverted, Place
from llmchecker_promptfoo.thresholds import build_path, parse_fraction, select_required

_METRIC = "the assertion has weight 0 or is a metric, so no answer must satisfy it"

_Entries = Sequence[tuple[Any, Place]]
"""Assertions with their places."""


@dataclass
class RequirementBuilder:
    """A builder of requirements, which collects the properties that their queries name.

    Attributes:
        probability: the probability that each requirement must have at least.
        properties: the settings of the properties by name.
    """

    probability: Decimal
    properties: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def build_all(self, assertions: _Entries, context: Context) -> list[Any]:
        """Build the requirements of assertions of which each must hold."""
        require: list[Any] = []
        for assertion, place in assertions:
            try:
                converted = self._build_required(assertion, place, context)
            except NotConverted as error:
                context.report.omit(place, error)
                continue
            require += converted
        return _drop_equal(require)

    def _build_required(self, assertion: Any, place: Place, context: Context) -> list[Any]:
        """Build the requirements of an assertion, or of a set of these, that must hold."""
        if not isinstance(assertion, Mapping) or assertion.get("type") != ASSERT_SET:
            if _is_metric(assertion):
                raise NotConverted(_METRIC)
            return [self._format(convert_assertion(assertion, place, context))]
        if _is_metric(assertion):
            raise NotConverted("assert-set with weight 0 has no counterpart")
        members = _list_members(assertion, place)
        threshold = assertion.get("threshold")
        if threshold is None:
            return self.build_all(members, context)
        return self.build_threshold(members, threshold, place.child("threshold"), context)

    def build_threshold(
        self, assertions: _Entries, threshold: Any, place: Place, context: Context
    ) -> list[Any]:
        """Build the requirements of a threshold of the weighted share of assertions that hold."""
        number = parse_fraction(threshold, "the threshold")
        try:
            conditions = self._weigh(assertions, Fraction(1), context)
            if select_required(conditions, number):
                return _drop_equal([self._format(condition) for condition in conditions])
            path = build_path(conditions, number, self._name_property)
        except NotConverted as error:
            context.report.omit(place, f"threshold {threshold}: {error}")
            return []
        return [f"P>={self.probability:f} [ {path} ]"]

    def _weigh(self, assertions: _Entries, weight: Fraction, context: Context) -> list[Condition]:
        """Convert assertions with their shares of a weight."""
        members: list[tuple[Fraction, Any, Place]] = []
        for assertion, place in assertions:
            if _is_metric(assertion):
                context.report.omit(place, _METRIC)
                continue
            given = assertion.get("weight") if isinstance(assertion, Mapping) else None
            share = Fraction(1) if given is None else parse_fraction(given, "the weight")
            if share < 0:
                raise NotConverted(f"{place}: the weight is negative")
            members.append((share, assertion, place))
        total = sum((share for share, _, _ in members), Fraction(0))
        conditions: list[Condition] = []
        is_complete = bool(members)
        for share, assertion, place in members:
            part = weight * share / total
            try:
                if isinstance(assertion, Mapping) and assertion.get("type") == ASSERT_SET:
                    conditions += self._weigh(_list_members(assertion, place), part, context)
                else:
                    condition = convert_assertion(assertion, place, context)
                    conditions.append(replace(condition, weight=part))
            except NotConverted as error:
                context.report.omit(place, error)
                is_complete = False
        if not is_complete:
            raise NotConverted("not all of its assertions are converted")
        return conditions

    def _format(self, condition: Condition) -> Any:
        """Format a condition as a requirement."""
        if condition.entry is not None:
            return {**condition.entry, "at_least": self.probability}
        self.properties |= condition.properties
        return f"P>={self.probability:f} [ {condition.path} ]"

    def _name_property(self, name: str, settings: Mapping[str, Any]) -> str:
        """Return the name of a property with some settings; equal ones share it."""
        number = 1
        text = _serialize(settings)
        while _serialize(self.properties.setdefault(f"{name}_{number}", settings)) != text:
            number += 1
        return f"{name}_{number}"


def _drop_equal(require: Sequence[Any]) -> list[Any]:
    """Drop all but one of equal requirements, which promptfoo counts twice."""
    return list({_serialize(entry): entry for entry in require}.values())


def _serialize(value: Any) -> str:
    # Python's True equals 1, and those of JSON differ
    return json.dumps(value, default=str)


def _is_metric(assertion: Any) -> bool:
    """Return whether promptfoo reports an assertion without a verdict."""
    if not isinstance(assertion, Mapping):
        return False
    weight = assertion.get("weight")
    has_no_weight = isinstance(weight, int | float) and not isinstance(weight, bool) and weight == 0
    return has_no_weight or assertion.get("metricOnly") is True


def _list_members(assertion: Mapping[str, Any], place: Place) -> _Entries:
    members = assertion.get("assert")
    if not isinstance(members, list) or not members:
        raise NotConverted("assert-set has no list `assert`")
    for member in members:
        if isinstance(member, Mapping) and member.get("type") == ASSERT_SET:
            raise NotConverted("assert-set contains another assert-set")
    return place.child("assert").list_items(members)
