"""Places of variables and their parts: addresses, loads and stores."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import z3
from pycparser import c_ast

from loop_invariants.execution.c_types import (
    INT,
    LONG,
    VOID,
    Array,
    CType,
    Field,
    FunctionType,
    Integer,
    PointerType,
    Record,
    UnsupportedC,
    Void,
)
from loop_invariants.execution.code_writer import CodeWriter
from loop_invariants.execution.machine import Machine, State
from loop_invariants.execution.scopes import Variable
from loop_invariants.execution.stack_operations import (
    begin_group,
    build_decay,
    build_loaded,
    check_pointer,
    choose,
    end_group,
    extract_field,
    insert_field,
    narrow,
    next_operand,
)
from loop_invariants.execution.values import Address, Value, fold, to_vector

INCREMENTS = ("++", "--", "p++", "p--")
_ESCAPES = {"n": 10, "t": 9, "r": 13, "a": 7, "b": 8, "f": 12, "v": 11, "e": 27}
_ESCAPES |= {character: ord(character) for character in "\\'\"?"}
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]+)|([0-7]{1,3})|(.))|(.)", flags=re.DOTALL)


@dataclass(frozen=True)
class Place:
    """What an address on the stack leads to.

    Attributes:
        type: type of the variable or part.
        field: the bit-field; None for another part.
    """

    type: CType
    field: Field | None = None


def parse_characters(text: str) -> list[int]:
    """Return the bytes of a character constant or a string between its quotes."""
    result: list[int] = []
    for hexadecimal, octal, escape, character in _ESCAPE.findall(text):
        if hexadecimal:
            result.append(int(hexadecimal, 16))
        elif octal:
            result.append(int(octal, 8))
        elif escape:
            if escape not in _ESCAPES:
                raise UnsupportedC(f"the escape \\{escape}")
            result.append(_ESCAPES[escape])
        else:
            result += character.encode()
    if any(not 0 <= number <= 255 for number in result):
        raise UnsupportedC("a wide character")
    return result


class PlaceCompiler(CodeWriter):
    """A compiler of lvalues, and of loads and stores.

    Attributes:
        is_pure_call: returns whether a function of a name has no effects on memory.
    """

    is_pure_call: Callable[[str], bool]

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._effects: dict[int, bool] = {}
        self._types: dict[int, CType] = {}

    def value(self, node: c_ast.Node) -> CType:
        """Compile an expression; its value is on the stack. Return the type of the value."""
        raise NotImplementedError

    def find_type(self, node: c_ast.Node) -> CType:
        """Return the type of an expression as a value."""
        key = id(node)
        if key not in self._types:
            self._types[key] = self.discard_code(lambda: self.value(node))
        return self._types[key]

    def has_effects(self, node: c_ast.Node) -> bool:
        """Return whether an expression may change memory or end the run."""
        key = id(node)
        if key not in self._effects:
            self._effects[key] = self._find_effects(node)
        return self._effects[key]

    def _find_effects(self, node: c_ast.Node) -> bool:
        match node:
            case c_ast.Assignment():
                return True
            case c_ast.UnaryOp(op=op) if op in INCREMENTS:
                return True
            case c_ast.UnaryOp(op="sizeof") | c_ast.Typename():
                return False
            case c_ast.FuncCall(name=c_ast.ID(name=name)) if self.is_pure_call(name):
                return node.args is not None and self.has_effects(node.args)
            case c_ast.FuncCall():
                return True
        return any(self.has_effects(child) for _, child in node.children())

    def unordered(self, nodes: Sequence[c_ast.Node], parts: Sequence[Callable[[], Any]]) -> None:
        """Compile operands whose order C does not specify; a dependence on it is an error."""
        if len(parts) < 2 or not any(map(self.has_effects, nodes)):
            for part in parts:
                part()
            return
        for index, part in enumerate(parts):
            self.emit(begin_group if index == 0 else next_operand)
            part()
        self.emit(end_group)

    def _load_place(self, place: Place, node: c_ast.Node) -> CType:
        """Emit the load of the value at the address on the stack."""
        type_, machine = place.type, self.machine
        if isinstance(type_, Array):
            size = None if type_.length is None else type_.size
            self.emit(build_decay(size))
            return PointerType(type_.element)
        if isinstance(type_, FunctionType):
            return PointerType(type_)
        if place.field is not None:
            return self._load_bit_field(place)
        if isinstance(type_, Void):
            raise UnsupportedC("a value of type void")
        size, align = type_.size, type_.align
        if isinstance(type_, Record):

            def load_record(state: State) -> None:
                address = machine.check_address(state, state.stack[-1], size, align)
                if type(address.offset) is not int:
                    choose(1)
                content = machine.find_object(state, address.obj).read_bytes(address.offset, size)
                machine.log(state, False, address.obj, address.offset, size)
                state.stack[-1] = content

            self.emit(load_record)
            return type_
        convert_loaded = build_loaded(machine, type_)
        is_volatile = isinstance(type_, Integer) and type_.is_volatile
        # The address of a variable is known and alive, so that its load needs no checks.
        slot = None if is_volatile else self._pop_slot_address(size)
        if slot is not None:

            def load_variable(state: State) -> None:
                number = state.slots[slot]
                item = state.objects.get(number)
                cell = None if item is None else item.cells.get(0)
                if cell is not None and cell[0] == size and not state.logs:
                    value = cell[1]
                else:
                    value = machine.load(state, Address(number, 0, 0, size), size)
                state.stack.append(convert_loaded(state, value))

            self.emit(load_variable)
            return type_

        def load(state: State) -> None:
            address = machine.check_address(state, state.stack[-1], size, align)
            if is_volatile:
                machine.log(state, False, address.obj, address.offset, size)
                value: Value = machine.create_symbol(8 * size)
            else:
                value = machine.load(state, address, size)
            state.stack[-1] = convert_loaded(state, value)

        self.emit(load)
        return type_

    def _load_bit_field(self, place: Place) -> Integer:
        type_, first, width, size = _locate_bits(place)
        machine = self.machine

        def load(state: State) -> None:
            address = machine.check_address(state, state.stack[-1], size, 1)
            if type(address.offset) is not int:
                choose(1)
            unit = machine.load(state, address, size)
            state.stack[-1] = extract_field(unit, size, first, width, type_)

        self.emit(load)
        return promote_field(type_, width)

    def _push_slot_address(self, slot: int, size: int) -> None:
        def operation(state: State) -> None:
            state.stack.append(Address(state.slots[slot], 0, 0, size))

        # `_pop_slot_address` reads them.
        operation.variable = (slot, size)  # type: ignore[attr-defined]
        self.emit(operation)

    def _pop_slot_address(self, size: int) -> int | None:
        """Remove the last operation if it is the address of a variable of a size."""
        slot, variable_size = getattr(self.code[-1], "variable", (None, 0))
        # A cast may have changed the type of the address.
        if slot is None or variable_size != size:
            return None
        self.code.pop()
        self.lines.pop()
        return int(slot)

    def place(self, node: c_ast.Node) -> Place:
        """Compile an lvalue; its address is on the stack."""
        match node:
            case c_ast.ID(name=name):
                return self._variable(name)
            case c_ast.Constant(type="string"):
                return self._string(node)
            case c_ast.UnaryOp(op="*", expr=pointer):
                type_ = self.value(pointer)
                if not isinstance(type_, PointerType):
                    raise UnsupportedC("an access through a number")
                return Place(type_.target)
            case c_ast.ArrayRef():
                return self._element(node)
            case c_ast.StructRef():
                return self._member(node)
            case c_ast.CompoundLiteral():
                return self._literal(node)
            case c_ast.FuncCall() | c_ast.TernaryOp() | c_ast.Assignment():
                return self._temporary(node)
        raise UnsupportedC("an address of this expression")

    def _variable(self, name: str) -> Place:
        symbol = self.scope.look_up(name)
        if not isinstance(symbol, Variable):
            raise UnsupportedC(f"the name {name!r}")
        type_ = symbol.type
        if symbol.slot is None:
            number, size = symbol.obj, type_.size
            self.push(Address(number, 0, 0, size))
        elif isinstance(type_, Array) and type_.length is None:
            slot, machine = symbol.slot, self.machine

            def open_array(state: State) -> None:
                number = state.slots[slot]
                state.stack.append(Address(number, 0, 0, machine.find_object(state, number).size))

            self.emit(open_array)
        else:
            self._push_slot_address(symbol.slot, type_.size)
        return Place(type_)

    def _string(self, node: c_ast.Constant) -> Place:
        if not node.value.startswith('"'):
            raise UnsupportedC("a wide string")
        numbers = [*parse_characters(node.value[1:-1]), 0]
        number, item = self.machine.create_static(len(numbers), 0, "string")
        for index, value in enumerate(numbers):
            item.cells[index] = (1, value)
        self.push(Address(number, 0, 0, len(numbers)))
        return Place(Array(Integer(8), len(numbers)))

    def _temporary(self, node: c_ast.Node) -> Place:
        """Compile the address of a structure that is no lvalue."""
        type_ = self.value(node)
        if not isinstance(type_, Record):
            raise UnsupportedC("an address of a value")
        machine, size = self.machine, type_.size

        def operation(state: State) -> None:
            number = machine.create_object(state, size, None, "auto")
            content = state.stack[-1]
            state.objects[number].cells = dict(content.cells)
            state.objects[number].fill = content.fill
            state.stack[-1] = Address(number, 0, 0, size)

        self.emit(operation)
        return Place(type_)

    def _literal(self, node: c_ast.CompoundLiteral) -> Place:
        type_ = self.read_type(node.type)
        if isinstance(type_, Array) and type_.length is None:
            type_ = self.find_initialized_type(type_, node.init)
        size = type_.size
        variable = self.declare_hidden(type_)
        # Each evaluation of the literal makes it anew.
        self.emit_address(variable, size)
        self.compile_initializer(type_, node.init)
        return Place(type_)

    def emit_address(self, variable: Variable, size: int) -> None:
        """Emit the address of a variable."""
        if variable.slot is None:
            self.push(Address(variable.obj, 0, 0, size))
        else:
            self._push_slot_address(variable.slot, size)

    def declare_hidden(self, type_: CType) -> Variable:
        """Declare a variable without a name in the current scope."""
        raise NotImplementedError

    def compile_initializer(self, type_: CType, node: c_ast.Node) -> None:
        """Compile the initial value of the object whose address is on the stack."""
        raise NotImplementedError

    def find_initialized_type(self, type_: Array, node: c_ast.Node) -> Array:
        """Return the type of an array with the length of its initializer."""
        raise NotImplementedError

    def _element(self, node: c_ast.ArrayRef) -> Place:
        types: list[CType] = []

        def array() -> None:
            types.append(self.value(node.name))

        def index() -> None:
            types.append(self.value(node.subscript))

        self.unordered((node.name, node.subscript), (array, index))
        if isinstance(types[0], Integer):
            raise UnsupportedC("an index before its array")
        if not isinstance(types[0], PointerType) or not isinstance(types[1], Integer):
            raise UnsupportedC("this index")
        element = types[0].target
        # The array is known if it was not a pointer before.
        is_array = self._is_array(node.name)
        self._emit_offset(element.size, types[1], "+", "index" if is_array else "")
        return Place(element)

    def _is_array(self, node: c_ast.Node) -> bool:
        if not isinstance(node, c_ast.ID | c_ast.ArrayRef | c_ast.StructRef | c_ast.Constant):
            return False
        place: Place = self.discard_code(lambda: self.place(node))
        return isinstance(place.type, Array) and place.type.length is not None

    def _emit_offset(self, size: int, index_type: Integer, operator: str, kind: str) -> None:
        """Emit the movement of an address by a number of elements.

        Args:
            size: size of an element in bytes.
            index_type: type of the number on the stack, above the address.
            operator: `+` or `-`.
            kind: violation of an offset outside of the array; empty if the use decides.
        """
        machine = self.machine

        def operation(state: State) -> None:
            address, index = state.stack[-2], state.stack[-1]
            if not isinstance(address, Address):
                raise UnsupportedC("arithmetic with this value")
            if type(index) is int and type(address.offset) is int:
                delta = index * size if operator == "+" else -index * size
                offset: Any = address.offset + delta
                inside: Any = address.low <= offset <= address.high
                if address.obj == 0:
                    inside = delta == 0
            else:
                if address.obj == 0:
                    raise UnsupportedC("arithmetic with a null pointer")
                vector = to_vector(index, index_type.bits)
                if index_type.bits < 64:
                    extend = z3.SignExt if index_type.signed else z3.ZeroExt
                    vector = extend(64 - index_type.bits, vector)
                # The offset in bytes must not wrap around.
                limit = min(1 << 40, (1 << 62) // max(1, size))
                machine.check_supported(
                    state,
                    z3.And(vector >= -limit, vector <= limit),
                    "an index of more than 40 bits",
                )
                base = to_vector(address.offset, 64)
                delta_vector = vector * size
                offset = fold(base + delta_vector if operator == "+" else base - delta_vector)
                if type(offset) is int:
                    offset = LONG.wrap(offset)
                offset_vector = to_vector(offset, 64)
                inside = z3.And(offset_vector >= address.low, offset_vector <= address.high)
            if kind:
                machine.check(state, inside, kind)
            elif inside is not True:
                check_pointer(machine, state, address, offset, inside)
            del state.stack[-1]
            state.stack[-1] = Address(address.obj, offset, address.low, address.high)

        self.emit(operation)

    def _member(self, node: c_ast.StructRef) -> Place:
        if node.type == "->":
            pointer = self.value(node.name)
            record = pointer.target if isinstance(pointer, PointerType) else VOID
        else:
            record = self.place(node.name).type
        if not isinstance(record, Record):
            raise UnsupportedC("a field of another type")
        member = record.find_field(node.field.name)
        if member is None:
            raise UnsupportedC(f"the field {node.field.name!r}")
        offset, size, machine = member.offset, member.type.size, self.machine
        record_size, is_arrow = record.size, node.type == "->"
        if member.width is not None:
            size = ((member.bit_offset or 0) + member.width + 7) // 8

        def operation(state: State) -> None:
            address = state.stack[-1]
            if is_arrow:
                address = machine.check_address(state, address, record_size, 1)
            base = address.offset
            if type(base) is not int:
                # The bounds of a field need its place.
                choose(1)
            state.stack[-1] = narrow(address, base + offset, size)

        self.emit(operation)
        return Place(member.type, member if member.width is not None else None)

    def store(self, place: Place, keeps_value: bool = True) -> None:
        """Emit the store of the value on the stack at the address below it.

        The stored value replaces both if it is kept.
        """
        machine, type_ = self.machine, place.type
        if place.field is not None:
            self._store_bit_field(place)
        elif isinstance(type_, Record):
            size, align = type_.size, type_.align

            def store_record(state: State) -> None:
                address = machine.check_address(state, state.stack[-2], size, align)
                if type(address.offset) is not int:
                    choose(2)
                content = state.stack.pop()
                item = machine.change_object(state, address.obj)
                item.write_bytes(address.offset, content, lambda: machine.create_symbol(8))
                machine.log(state, True, address.obj, address.offset, size)
                state.stack[-1] = content

            self.emit(store_record)
        elif isinstance(type_, Integer | PointerType):
            size, align = type_.size, type_.align

            def store_number(state: State) -> None:
                address = machine.check_address(state, state.stack[-2], size, align)
                value = state.stack[-1]
                machine.store(state, address, size, value, 2)
                state.stack.pop()
                state.stack[-1] = value

            self.emit(store_number)
        else:
            raise UnsupportedC("an assignment to an array")
        if not keeps_value:
            self.pop()

    def _store_bit_field(self, place: Place) -> None:
        type_, first, width, size = _locate_bits(place)
        machine = self.machine

        def store(state: State) -> None:
            address = machine.check_address(state, state.stack[-2], size, 1)
            if type(address.offset) is not int:
                choose(2)
            value = state.stack[-1]
            unit = machine.load(state, address, size)
            new_unit = insert_field(unit, size, first, width, value, type_)
            machine.store(state, address, size, new_unit, 2)
            state.stack.pop()
            state.stack[-1] = extract_field(new_unit, size, first, width, type_)

        self.emit(store)


def promote_field(type_: Integer, width: int) -> Integer:
    """Return the type of a bit-field's value: an int if its values fit (C11 6.3.1.1p2)."""
    return INT if type_.signed or width < 32 else Integer(32, False)


def _locate_bits(place: Place) -> tuple[Integer, int, int, int]:
    """Return the type of a bit-field, its first bit, its bits, and the bytes that contain them."""
    member, type_ = place.field, place.type
    assert member is not None
    assert isinstance(type_, Integer)
    first, width = member.bit_offset or 0, member.width or 0
    return type_, first, width, (first + width + 7) // 8
