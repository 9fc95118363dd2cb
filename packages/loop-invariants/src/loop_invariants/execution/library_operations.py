"""Functions of the C library that are operations of the machine, with their types."""

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Any

import z3

from loop_invariants.execution.c_types import (
    INT,
    LONG,
    ULONG,
    VOID,
    CType,
    PointerType,
    UnsupportedC,
)
from loop_invariants.execution.machine import Choice, Machine, State
from loop_invariants.execution.memory import MemoryObject
from loop_invariants.execution.values import Address, Bytes, fold, is_symbolic, to_vector

_MAX_COPIED_BYTES = 1 << 20
_MAX_PRINTED_BYTES = 1 << 8


def _expect(machine: Machine, state: State) -> None:
    """Drop the expected value of `__builtin_expect`."""
    state.stack.pop()


def _choose_sign(machine: Machine, state: State) -> None:
    """Replace a number by any number of its sign."""
    if type(state.stack[-1]) is int and state.stack[-1] == 0:
        return
    value, symbol = to_vector(state.stack[-1], 32), machine.create_symbol(32)
    machine.assume(state, z3.And((symbol > 0) == (value > 0), (symbol < 0) == (value < 0)))
    state.stack[-1] = symbol


def _choose_nonzero(machine: Machine, state: State) -> None:
    symbol = machine.create_symbol(32)
    machine.assume(state, symbol != 0)
    state.stack.append(symbol)


def _check_distinct(machine: Machine, state: State) -> None:
    """Check that two addresses share no object."""
    check_overlap(state, 1)
    del state.stack[-2:]


def check_overlap(state: State, position: int) -> None:
    """Check that the address on top of the stack shares no object with one below it."""
    a, b = state.stack[-1], state.stack[-1 - position]
    if isinstance(a, Address) and isinstance(b, Address) and a.obj == b.obj:
        raise UnsupportedC("a copy within one object")


def print_text(machine: Machine, state: State) -> None:
    """Replace a buffer and a bound by the result of `snprintf`: any number.

    The text and its end may have any place within the bound (C11 7.21.6.5).
    """
    address, size = state.stack[-2], _find_length(state.stack[-1], 1)
    if size:
        if isinstance(address, Address) and type(address.offset) is not int:
            raise Choice(2)
        # The bytes of a bound beyond the buffer are written by long texts only.
        if isinstance(address, Address) and address.obj:
            item = machine.find_object(state, address.obj)
            if address.offset + size > min(address.high, item.size) or size > _MAX_PRINTED_BYTES:
                raise UnsupportedC("snprintf with this bound")
        machine.check_address(state, address, size, 1)
        symbols = [machine.create_symbol(8) for _ in range(size)]
        machine.assume(state, z3.Or([symbol == 0 for symbol in symbols]))
        content = Bytes(size, {index: (1, symbol) for index, symbol in enumerate(symbols)}, 0)
        item = machine.change_object(state, address.obj)
        item.write_bytes(address.offset, content, lambda: 0)
        machine.log(state, True, address.obj, address.offset, size)
    state.stack[-2:] = [machine.create_symbol(32)]


def _allocate(machine: Machine, state: State, numbers: int, fill: int | None) -> None:
    """Replace the numbers on the stack, whose product is a size, by the address of memory."""
    size = prod(_find_size(state, position) for position in range(1, numbers + 1))
    number = machine.create_object(state, size, fill, "heap")
    del state.stack[-numbers:]
    state.stack.append(Address(number, 0, 0, size))


def _reallocate(machine: Machine, state: State) -> None:
    size, old = _find_size(state, 1), state.stack[-2]
    if not isinstance(old, Address) or not size:
        raise UnsupportedC("this use of realloc")
    number = machine.create_object(state, size, None, "heap")
    if old.obj:
        item = _find_allocation(machine, state, old)
        content = item.read_bytes(0, min(size, item.size))
        state.objects[number].write_bytes(0, content, lambda: machine.create_symbol(8))
        del state.objects[old.obj]
    state.stack.pop()
    state.stack[-1] = Address(number, 0, 0, size)


def _free(machine: Machine, state: State) -> None:
    address = state.stack.pop()
    if not isinstance(address, Address):
        raise UnsupportedC("free of this value")
    if address.obj == 0:
        return
    _find_allocation(machine, state, address)
    del state.objects[address.obj]


def _set_memory(machine: Machine, state: State) -> None:
    address, value, size = state.stack[-3:]
    size = _find_length(size, 1)
    _check_range(machine, state, address, size, 3)
    if size:
        item = machine.change_object(state, address.obj)
        byte = value & 255 if type(value) is int else fold(z3.Extract(7, 0, to_vector(value, 32)))
        cells = dict.fromkeys(range(size), (1, byte))
        item.write_bytes(address.offset, Bytes(size, cells, 0), lambda: 0)
        # Equal bytes of a whole object are its fill.
        if type(byte) is int and address.offset == 0 and size == item.size:
            item.cells.clear()
            item.fill = byte
        machine.log(state, True, address.obj, address.offset, size)
    del state.stack[-2:]


def _copy_memory(machine: Machine, state: State, may_overlap: bool) -> None:
    target, source, size = state.stack[-3:]
    size = _find_length(size, 1)
    _check_range(machine, state, source, size, 2)
    _check_range(machine, state, target, size, 3)
    if not may_overlap and source.obj == target.obj and size:
        distance = abs(source.offset - target.offset)
        if distance < size:
            raise UnsupportedC("a copy of bytes onto themselves")
    if size:
        content = machine.find_object(state, source.obj).read_bytes(source.offset, size)
        item = machine.change_object(state, target.obj)
        item.write_bytes(target.offset, content, lambda: machine.create_symbol(8))
        machine.log(state, False, source.obj, source.offset, size)
        machine.log(state, True, target.obj, target.offset, size)
    del state.stack[-2:]


def _find_size(state: State, position: int) -> int:
    """Return the number at a place of the stack as a size; split the run by its values."""
    size = state.stack[-position]
    if type(size) is not int:
        raise Choice(position)
    return ULONG.wrap(size)


def _find_allocation(machine: Machine, state: State, address: Address) -> MemoryObject:
    """Return allocated memory before its end; a violation for another address."""
    item = machine.find_object(state, address.obj)
    if item.kind != "heap" or type(address.offset) is not int or address.offset:
        machine.violate(state, "null")
    machine.log(state, True, address.obj, None, item.size)
    return item


def _find_length(value: Any, position: int) -> int:
    """Return a number of bytes that must be known."""
    if type(value) is not int:
        if is_symbolic(value) and not isinstance(value, z3.BoolRef):
            raise Choice(position)
        raise UnsupportedC("this number of bytes")
    size = ULONG.wrap(value)
    if size > _MAX_COPIED_BYTES:
        raise UnsupportedC("so many bytes")
    return size


def _check_range(machine: Machine, state: State, address: Any, size: int, position: int) -> None:
    # Even without bytes, the address must be valid (C11 7.24.1p2).
    if isinstance(address, Address) and type(address.offset) is not int:
        raise Choice(position)
    machine.check_address(state, address, size, 1)


_POINTER = PointerType(VOID)

LIBRARY_OPERATIONS: Mapping[
    str, tuple[CType, tuple[CType, ...], Callable[[Machine, State], None]]
] = {
    "__builtin_expect": (LONG, (LONG, LONG), _expect),
    "__any_of_sign": (INT, (INT,), _choose_sign),
    "__any_nonzero": (INT, (), _choose_nonzero),
    "__distinct": (VOID, (_POINTER, _POINTER), _check_distinct),
    "malloc": (_POINTER, (ULONG,), partial(_allocate, numbers=1, fill=None)),
    "calloc": (_POINTER, (ULONG, ULONG), partial(_allocate, numbers=2, fill=0)),
    "realloc": (_POINTER, (_POINTER, ULONG), _reallocate),
    "free": (VOID, (_POINTER,), _free),
    "memset": (_POINTER, (_POINTER, INT, ULONG), _set_memory),
    "memcpy": (_POINTER, (_POINTER, _POINTER, ULONG), partial(_copy_memory, may_overlap=False)),
    "memmove": (_POINTER, (_POINTER, _POINTER, ULONG), partial(_copy_memory, may_overlap=True)),
}
"""Types of the result and the parameters, and the operation on the stack, by name."""

ALLOCATORS = frozenset(("malloc", "calloc", "realloc"))
"""Functions whose proofs assume that allocation succeeds."""
