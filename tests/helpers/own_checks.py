"""What a person may write to ask for something that no type of the package asks."""

import sys
from dataclasses import dataclass


@dataclass
class Rude:
    """The number of exclamation marks in the continuation, at most 9."""

    minimum = 0
    maximum = 9

    def __call__(self, start: str, continuation: str) -> int:
        return min(9, continuation.count("!"))


class Breaks:
    """Divides by the length of the continuation."""

    minimum = None
    maximum = None

    def __call__(self, start: str, continuation: str) -> int:
        return 7 // len(continuation)


class Leaves(Rude):
    """Ends the program instead of scoring."""

    def __call__(self, start: str, continuation: str) -> int:
        sys.exit("gone")


class Half(Rude):
    """Half of what `Rude` says, which is not always whole."""

    def __call__(self, start: str, continuation: str) -> int:
        return super().__call__(start, continuation) / 2


class Beyond(Rude):
    """A score above its range."""

    def __call__(self, start: str, continuation: str) -> int:
        return 10


class Unranged:
    """No range."""

    def __call__(self, start: str, continuation: str) -> int:
        return 0


class Inverted(Rude):
    """A range that holds no number."""

    minimum = 10


class Worded(Rude):
    """A range in words."""

    maximum = "nine"


class Demanding(Rude):
    """Needs an argument that nobody gives."""

    def __init__(self, word: str) -> None:
        self.word = word


class Marks(Rude):
    """`Rude` with an incremental form: the state is the number of exclamation marks."""

    def build_transducer(self) -> "Marks | None":
        return self

    def start(self, start: str) -> tuple[object, object]:
        return 0, 0

    def effect(self, piece: str) -> object:
        return piece.count("!")

    def advance(self, state: int, effect: int) -> tuple[object, object]:
        return min(9, state + effect), 0

    def score(self, state: int) -> object:
        return state


class Plain(Marks):
    """Offers no incremental form after all."""

    def build_transducer(self) -> None:
        return None


class Unbuilt(Marks):
    """Cannot build its incremental form."""

    def build_transducer(self) -> "Marks":
        raise ValueError("not today")


class Stuck(Marks):
    """Its incremental form fails at a piece."""

    def effect(self, piece: str) -> int:
        return len(piece) // piece.count("!")


class Listed(Marks):
    """A state that no dictionary can hold."""

    def start(self, start: str) -> tuple[list[int], int]:
        return [0], 0


class Bare(Marks):
    """A state without a count."""

    def advance(self, state: int, effect: int) -> int:
        return state + effect


class Halved(Marks):
    """A score that is not whole."""

    def score(self, state: int) -> float:
        return state / 2


class Ranged(Marks):
    """A range of the scores of longer texts that is none."""

    def find_range(self, state: int) -> object:
        return state


class Unlimited(Marks):
    """A range with a limit that is not whole."""

    def find_range(self, state: int) -> tuple[object, object]:
        return state, 9.5


class Narrow(Marks):
    """A range of the scores of longer texts that these exceed."""

    def find_range(self, state: int) -> tuple[object, object]:
        return 0, state


class Silent:
    """Scores nothing."""
