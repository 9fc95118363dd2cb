"""Limits on the costs of an answer, and its confidence: one description for every door."""

import time
from typing import Any

from pydantic import Field

from llmchecker.errors import ConfigError
from llmchecker.utils.section import Confidence, OptionalKey, Section, Seed, parse_section

DEFAULT_PASSES = 2_000
"""Default limit of passes, for a budget without passes and seconds."""
_DEFAULT_ANSWERS = 500
DEFAULT_CONFIDENCE = 0.99
DEFAULT_SEED = 0


class Budget(Section):
    """The limits on the costs of an answer, and its confidence."""

    passes: OptionalKey[int] = Field(default=None, ge=1, le=1_000_000_000)
    """The largest number of texts that the model evaluates; by default 2,000, or no limit with
    seconds. Seed and passes alone determine the answer."""
    seconds: OptionalKey[float] = Field(default=None, gt=0, le=1_000_000_000)
    """The longest time in seconds. The answer then depends on the machine's speed."""
    answers: int = Field(default=_DEFAULT_ANSWERS, ge=1, le=10_000_000)
    """For a model that returns texts alone, the largest number of answers, in place of passes."""
    tokens: OptionalKey[int] = Field(default=None, ge=1, le=10**15)
    """For models that return texts alone, the most tokens of prompts and answers of the run."""
    dollars: OptionalKey[float] = Field(default=None, gt=0, le=1_000_000)
    """For models that return texts alone, the most money of the run, by the `prices` of models."""
    width: float = Field(default=0.0, ge=0, le=1)
    """The sufficient width of the interval; 0 uses the whole budget. Few queries become narrow
    soon."""
    confidence: Confidence = DEFAULT_CONFIDENCE
    """The confidence of the interval."""
    seed: Seed = DEFAULT_SEED
    """The seed of the samples."""
    certain: bool = False
    """Whether to compute certain bounds only, without samples."""

    def is_late(self, start_time: float) -> bool:
        """Return whether the seconds since a start, by `time.monotonic`, are used up."""
        return self.seconds is not None and time.monotonic() - start_time >= self.seconds


def build_budget(**keys: Any) -> Budget:
    """Build a budget, with the default limit of passes unless passes or seconds are given.

    Args:
        keys: keys of `Budget`; None for the default.

    Raises:
        ConfigError: a value is out of its range, or has no effect.
    """
    given = {name: value for name, value in keys.items() if value is not None}
    unused = [name for name in ("confidence", "seed") if name in given]
    if given.get("certain") and unused:
        raise ConfigError(
            f"certain: without samples, {' and '.join(unused)} has no effect; leave one out"
        )
    # an answer may never become as narrow as its width
    if "passes" not in given and "seconds" not in given:
        given["passes"] = DEFAULT_PASSES
    return parse_section(Budget, given)
