"""Operations of the machine on addresses and numbers of its stack."""

from collections.abc import Callable
from typing import Any

import z3

from loop_invariants.execution.c_types import LONG, CType, Integer, PointerType, UnsupportedC
from loop_invariants.execution.machine import Access, Choice, Machine, Operation, State
from loop_invariants.execution.values import (
    NULL,
    Address,
    Function,
    Value,
    build_operation,
    fold,
    is_symbolic,
    to_truth,
    to_vector,
)


def choose(position: int) -> None:
    """Split the run by the values of the item at a place of the stack."""
    raise Choice(position)


def as_number(truth: Value) -> Value:
    """Return a truth as a number."""
    return int(truth) if isinstance(truth, bool) else truth


def swap(state: State) -> None:
    """Exchange the two values on top."""
    stack = state.stack
    stack[-1], stack[-2] = stack[-2], stack[-1]


def duplicate(state: State) -> None:
    """Push the value on top again."""
    state.stack.append(state.stack[-1])


def keep_below(state: State) -> None:
    """Put a copy of the value on the stack below the address."""
    stack = state.stack
    stack.insert(-2, stack[-1])


def truth_of_address(state: State) -> None:
    state.stack[-1] = as_number(to_truth(state.stack[-1]))


def negate_truth(state: State) -> None:
    truth = to_truth(state.stack[-1])
    state.stack[-1] = int(not truth) if isinstance(truth, bool) else fold(z3.Not(truth))


def begin_group(state: State) -> None:
    """Begin the operands of an unspecified order."""
    state.logs.append([[]])


def next_operand(state: State) -> None:
    """Begin the next operand."""
    state.logs[-1].append([])


def end_group(state: State) -> None:
    """End the operands, and check that their order does not matter."""
    _close_group(state)


def _close_group(state: State) -> list[Access]:
    """Check that no operand changes what another one accesses; return all accesses."""
    operands = state.logs.pop()
    for index, first in enumerate(operands):
        for second in operands[index + 1 :]:
            for a in first:
                for b in second:
                    if (a.is_write or b.is_write) and a.overlaps(b):
                        raise UnsupportedC("an expression that depends on the order of its parts")
    accesses = [access for operand in operands for access in operand]
    if state.logs:
        state.logs[-1][-1] += accesses
    return accesses


def build_assignment_check(size: int, position: int) -> Operation:
    """Build the check of an assignment: no part of it changes its target at an open time.

    Args:
        size: size of the target in bytes.
        position: place of its address on the stack.
    """

    def check(state: State) -> None:
        accesses = _close_group(state)
        address = state.stack[-position]
        if not isinstance(address, Address):
            return
        offset = address.offset if type(address.offset) is int else None
        depth = len(state.frames)
        target = Access(True, address.obj, offset, size, depth)
        for access in accesses:
            # A call is complete before the assignment.
            if access.is_write and access.depth == depth and access.overlaps(target):
                raise UnsupportedC("an expression that changes a variable twice")

    return check


def build_decay(size: int | None) -> Operation:
    """Build the conversion of an array to the address of its first element."""

    def operation(state: State) -> None:
        address = state.stack[-1]
        if size is None or not isinstance(address, Address):
            return
        offset = address.offset
        if type(offset) is not int:
            # The bounds of an inner array need its place.
            choose(1)
        state.stack[-1] = narrow(address, offset, size)

    return operation


def narrow(address: Address, start: int, size: int) -> Address:
    """Return the address of a part; no access through it leaves the whole.

    The part of an element behind the end of an array has no bytes, whatever lies there.
    """
    whole = address if address.offset == start else None
    low, high = max(start, address.low), min(start + size, address.high)
    return Address(address.obj, start, low, high, whole)


def build_widening(size: int) -> Operation:
    """Build the cast of the address of a first part to that of its structure (C11 6.7.2.1p15).

    Args:
        size: size of the structure in bytes.
    """

    def operation(state: State) -> None:
        address = state.stack[-1]
        if isinstance(address, Address):
            while address.whole is not None and address.high - address.low < size:
                address = address.whole
            state.stack[-1] = address

    return operation


def build_loaded(machine: Machine, type_: CType) -> Callable[[State, Value], Value]:
    """Build the check that a loaded value belongs to its type."""
    if isinstance(type_, PointerType):

        def check_address(state: State, value: Value) -> Value:
            if isinstance(value, Address | Function):
                return value
            # Bytes of zeros are a null pointer on this machine.
            if isinstance(value, int) and value == 0:
                return NULL
            raise UnsupportedC("a pointer without a known value")

        return check_address
    assert isinstance(type_, Integer)
    low, high, wrap, bits = type_.min_value, type_.max_value, type_.wrap, type_.bits

    def check_number(state: State, value: Value) -> Value:
        if type(value) is int:
            if low <= value <= high:
                return value
            if type_.is_bool:
                raise UnsupportedC("a truth value of other bytes")
            return wrap(value)
        if not is_symbolic(value):
            raise UnsupportedC("an address as a number")
        if type_.is_bool:
            vector = to_vector(value, bits)
            machine.check_supported(state, z3.ULE(vector, 1), "a truth value of other bytes")
        return value

    return check_number


def extract_field(unit: Value, size: int, first: int, width: int, type_: Integer) -> Value:
    """Return the value of a bit-field of a unit of `size` bytes."""
    number = Integer(width, type_.signed)
    if isinstance(unit, int):
        return number.wrap(unit >> first)
    vector = z3.Extract(first + width - 1, first, to_vector(unit, 8 * size))
    bits = 32
    if width < bits:
        extend = z3.SignExt if number.signed else z3.ZeroExt
        vector = extend(bits - width, vector)
    value = fold(vector)
    return Integer(32, type_.signed).wrap(value) if isinstance(value, int) else value


def insert_field(
    unit: Value, size: int, first: int, width: int, value: Value, type_: Integer
) -> Value:
    """Return a unit with another value of a bit-field."""
    mask = ((1 << width) - 1) << first
    total = 8 * size
    if isinstance(unit, int) and isinstance(value, int):
        return ((unit & ((1 << total) - 1)) & ~mask) | ((value << first) & mask)
    vector = to_vector(value, type_.bits)
    if type_.bits < total:
        vector = z3.ZeroExt(total - type_.bits, vector)
    elif type_.bits > total:
        vector = z3.Extract(total - 1, 0, vector)
    keep = z3.BitVecVal(((1 << total) - 1) & ~mask, total)
    moved = (vector << first) & z3.BitVecVal(mask, total)
    return fold((to_vector(unit, total) & keep) | moved)


def check_pointer(
    machine: Machine, state: State, address: Address, offset: Any, inside: Any
) -> None:
    """Check that a moved pointer stays in its object, or one element behind it."""
    machine.check_supported(state, inside, "a pointer outside of its array")


def compare_addresses(machine: Machine, state: State, a: Value, b: Value) -> Any:
    """Return whether two addresses are equal, if C says so."""
    if isinstance(a, Function) or isinstance(b, Function):
        return a == b
    if not isinstance(a, Address) or not isinstance(b, Address):
        raise UnsupportedC("a comparison of these values")
    if a.obj == b.obj:
        if type(a.offset) is int and type(b.offset) is int:
            return a.offset == b.offset
        return fold(to_vector(a.offset, 64) == to_vector(b.offset, 64))
    if a.obj and b.obj:
        for address in (a, b):
            item = machine.find_object(state, address.obj)
            # The end of an object may be the beginning of another one.
            is_inside = type(address.offset) is int and 0 <= address.offset < max(1, item.size)
            if item.kind == "string" or not is_inside:
                raise UnsupportedC("a comparison with the end of an object or with a string")
    return False


def order_addresses(op: str, a: Value, b: Value) -> Value:
    """Compare the order of two addresses in one object."""
    if not isinstance(a, Address) or not isinstance(b, Address) or a.obj != b.obj or not a.obj:
        raise UnsupportedC("an order of addresses of different objects")
    return build_operation(op, LONG)(a.offset, b.offset)


def subtract_addresses(machine: Machine, state: State, a: Value, b: Value, size: int) -> Value:
    """Return the elements of a size between two addresses in one object."""
    if not isinstance(a, Address) or not isinstance(b, Address) or a.obj != b.obj or not a.obj:
        raise UnsupportedC("a difference of addresses of different objects")
    difference = build_operation("-", LONG)(a.offset, b.offset)
    if isinstance(difference, int):
        if difference % size:
            raise UnsupportedC("a difference that is no number of elements")
        return difference // size
    machine.check_supported(state, z3.SRem(difference, size) == 0, "a difference of other elements")
    return fold(difference / size)
