"""Forecast of a tree's size, time and memory from its first levels.

A tree whose forecast exceeds a limit is rejected early, not after hours.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from llmchecker.errors import ConfigError
from llmchecker.trees.text_tree import Truncation

MAX_STATES = 10_000_000
"""Default limit of a tree's states: about 2 GB."""

_MAX_SECONDS = 8 * 3600.0
"""Default limit of a tree's build time in seconds."""

_MIN_TEXTS = 50
"""Number of expanded texts of a level that give a reliable average."""

_BYTES_PER_STATE = 150
"""Memory of a state in bytes without its text.

A state has seven numbers, held twice while levels are concatenated, and an object.
"""

_MAX_FORECAST = 1e15
"""Number of states at which a forecast stops; no machine has the memory."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class GrowthLimits:
    """Limits of one tree.

    Attributes:
        max_states: maximum number of states.
        max_seconds: maximum build time in seconds.
        max_memory_bytes: maximum memory of the tree in bytes, without the model; None for no limit.
    """

    max_states: int = MAX_STATES
    max_seconds: float = _MAX_SECONDS
    max_memory_bytes: int | None = None


@dataclass(frozen=True)
class GrowthForecast:
    """Forecast of a whole tree, including the levels built so far.

    Attributes:
        states: number of states.
        nodes: number of texts whose next-token distribution is needed.
        seconds: build time in seconds.
        memory_bytes: memory of the tree in bytes, without the model.
    """

    states: float
    nodes: float
    seconds: float
    memory_bytes: float

    def __str__(self) -> str:
        return (
            f"about {_format_rounded(self.states)} states, {_format_rounded(self.nodes)} passes, "
            f"{_format_rounded(self.seconds)} s and {_format_rounded(self.memory_bytes / 1e9)} "
            "GB for the tree"
        )


@dataclass
class GrowthMonitor:
    """Monitor of a growing tree that raises when the forecast exceeds the limits.

    The forecast uses the averages of the current level so far. Every open text of this level and of
    the levels below it gets the average number of children, and of open children.

    Attributes:
        name: str, name of the tree, for the log and for messages.
        truncation: alpha, k and L of the tree.
        limits: limits of the tree.
        start_characters: length of the start string in characters; every text begins with it.
        clock: function that returns the time in seconds.
    """

    name: str
    truncation: Truncation
    limits: GrowthLimits
    start_characters: int = 0
    clock: Callable[[], float] = time.monotonic
    _states: int = field(default=1, init=False)
    _nodes: int = field(default=0, init=False)
    _is_logged: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._start_time = self._level_start_time = self.clock()

    def update(self, step: int, done: int, total: int, states: int, open_texts: int) -> None:
        """Record the progress of a level, and check the forecast.

        Args:
            step: number of generated tokens of the level's texts.
            done: number of texts of the level above that are expanded.
            total: number of texts of the level above.
            states: number of children of the expanded texts.
            open_texts: number of these children that are texts without an end.

        Raises:
            ConfigError: the tree or its forecast exceeds a limit.
        """
        current_time = self.clock()
        forecast = self._forecast(
            self.truncation.length - step,
            total,
            states / done,
            open_texts / done,
            (current_time - self._level_start_time) / done,
        )
        # a tree that already exceeds the limit fails even where the average is unreliable
        if done >= _MIN_TEXTS or self._states + states > self.limits.max_states:
            self._check_limits(forecast)
        # the first reliable forecast is logged once, not after every batch
        if done >= _MIN_TEXTS and not self._is_logged:
            self._is_logged = True
            _log.info("%s: expected are %s", self.name, forecast)
        # a finished level counts with its exact numbers
        if done == total:
            self._states += states
            self._nodes += total
            self._level_start_time = current_time

    def _forecast(
        self, levels: int, texts: float, children: float, open_texts: float, seconds: float
    ) -> GrowthForecast:
        """Forecast the tree from the averages of a level.

        Args:
            levels: number of levels below this level.
            texts: number of texts to expand for this level.
            children: average number of children of a text.
            open_texts: average number of open children of a text.
            seconds: average time of a text in seconds.
        """
        states, nodes = float(self._states), float(self._nodes)
        for _ in range(levels + 1):
            nodes += texts
            states += texts * children
            texts *= open_texts
            # stops a decreasing process early, and a growing process before float overflow
            if texts < 1e-9 or states > _MAX_FORECAST:
                break
        # time of finished levels is measured; only the remaining texts are forecast
        elapsed = self._level_start_time - self._start_time
        # a token has about four characters
        characters = self.start_characters + 4 * self.truncation.length
        return GrowthForecast(
            states=states,
            nodes=nodes,
            seconds=elapsed + (nodes - self._nodes) * seconds,
            memory_bytes=states * (_BYTES_PER_STATE + characters),
        )

    def _check_limits(self, forecast: GrowthForecast) -> None:
        limits = self.limits
        checks = [
            (forecast.states, limits.max_states, "states", "expansion.most_states"),
            (forecast.seconds, limits.max_seconds, "s", "expansion.most_hours"),
            (forecast.memory_bytes, limits.max_memory_bytes, "bytes", "the model's mem_mb"),
        ]
        for value, limit, unit, key in checks:
            if limit is not None and value > limit:
                raise ConfigError(
                    f"tree of {self.name}, {self.truncation}: expected {forecast}, but {key} "
                    f"allows {limit:,.10g} {unit}; lower alpha, k or L, or raise {key}"
                )


def _format_rounded(number: float) -> str:
    """Format a number with two significant digits."""
    if number > _MAX_FORECAST:
        return f"more than {_MAX_FORECAST:.0e}"
    rounded = float(f"{number:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"
