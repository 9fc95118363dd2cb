"""The protocol of quantifiers, and what several of them ask of their settings."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, runtime_checkable

from llmchecker.errors import ConfigError, did_you_mean
from llmchecker.queries.valuations import Range

PARTS = ("continuation", "text")
"""What a quantifier may read: what was generated alone, or the start string too."""


class Quantifier(Protocol):
    """A total function from texts to integers; the same text always has the same score.

    An implementation is a frozen dataclass whose fields are its settings. A setting that is a file
    must be a Path, so that texts are scored again when the file changes. If a setting has a value
    that cannot be used, the constructor raises ConfigError and names the setting.

    Attributes:
        minimum: the least score; None if there is none.
        maximum: the greatest score; None if there is none.
    """

    minimum: int | None
    maximum: int | None

    def __call__(self, start: str, continuation: str) -> int:
        """Score the text `start + continuation`; only `continuation` was generated."""
        ...


@runtime_checkable
class Final(Protocol):
    """A quantifier with scores that a text never loses.

    Attributes:
        final: every continuation of a text that has one of these scores has the same score.
    """

    final: Collection[int]


@runtime_checkable
class Together(Protocol):
    """A quantifier that scores several texts faster together than one by one."""

    def together(self, texts: Sequence[tuple[str, str]]) -> list[int]:
        """The scores of texts, each a start string and a continuation, as `__call__` gives them."""
        ...


def range_of(quantifier: Quantifier) -> Range:
    """The range of a quantifier, its final scores included."""
    final = sorted(quantifier.final) if isinstance(quantifier, Final) else ()
    return (quantifier.minimum, quantifier.maximum, *final)


def ranges_of(quantifiers: Mapping[str, Quantifier]) -> dict[str, Range]:
    """The range of each quantifier, by its name."""
    return {name: range_of(each) for name, each in quantifiers.items()}


def part_of(start: str, continuation: str, part: str) -> str:
    """The part of a text that a quantifier reads, one of `PARTS`."""
    return continuation if part == "continuation" else start + continuation


def require_one_of(key: str, value: object, allowed: tuple[str, ...]) -> None:
    """Check a setting that has few values.

    Raises:
        ConfigError: the value is none of those allowed.
    """
    if not isinstance(value, str) or value not in allowed:
        hint = did_you_mean(str(value), allowed) or ";"
        raise ConfigError(f"{key} is {value!r}{hint} it must be one of {', '.join(allowed)}")
