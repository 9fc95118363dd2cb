"""Types of C with sizes and layouts, as gcc has them on x86-64 Linux."""

from dataclasses import dataclass, field


class UnsupportedC(Exception):
    """A construct without a meaning here; a run that reaches it is not decided."""


@dataclass(frozen=True)
class Integer:
    """An integer type.

    Attributes:
        bits: width in memory, in bits.
        signed: whether the type is signed.
        is_bool: whether the type is `_Bool`, whose values are 0 and 1.
        is_volatile: whether each read may give any value.
    """

    bits: int
    signed: bool = True
    is_bool: bool = False
    is_volatile: bool = field(default=False, compare=False)

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.bits // 8

    @property
    def align(self) -> int:
        """Alignment in bytes."""
        return self.bits // 8

    @property
    def max_value(self) -> int:
        """Greatest value."""
        return 1 if self.is_bool else (1 << (self.bits - self.signed)) - 1

    @property
    def min_value(self) -> int:
        """Least value."""
        return -(1 << (self.bits - 1)) if self.signed else 0

    def wrap(self, value: int) -> int:
        """Convert a number to the type, modulo its range."""
        value &= (1 << self.bits) - 1
        return value - (1 << self.bits) if self.signed and value >> (self.bits - 1) else value


@dataclass(frozen=True)
class PointerType:
    """The type of a pointer; all pointers have 8 bytes."""

    target: "CType"
    size: int = 8
    align: int = 8


@dataclass(frozen=True)
class Array:
    """The type of an array.

    Attributes:
        element: type of the elements.
        length: number of elements; None if it is open, or known at run time only.
    """

    element: "CType"
    length: int | None

    @property
    def size(self) -> int:
        """Size in bytes."""
        if self.length is None:
            raise UnsupportedC("the size of an array of an open length")
        return self.length * self.element.size

    @property
    def align(self) -> int:
        """Alignment in bytes."""
        return self.element.align


@dataclass(frozen=True)
class Field:
    """A field of a structure or a union.

    Attributes:
        name: name; empty for an anonymous structure.
        type: type.
        offset: offset in bytes.
        bit_offset: offset in bits from the offset in bytes; None without a width.
        width: width of a bit-field in bits; None for another field.
    """

    name: str
    type: "CType"
    offset: int
    bit_offset: int | None = None
    width: int | None = None


class Record:
    """A structure or a union; two declarations are two types.

    Attributes:
        is_union: whether all fields begin at offset 0.
        fields: fields in order; None before the definition.
    """

    def __init__(self, is_union: bool) -> None:
        self.is_union = is_union
        self.fields: tuple[Field, ...] | None = None
        self._size, self._align = 0, 1

    @property
    def size(self) -> int:
        """Size in bytes."""
        if self.fields is None:
            raise UnsupportedC("the size of a structure that is not defined")
        return self._size

    @property
    def align(self) -> int:
        """Alignment in bytes."""
        return self._align

    def define(self, members: list[tuple[str, "CType", int | None]]) -> None:
        """Lay out the members: name, type, and width of a bit-field (System V ABI)."""
        fields = []
        bit, end, align = 0, 0, 1
        for name, type_, width in members:
            if self.is_union:
                bit = 0
            bits = type_.align * 8
            if width is None:
                align = max(align, type_.align)
                bit = -(-bit // bits) * bits
                fields.append(Field(name, type_, bit // 8))
                bit += type_.size * 8
            elif width == 0:
                bit = -(-bit // bits) * bits
            else:
                if bit % bits + width > bits:
                    bit = -(-bit // bits) * bits
                # An unnamed bit-field takes room only.
                if name:
                    align = max(align, type_.align)
                    fields.append(Field(name, type_, bit // 8, bit % 8, width))
                bit += width
            end = max(end, bit)
        self._align = align
        self._size = -(-end // (8 * align)) * align
        self.fields = tuple(fields)

    def find_field(self, name: str) -> Field | None:
        """Return a field by name, also one of an anonymous structure; None without one."""
        if self.fields is None:
            raise UnsupportedC("a field of a structure that is not defined")
        for member in self.fields:
            if member.name == name:
                return member
            if not member.name and isinstance(member.type, Record):
                inner = member.type.find_field(name)
                if inner is not None:
                    offset = member.offset + inner.offset
                    return Field(name, inner.type, offset, inner.bit_offset, inner.width)
        return None


@dataclass(frozen=True)
class FunctionType:
    """The type of a function.

    Attributes:
        result: type of the result.
        parameters: types of the parameters; None without a prototype.
        is_variadic: whether further arguments may follow.
    """

    result: "CType"
    parameters: "tuple[CType, ...] | None"
    is_variadic: bool = False

    @property
    def size(self) -> int:
        """Refuse: a function has no size."""
        raise UnsupportedC("the size of a function")

    @property
    def align(self) -> int:
        """Refuse: a function has no alignment."""
        raise UnsupportedC("the alignment of a function")


@dataclass(frozen=True)
class Void:
    """The type `void`."""

    @property
    def size(self) -> int:
        """Refuse: `void` has no size."""
        raise UnsupportedC("the size of void")

    @property
    def align(self) -> int:
        """Refuse: `void` has no alignment."""
        raise UnsupportedC("the alignment of void")


CType = Integer | PointerType | Array | Record | FunctionType | Void

BOOL = Integer(8, signed=False, is_bool=True)
CHAR, UCHAR = Integer(8), Integer(8, signed=False)
INT, UINT = Integer(32), Integer(32, signed=False)
LONG, ULONG = Integer(64), Integer(64, signed=False)
VOID = Void()


def promote(type_: Integer) -> Integer:
    """Return the type after the integer promotions (C11 6.3.1.1p2)."""
    return INT if type_.bits < 32 else Integer(type_.bits, type_.signed)


def find_common_type(left: Integer, right: Integer) -> Integer:
    """Return the type of an operation after the usual conversions (C11 6.3.1.8)."""
    left, right = promote(left), promote(right)
    bits = max(left.bits, right.bits)
    signed = all(type_.signed for type_ in (left, right) if type_.bits == bits)
    return Integer(bits, signed)
