"""Token transducer of counts that depend on the end of a text in few ways."""

from collections.abc import Callable, Sequence

_Effect = tuple[tuple[int, int], ...]
"""The next state and the gain for each state."""


class CountingTransducer:
    """Incremental form of a count, such as the number of words.

    The ends of texts fall into few classes, which are the states: what a piece adds to the count
    depends only on the class of the text before it. The effect of a piece is found by appending it
    to an example of each class.

    Args:
        read: returns the class of a text's end, from 0, and the count of the text.
        examples: a text of each class.
        counts_start: whether the start string counts too.
    """

    def __init__(
        self,
        read: Callable[[str], tuple[int, int]],
        examples: Sequence[str],
        counts_start: bool,
    ) -> None:
        self._read = read
        self._counts = [(example, read(example)[1]) for example in examples]
        self._counts_start = counts_start

    def start(self, start: str) -> tuple[int, int]:
        """Return the state and the count after a start string."""
        return self._read(start if self._counts_start else "")

    def effect(self, piece: str) -> _Effect:
        """Return the next state and the gain for each state."""
        effect = []
        for example, example_count in self._counts:
            state, count = self._read(example + piece)
            effect.append((state, count - example_count))
        return tuple(effect)

    def advance(self, state: int, effect: _Effect) -> tuple[int, int]:
        """Return the next state and the gain for this state."""
        return effect[state]

    def score(self, state: int) -> int:
        """Return 0, since the count is the whole score."""
        del state
        return 0
