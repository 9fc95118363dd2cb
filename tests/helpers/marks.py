"""Parameters that only `make test-all` tries."""

from typing import Any

import pytest


def long(*values: Any) -> list:
    """The values as parameters of a long test, for a list of which `make test` tries the others."""
    return [pytest.param(value, marks=pytest.mark.long) for value in values]


def long_cases(*cases: tuple) -> list:
    """The cases of several parameters each, as cases of a long test."""
    return [pytest.param(*case, marks=pytest.mark.long) for case in cases]
