"""Memory of a symbolic execution: objects of bytes, in cells of the sizes that were stored."""

from collections.abc import Callable
from typing import Any

import z3

from loop_invariants.execution.c_types import UnsupportedC
from loop_invariants.execution.values import Address, Bytes, Function, Value, fold, to_vector

_MAX_CELL_BYTES = 8


class MemoryObject:
    """An object: a variable, a string, a literal or an allocation.

    Attributes:
        size: size in bytes.
        fill: value of the bytes that no cell covers; None if they have no value.
        cells: size and value of each stored number or address, by offset.
        kind: `auto`, `static`, `heap`, `string`; the last cannot be changed.
        is_external: whether another file can change it.
        owner: state that may change the cells in place.
    """

    __slots__ = ("cells", "fill", "is_external", "kind", "owner", "size")

    def __init__(self, size: int, fill: int | None, kind: str, owner: object) -> None:
        self.size, self.fill, self.kind, self.owner = size, fill, kind, owner
        self.cells: dict[int, tuple[int, Value]] = {}
        self.is_external = False

    def copy(self, owner: object) -> "MemoryObject":
        """Copy the object for another state."""
        result = MemoryObject(self.size, self.fill, self.kind, owner)
        result.cells = dict(self.cells)
        result.is_external = self.is_external
        return result

    def find_overlap(self, offset: int, size: int) -> list[int]:
        """Return the offsets of the cells that share bytes with a range."""
        if size > len(self.cells):
            return sorted(
                start
                for start, (length, _) in self.cells.items()
                if start < offset + size and start + length > offset
            )
        found = []
        for start in range(offset - _MAX_CELL_BYTES + 1, offset + size):
            cell = self.cells.get(start)
            if cell is not None and start + cell[0] > offset:
                found.append(start)
        return found

    def store(self, offset: int, size: int, value: Value) -> None:
        """Store a number or address; a cell that it covers in part is split into bytes."""
        cell = self.cells.get(offset)
        if cell is None or cell[0] != size:
            self.clear(offset, size)
        self.cells[offset] = (size, value)

    def clear(self, offset: int, size: int) -> None:
        """Remove the cells of a range; keep their bytes outside of it."""
        for start in self.find_overlap(offset, size):
            length, value = self.cells.pop(start)
            for index in range(length):
                if not offset <= start + index < offset + size:
                    self.cells[start + index] = (1, _extract_byte(value, length, index))

    def load(self, offset: int, size: int, create: Callable[[int, int], Value]) -> Value:
        """Load a number or address from its bytes.

        Args:
            offset: offset in bytes.
            size: size in bytes.
            create: gives the bytes without a value one, by offset and size, and stores it.
        """
        cell = self.cells.get(offset)
        if cell is not None and cell[0] == size:
            return cell[1]
        starts = self.find_overlap(offset, size)
        if not starts:
            if self.fill is None:
                return create(offset, size)
            return int.from_bytes(bytes([self.fill]) * size, "little")
        parts = []
        for position in range(offset, offset + size):
            start = next((s for s in starts if s <= position < s + self.cells[s][0]), None)
            if start is None:
                parts.append(create(position, 1) if self.fill is None else self.fill)
            else:
                length, value = self.cells[start]
                parts.append(_extract_byte(value, length, position - start))
        if all(isinstance(part, int) for part in parts):
            return int.from_bytes(bytes(part & 255 for part in parts), "little")
        vectors = [to_vector(part, 8) for part in parts]
        return fold(z3.Concat(*reversed(vectors)) if size > 1 else vectors[0])

    def read_bytes(self, offset: int, size: int) -> Bytes:
        """Copy a range."""
        cells = {}
        for start in self.find_overlap(offset, size):
            length, value = self.cells[start]
            if offset <= start and start + length <= offset + size:
                cells[start - offset] = (length, value)
                continue
            for index in range(length):
                if offset <= start + index < offset + size:
                    cells[start + index - offset] = (1, _extract_byte(value, length, index))
        return Bytes(size, cells, self.fill)

    def write_bytes(self, offset: int, content: Bytes, create: Callable[[], Value]) -> None:
        """Write a copy of a range; `create` gives a value to a byte without one."""
        self.clear(offset, content.size)
        for start, (length, value) in content.cells.items():
            self.cells[offset + start] = (length, value)
        if content.fill == self.fill:
            return
        # The target's bytes without a cell have another value than those of the source.
        covered = {s + i for s, (length, _) in content.cells.items() for i in range(length)}
        for position in range(content.size):
            if position not in covered:
                value = create() if content.fill is None else content.fill
                self.cells[offset + position] = (1, value)


def _extract_byte(value: Any, length: int, index: int) -> Any:
    if isinstance(value, int):
        return (value >> (8 * index)) & 255
    if isinstance(value, Address | Function):
        raise UnsupportedC("the bytes of an address")
    vector = to_vector(value, 8 * length)
    return fold(z3.Extract(8 * index + 7, 8 * index, vector))
