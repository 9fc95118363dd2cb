"""What every quantifier is."""

from typing import ClassVar, Protocol


class Quantifier(Protocol):
    """A total function from a text to an integer; the same text always has the same score.

    An implementation is a frozen dataclass whose fields are its settings; a setting that is a file
    is held as a Path, so that scores are made again when the file changes. It raises ConfigError,
    naming the setting, when it is made with a value that it cannot work with.
    """

    minimum: ClassVar[int | None]
    """The least score, None where there is none."""
    maximum: ClassVar[int | None]
    """The greatest score, None where there is none."""

    def __call__(self, start: str, continuation: str) -> int:
        """Score the text `start + continuation`, of which `continuation` was generated."""
        ...
