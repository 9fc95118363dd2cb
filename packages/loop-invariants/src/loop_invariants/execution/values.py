"""Values of a symbolic execution: numbers, bit vectors of Z3, addresses and bytes.

A number that depends on no input is a Python integer within the range of its type, so that runs
without inputs need no solver. A truth value of Z3 stands for 0 or 1.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import z3

from loop_invariants.execution.c_types import Integer, UnsupportedC
from loop_invariants.ir.expressions import COMPARISONS, OPERATIONS

Value = Any
"""An int, a bit vector or truth value of Z3, an Address, a Function, or Bytes."""


@dataclass(frozen=True, eq=False)
class Address:
    """The value of a pointer to an object.

    Attributes:
        obj: number of the object; 0 is null.
        offset: offset in bytes: an int or a bit vector of 64 bits.
        low: first byte of the array or variable that the pointer may reach.
        high: end of these bytes.
        whole: the same place as the address of the array or structure whose first part it is;
            None for another part.
    """

    obj: int
    offset: Any
    low: int
    high: int
    whole: "Address | None" = None


NULL = Address(0, 0, 0, 0)


@dataclass(frozen=True)
class Function:
    """The address of a function."""

    name: str


@dataclass(frozen=True)
class Bytes:
    """The value of a structure: a copy of its cells, with offsets from its beginning."""

    size: int
    cells: dict[int, tuple[int, Value]]
    fill: int | None


def is_symbolic(value: Value) -> bool:
    """Return whether a number depends on an input."""
    return isinstance(value, z3.ExprRef)


def to_vector(value: Value, bits: int) -> z3.BitVecRef:
    """Return a number as a bit vector."""
    if isinstance(value, int):
        return z3.BitVecVal(value, bits)
    if isinstance(value, z3.BoolRef):
        return z3.If(value, z3.BitVecVal(1, bits), z3.BitVecVal(0, bits))
    if not isinstance(value, z3.BitVecRef):
        raise UnsupportedC("an address as a number")
    return value


def to_truth(value: Value) -> Value:
    """Return whether a value is not zero: a bool or a truth value of Z3."""
    if isinstance(value, int):
        return value != 0
    if isinstance(value, z3.BoolRef):
        return value
    if isinstance(value, z3.BitVecRef):
        return value != 0
    if isinstance(value, Address):
        return value.obj != 0
    if isinstance(value, Function):
        return True
    raise UnsupportedC("a structure as a condition")


def fold(value: Value) -> Value:
    """Simplify a symbolic number; return an int if it is constant."""
    if not is_symbolic(value):
        return value
    value = z3.simplify(value)
    if z3.is_true(value):
        return 1
    if z3.is_false(value):
        return 0
    return value


def convert(value: Value, source: Integer, target: Integer) -> Value:
    """Convert a number from one integer type to another."""
    if target.is_bool:
        truth = to_truth(value)
        return int(truth) if isinstance(truth, bool) else truth
    if isinstance(value, int):
        return target.wrap(value)
    if isinstance(value, z3.BoolRef):
        return value
    if not isinstance(value, z3.BitVecRef):
        raise UnsupportedC("an address as a number")
    if target.bits < source.bits:
        return z3.Extract(target.bits - 1, 0, value)
    if target.bits == source.bits:
        return value
    extend = z3.SignExt if source.signed else z3.ZeroExt
    return extend(target.bits - source.bits, value)


# Operators of bit vectors are signed.
_SIGNED = {**OPERATIONS, "/": operator.truediv, "%": z3.SRem}
_UNSIGNED = _SIGNED | {
    "/": z3.UDiv,
    "%": z3.URem,
    ">>": z3.LShR,
    "<": z3.ULT,
    "<=": z3.ULE,
    ">": z3.UGT,
    ">=": z3.UGE,
}


def build_operation(symbol: str, type_: Integer) -> Callable[[Value, Value], Value]:
    """Build an operation on two numbers of a type; its result wraps around.

    The operands are checked before: no divisor is 0, and no shift is too wide. A comparison has a
    result of 0, 1, or a truth value.
    """
    vector_operation = (_SIGNED if type_.signed else _UNSIGNED)[symbol]
    bits, wrap = type_.bits, type_.wrap
    exact, low, high = OPERATIONS[symbol], type_.min_value, type_.max_value
    if symbol in COMPARISONS:

        def comparison(left: Value, right: Value) -> Value:
            if type(left) is int and type(right) is int:
                return 1 if exact(left, right) else 0
            return fold(vector_operation(to_vector(left, bits), to_vector(right, bits)))

        return comparison

    def operation(left: Value, right: Value) -> Value:
        if type(left) is int and type(right) is int:
            value = exact(left, right)
            return value if low <= value <= high else wrap(value)
        return fold(vector_operation(to_vector(left, bits), to_vector(right, bits)))

    return operation


def build_overflow_test(symbol: str, type_: Integer) -> Callable[[Value, Value], Value]:
    """Build the test that a signed operation keeps its exact result."""
    exact, low, high = OPERATIONS[symbol], type_.min_value, type_.max_value
    wide = 2 * type_.bits + 1

    def test(left: Value, right: Value) -> Value:
        if type(left) is int and type(right) is int:
            if symbol == "<<" and left < 0:
                return False
            return low <= exact(left, right) <= high
        a, b = (
            z3.SignExt(wide - type_.bits, to_vector(value, type_.bits)) for value in (left, right)
        )
        result = _SIGNED[symbol](a, b)
        keeps = z3.And(result >= low, result <= high)
        return z3.And(keeps, a >= 0) if symbol == "<<" else keeps

    return test
