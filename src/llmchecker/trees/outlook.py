"""What growing a tree is expected to come to, told from its first levels, and what it may come to.

A tree is refused while it is small instead of ending hours later for want of time or memory.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from llmchecker.errors import ConfigError
from llmchecker.trees.text_tree import Truncation

MOST_STATES = 10_000_000
"""The states that a tree may have where nothing else is configured: some 2 GB."""

MOST_SECONDS = 8 * 3600.0
"""The seconds that growing a tree may take where nothing else is configured."""

ENOUGH_TEXTS = 50
"""After so many texts of one level, what follows a text is known well enough to refuse a tree."""

BYTES_A_STATE = 150
"""Memory of a state besides its text: seven numbers, twice while levels are joined, and an object.
"""

_BEYOND = 1e15
"""More states than any machine has room for; a longer sum would tell nothing."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class GrowthLimits:
    """What growing one tree may come to.

    Attributes:
        states: of the tree.
        seconds: for growing it.
        memory_bytes: for the tree itself, besides the model; None for no limit.
    """

    states: int = MOST_STATES
    seconds: float = MOST_SECONDS
    memory_bytes: int | None = None


@dataclass(frozen=True)
class Outlook:
    """What growing a tree is expected to come to, all that was done so far included.

    Attributes:
        states: of the tree.
        nodes: texts that the model is asked about.
        seconds: for growing.
        memory_bytes: for the tree itself.
    """

    states: float
    nodes: float
    seconds: float
    memory_bytes: float

    def __str__(self) -> str:
        return (
            f"about {_rounded(self.states)} states, {_rounded(self.nodes)} passes, "
            f"{_rounded(self.seconds)} s and {_rounded(self.memory_bytes / 1e9)} GB for the tree"
        )


@dataclass
class Watch:
    """Tells how large a tree becomes while it grows, and ends what would exceed the limits.

    Every text that is still to be asked about is expected to have as many children as those of its
    level, or of the last level, have had so far on average, and as many of them to go on.

    Attributes:
        name: of the tree, for the log and for messages.
        truncation: of the tree.
        limits: that the tree must keep.
        characters: of the start string, which every text begins with.
        clock: returns the time in seconds.
    """

    name: str
    truncation: Truncation
    limits: GrowthLimits
    characters: int = 0
    clock: Callable[[], float] = time.monotonic
    _states: int = field(default=1, init=False)
    _nodes: int = field(default=0, init=False)
    _said: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._began = self._level_began = self.clock()

    def told(self, step: int, done: int, total: int, states: int, going_on: int) -> None:
        """Take note of a part of a level.

        Args:
            step: how many tokens the texts of the level have.
            done: how many texts of the level above have their children by now.
            total: how many will have.
            states: these children.
            going_on: those of them that are texts which have not ended.

        Raises:
            ConfigError: the tree has more states than it may have, or is expected to.
        """
        now = self.clock()
        expected = self._expected(
            self.truncation.length - step,
            total,
            states / done,
            going_on / done,
            (now - self._level_began) / done,
        )
        if done >= ENOUGH_TEXTS or self._states + states > self.limits.states:
            self._demand(expected)
        if done >= ENOUGH_TEXTS and not self._said:
            self._said = True
            _log.info("%s: expected are %s", self.name, expected)
        if done == total:
            self._states += states
            self._nodes += total
            self._level_began = now

    def _expected(
        self, levels: int, texts: float, children: float, going_on: float, seconds: float
    ) -> Outlook:
        """What the tree comes to with a level and some levels below it.

        Args:
            levels: how many are below the level.
            texts: that the model is asked about for the level.
            children: of each text, on average.
            going_on: how many of these go on in turn.
            seconds: for each text.
        """
        states, nodes = float(self._states), float(self._nodes)
        for _ in range(levels + 1):
            nodes += texts
            states += texts * children
            texts *= going_on
            if texts < 1e-9 or states > _BEYOND:
                break
        spent = self._level_began - self._began
        # a token has some four characters
        text = self.characters + 4 * self.truncation.length
        return Outlook(
            states=states,
            nodes=nodes,
            seconds=spent + (nodes - self._nodes) * seconds,
            memory_bytes=states * (BYTES_A_STATE + text),
        )

    def _demand(self, expected: Outlook) -> None:
        limits = self.limits
        told = [
            (expected.states, limits.states, "states", "expansion.most_states"),
            (expected.seconds, limits.seconds, "s", "expansion.most_hours"),
            (expected.memory_bytes, limits.memory_bytes, "bytes", "the model's mem_mb"),
        ]
        for value, most, unit, key in told:
            if most is not None and value > most:
                raise ConfigError(
                    f"the tree of {self.name}, {self.truncation}, is not grown: expected are "
                    f"{expected}, and {key} allows {most:,.10g} {unit}. Set alpha, k or L lower, "
                    f"or {key} higher"
                )


def _rounded(number: float) -> str:
    """A number with two digits that count."""
    if number > _BEYOND:
        return f"more than {_BEYOND:.0e}"
    short = float(f"{number:.2g}")
    return f"{short:,.0f}" if short >= 10 else f"{short:g}"
