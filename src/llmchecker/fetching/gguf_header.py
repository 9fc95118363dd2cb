"""A strict reader of the headers of GGUF files: it believes no number that does not fit the file.

The library that reads GGUF follows every length and count that a file names, even beyond the end
of the file, and transformers builds as many layers as a file names. A damaged file could keep both
busy for days.

Source of the format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from llmchecker.errors import UnusableModel
from llmchecker.fetching.sizes import WeightSizes

_STRING, _ARRAY = 8, 9
_FORMATS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
"""The format characters of `struct` for plain values, by the number of their type in the file."""
_MOST_DIMENSIONS = 8
_BLOCK = re.compile(r"blk\.(\d{1,9})\.")
_VERSIONS = (2, 3)


@dataclass(frozen=True)
class GgufHeader:
    """What the header of a GGUF file says.

    Attributes:
        sizes: of the weights.
        tokenizer: the kind of tokenizer, `tokenizer.ggml.model`; None if none is named.
        splitting: the name of the rule by which it cuts a text into pieces first,
            `tokenizer.ggml.pre`; None if none is named.
    """

    sizes: WeightSizes
    tokenizer: str | None
    splitting: str | None


def read_gguf_header(file: Path) -> GgufHeader:
    """What the header of a GGUF file says of its weights and its tokenizer.

    Raises:
        UnusableModel: the header names more than the file holds, or its number of layers does not
            fit its tensors: transformers would make up some layers or leave some out.
    """
    size = file.stat().st_size
    with file.open("rb") as opened:
        try:
            return _Reader(opened, size).read()
        except (struct.error, UnicodeDecodeError) as error:
            raise UnusableModel(f"the GGUF file cannot be read: {error}") from error


class _Reader:
    """A reader that goes through the header once, from its first byte to its last."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._size = file, size
        self._blocks: set[int] = set()  # the layers that the tensors' names mention

    def read(self) -> GgufHeader:
        magic, version = self._file.read(4), self._number("I")
        if magic != b"GGUF" or version not in _VERSIONS:
            raise UnusableModel(
                f"the GGUF file cannot be read: it is of version {version}; known are 2 and 3"
            )
        tensors, entries = self._number("Q"), self._number("Q")
        layers, named = {}, {}
        for _ in range(self._fitting(entries)):
            key, value = self._text(), self._value(self._number("I"))
            if key.endswith(".block_count"):
                layers[key] = value
            elif key.startswith("tokenizer.") and isinstance(value, str):
                named[key] = value
        numbers = sum(self._tensor() for _ in range(self._fitting(tensors)))
        for key, value in layers.items():
            if value != len(self._blocks) or self._blocks != set(range(len(self._blocks))):
                raise UnusableModel(
                    f"the GGUF file says {key} is {value}, but its weights are those of "
                    f"{len(self._blocks)} blocks"
                )
        return GgufHeader(
            WeightSizes(tensors, numbers),
            named.get("tokenizer.ggml.model"),
            named.get("tokenizer.ggml.pre"),
        )

    def _number(self, form: str) -> int | float:
        (value,) = struct.unpack(f"<{form}", self._file.read(struct.calcsize(f"<{form}")))
        return value

    def _fitting(self, count: int, width: int = 1) -> int:
        """The same count, if the file has room for as many things of at least that width."""
        left = self._size - self._file.tell()
        if count * width > left:
            raise UnusableModel(
                f"the GGUF file cannot be read: it names {count} entries, and {left} bytes follow"
            )
        return count

    def _text(self) -> str:
        return self._file.read(self._fitting(self._number("Q"))).decode("utf-8", "replace")

    def _value(self, kind: int) -> int | float | str | None:
        """A number or a text; None for a list, which is skipped."""
        if kind in _FORMATS:
            return self._number(_FORMATS[kind])
        if kind == _STRING:
            return self._text()
        if kind == _ARRAY:
            self._pass_over_array()
        else:
            raise UnusableModel(f"the GGUF file cannot be read: it has a value of type {kind}")
        return None

    def _pass_over_array(self) -> None:
        kind, count = self._number("I"), self._number("Q")
        if kind in _FORMATS:
            width = struct.calcsize(f"<{_FORMATS[kind]}")
            self._file.seek(self._fitting(count, width) * width, 1)
        elif kind == _STRING:
            for _ in range(self._fitting(count, 8)):
                self._file.seek(self._fitting(self._number("Q")), 1)
        else:  # lists of lists are in the format, but in no file of a model
            raise UnusableModel(f"the GGUF file cannot be read: it has a list of type {kind}")

    def _tensor(self) -> int:
        """How many numbers a tensor has; its type and place are skipped."""
        if block := _BLOCK.match(self._text()):
            self._blocks.add(int(block[1]))
        dimensions = self._number("I")
        if dimensions > _MOST_DIMENSIONS:
            raise UnusableModel(
                f"the GGUF file cannot be read: a tensor has {dimensions} dimensions"
            )
        numbers = 1
        for _ in range(dimensions):
            numbers *= self._number("Q")
        self._number("I"), self._number("Q")
        if numbers > 8 * self._size:  # no type takes less than a bit for a number
            raise UnusableModel(
                f"the GGUF file cannot be read: a tensor has {numbers} numbers, and the file is "
                f"{self._size} bytes"
            )
        return numbers
