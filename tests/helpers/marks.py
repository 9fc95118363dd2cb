"""Parameters and examples that only `make test-all` tries."""

from typing import Any

import pytest
from hypothesis import settings

_USUAL_EXAMPLES = settings.get_profile("default").max_examples


def long(*values: Any) -> list:
    """The values as parameters of a long test, for a list of which `make test` tries the others."""
    return [pytest.param(value, marks=pytest.mark.long) for value in values]


def long_cases(*cases: tuple) -> list:
    """The cases of several parameters each, as cases of a long test."""
    return [pytest.param(*case, marks=pytest.mark.long) for case in cases]


def examples(count: int) -> settings:
    """Hypothesis's settings for a number of examples, of which `make test` tries a fifth."""
    return settings(max_examples=max(1, count * settings().max_examples // _USUAL_EXAMPLES))
