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


class Silent:
    """Scores nothing."""
