"""The protocol of quantifiers."""

from typing import ClassVar, Protocol


class Quantifier(Protocol):
    """A total function from texts to integers; the same text always has the same score.

    An implementation is a frozen dataclass whose fields are its settings. A setting that is a file
    must be a Path, so that texts are scored again when the file changes. If a setting has a value
    that cannot be used, the constructor raises ConfigError and names the setting.

    Attributes:
        minimum: the least score; None if there is none.
        maximum: the greatest score; None if there is none.
    """

    minimum: ClassVar[int | None]
    maximum: ClassVar[int | None]

    def __call__(self, start: str, continuation: str) -> int:
        """Score the text `start + continuation`; only `continuation` was generated."""
        ...
