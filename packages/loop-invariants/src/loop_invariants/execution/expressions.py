"""Expressions of C as code of the machine."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import z3
from pycparser import c_ast

from loop_invariants.execution.c_types import (
    INT,
    LONG,
    ULONG,
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
    find_common_type,
    promote,
)
from loop_invariants.execution.machine import Access, Choice, Code, Machine, Operation, State
from loop_invariants.execution.scopes import FunctionName, TypeReader, Variable
from loop_invariants.execution.values import (
    COMPARISONS,
    NULL,
    Address,
    Function,
    Value,
    build_operation,
    build_overflow_test,
    convert,
    fold,
    is_symbolic,
    to_truth,
    to_vector,
)

_INCREMENTS = ("++", "--", "p++", "p--")
_CONNECTIVES = ("&&", "||")
_ARITHMETIC = frozenset("+ - * / % & | ^ << >>".split())

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


class Label:
    """A position in the code."""

    def __init__(self) -> None:
        self.pc = -1


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


class ExpressionCompiler(TypeReader):
    """A compiler of expressions.

    Args:
        machine: the machine that runs the code.
        checks_overflow: whether signed overflow is a violation.

    Attributes:
        code: the code so far.
        is_pure_call: returns whether a function of a name has no effects on memory.
        compile_call: compiles a call, and returns the type of its result.
        new_slot: creates a variable of the current function.
    """

    compile_call: Callable[[c_ast.FuncCall], CType]
    is_pure_call: Callable[[str], bool]

    def __init__(self, machine: Machine, checks_overflow: bool) -> None:
        super().__init__()
        self.machine, self._checks_overflow = machine, checks_overflow
        self.code: list[Operation] = []
        self.lines: list[int] = []
        self.line = 0
        self.fold_constant = self._fold_constant
        self._effects: dict[int, bool] = {}
        self._types: dict[int, CType] = {}

    # -- helpers ---------------------------------------------------------------------------

    def emit(self, operation: Operation) -> None:
        """Add an operation to the code."""
        self.code.append(operation)
        self.lines.append(self.line)

    def push(self, value: Value) -> None:
        """Emit a constant."""

        def operation(state: State) -> None:
            state.stack.append(value)

        self.emit(operation)

    def mark(self, label: Label) -> None:
        """Set a label to the current position."""
        label.pc = len(self.code)
        # A jump skips the operation before it, which `_pop_slot_address` must not change then.
        if self.code:
            self.code[-1].__dict__.pop("variable", None)

    def jump(self, label: Label) -> None:
        """Emit a jump."""

        def operation(state: State) -> None:
            state.pc = label.pc

        self.emit(operation)

    def jump_if(self, label: Label, expected: bool) -> None:
        """Emit a jump that pops a value and depends on its truth."""
        split = self.machine.split

        def operation(state: State) -> list[State] | None:
            value = state.stack.pop()
            if type(value) is int:
                if (value != 0) is expected:
                    state.pc = label.pc
                return None
            truth, other = split(state, to_truth(value))
            if truth is expected:
                state.pc = label.pc
            if other is None:
                return None
            if truth is not expected:
                other.pc = label.pc
            return [other]

        self.emit(operation)

    def pop(self) -> None:
        """Emit the removal of a value."""

        def operation(state: State) -> None:
            state.stack.pop()

        self.emit(operation)

    def discard_code(self, compile_: Callable[[], Any]) -> Any:
        """Return the result of a compilation without its code."""
        outer, self.code, self.lines = (self.code, self.lines), [], []
        try:
            return compile_()
        finally:
            self.code, self.lines = outer

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
            case c_ast.UnaryOp(op=op) if op in _INCREMENTS:
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

    def _fold_constant(self, node: c_ast.Node) -> int | None:
        """Evaluate an integer constant expression; None for another one."""
        for part in _walk(node):
            if _is_variable_part(part):
                return None
            if isinstance(part, c_ast.ID) and isinstance(self.scope.look_up(part.name), Variable):
                return None
        operations: list[Operation] = []

        def compile_() -> CType:
            operations_type = self.value(node)
            operations.extend(self.code)
            return operations_type

        type_ = self.discard_code(compile_)
        if not isinstance(type_, Integer):
            return None
        state = State(Code("constant", 0, operations))
        self.machine.run_static(state)
        value = state.stack[-1]
        return value if isinstance(value, int) else None

    # -- values ----------------------------------------------------------------------------

    def truth(self, node: c_ast.Node) -> None:
        """Compile a condition: a number, or an address."""
        type_ = self.value(node)
        if not isinstance(type_, Integer | PointerType):
            raise UnsupportedC("a condition that is no number")

    def number(self, node: c_ast.Node) -> Integer:
        """Compile an expression that must be a number; return its type."""
        type_ = self.value(node)
        if not isinstance(type_, Integer):
            raise UnsupportedC("an address as a number")
        return type_

    def value(self, node: c_ast.Node) -> CType:
        """Compile an expression; its value is on the stack. Return the type of the value."""
        match node:
            case c_ast.Constant():
                return self._constant(node)
            case c_ast.ID(name=name):
                symbol = self.scope.look_up(name)
                if isinstance(symbol, int):
                    self.push(symbol)
                    return INT
                if isinstance(symbol, FunctionName):
                    self.push(Function(symbol.name))
                    return PointerType(symbol.type)
                return self._load_place(self.place(node), node)
            case c_ast.ArrayRef() | c_ast.StructRef() | c_ast.CompoundLiteral():
                return self._load_place(self.place(node), node)
            case c_ast.UnaryOp():
                return self._unary(node)
            case c_ast.BinaryOp(op=op) if op in _CONNECTIVES:
                return self._connective(node)
            case c_ast.BinaryOp():
                return self._binary(node)
            case c_ast.TernaryOp():
                return self._conditional(node)
            case c_ast.Cast():
                return self._cast(node)
            case c_ast.Assignment():
                return self._assignment(node)
            case c_ast.ExprList():
                return self._comma(node)
            case c_ast.FuncCall():
                return self.compile_call(node)
        raise UnsupportedC(f"the expression {type(node).__name__}")

    def _constant(self, node: c_ast.Constant) -> CType:
        text = node.value
        if node.type == "char":
            numbers = parse_characters(text[1:-1])
            if len(numbers) != 1 or text[0] != "'":
                raise UnsupportedC(f"the constant {text}")
            value = numbers[0]
            self.push(value - 256 if value > 127 else value)
            return INT
        if node.type == "string":
            return self._load_place(self.place(node), node)
        digits = text.rstrip("uUlL")
        suffix = text[len(digits) :].lower()
        if not node.type.endswith("int") or not re.fullmatch(
            r"0[xX][0-9a-fA-F]+|0[bB][01]+|\d+", digits
        ):
            raise UnsupportedC(f"the constant {text}")
        is_octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
        value = int(digits, 8 if is_octal else 0)
        types = [INT, Integer(32, False), LONG, ULONG]
        if "u" in suffix:
            types = [type_ for type_ in types if not type_.signed]
        elif digits.isdigit() and not is_octal:
            types = [type_ for type_ in types if type_.signed]
        if "l" in suffix:
            types = [type_ for type_ in types if type_.bits == 64]
        fitting = [type_ for type_ in types if value <= type_.max_value]
        if not fitting:
            raise UnsupportedC(f"the constant {text}")
        self.push(value)
        return fitting[0]

    def cast_to(self, source: CType, target: CType) -> None:
        """Emit the conversion of the value on the stack."""
        if isinstance(target, Void) or source is target:
            return
        if isinstance(source, Integer) and isinstance(target, Integer):
            if source == target or (
                not target.is_bool
                and target.min_value <= source.min_value
                and source.max_value <= target.max_value
                and source.bits == target.bits
            ):
                return

            def operation(state: State) -> None:
                value = state.stack[-1]
                if type(value) is int and not target.is_bool:
                    state.stack[-1] = target.wrap(value)
                else:
                    state.stack[-1] = fold(convert(value, source, target))

            self.emit(operation)
            return
        if isinstance(target, PointerType):
            if isinstance(source, PointerType):
                return

            def from_number(state: State) -> None:
                if type(state.stack[-1]) is not int or state.stack[-1] != 0:
                    raise UnsupportedC("a number as an address")
                state.stack[-1] = NULL

            if isinstance(source, Integer):
                self.emit(from_number)
                return
        if isinstance(source, PointerType) and isinstance(target, Integer) and target.is_bool:
            self.emit(_truth_of_address)
            return
        if isinstance(source, Record) and source is target:
            return
        raise UnsupportedC("this conversion")

    def _load_place(self, place: Place, node: c_ast.Node) -> CType:
        """Emit the load of the value at the address on the stack."""
        type_, machine = place.type, self.machine
        if isinstance(type_, Array):
            size = None if type_.length is None else type_.size
            self.emit(_build_decay(size))
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
                    _choose(1)
                content = machine.find_object(state, address.obj).read_bytes(address.offset, size)
                machine.log(state, False, address.obj, address.offset, size)
                state.stack[-1] = content

            self.emit(load_record)
            return type_
        convert_loaded = _build_loaded(machine, type_)
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
        member, type_, machine = place.field, place.type, self.machine
        assert member is not None
        assert isinstance(type_, Integer)
        first, width = member.bit_offset or 0, member.width or 0
        size = (first + width + 7) // 8

        def load(state: State) -> None:
            address = machine.check_address(state, state.stack[-1], size, 1)
            if type(address.offset) is not int:
                _choose(1)
            unit = machine.load(state, address, size)
            state.stack[-1] = _extract_field(unit, size, first, width, type_)

        self.emit(load)
        # Its values fit in an int, so that it is promoted to one (C11 6.3.1.1p2).
        fits = type_.signed or width < 32
        return INT if fits else Integer(32, False)

    # -- places ----------------------------------------------------------------------------

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
                _check_pointer(machine, state, address, offset, inside)
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
                _choose(1)
            state.stack[-1] = _narrow(address, base + offset, size)

        self.emit(operation)
        return Place(member.type, member if member.width is not None else None)

    # -- operators -------------------------------------------------------------------------

    def _unary(self, node: c_ast.UnaryOp) -> CType:
        op = node.op
        if op in _INCREMENTS:
            return self._increment(node)
        if op == "*":
            return self._load_place(self.place(node), node)
        if op == "&":
            return self._address_of(node.expr)
        if op in ("sizeof", "_Alignof"):
            return self._sizeof(node)
        if op == "!":
            self.truth(node.expr)
            self.emit(_negate_truth)
            return INT
        type_ = self.number(node.expr)
        result = promote(type_)
        self.cast_to(type_, result)
        if op == "-":
            self._emit_arithmetic_swapped(result)
        elif op == "~":
            flip, ones = build_operation("^", result), result.wrap(-1)

            def invert(state: State) -> None:
                state.stack[-1] = flip(state.stack[-1], ones)

            self.emit(invert)
        elif op != "+":
            raise UnsupportedC(f"the operator {op}")
        return result

    def _emit_arithmetic_swapped(self, type_: Integer) -> None:
        """Emit 0 minus the value on the stack."""
        subtract = build_operation("-", type_)
        test = build_overflow_test("-", type_)
        machine, checks = self.machine, self._checks_overflow and type_.signed

        def negate(state: State) -> None:
            value = state.stack[-1]
            if checks:
                machine.check(state, test(0, value), "overflow")
            state.stack[-1] = subtract(0, value)

        self.emit(negate)

    def _address_of(self, node: c_ast.Node) -> CType:
        if isinstance(node, c_ast.ID):
            symbol = self.scope.look_up(node.name)
            if isinstance(symbol, FunctionName):
                self.push(Function(symbol.name))
                return PointerType(symbol.type)
        if isinstance(node, c_ast.UnaryOp) and node.op == "*":
            return self.value(node.expr)
        place = self.place(node)
        if place.field is not None:
            raise UnsupportedC("the address of a bit-field")
        if isinstance(place.type, Array) and not isinstance(node, c_ast.ArrayRef):
            size = place.type.size
            self.emit(_build_decay(size))
        return PointerType(place.type)

    def _sizeof(self, node: c_ast.UnaryOp) -> CType:
        if isinstance(node.expr, c_ast.Typename):
            type_ = self.read_type(node.expr)
        elif isinstance(node.expr, c_ast.Constant) and node.expr.type == "string":
            type_ = self.discard_code(lambda: self.place(node.expr)).type
        else:
            type_ = self.discard_code(lambda: self._operand_type(node.expr))
        self.push(type_.size if node.op == "sizeof" else type_.align)
        return ULONG

    def _operand_type(self, node: c_ast.Node) -> CType:
        if isinstance(
            node, c_ast.ID | c_ast.ArrayRef | c_ast.StructRef | c_ast.CompoundLiteral
        ) or (isinstance(node, c_ast.UnaryOp) and node.op == "*"):
            symbol = self.scope.look_up(node.name) if isinstance(node, c_ast.ID) else None
            if not isinstance(symbol, int | FunctionName):
                place = self.place(node)
                if place.field is not None:
                    raise UnsupportedC("the size of a bit-field")
                return place.type
        return self.value(node)

    def _is_pure_number(self, node: c_ast.Node) -> bool:
        """Return whether an expression is a number that can always be evaluated."""
        match node:
            case c_ast.Constant():
                return str(node.type) != "string"
            case c_ast.ID(name=name):
                symbol = self.scope.look_up(name)
                return isinstance(symbol, int) or (
                    isinstance(symbol, Variable)
                    and isinstance(symbol.type, Integer)
                    and not symbol.type.is_volatile
                )
            case c_ast.UnaryOp(op=op) if op in ("!", "~", "+", "-"):
                is_total = op != "-" or not self._checks_overflow
                return is_total and self._is_pure_number(node.expr)
            case c_ast.BinaryOp(op=op):
                is_total = op in COMPARISONS or op in ("&", "|", "^", *_CONNECTIVES)
                if not self._checks_overflow:
                    is_total = is_total or op in ("+", "-", "*")
                return (
                    is_total
                    and self._is_pure_number(node.left)
                    and self._is_pure_number(node.right)
                )
            case c_ast.TernaryOp():
                parts = (node.cond, node.iftrue, node.iffalse)
                return all(map(self._is_pure_number, parts))
        return False

    def _connective(self, node: c_ast.BinaryOp) -> CType:
        is_and = node.op == "&&"
        if self._is_pure_number(node.right):
            self.truth(node.left)
            self.truth(node.right)

            def combine(state: State) -> None:
                right, left = to_truth(state.stack.pop()), to_truth(state.stack[-1])
                if isinstance(left, bool):
                    state.stack[-1] = _as_number(right if left is is_and else left)
                elif isinstance(right, bool):
                    state.stack[-1] = _as_number(left if right is is_and else right)
                else:
                    joined = z3.And(left, right) if is_and else z3.Or(left, right)
                    state.stack[-1] = fold(joined)

            self.emit(combine)
            return INT
        decided, end = Label(), Label()
        self.truth(node.left)
        self.jump_if(decided, not is_and)
        self.truth(node.right)
        self.emit(_negate_truth)
        self.emit(_negate_truth)
        self.jump(end)
        self.mark(decided)
        self.push(int(not is_and))
        self.mark(end)
        return INT

    def _conditional(self, node: c_ast.TernaryOp) -> CType:
        then_type = self.find_type(node.iftrue)
        else_type = self.find_type(node.iffalse)
        result = self._join_types(node, then_type, else_type)
        if isinstance(result, Integer) and all(
            map(self._is_pure_number, (node.iftrue, node.iffalse))
        ):
            self.truth(node.cond)
            self.cast_to(self.value(node.iftrue), result)
            self.cast_to(self.value(node.iffalse), result)
            bits = result.bits

            def choose(state: State) -> None:
                otherwise, then = state.stack.pop(), state.stack.pop()
                truth = to_truth(state.stack[-1])
                if isinstance(truth, bool):
                    state.stack[-1] = then if truth else otherwise
                else:
                    vectors = to_vector(then, bits), to_vector(otherwise, bits)
                    state.stack[-1] = fold(z3.If(truth, *vectors))

            self.emit(choose)
            return result
        other, end = Label(), Label()
        self.truth(node.cond)
        self.jump_if(other, False)
        self._cast_or_drop(self.value(node.iftrue), result)
        self.jump(end)
        self.mark(other)
        self._cast_or_drop(self.value(node.iffalse), result)
        self.mark(end)
        return result

    def _join_types(self, node: c_ast.TernaryOp, left: CType, right: CType) -> CType:
        if isinstance(left, Integer) and isinstance(right, Integer):
            return find_common_type(left, right)
        if isinstance(left, Void) or isinstance(right, Void):
            return VOID
        if isinstance(left, PointerType) and isinstance(right, PointerType):
            if _is_null(node.iftrue):
                return right
            if _is_null(node.iffalse):
                return left
            return right if isinstance(right.target, Void) else left
        if isinstance(left, PointerType) and isinstance(right, Integer):
            return left
        if isinstance(left, Integer) and isinstance(right, PointerType):
            return right
        if left is right:
            return left
        raise UnsupportedC("a choice between these types")

    def _cast(self, node: c_ast.Cast) -> CType:
        type_ = self.read_type(node.to_type)
        self._cast_or_drop(self.value(node.expr), type_)
        return type_

    def _cast_or_drop(self, source: CType, target: CType) -> None:
        """Emit the conversion of the value on the stack; `void` removes it."""
        if isinstance(target, Void):
            self._drop(source)
        else:
            self.cast_to(source, target)

    def _drop(self, type_: CType) -> None:
        """Emit the removal of an unused value; `void` has none."""
        if not isinstance(type_, Void):
            self.pop()

    def _comma(self, node: c_ast.ExprList) -> CType:
        for expression in node.exprs[:-1]:
            self.effects(expression)
        return self.value(node.exprs[-1])

    def effects(self, node: c_ast.Node) -> None:
        """Compile an expression without its value."""
        self._drop(self.value(node))

    def _binary(self, node: c_ast.BinaryOp) -> CType:
        types: list[CType] = []
        self.unordered(
            (node.left, node.right),
            (
                lambda: types.append(self.value(node.left)),
                lambda: types.append(self.value(node.right)),
            ),
        )
        left, right = types
        if isinstance(left, PointerType) or isinstance(right, PointerType):
            return self._pointer_operation(node.op, left, right)
        if not isinstance(left, Integer) or not isinstance(right, Integer):
            raise UnsupportedC("an operation on a structure")
        return self.emit_arithmetic(node.op, left, right)

    def emit_arithmetic(self, op: str, left: Integer, right: Integer) -> Integer:
        """Emit an operation on the two numbers on the stack; return the result's type."""
        if op in ("<<", ">>"):
            type_ = promote(left)
            self._emit_conversions(left, type_, right, promote(right))
            return self._emit_shift(op, type_, promote(right))
        if op not in _ARITHMETIC | COMPARISONS:
            raise UnsupportedC(f"the operator {op}")
        type_ = find_common_type(left, right)
        self._emit_conversions(left, type_, right, type_)
        operation, machine = build_operation(op, type_), self.machine
        if op in COMPARISONS:

            def compare(state: State) -> None:
                value = state.stack.pop()
                state.stack[-1] = operation(state.stack[-1], value)

            self.emit(compare)
            return INT
        if op in ("/", "%"):
            self._emit_division(op, type_)
            return type_
        if self._checks_overflow and type_.signed and op in ("+", "-", "*"):
            test = build_overflow_test(op, type_)

            def checked(state: State) -> None:
                right_value, left_value = state.stack[-1], state.stack[-2]
                machine.check(state, test(left_value, right_value), "overflow")
                state.stack.pop()
                state.stack[-1] = operation(left_value, right_value)

            self.emit(checked)
            return type_

        def compute(state: State) -> None:
            value = state.stack.pop()
            state.stack[-1] = operation(state.stack[-1], value)

        self.emit(compute)
        return type_

    def _emit_conversions(
        self, left: Integer, left_target: Integer, right: Integer, right_target: Integer
    ) -> None:
        self.cast_to(right, right_target)
        if left == left_target:
            return
        # The left operand is below the right one.
        self.emit(_swap)
        self.cast_to(left, left_target)
        self.emit(_swap)

    def _emit_division(self, op: str, type_: Integer) -> None:
        operation, machine = build_operation(op, type_), self.machine
        bits, low = type_.bits, type_.min_value

        def divide(state: State) -> None:
            right, left = state.stack[-1], state.stack[-2]
            divisor = to_truth(right)
            machine.check(state, divisor, "division")
            if type_.signed:
                if type(left) is int and type(right) is int:
                    fits: Any = not (left == low and right == -1)
                else:
                    a, b = to_vector(left, bits), to_vector(right, bits)
                    fits = z3.Not(z3.And(a == low, b == -1))
                machine.check(state, fits, "division")
            state.stack.pop()
            state.stack[-1] = operation(left, right)

        self.emit(divide)

    def _emit_shift(self, op: str, type_: Integer, count_type: Integer) -> Integer:
        operation, machine, bits = build_operation(op, type_), self.machine, type_.bits
        test = build_overflow_test("<<", type_)
        checks = self._checks_overflow and type_.signed and op == "<<"

        def shift(state: State) -> None:
            count, left = state.stack[-1], state.stack[-2]
            if type(count) is int:
                machine.check(state, 0 <= count < bits, "shift")
            else:
                vector = to_vector(count, count_type.bits)
                machine.check(state, z3.ULT(vector, bits), "shift")
                count = convert(count, count_type, type_)
            if checks:
                machine.check(state, test(left, count), "overflow")
            state.stack.pop()
            state.stack[-1] = operation(left, count)

        self.emit(shift)
        return type_

    def _pointer_operation(self, op: str, left: CType, right: CType) -> CType:
        machine = self.machine
        if op in COMPARISONS:
            is_equality = op in ("==", "!=")
            self.cast_pair(left, right)

            def compare(state: State) -> None:
                b, a = state.stack.pop(), state.stack[-1]
                if is_equality:
                    equal = _compare_addresses(machine, state, a, b)
                    if op == "!=":
                        equal = not equal if isinstance(equal, int) else z3.Not(equal)
                    state.stack[-1] = _as_number(equal)
                else:
                    state.stack[-1] = _order_addresses(op, a, b)

            self.emit(compare)
            return INT
        if op == "-" and isinstance(left, PointerType) and isinstance(right, PointerType):
            size = left.target.size

            def subtract(state: State) -> None:
                b, a = state.stack.pop(), state.stack[-1]
                state.stack[-1] = _subtract_addresses(machine, state, a, b, size)

            self.emit(subtract)
            return LONG
        if isinstance(left, PointerType) and isinstance(right, Integer) and op in ("+", "-"):
            self._emit_offset(left.target.size, right, op, "")
            return left
        if isinstance(left, Integer) and isinstance(right, PointerType) and op == "+":
            self.emit(_swap)
            self._emit_offset(right.target.size, left, op, "")
            return right
        raise UnsupportedC(f"the operator {op} on addresses")

    def cast_pair(self, left: CType, right: CType) -> None:
        """Emit the conversion of a number among two operands to an address."""
        if isinstance(right, Integer):
            self.cast_to(right, left)
        if isinstance(left, Integer):
            self.emit(_swap)
            self.cast_to(left, right)
            self.emit(_swap)

    # -- assignments -----------------------------------------------------------------------

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
                    _choose(2)
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
        member, type_, machine = place.field, place.type, self.machine
        assert member is not None
        assert isinstance(type_, Integer)
        first, width = member.bit_offset or 0, member.width or 0
        size = (first + width + 7) // 8

        def store(state: State) -> None:
            address = machine.check_address(state, state.stack[-2], size, 1)
            if type(address.offset) is not int:
                _choose(2)
            value = state.stack[-1]
            unit = machine.load(state, address, size)
            new_unit = _insert_field(unit, size, first, width, value, type_)
            machine.store(state, address, size, new_unit, 2)
            state.stack.pop()
            state.stack[-1] = _extract_field(new_unit, size, first, width, type_)

        self.emit(store)

    def _assignment(self, node: c_ast.Assignment) -> CType:
        variable = self._find_plain_variable(node.lvalue)
        if variable is not None and node.op == "=" and not self.has_effects(node.rvalue):
            right = self.value(node.rvalue)
            self.cast_to(right, variable[1])
            self._store_variable(*variable)
            return variable[1]
        places: list[Place] = []
        types: list[CType] = []

        def left() -> None:
            place = self.place(node.lvalue)
            places.append(place)
            if node.op != "=":
                self.emit(_duplicate)
                types.append(self._load_place(place, node))

        is_checked = self.has_effects(node.lvalue) or self.has_effects(node.rvalue)
        if is_checked:
            self.emit(begin_group)
        left()
        if is_checked:
            self.emit(next_operand)
        right_type = self.value(node.rvalue)
        (place,) = places
        if is_checked:
            self.emit(_build_assignment_check(place, 2 if node.op == "=" else 3))
        if isinstance(place.type, Integer | PointerType) is False and node.op != "=":
            raise UnsupportedC("an operation on a structure")
        target = place.type
        if node.op == "=":
            self.cast_to(right_type, target)
        else:
            operator = node.op[:-1]
            (left_type,) = types
            if isinstance(left_type, PointerType):
                if not isinstance(right_type, Integer) or operator not in ("+", "-"):
                    raise UnsupportedC("an operation on an address")
                self._emit_offset(left_type.target.size, right_type, operator, "")
            else:
                if not isinstance(left_type, Integer) or not isinstance(right_type, Integer):
                    raise UnsupportedC("an operation on a structure")
                result = self.emit_arithmetic(operator, left_type, right_type)
                self.cast_to(result, target)
        self.store(place)
        return self._value_type(place)

    def _value_type(self, place: Place) -> CType:
        """Return the type of the value of an assignment; a bit-field is promoted."""
        if place.field is not None and isinstance(place.type, Integer):
            fits = place.type.signed or (place.field.width or 0) < 32
            return INT if fits else Integer(32, False)
        return place.type

    def _find_plain_variable(self, node: c_ast.Node) -> tuple[int, Integer] | None:
        """Return slot and type if a node is a number of the current function."""
        symbol = self.scope.look_up(node.name) if isinstance(node, c_ast.ID) else None
        if not isinstance(symbol, Variable) or symbol.slot is None or symbol.is_const:
            return None
        type_ = symbol.type
        if not isinstance(type_, Integer) or type_.is_volatile:
            return None
        return symbol.slot, type_

    def _store_variable(self, slot: int, type_: Integer) -> None:
        """Emit the store of a converted number in a variable; the value stays."""
        machine, size = self.machine, type_.size

        def store(state: State) -> None:
            number, value = state.slots[slot], state.stack[-1]
            item = state.objects.get(number)
            if item is None or item.owner is not state.owner or state.logs:
                machine.store(state, Address(number, 0, 0, size), size, value)
            elif isinstance(value, z3.BoolRef):
                item.store(0, size, fold(to_vector(value, 8 * size)))
            else:
                item.cells = {0: (size, value)}

        self.emit(store)

    def _increment_variable(self, slot: int, type_: Integer, op: str) -> None:
        """Emit the increment of a variable; its value is on the stack."""
        machine, size = self.machine, type_.size
        step = 1 if op.endswith("+") else -1
        is_postfix = op.startswith("p")
        check, low, high = _build_loaded(machine, type_), type_.min_value, type_.max_value
        add = build_operation("+", promote(type_))
        source = promote(type_)

        def increment(state: State) -> None:
            number = state.slots[slot]
            item = state.objects.get(number)
            cell = None if item is None else item.cells.get(0)
            if cell is not None and cell[0] == size and not state.logs:
                old = check(state, cell[1])
            else:
                old = check(state, machine.load(state, Address(number, 0, 0, size), size))
            if type(old) is int and low <= old + step <= high:
                new: Value = old + step
            else:
                old_value = convert(old, type_, source) if is_symbolic(old) else old
                new = fold(convert(add(old_value, step), source, type_))
            machine.store(state, Address(number, 0, 0, size), size, new)
            state.stack.append(old if is_postfix else new)

        self.emit(increment)

    def _increment(self, node: c_ast.UnaryOp) -> CType:
        variable = self._find_plain_variable(node.expr)
        if variable is not None and not self._checks_overflow and not variable[1].is_bool:
            self._increment_variable(*variable, node.op)
            return variable[1]
        is_postfix, operator = node.op.startswith("p"), node.op[-1]
        is_checked = self.has_effects(node.expr)
        if is_checked:
            self.emit(begin_group)
        place = self.place(node.expr)
        if is_checked:
            self.emit(_build_assignment_check(place, 1))
        self.emit(_duplicate)
        type_ = self._load_place(place, node)
        if is_postfix:
            self.emit(_keep_below)
        self.push(1)
        if isinstance(type_, PointerType):
            self._emit_offset(type_.target.size, INT, operator, "")
        elif isinstance(type_, Integer):
            result = self.emit_arithmetic(operator, type_, INT)
            target = place.type
            self.cast_to(result, target)
        else:
            raise UnsupportedC("an increment of a structure")
        self.store(place, keeps_value=not is_postfix)
        return self._value_type(place)


def _walk(node: c_ast.Node) -> list[c_ast.Node]:
    result, pending = [], [node]
    while pending:
        item = pending.pop()
        result.append(item)
        # The operand of `sizeof` is not evaluated.
        if not (isinstance(item, c_ast.UnaryOp) and item.op in ("sizeof", "_Alignof")):
            pending += [child for _, child in item.children()]
    return result


def _is_variable_part(node: c_ast.Node) -> bool:
    """Return whether a part of an expression keeps it from being constant."""
    return isinstance(
        node,
        c_ast.FuncCall
        | c_ast.Assignment
        | c_ast.CompoundLiteral
        | c_ast.ArrayRef
        | c_ast.StructRef,
    ) or (isinstance(node, c_ast.UnaryOp) and node.op in (*_INCREMENTS, "*", "&"))


def _is_null(node: c_ast.Node) -> bool:
    """Return whether an expression is a null pointer constant."""
    match node:
        case c_ast.Constant(value="0"):
            return True
        case c_ast.Cast(expr=inner, to_type=c_ast.Typename(type=c_ast.PtrDecl(type=target))):
            names = getattr(getattr(target, "type", None), "names", None)
            return names == ["void"] and _is_null(inner)
    return False


def _choose(position: int) -> None:
    raise Choice(position)


def _as_number(truth: Value) -> Value:
    return int(truth) if isinstance(truth, bool) else truth


def _swap(state: State) -> None:
    stack = state.stack
    stack[-1], stack[-2] = stack[-2], stack[-1]


def _duplicate(state: State) -> None:
    state.stack.append(state.stack[-1])


def _keep_below(state: State) -> None:
    """Put a copy of the value on the stack below the address."""
    stack = state.stack
    stack.insert(-2, stack[-1])


def _truth_of_address(state: State) -> None:
    state.stack[-1] = _as_number(to_truth(state.stack[-1]))


def _negate_truth(state: State) -> None:
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


def _build_assignment_check(place: Place, position: int) -> Operation:
    """Build the check of an assignment: no part of it changes its target at an open time."""
    size = place.type.size

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


def _build_decay(size: int | None) -> Operation:
    """Build the conversion of an array to the address of its first element."""

    def operation(state: State) -> None:
        address = state.stack[-1]
        if size is None or not isinstance(address, Address):
            return
        offset = address.offset
        if type(offset) is not int:
            # The bounds of an inner array need its place.
            _choose(1)
        state.stack[-1] = _narrow(address, offset, size)

    return operation


def _narrow(address: Address, start: int, size: int) -> Address:
    """Return the address of a part; no access through it leaves the whole.

    The part of an element behind the end of an array has no bytes, whatever lies there.
    """
    return Address(address.obj, start, max(start, address.low), min(start + size, address.high))


def _build_loaded(machine: Machine, type_: CType) -> Callable[[State, Value], Value]:
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


def _extract_field(unit: Value, size: int, first: int, width: int, type_: Integer) -> Value:
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


def _insert_field(
    unit: Value, size: int, first: int, width: int, value: Value, type_: Integer
) -> Value:
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


def _check_pointer(
    machine: Machine, state: State, address: Address, offset: Any, inside: Any
) -> None:
    """Check that a moved pointer stays in its object, or one element behind it."""
    machine.check_supported(state, inside, "a pointer outside of its array")


def _compare_addresses(machine: Machine, state: State, a: Value, b: Value) -> Any:
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


def _order_addresses(op: str, a: Value, b: Value) -> Value:
    if not isinstance(a, Address) or not isinstance(b, Address) or a.obj != b.obj or not a.obj:
        raise UnsupportedC("an order of addresses of different objects")
    return build_operation(op, LONG)(a.offset, b.offset)


def _subtract_addresses(machine: Machine, state: State, a: Value, b: Value, size: int) -> Value:
    if not isinstance(a, Address) or not isinstance(b, Address) or a.obj != b.obj or not a.obj:
        raise UnsupportedC("a difference of addresses of different objects")
    difference = build_operation("-", LONG)(a.offset, b.offset)
    if isinstance(difference, int):
        if difference % size:
            raise UnsupportedC("a difference that is no number of elements")
        return difference // size
    machine.check_supported(state, z3.SRem(difference, size) == 0, "a difference of other elements")
    return fold(difference / size)
