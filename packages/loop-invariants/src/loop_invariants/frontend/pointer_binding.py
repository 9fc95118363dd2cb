"""Binding of C pointers to their targets.

A pointer is bound to its target at its declaration or first assignment, and never to another. In a
run, a pointer may be used while it is null or not yet bound. Such a pointer has a state variable:
valid, null or uninitialized. Only parsing shows which pointers these are, so parsing is repeated
with each of them.
"""

from collections import Counter
from dataclasses import dataclass, replace

from pycparser import c_ast

from loop_invariants.frontend.aggregates import AllocationReader
from loop_invariants.frontend.sequence_points import fold_constant
from loop_invariants.frontend.side_effects import INCREMENTS
from loop_invariants.frontend.symbol_table import (
    Pointer,
    StructType,
    Structure,
    Target,
    find_root,
    root_variable,
)
from loop_invariants.frontend.syntax_tree import is_void, iter_nodes
from loop_invariants.ir.expressions import (
    INT,
    Binary,
    Cast,
    Constant,
    Expression,
    Identifier,
    Type,
    has_nondet,
)
from loop_invariants.ir.statements import Assert, Assign, Block, Branch, Statement

LONG = Type(64)
ZERO_OFFSET = Constant(0)

VALID, NULL, UNINITIALIZED = Constant(1), Constant(0), Constant(-1)
"""States of a pointer: bound to its target, null, or without a value."""


@dataclass(frozen=True)
class PointerValue:
    """The value of a pointer expression.

    Attributes:
        target: variable, array or structure; None for a null pointer.
        offset: index in an array; 0 for another target.
        state: state of the pointer: one of the three constants, or a variable with the state.
        view_type: integer type to read the target as, if it differs from the target's own.
    """

    target: Target | None
    offset: Expression
    state: Expression = VALID
    view_type: Type | None = None


NULL_POINTER = PointerValue(None, ZERO_OFFSET, NULL)
"""A null pointer."""

UNKNOWN_POINTER = PointerValue(None, ZERO_OFFSET, UNINITIALIZED)
"""An integer converted to a pointer, whose target is undefined."""


class NullablePointer(Exception):
    """A run may use a pointer that is null or not yet bound.

    Attributes:
        name: name of the pointer.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class BindingReader(AllocationReader):
    """Reader that binds pointers to targets.

    Attributes:
        nullable_pointers: names of the pointers with a state variable.
    """

    nullable_pointers: frozenset[str] = frozenset()

    def prescan(self, unit: c_ast.FileAST) -> None:
        """Count the changes of each name to values other than null."""
        super().prescan(unit)
        assignments = [n for n in iter_nodes(unit, (c_ast.Assignment,)) if not is_null(n.rvalue)]
        changed_nodes = [node.lvalue for node in assignments]
        changed_nodes += [n.expr for n in iter_nodes(unit, (c_ast.UnaryOp,)) if n.op in INCREMENTS]
        self._change_counts = Counter(n.name for n in changed_nodes if isinstance(n, c_ast.ID))

    def is_pointer_expression(self, node: c_ast.Node) -> bool:
        """Check that an expression is a pointer or the name of an array."""
        raise NotImplementedError

    def _read_pointer(self, node: c_ast.Node) -> PointerValue:
        raise NotImplementedError

    def declare_pointer(self, node: c_ast.Decl, is_global: bool = False) -> Block:
        """Declare a pointer and return the statements that initialize it.

        Args:
            node: the declaration.
            is_global: whether the pointer is outside of functions, and thus null at first.
        """
        if self._symbols.is_in_innermost_scope(node.name):
            raise self.build_error(node, f"a second {node.name!r} in one scope")
        is_null_pointer = is_global and (node.init is None or is_null(node.init))
        # A function may return before it binds such a pointer.
        pointer = self._create_pointer(node.type, node.name, has_state=is_null_pointer)
        self._symbols.bind(node.name, pointer)
        if node.init is None:
            return self._initialize_state(pointer, NULL if is_global else UNINITIALIZED)
        # Only constants can initialize a variable outside of functions (C11 6.7.9p4).
        if is_global and any(iter_nodes(node.init, (c_ast.FuncCall, c_ast.Assignment))):
            raise self.build_error(node, "a first value that is no constant")
        # A pointer that never changes needs no variable for its offset.
        can_move = self._change_counts[node.name] > 0
        return self._collect_effects(
            lambda: self._bind(node.init, pointer, can_move).offset
        ).effects

    def create_result(self, node: c_ast.PtrDecl, function: str) -> tuple[Pointer, Block]:
        """Create a pointer for the result of a function, and its first statements."""
        name = f"{function}_result"
        pointer = self._create_pointer(node, name)
        # The space makes a name that the text cannot contain.
        self._symbols.bind(self._symbols.build_fresh_name(f"{name} "), pointer)
        return pointer, self._initialize_state(pointer, UNINITIALIZED)

    def bind_result(self, node: c_ast.Node, pointer: Pointer) -> Block:
        """Return the statements that bind a function's result to a pointer."""
        return self._collect_effects(
            lambda: self._bind(node, pointer, can_move=True).offset
        ).effects

    def bind_parameter(
        self, node: c_ast.Decl, pointer_value: PointerValue, argument: c_ast.Node
    ) -> Block:
        """Bind a parameter to the target of its argument."""
        pointer = self._create_pointer(node.type, node.name)
        self._symbols.bind(node.name, pointer)
        if pointer_value == UNKNOWN_POINTER:
            return self._initialize_state(pointer, UNINITIALIZED)
        can_move = self._change_counts[node.name] > 0
        return self._collect_effects(
            lambda: self._bind_to_value(argument, pointer, pointer_value, can_move).offset
        ).effects

    def read_free(self, node: c_ast.Node) -> None:
        """Free memory: no pointer is valid for it afterwards.

        A loop must allocate the memory again before the next iteration uses it.
        """
        # `free(0)` has no effect (C11 7.22.3.3p2).
        if is_null(node):
            return
        pointer = self._find_pointer(node)
        loop_stack = (
            pointer
            and pointer.target
            and self._symbols.allocation_loops.get(root_variable(pointer.target))
        )
        if loop_stack is None:
            raise self.build_error(node, "freeing what is not the beginning of allocated memory")
        # Otherwise an iteration could free memory of another iteration.
        if loop_stack != tuple(self._symbols.loop_stack):
            raise self.build_error(node, "memory that is freed in another loop than allocated")
        pointer_value = self._read_pointer(node)
        assert pointer_value.target is not None
        if pointer_value.state != VALID:
            self.add((Assert(Binary("!=", pointer_value.state, UNINITIALIZED), 0),))
        self._symbols.freed_variables.add(root_variable(pointer_value.target))
        invalidations = tuple(
            _build_if_valid(alias.state, (Assign(alias.state, UNINITIALIZED),))
            # Without a state, a later use of the pointer is an error at parse time.
            for alias in self._symbols.find_pointers(pointer_value.target)
            if alias.state is not None
        )
        offset_check = (
            ()
            # A pointer into the middle of memory must not be freed.
            if pointer_value.offset == ZERO_OFFSET
            else (Assert(Binary("==", pointer_value.offset, ZERO_OFFSET), 0),)
        )
        self.add((_build_if_valid(pointer_value.state, (*offset_check, *invalidations)),))

    # Conditions under which C defines the value of a pointer.

    def _assert_valid(self, node: c_ast.Node, pointer_value: PointerValue) -> PointerValue:
        """Assert that a pointer is valid where it is dereferenced; return it as valid."""
        if pointer_value.target is None:
            raise self.build_error(node, "a pointer whose target is not known here")
        if pointer_value.state != VALID:
            self.add((Assert(Binary("==", pointer_value.state, VALID), 0),))
        return replace(pointer_value, state=VALID)

    def _assert_defined(self, pointer_value: PointerValue) -> PointerValue:
        """Assert that C defines a pointer where it is compared or copied; return the pointer.

        It has a value, and points to an element or behind the last one (C11 6.5.6p8). Programs
        compiled by gcc compare and copy other pointers too, so no run reports this.
        """
        state = pointer_value.state
        if not isinstance(state, Constant):
            self.add((Assert(Binary("!=", state, UNINITIALIZED), None),))
        target, offset = pointer_value.target, pointer_value.offset
        if target is None or offset == ZERO_OFFSET:
            return pointer_value
        # The offset that is checked must be the offset that is used.
        if has_nondet(offset):
            temporary = self._symbols.create_temporary(LONG, "offset")
            self.add((Assign(temporary, offset),))
            offset = temporary
        # The fields of a single structure may be arrays, whose lengths are not its own.
        length = find_root(target).type.length if self._is_array_target(target) else None
        place = cast_to_long(offset)
        is_inside = Binary(
            "&&", Binary("<=", ZERO_OFFSET, place), Binary("<=", place, length or Constant(1))
        )
        if state != VALID:
            is_inside = Binary("||", Binary("!=", state, VALID), is_inside)
        if fold_constant(is_inside) != 1:
            self.add((Assert(is_inside, None),))
        return replace(pointer_value, offset=offset)

    def _load_pointer(self, node: c_ast.Node, pointer: Pointer) -> PointerValue:
        """Return the current value of a pointer."""
        if pointer.state is not None:
            # Outside the region of its declaration, the state variable may have an old value.
            if (
                pointer.optional_regions
                != self._symbols.optional_regions[: len(pointer.optional_regions)]
            ):
                raise self.build_error(node, "a pointer whose declaration is passed over")
            pointer_value = PointerValue(pointer.target, pointer.offset, pointer.state)
        elif self._is_definitely_bound(pointer):
            pointer_value = PointerValue(pointer.target, pointer.offset)
        # The program is parsed again, with a state variable for this pointer.
        else:
            raise NullablePointer(pointer.name)
        return self._apply_view(node, pointer.target_type, pointer_value)

    def _is_definitely_bound(self, pointer: Pointer) -> bool:
        """Check that every run that reaches this position has bound the pointer."""
        if pointer.target is None or root_variable(pointer.target) in self._symbols.freed_variables:
            return False
        # The regions of the binding must enclose the current position.
        return (
            pointer.binding_regions
            == self._symbols.optional_regions[: len(pointer.binding_regions)]
        )

    def _apply_view(
        self, node: c_ast.Node, target_type: Type | StructType | None, pointer_value: PointerValue
    ) -> PointerValue:
        """Return a target as a pointer of another type accesses it.

        An integer may also be read as the type of the other sign (C11 6.5p7).
        """
        # A `void` pointer fits every target.
        if pointer_value.target is None or target_type is None:
            return pointer_value
        target = pointer_value.target
        own_type: Type | StructType = (
            target.struct_type if isinstance(target, Structure) else target.type.element_type
        )
        if target_type == own_type:
            return replace(pointer_value, view_type=None)
        if (
            isinstance(target_type, Type)
            and isinstance(own_type, Type)
            and target_type.bits == own_type.bits > 1
        ):
            return replace(pointer_value, view_type=target_type)
        raise self.build_error(node, "a pointer to another type than its target has")

    def _check_constant(
        self, node: c_ast.Node, pointer_value: PointerValue, is_read_only: bool
    ) -> None:
        """Reject an address through which a constant could change (C11 6.7.3p6)."""
        target = pointer_value.target
        is_constant = (
            target is not None and root_variable(target) in self._symbols.constant_variables
        )
        if is_constant and not is_read_only:
            raise self.build_error(node, "the address of a constant, without const,")

    # Binding.

    def _create_pointer(self, node: c_ast.Node, name: str, has_state: bool = False) -> Pointer:
        if isinstance(node.type, c_ast.PtrDecl | c_ast.ArrayDecl | c_ast.FuncDecl):
            raise self.build_error(node, "a pointer to what is no integer or structure")
        if {*getattr(node, "quals", ())} - {"const"} or getattr(node, "dim_quals", None):
            raise self.build_error(node, f"a qualifier of the pointer {name!r}")
        state = None
        if has_state or name in self.nullable_pointers:
            state = self._symbols.create_variable(INT, f"{name}_state")
        loop_stack, optional_regions = (
            tuple(self._symbols.loop_stack),
            self._symbols.optional_regions,
        )
        return Pointer(
            name,
            self._read_target_type(node),
            loop_stack,
            optional_regions,
            "const" in node.type.quals,
            state,
        )

    def _read_target_type(self, node: c_ast.Node) -> Type | StructType | None:
        """Return the type of a pointer's target; None for `void`."""
        return None if is_void(node.type) else self.read_base_type(node.type)

    def _initialize_state(self, pointer: Pointer, state: Constant) -> Block:
        return () if pointer.state is None else (Assign(pointer.state, state),)

    def _bind(self, node: c_ast.Node, pointer: Pointer, can_move: bool) -> PointerValue:
        """Bind a pointer to the target of an expression."""
        target = self.read_allocation(node, pointer.target_type, pointer.name)
        if target is not None:
            # Each iteration would allocate another target.
            if tuple(self._symbols.loop_stack) != pointer.loop_stack or pointer.target is not None:
                raise self.build_error(node, f"a second target for the pointer {pointer.name!r}")
            self._symbols.allocation_loops[root_variable(target)] = pointer.loop_stack
            return self._bind_to_value(node, pointer, PointerValue(target, ZERO_OFFSET), can_move)
        if isinstance(node, c_ast.TernaryOp):
            return self._bind_conditional(node, pointer, can_move)
        if not is_null(node) and not self.is_pointer_expression(node):
            raise self.build_error(node, "a pointer whose target is not known here")
        return self._bind_to_value(node, pointer, self._read_pointer(node), can_move)

    def _bind_conditional(
        self, node: c_ast.TernaryOp, pointer: Pointer, can_move: bool
    ) -> PointerValue:
        condition = self.read(self.build_truth_test(node.cond))
        with self._symbols.optional_region():
            then = self._collect_effects(lambda: self._bind(node.iftrue, pointer, can_move).offset)
        with self._symbols.optional_region():
            otherwise = self._collect_effects(
                lambda: self._bind(node.iffalse, pointer, can_move).offset
            )
        self.add((Branch(condition, then.effects, otherwise.effects),))
        return self._load_pointer(node, pointer)

    def _bind_to_value(
        self, node: c_ast.Node, pointer: Pointer, pointer_value: PointerValue, can_move: bool
    ) -> PointerValue:
        """Bind a pointer to a pointer value."""
        # Without a state variable, the pointer cannot express this value.
        if pointer_value.state != VALID and pointer.state is None:
            raise NullablePointer(pointer.name)
        pointer_value = self._assert_defined(pointer_value)
        if pointer_value.target is not None:
            self._set_target(node, pointer, pointer_value, pointer_value.target, can_move)
        elif pointer_value.state != NULL:
            raise self.build_error(node, "a pointer whose target is not known here")
        self._symbols.has_renames = True
        if pointer.state is not None:
            self.add((Assign(pointer.state, pointer_value.state),))
        if isinstance(pointer.offset, Identifier):
            self.add((Assign(pointer.offset, pointer_value.offset),))
        elif pointer_value.offset != ZERO_OFFSET:
            raise self.build_error(node, "a pointer behind a variable")
        return PointerValue(
            pointer.target, pointer.offset, pointer.state or VALID, pointer_value.view_type
        )

    def _set_target(
        self,
        node: c_ast.Node,
        pointer: Pointer,
        pointer_value: PointerValue,
        target: Target,
        can_move: bool,
    ) -> None:
        """Set the target of a pointer, or raise an error if it cannot be its target."""
        self._apply_view(node, pointer.target_type, pointer_value)
        self._check_constant(node, pointer_value, pointer.is_read_only)
        loop_stack = self._symbols.allocation_loops.get(root_variable(target), ())
        if loop_stack != pointer.loop_stack[: len(loop_stack)]:
            # Each iteration allocates a new target, and this pointer may outlive the iteration.
            raise self.build_error(node, "a pointer from outside of a loop to what it allocates")
        if pointer.target not in (None, target):
            raise self.build_error(node, f"a second target for the pointer {pointer.name!r}")
        if self._symbols.can_outlive(pointer, target):
            raise self.build_error(node, f"the pointer {pointer.name!r} to what ends before it")
        # A pointer into an array needs a variable for its offset, unless that is always 0.
        if (
            pointer.target is None
            and self._is_array_target(target)
            and (can_move or pointer_value.offset != ZERO_OFFSET)
        ):
            pointer.offset = self._symbols.create_variable(LONG, f"{pointer.name}_place")
        # The earlier binding is not certain here, so later uses rely on this one.
        if not self._is_definitely_bound(pointer):
            pointer.binding_regions = self._symbols.optional_regions
        pointer.target = target

    def _is_array_target(self, target: Target) -> bool:
        """Check that a target is an array, in which an offset can change."""
        return target.is_array if isinstance(target, Structure) else target.type.is_array

    def _find_pointer(self, node: c_ast.Node) -> Pointer | None:
        symbol = self._symbols.look_up(node.name) if isinstance(node, c_ast.ID) else None
        return symbol if isinstance(symbol, Pointer) else None


def _build_if_valid(state: Expression, block: Block) -> Statement:
    """Build a branch that executes a block only if a pointer is valid."""
    return Branch(Binary("==", state, VALID), block, ())


def cast_to_long(value: Expression) -> Expression:
    """Return a value in 64 bits, in which no offset wraps around."""
    return value if value.type == LONG else Cast(LONG, value)


def is_null(node: c_ast.Node) -> bool:
    """Check for a null pointer constant (C11 6.3.2.3p3)."""
    match node:
        case c_ast.Constant(type="int", value="0"):
            return True
        case c_ast.Cast(to_type=type_, expr=operand) if isinstance(type_.type, c_ast.PtrDecl):
            return is_null(operand)
    return False
