"""Parameters that only `make test-all` tries."""

from typing import Any

import pytest


def long(*values: Any) -> list:
    """The values as parameters of a long test, for a list of which `make test` tries the others.

    A value that is a tuple gives several parameters at once.
    """
    rows = (value if isinstance(value, tuple) else (value,) for value in values)
    return [pytest.param(*row, marks=pytest.mark.long) for row in rows]
