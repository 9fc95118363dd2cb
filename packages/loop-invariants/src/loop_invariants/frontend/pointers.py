"""Pointers whose target is known at parse time.

Such a pointer is an alias of a variable, structure or array, with an index into an array that may
change. The target is a program variable, so two pointers to one target share its changes. Allocated
memory is a variable of its own, and allocation always succeeds, as in SV-COMP. Pointers to pointers
and functions, and targets that a run selects, are not supported.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from pycparser import c_ast

from loop_invariants.frontend.expressions import callee_name
from loop_invariants.frontend.pointer_binding import (
    LONG,
    NULL,
    NULL_POINTER,
    UNKNOWN_POINTER,
    VALID,
    ZERO_OFFSET,
    BindingReader,
    PointerValue,
    cast_to_long,
    is_null,
)
from loop_invariants.frontend.sequence_points import Evaluation
from loop_invariants.frontend.side_effects import INCREMENTS
from loop_invariants.frontend.symbol_table import Pointer, Structure
from loop_invariants.ir.expressions import (
    COMPARISONS,
    Binary,
    Cast,
    Constant,
    Element,
    Expression,
    Identifier,
    Type,
    Unary,
)
from loop_invariants.ir.statements import Assign


class PointerReader(BindingReader):
    """Reader of expressions with pointers, as aliases of their targets.

    Attributes:
        read_pointer_call: reads the call of a function that returns a pointer; must be set before
            the first use.
    """

    read_pointer_call: Callable[[c_ast.FuncCall], Pointer]

    def prescan(self, unit: c_ast.FileAST) -> None:
        """Collect the functions that return pointers, in addition to the base class."""
        super().prescan(unit)
        self._pointer_functions = {
            name
            for name, definition in self._defined_functions.items()
            if isinstance(definition.decl.type.type, c_ast.PtrDecl)
        }

    def evaluate_arguments(
        self, arguments: Sequence[c_ast.Node], parameters: Sequence[c_ast.Decl]
    ) -> list[Expression | PointerValue]:
        """Evaluate a call's arguments, in any order as in C."""
        pointer_values: dict[int, PointerValue] = {}
        evaluations = []
        for number, (argument, parameter) in enumerate(zip(arguments, parameters, strict=True)):
            # An array is passed as a pointer to its first element.
            if is_pointer(parameter.type) and (
                self.is_pointer_expression(argument) or is_null(argument)
            ):
                pointer_values[number], evaluation = self._evaluate_pointer(argument)
            # An integer converted to a pointer has no target.
            elif is_pointer(parameter.type):
                pointer_values[number], evaluation = UNKNOWN_POINTER, self.evaluate(argument)
            else:
                evaluation = self.evaluate(argument)
            evaluations.append(evaluation)
        values = self.combine_unordered(arguments, evaluations)
        return [pointer_values.get(number, value) for number, value in enumerate(values)]

    def is_pointer_expression(self, node: c_ast.Node) -> bool:
        """Check that an expression is a pointer or the name of an array."""
        match node:
            case c_ast.ID():
                return self._find_pointer(node) is not None or self._is_array(node)
            case c_ast.UnaryOp(op="&"):
                return True
            case c_ast.UnaryOp(op=op, expr=operand) if op in INCREMENTS:
                return self.is_pointer_expression(operand)
            case c_ast.Cast(to_type=type_, expr=operand):
                return isinstance(type_.type, c_ast.PtrDecl) and self.is_pointer_expression(operand)
            case c_ast.BinaryOp(op="+", left=left, right=right):
                return self.is_pointer_expression(left) or self.is_pointer_expression(right)
            # The difference of two pointers is an integer.
            case c_ast.BinaryOp(op="-", left=left, right=right):
                return self.is_pointer_expression(left) and not self.is_pointer_expression(right)
            case c_ast.Assignment(lvalue=left):
                return self._find_pointer(left) is not None
            case c_ast.FuncCall():
                return callee_name(node) in self._pointer_functions
        return False

    def build_truth_test(self, node: c_ast.Node) -> c_ast.Node:
        """Return a condition as a truth test: a pointer is true if it is not null."""
        if not self.is_pointer_expression(node):
            return super().build_truth_test(node)
        return c_ast.BinaryOp("!=", node, c_ast.Constant("int", "0", node.coord), node.coord)

    # Overridden readers of integer expressions, extended to pointers.

    def _read_variable(self, node: c_ast.ID) -> Expression:
        if self._find_pointer(node) is not None:
            raise self.build_error(node, f"the pointer {node.name!r} as a value")
        return super()._read_variable(node)

    def _read_element(self, node: c_ast.ArrayRef) -> Expression:
        # An array that is not a pointer needs no state and no offset.
        symbol = self._symbols.look_up(node.name.name) if isinstance(node.name, c_ast.ID) else None
        if isinstance(symbol, Identifier) or not self.is_pointer_expression(node.name):
            return super()._read_element(node)
        pointer_value, evaluation = self._evaluate_pointer(node.name)
        evaluations = (evaluation, self.evaluate(node.subscript))
        index = self.combine_unordered((node.name, node.subscript), evaluations)[1]
        self._assert_valid(node, pointer_value)
        return self._dereference(
            node, replace(pointer_value, offset=self._move_offset(pointer_value.offset, index))
        )

    def _read_member(self, node: c_ast.StructRef) -> Identifier | Element:
        pointer_node = node.name if node.type == "->" else None
        if node.type == "." and isinstance(node.name, c_ast.UnaryOp) and node.name.op == "*":
            pointer_node = node.name.expr
        if node.type == "." and isinstance(node.name, c_ast.ArrayRef):
            # Both `p[i].f` and `s[i].f` are `(*(p + i)).f` (C11 6.5.2.1p2).
            parts = (node.name.name, node.name.subscript, node.coord)
            pointer_node = (
                c_ast.BinaryOp("+", *parts) if self.is_pointer_expression(parts[0]) else None
            )
        if pointer_node is None or not self.is_pointer_expression(pointer_node):
            return super()._read_member(node)
        pointer_value = self._assert_valid(node, self._read_pointer(pointer_node))
        if not isinstance(pointer_value.target, Structure):
            raise self.build_error(node, f"the field {node.field.name!r} of what is no structure")
        # A single structure has no neighbours.
        if not pointer_value.target.is_array and pointer_value.offset != ZERO_OFFSET:
            raise self.build_error(node, "what lies behind a pointer to no array")
        return self._select_field(node, pointer_value.target, pointer_value.offset)

    def _read_unary(self, node: c_ast.UnaryOp) -> Expression:
        if node.op == "*" and self.is_pointer_expression(node.expr):
            return self._dereference(node, self._assert_valid(node, self._read_pointer(node.expr)))
        # `!p` is `p == 0` (C11 6.5.3.3p5).
        if node.op == "!" and self.is_pointer_expression(node.expr):
            null_node = c_ast.Constant("int", "0", node.coord)
            return self._read_binary(c_ast.BinaryOp("==", node.expr, null_node, node.coord))
        return super()._read_unary(node)

    def _read_sizeof(self, node: c_ast.UnaryOp) -> Expression:
        is_type = isinstance(node.expr, c_ast.Typename)
        # Pointers have 64 bits on the supported platform.
        if is_type and isinstance(node.expr.type, c_ast.PtrDecl):
            return Cast(Type(64, False), Constant(8))
        return super()._read_sizeof(node)

    def _find_sizeof_type(self, node: c_ast.UnaryOp) -> Type:
        if self._find_pointer(node.expr) is not None:
            return LONG
        return super()._find_sizeof_type(node)

    def _read_binary(self, node: c_ast.BinaryOp) -> Expression:
        sides = (node.left, node.right)
        pointer_sides = [side for side in sides if self.is_pointer_expression(side)]
        if node.op in ("==", "!=") and len(pointer_sides) == 1 and any(map(is_null, sides)):
            # The target of a bound pointer has an address, so only the state can be null.
            state = self._assert_defined(self._read_pointer(pointer_sides[0])).state
            is_known = isinstance(state, Constant)
            return Constant(int(node.op == "!=")) if is_known else Binary(node.op, state, NULL)
        if len(pointer_sides) < 2 or (node.op not in COMPARISONS and node.op != "-"):
            return super()._read_binary(node)
        pointer_values = [self._evaluate_pointer(side) for side in sides]
        self.combine_unordered(sides, [evaluation for _, evaluation in pointer_values])
        left, right = (pointer_value for pointer_value, _ in pointer_values)
        if node.op in ("==", "!="):
            equality = self._build_equality(node, left, right)
            return equality if node.op == "==" else Unary("!", equality)
        left, right = (self._assert_defined(self._assert_valid(node, p)) for p in (left, right))
        # The order of different objects is undefined (C11 6.5.8p5).
        if left.target != right.target:
            raise self.build_error(node, "an operator on pointers to different targets")
        return Binary(node.op, cast_to_long(left.offset), cast_to_long(right.offset))

    def _build_equality(
        self, node: c_ast.BinaryOp, left: PointerValue, right: PointerValue
    ) -> Expression:
        """Build the condition that two pointers are equal."""
        left, right = map(self._assert_defined, (left, right))
        if left.target is None or right.target is None:
            raise self.build_error(node, "a pointer whose target is not known here")
        if left.target == right.target:
            offsets_equal = Binary("==", cast_to_long(left.offset), cast_to_long(right.offset))
            # Both are bound to the target, so only their offsets can differ.
            if left.state == right.state == VALID:
                return offsets_equal
            is_null_pointer = Binary("==", left.state, NULL)
            return Binary(
                "&&",
                Binary("==", left.state, right.state),
                Binary("||", is_null_pointer, offsets_equal),
            )
        is_moved = left.offset != ZERO_OFFSET or right.offset != ZERO_OFFSET
        if is_moved or self._is_array_target(left.target) or self._is_array_target(right.target):
            # The end of one object may be the beginning of another (C11 6.5.9p6).
            raise self.build_error(node, "an operator on pointers to different targets")
        # Pointers to different variables are equal only if both are null.
        return Binary("&&", Binary("==", left.state, NULL), Binary("==", right.state, NULL))

    def _read_assignment(self, node: c_ast.Assignment, is_used: bool) -> Expression:
        pointer = self._find_pointer(node.lvalue)
        if pointer is None:
            return super()._read_assignment(node, is_used)
        if is_used:
            raise self.build_error(node, "a pointer as a value")
        return self._reassign_pointer(node, pointer).offset

    def _read_increment(self, node: c_ast.UnaryOp, is_used: bool) -> Expression:
        if self._find_pointer(node.expr) is None:
            return super()._read_increment(node, is_used)
        if is_used:
            raise self.build_error(node, "a pointer as a value")
        return self._read_pointer(node).offset

    # Targets and offsets of pointers.

    def _evaluate_pointer(self, node: c_ast.Node) -> tuple[PointerValue, Evaluation]:
        """Evaluate a pointer expression: its target, and its side effects."""
        pointer_values: list[PointerValue] = []

        def read_offset() -> Expression:
            pointer_values.append(self._read_pointer(node))
            # Both parts determine the target, so another operand must change neither.
            return Binary("+", pointer_values[0].offset, pointer_values[0].state)

        evaluation = self._collect_effects(read_offset)
        return pointer_values[0], evaluation

    def _read_pointer(self, node: c_ast.Node) -> PointerValue:
        match node:
            case _ if is_null(node):
                return NULL_POINTER
            case c_ast.ID(name=name):
                symbol = self._symbols.look_up(name)
                if isinstance(symbol, Identifier | Structure) and self._is_array_target(symbol):
                    return PointerValue(symbol, ZERO_OFFSET)
                pointer = self._find_pointer(node)
                if pointer is not None:
                    return self._load_pointer(node, pointer)
            case c_ast.FuncCall() if self.is_pointer_expression(node):
                return self._load_pointer(node, self.read_pointer_call(node))
            case c_ast.UnaryOp(op="&", expr=operand):
                return self._read_address(node, operand)
            case c_ast.UnaryOp(op=op, expr=c_ast.ID() as operand) if op in INCREMENTS:
                return self._step_pointer(node, operand)
            case c_ast.Cast(to_type=type_, expr=operand) if isinstance(type_.type, c_ast.PtrDecl):
                if isinstance(type_.type.type, c_ast.PtrDecl | c_ast.ArrayDecl | c_ast.FuncDecl):
                    raise self.build_error(node, "a pointer to what is no integer or structure")
                pointer_value = self._read_pointer(operand)
                self._check_constant(node, pointer_value, "const" in type_.type.type.quals)
                return self._apply_view(node, self._read_target_type(type_.type), pointer_value)
            case c_ast.BinaryOp(op="+" | "-", left=left, right=right):
                if not self.is_pointer_expression(left):
                    left, right = right, left
                # The integer may also be the left operand, as in `i + p`.
                pointer_value, evaluation = self._evaluate_pointer(left)
                step = self.combine_unordered((left, right), (evaluation, self.evaluate(right)))[1]
                pointer_value = self._assert_valid(node, pointer_value)
                return replace(
                    pointer_value, offset=self._move_offset(pointer_value.offset, step, node.op)
                )
            case c_ast.Assignment(lvalue=left) if (pointer := self._find_pointer(left)) is not None:
                return self._reassign_pointer(node, pointer)
        raise self.build_error(node, "a pointer whose target is not known here")

    def _read_address(self, node: c_ast.Node, inner: c_ast.Node) -> PointerValue:
        if (
            isinstance(inner, c_ast.UnaryOp)
            and inner.op == "*"
            and self.is_pointer_expression(inner.expr)
        ):
            return self._assert_valid(node, self._read_pointer(inner.expr))
        if isinstance(inner, c_ast.ID):
            symbol = self._symbols.look_up(inner.name)
            if isinstance(symbol, Structure) and not symbol.is_array:
                return PointerValue(symbol, ZERO_OFFSET)
        if isinstance(inner, c_ast.ArrayRef) and self.is_pointer_expression(inner.name):
            # `&p[i]` is `p + i` (C11 6.5.3.2p3).
            parts = (inner.name, inner.subscript, node.coord)
            return self._read_pointer(c_ast.BinaryOp("+", *parts))
        match self.read(inner):
            case Identifier() as variable:
                return PointerValue(variable, ZERO_OFFSET)
            case Element(array, index, array_type) if self._is_contiguous(inner):
                return PointerValue(Identifier(array, array_type), index)
        raise self.build_error(node, "the address of what is no variable")

    def _move_offset(self, offset: Expression, step: Expression, operator: str = "+") -> Expression:
        """Move an offset by a number of elements."""
        if operator == "+" and offset == ZERO_OFFSET:
            return step
        if step == ZERO_OFFSET:
            return offset
        # In 64 bits: 32 bits could wrap around, and an unsigned index would never be negative.
        return Binary(operator, cast_to_long(offset), cast_to_long(step))

    def _dereference(self, node: c_ast.Node, pointer_value: PointerValue) -> Expression:
        """Return the variable or element at a pointer's target."""
        if isinstance(pointer_value.target, Identifier):
            value: Expression | None = None
            if pointer_value.target.type.is_array:
                value = pointer_value.target.element(pointer_value.offset)
            elif pointer_value.offset == ZERO_OFFSET:
                value = pointer_value.target
            if value is not None:
                return (
                    value
                    if pointer_value.view_type is None
                    else Cast(pointer_value.view_type, value)
                )
        raise self.build_error(node, "what lies behind a pointer to no array")

    def _step_pointer(self, node: c_ast.UnaryOp, inner: c_ast.ID) -> PointerValue:
        """Increment or decrement a pointer; return its value before or after the step."""
        pointer = self._find_pointer(inner)
        # Only a pointer into an array has a variable for its offset.
        if pointer is None or not isinstance(pointer.offset, Identifier):
            raise self.build_error(node, "a step of what is no pointer into an array")
        pointer_value = self._assert_valid(node, self._load_pointer(node, pointer))
        offset = pointer.offset
        self.add((Assign(offset, Binary(node.op.strip("p")[0], offset, Constant(1))),))
        if node.op in ("++", "--"):
            return pointer_value
        old_offset = Binary("-" if "+" in node.op else "+", offset, Constant(1))
        return replace(pointer_value, offset=old_offset)

    def _reassign_pointer(self, node: c_ast.Assignment, pointer: Pointer) -> PointerValue:
        name = node.lvalue.name
        if node.op == "=":
            return self._bind(node.rvalue, pointer, self._change_counts[name] > 1)
        if node.op not in ("+=", "-=") or not isinstance(pointer.offset, Identifier):
            raise self.build_error(node, f"the operator {node.op} on a pointer")
        pointer_value = self._assert_valid(node, self._load_pointer(node, pointer))
        evaluations = (Evaluation((), pointer.offset), self.evaluate(node.rvalue))
        step = self.combine_unordered((node.lvalue, node.rvalue), evaluations)[1]
        self.add((Assign(pointer.offset, self._move_offset(pointer.offset, step, node.op[0])),))
        return pointer_value

    def _is_array(self, node: c_ast.Node) -> bool:
        symbol = self._symbols.look_up(node.name) if isinstance(node, c_ast.ID) else None
        return isinstance(symbol, Identifier | Structure) and self._is_array_target(symbol)

    def _is_contiguous(self, node: c_ast.Node) -> bool:
        """Check that elements adjacent in the program's array are also adjacent in C."""
        match node:
            case c_ast.ArrayRef(name=c_ast.ID() | c_ast.StructRef()):
                return True
            case c_ast.UnaryOp(op="*"):
                return True
        return False


def is_pointer(node: c_ast.Node) -> bool:
    """Check that a parameter's type is a pointer; an array parameter is one too."""
    return isinstance(node, c_ast.PtrDecl | c_ast.ArrayDecl)
