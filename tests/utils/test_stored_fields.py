"""Types of stored fields."""

import math
import re

import pytest

from llmchecker.utils.stored_fields import (
    COUNT,
    END,
    NUMBER,
    TEXT,
    TRUTH,
    check_fields,
    list_of,
    mapping_of,
    optional,
    record,
)


@pytest.mark.parametrize(
    ("kind", "values", "others"),
    [
        (TEXT, ["", "a"], [1, None, []]),
        (TRUTH, [True, False], [0, 1, None]),
        (COUNT, [0, -1, 2**63], [True, 1.0, 10**30]),
        (NUMBER, [0, 1.5], [True, math.nan, math.inf, 10**400, "1"]),
        (END, [True, 0.5], [math.nan, None]),
        (optional(TEXT), [None, "a"], [1]),
        (list_of(COUNT), [[], [1, 2]], [None, "12", [1.5]]),
        (list_of(COUNT, 2), [[1, 2]], [[], [1]]),
        (mapping_of(TEXT), [{}, {"a": "b"}], [[], {"a": 1}]),
        (record({"a": TEXT}), [{"a": "b"}], [{}, {"a": 1}, {"a": "b", "c": "d"}, []]),
    ],
)
def test_a_type_includes_its_values_alone(kind, values, others):
    """Each type accepts its values, and no value of a similar type."""
    assert all(map(kind.includes, values))
    assert not any(map(kind.includes, others))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "line: [] is no object"),
        ({}, "a: it is missing"),
        ({"a": 1}, "a: 1 is not a text"),
        ({"a": 10**5000}, "a: a huge number is not a text"),
    ],
)
def test_the_first_field_of_another_type_is_named(content, message):
    """The error has the name and the value of the field."""
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        check_fields(content, {"a": TEXT})
