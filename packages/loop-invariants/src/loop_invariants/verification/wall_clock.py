"""The wall-clock limit of the current program, for all engines."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_DEADLINE: ContextVar[float] = ContextVar("deadline", default=float("inf"))


@contextmanager
def wall_limit(seconds: float) -> Iterator[None]:
    """Limit the wall-clock seconds of the engines in a `with` block."""
    token = _DEADLINE.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def find_remaining_seconds() -> float:
    """Return the wall-clock seconds that are left; infinite without a limit."""
    return _DEADLINE.get() - time.monotonic()
