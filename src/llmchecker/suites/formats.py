"""Formats of other programs, whose files installed packages convert to suites.

A package registers the function that converts a format by an entry point of the group
`llmchecker.suite_formats`.
"""

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Protocol

from llmchecker.errors import MissingTool, UnknownName, did_you_mean
from llmchecker.utils.plugins import (
    PLUGIN_EXTRAS,
    SUITE_FORMATS,
    find_missing_plugin,
    find_plugins,
    load_plugin,
)

DEFAULT_FORMAT = "promptfoo"
DEFAULT_PROBABILITY = Decimal("0.95")
"""The least probability of a requirement where neither the user nor a file states one."""
_NOUN = "suite format"


def is_float(number: Decimal) -> bool:
    """Return whether the reader of suites, which reads floats, reads this number as it is."""
    return Decimal(str(float(number))) == number


@dataclass(frozen=True)
class Conversion:
    """A converted file.

    Attributes:
        omissions: the parts that were not converted, or not exactly, each with its line.
        text: the suite file, with the omissions as a comment.
    """

    omissions: tuple[str, ...]
    text: str


class Converter(Protocol):
    """The function that converts the files of a format."""

    def __call__(self, path: Path, probability: Decimal | None, model: str | None) -> Conversion:
        """Convert a file.

        Args:
            path: the file.
            probability: the probability that every assertion must have at least; None for that of
                the file, or `DEFAULT_PROBABILITY`.
            model: the model of the suite; None for a placeholder.

        Raises:
            ConfigError: the file is unreadable, or nothing of it can be converted; the message
                contains the reasons with their lines.
        """


def load_converter(name: str) -> Converter:
    """Load the function that converts a format. This runs code of its package.

    Raises:
        MissingTool: the package of the format is not installed.
        UnknownName: no package has the format.
        ConfigError: the function cannot be imported, or two packages have the format.
    """
    formats = find_plugins(SUITE_FORMATS, _NOUN)
    if name in formats:
        converter: Converter = load_plugin(formats[name], _NOUN)
        return converter
    if (message := find_missing_plugin(SUITE_FORMATS, name)) is not None:
        raise MissingTool(message)
    known = sorted({*formats, *PLUGIN_EXTRAS[SUITE_FORMATS]})
    hint = did_you_mean(name, known) or ";"
    raise UnknownName(f"{_NOUN} {name!r}: unknown{hint} known are {', '.join(known)}")
