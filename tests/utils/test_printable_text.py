"""Values of YAML and JSON are quoted in messages as a user writes them."""

import pytest

from llmchecker.utils.printable_text import quote_value


@pytest.mark.parametrize(
    ("value", "quotation"),
    [
        (None, "null"),
        (True, "true"),
        ("None", "'None'"),
        (1.5, "1.5"),
        ([None, {"a": False}], "[null, {'a': false}]"),
        ({}, "{}"),
    ],
)
def test_a_value_is_quoted_with_the_words_of_yaml(value, quotation):
    """Null, true and false have the names that files have for them, at every depth."""
    assert quote_value(value) == quotation


def test_a_quotation_has_the_length_of_a_line():
    """Long and deep values, and numbers that Python does not print, are shortened."""
    deep = []
    for _ in range(5000):
        deep = [deep]
    for value in ("a" * 1000, deep, [10**5000] * 50):
        assert len(quote_value(value)) <= 101
