"""Expressions of C as code of the machine."""

from collections.abc import Callable
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
    Integer,
    PointerType,
    Record,
    UnsupportedC,
    Void,
    find_common_type,
    promote,
)
from loop_invariants.execution.code_writer import Label
from loop_invariants.execution.machine import Code, Machine, Operation, State
from loop_invariants.execution.places import (
    INCREMENTS,
    Place,
    PlaceCompiler,
    parse_characters,
    promote_field,
)
from loop_invariants.execution.scopes import FunctionName, Variable
from loop_invariants.execution.stack_operations import (
    as_number,
    begin_group,
    build_assignment_check,
    build_decay,
    build_loaded,
    build_widening,
    compare_addresses,
    duplicate,
    keep_below,
    negate_truth,
    next_operand,
    order_addresses,
    subtract_addresses,
    swap,
    truth_of_address,
)
from loop_invariants.execution.values import (
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
from loop_invariants.frontend.expressions import parse_integer_constant
from loop_invariants.ir.expressions import COMPARISONS

_CONNECTIVES = ("&&", "||")
_ARITHMETIC = frozenset("+ - * / % & | ^ << >>".split())


class ExpressionCompiler(PlaceCompiler):
    """A compiler of expressions.

    Args:
        machine: the machine that runs the code.
        checks_overflow: whether signed overflow is a violation.

    Attributes:
        compile_call: compiles a call, and returns the type of its result.
    """

    compile_call: Callable[[c_ast.FuncCall], CType]

    def __init__(self, machine: Machine, checks_overflow: bool) -> None:
        super().__init__(machine)
        self._checks_overflow = checks_overflow
        self.fold_constant = self._fold_constant

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
        try:
            value, type_ = parse_integer_constant(node)
        except ValueError as error:
            raise UnsupportedC(str(error)) from error
        self.push(value)
        return Integer(type_.bits, type_.signed)

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
            self.emit(truth_of_address)
            return
        if isinstance(source, Record) and source is target:
            return
        raise UnsupportedC("this conversion")

    def _unary(self, node: c_ast.UnaryOp) -> CType:
        op = node.op
        if op in INCREMENTS:
            return self._increment(node)
        if op == "*":
            return self._load_place(self.place(node), node)
        if op == "&":
            return self._address_of(node.expr)
        if op in ("sizeof", "_Alignof"):
            return self._sizeof(node)
        if op == "!":
            self.truth(node.expr)
            self.emit(negate_truth)
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
            self.emit(build_decay(size))
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
                    state.stack[-1] = as_number(right if left is is_and else left)
                elif isinstance(right, bool):
                    state.stack[-1] = as_number(left if right is is_and else right)
                else:
                    joined = z3.And(left, right) if is_and else z3.Or(left, right)
                    state.stack[-1] = fold(joined)

            self.emit(combine)
            return INT
        decided, end = Label(), Label()
        self.truth(node.left)
        self.jump_if(decided, not is_and)
        self.truth(node.right)
        self.emit(negate_truth)
        self.emit(negate_truth)
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
        if isinstance(type_, PointerType) and isinstance(type_.target, Record):
            record = type_.target
            if record.fields is not None:
                self.emit(build_widening(record.size))
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
        if op not in (*_ARITHMETIC, *COMPARISONS):
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
        self.emit(swap)
        self.cast_to(left, left_target)
        self.emit(swap)

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
                    equal = compare_addresses(machine, state, a, b)
                    if op == "!=":
                        equal = not equal if isinstance(equal, int) else z3.Not(equal)
                    state.stack[-1] = as_number(equal)
                else:
                    state.stack[-1] = order_addresses(op, a, b)

            self.emit(compare)
            return INT
        if op == "-" and isinstance(left, PointerType) and isinstance(right, PointerType):
            size = left.target.size

            def subtract(state: State) -> None:
                b, a = state.stack.pop(), state.stack[-1]
                state.stack[-1] = subtract_addresses(machine, state, a, b, size)

            self.emit(subtract)
            return LONG
        if isinstance(left, PointerType) and isinstance(right, Integer) and op in ("+", "-"):
            self._emit_offset(left.target.size, right, op, "")
            return left
        if isinstance(left, Integer) and isinstance(right, PointerType) and op == "+":
            self.emit(swap)
            self._emit_offset(right.target.size, left, op, "")
            return right
        raise UnsupportedC(f"the operator {op} on addresses")

    def cast_pair(self, left: CType, right: CType) -> None:
        """Emit the conversion of a number among two operands to an address."""
        if isinstance(right, Integer):
            self.cast_to(right, left)
        if isinstance(left, Integer):
            self.emit(swap)
            self.cast_to(left, right)
            self.emit(swap)

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
                self.emit(duplicate)
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
            self.emit(build_assignment_check(place.type.size, 2 if node.op == "=" else 3))
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
            return promote_field(place.type, place.field.width or 0)
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
        check, low, high = build_loaded(machine, type_), type_.min_value, type_.max_value
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
            self.emit(build_assignment_check(place.type.size, 1))
        self.emit(duplicate)
        type_ = self._load_place(place, node)
        if is_postfix:
            self.emit(keep_below)
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
    ) or (isinstance(node, c_ast.UnaryOp) and node.op in (*INCREMENTS, "*", "&"))


def _is_null(node: c_ast.Node) -> bool:
    """Return whether an expression is a null pointer constant."""
    match node:
        case c_ast.Constant(value="0"):
            return True
        case c_ast.Cast(expr=inner, to_type=c_ast.Typename(type=c_ast.PtrDecl(type=target))):
            names = getattr(getattr(target, "type", None), "names", None)
            return names == ["void"] and _is_null(inner)
    return False
