"""A strict reader of GGUF headers, which rejects numbers that do not fit the file.

The GGUF library follows every length and count in a file, even past the end of the file.
transformers builds every layer that a file names. A damaged file could occupy both for days.

Source of the format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from llmchecker.errors import UnusableModel
from llmchecker.models.sources.weight_sizes import WeightSizes

_STRING, _ARRAY = 8, 9
_STRUCT_FORMATS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
"""Format characters of `struct` for scalar values, by type number in the file."""
_MAX_DIMENSIONS = 8
_BLOCK_NAME = re.compile(r"blk\.(\d{1,9})\.")
_VERSIONS = (2, 3)


@dataclass(frozen=True)
class GgufHeader:
    """The header of a GGUF file.

    Attributes:
        sizes: sizes of the weights.
        tokenizer: kind of tokenizer, `tokenizer.ggml.model`; None if absent.
        pretokenizer: name of the rule that first splits a text into pieces, `tokenizer.ggml.pre`;
            None if absent.
    """

    sizes: WeightSizes
    tokenizer: str | None
    pretokenizer: str | None


def read_gguf_header(file: Path) -> GgufHeader:
    """Read the sizes of the weights and the tokenizer names from a GGUF header.

    Raises:
        UnusableModel: the header contains numbers too large for the file, or its number of layers
            does not fit its tensors: transformers would invent or skip layers.
    """
    size = file.stat().st_size
    with file.open("rb") as stream:
        try:
            return _HeaderReader(stream, size).read()
        except (struct.error, UnicodeDecodeError) as error:
            raise UnusableModel(f"GGUF file: it cannot be read: {error}") from error


class _HeaderReader:
    """A reader that makes a single pass through the header."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._size = file, size
        self._blocks: set[int] = set()  # layer numbers in the names of tensors

    def read(self) -> GgufHeader:
        magic, version = self._file.read(4), self._read_integer("I")
        if magic != b"GGUF" or version not in _VERSIONS:
            raise UnusableModel(
                f"GGUF file: version {version} is unknown; convert it to version 2 or 3"
            )
        tensor_count, entry_count = self._read_integer("Q"), self._read_integer("Q")
        layer_counts: dict[str, int | float | str | None] = {}
        tokenizer_names: dict[str, str] = {}
        for _ in range(self._check_count(entry_count)):
            key, value = self._read_text(), self._read_value(self._read_integer("I"))
            # other entries are read only to find the next one
            if key.endswith(".block_count"):
                layer_counts[key] = value
            elif key.startswith("tokenizer.") and isinstance(value, str):
                tokenizer_names[key] = value
        element_count = sum(
            self._read_tensor_size() for _ in range(self._check_count(tensor_count))
        )
        for key, value in layer_counts.items():
            # layers must be numbered without gaps, or transformers would fill them
            if value != len(self._blocks) or self._blocks != set(range(len(self._blocks))):
                raise UnusableModel(
                    f"GGUF file: {key} is {value}, but the weights have {len(self._blocks)} blocks"
                )
        return GgufHeader(
            WeightSizes(tensor_count, element_count),
            tokenizer_names.get("tokenizer.ggml.model"),
            tokenizer_names.get("tokenizer.ggml.pre"),
        )

    def _read_number(self, form: str) -> int | float:
        content = self._file.read(struct.calcsize(f"<{form}"))
        number: int | float = struct.unpack(f"<{form}", content)[0]
        return number

    def _read_integer(self, form: Literal["I", "Q"]) -> int:
        """Return an unsigned number of 4 bytes (I) or 8 bytes (Q)."""
        return int(self._read_number(form))

    def _check_count(self, count: int, width: int = 1) -> int:
        """Return the count, if the file has space for as many items of this width."""
        remaining_bytes = self._size - self._file.tell()
        if count * width > remaining_bytes:
            raise UnusableModel(
                f"GGUF file: it announces {count} entries, but {remaining_bytes} bytes follow"
            )
        return count

    def _read_text(self) -> str:
        return self._file.read(self._check_count(self._read_integer("Q"))).decode(
            "utf-8", "replace"
        )

    def _read_value(self, kind: int) -> int | float | str | None:
        """Return a number or a text; skip an array and return None."""
        if kind in _STRUCT_FORMATS:
            return self._read_number(_STRUCT_FORMATS[kind])
        if kind == _STRING:
            return self._read_text()
        if kind == _ARRAY:
            self._skip_array()
        else:
            raise UnusableModel(f"GGUF file: type {kind} of a value is unknown")
        return None

    def _skip_array(self) -> None:
        kind, count = self._read_integer("I"), self._read_integer("Q")
        if kind in _STRUCT_FORMATS:
            width = struct.calcsize(f"<{_STRUCT_FORMATS[kind]}")
            self._file.seek(self._check_count(count, width) * width, 1)
        elif kind == _STRING:
            # each string starts with its length in 8 bytes
            for _ in range(self._check_count(count, 8)):
                self._file.seek(self._check_count(self._read_integer("Q")), 1)
        else:  # the format allows nested arrays, but no model file has them
            raise UnusableModel(f"GGUF file: type {kind} of a list is unknown")

    def _read_tensor_size(self) -> int:
        """Return a tensor's number of elements; skip its type and offset."""
        if block := _BLOCK_NAME.match(self._read_text()):
            self._blocks.add(int(block[1]))
        dimensions = self._read_integer("I")
        # reject a damaged count before its sizes are read
        if dimensions > _MAX_DIMENSIONS:
            raise UnusableModel(f"GGUF file: a tensor has {dimensions} dimensions")
        numbers = 1
        for _ in range(dimensions):
            numbers *= self._read_integer("Q")
        self._read_integer("I"), self._read_integer("Q")
        if numbers > 8 * self._size:  # every type uses at least one bit for a number
            raise UnusableModel(
                f"GGUF file: a tensor has {numbers} numbers, but the file has {self._size} bytes"
            )
        return numbers
