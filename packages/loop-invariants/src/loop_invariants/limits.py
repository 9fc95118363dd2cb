"""Limits of a verification, and the wall-clock limit of the current program."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum


class Limit(StrEnum):
    """A limit that ended a verification, or a part of it, without a result."""

    PROVER_TIME = "prover time"
    """Processor time of the proof."""
    SOLVER_STEPS = "solver steps"
    """Z3 steps of a query (`rlimit`)."""
    CLOCK = "clock"
    """Wall-clock time, a multiple of the processor time: a guard against work that is not
    counted."""
    ESBMC_TIME = "ESBMC time"
    """Processor time of ESBMC."""
    ESBMC_MEMORY = "ESBMC memory"
    """Memory of ESBMC."""
    MEMORY = "memory"
    """Memory of this program."""
    CANDIDATES = "candidates"
    """Number of candidates that a source may propose for a loop."""
    ANSWERS = "answers"
    """Number of answers that a model may give."""


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
