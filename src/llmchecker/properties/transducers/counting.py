"""Token transducer of counts that depend on the end of a text in few ways."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

_Effect = tuple[tuple[int, int], ...]
"""The next state and the gain for each state."""


@dataclass(frozen=True)
class CountingTransducer:
    """Incremental form of a count, such as the number of words.

    The ends of texts fall into few classes, which are the states: what a piece adds to the count
    depends only on the class of the text before it. The effect of a piece is found by appending it
    to an example of each class.

    Attributes:
        read: returns the class of a text's end, from 0, and the count of the text, which no longer
            text has less of.
        examples: a text of each class.
        counts_start: whether the start string counts too.
        shorten: replaces a piece by another with the same effect, so that fewer are read.
    """

    read: Callable[[str], tuple[int, int]]
    examples: tuple[str, ...]
    counts_start: bool
    shorten: Callable[[str], str] = str
    _counts: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _compute_effect: Callable[[str], _Effect] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # frozen dataclass: only `object.__setattr__` can set derived fields
        object.__setattr__(self, "_counts", tuple(self.read(text)[1] for text in self.examples))
        object.__setattr__(self, "_compute_effect", lru_cache(2**12)(self._read_after_examples))

    def start(self, start: str) -> tuple[int, int]:
        """Return the state and the count after a start string."""
        return self.read(start if self.counts_start else "")

    def effect(self, piece: str) -> _Effect:
        """Return the next state and the gain for each state."""
        return self._compute_effect(self.shorten(piece))

    def advance(self, state: int, effect: _Effect) -> tuple[int, int]:
        """Return the next state and the gain for this state."""
        return effect[state]

    def score(self, state: int) -> int:
        """Return 0, since the count is the whole score."""
        del state
        return 0

    def find_range(self, state: int) -> tuple[int, None]:
        """Return 0 and None: a longer text has no smaller count."""
        del state
        return 0, None

    def _read_after_examples(self, piece: str) -> _Effect:
        effect = []
        for example, example_count in zip(self.examples, self._counts, strict=True):
            state, count = self.read(example + piece)
            effect.append((state, count - example_count))
        return tuple(effect)
