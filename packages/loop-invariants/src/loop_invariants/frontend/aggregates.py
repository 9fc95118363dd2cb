"""Array elements, structure fields and allocated memory as program variables.

Allocation always succeeds, as in SV-COMP, and allocated memory has arbitrary initial values.
"""

from collections.abc import Callable, Sequence

from pycparser import c_ast

from loop_invariants.frontend.expressions import callee_name
from loop_invariants.frontend.sequence_points import fold_constant
from loop_invariants.frontend.side_effects import EffectReader
from loop_invariants.frontend.symbol_table import (
    MultiArray,
    Pointer,
    StructType,
    Structure,
    Target,
    root_variable,
)
from loop_invariants.frontend.syntax_tree import find_definitions, is_void
from loop_invariants.ir.expressions import (
    Binary,
    Cast,
    Constant,
    Element,
    Expression,
    Identifier,
    Ternary,
    Type,
    has_nondet,
    promote,
)
from loop_invariants.ir.statements import Assert, Assign, Havoc

_UNBOUNDED_LENGTH = Constant(1 << 62)
"""Length above every index in use."""

_ALLOCATORS = frozenset(("malloc", "alloca", "__builtin_alloca"))


class _AggregateReader(EffectReader):
    """Reader of array elements and structure fields."""

    def _build_readers(self) -> dict[type, Callable[..., Expression]]:
        return super()._build_readers() | {c_ast.StructRef: self._read_field}

    def _read_element(self, node: c_ast.ArrayRef) -> Expression:
        if isinstance(node.name, c_ast.StructRef):
            member = self._read_member(node.name)
            if not isinstance(member, Identifier) or not member.type.is_array:
                raise self.build_error(node, "an index of what is no array")
            return member.element(self.read(node.subscript))
        if not isinstance(node.name, c_ast.ID):
            return self._read_multi_array_element(node)
        symbol = self._symbols.look_up(node.name.name)
        if isinstance(symbol, Identifier) and symbol.type.is_array:
            return symbol.element(self.read(node.subscript))
        problem = f"an index of {node.name.name!r}, which is not an array in scope,"
        raise self.build_error(node, problem)

    def _read_multi_array_element(self, node: c_ast.ArrayRef) -> Expression:
        """Read an element of an array of arrays; every index must be in its range."""
        subscripts: list[c_ast.Node] = []
        base: c_ast.Node = node
        while isinstance(base, c_ast.ArrayRef):
            subscripts.insert(0, base.subscript)
            base = base.name
        multi_array = self._symbols.look_up(base.name) if isinstance(base, c_ast.ID) else None
        if not isinstance(multi_array, MultiArray) or len(subscripts) != len(multi_array.sizes):
            raise self.build_error(node, "an array of arrays")
        flat_index: Expression = Constant(0)
        for index, size in zip(self.evaluate_all(subscripts), multi_array.sizes, strict=True):
            # In row-major order a wrong index could still be in the range of the whole array.
            checked_index = self._assert_in_range(index, size)
            row_offset = Binary("*", flat_index, Constant(size))
            flat_index = (
                checked_index
                if flat_index == Constant(0)
                else Binary("+", row_offset, checked_index)
            )
        return multi_array.array.element(flat_index)

    def _assert_in_range(self, index: Expression, size: int) -> Expression:
        """Convert an index to 64 bits and assert that it is in its range."""
        if isinstance(index, Constant) and 0 <= index.value < size:
            return index
        type_ = index.type
        # The index that is checked must be the index that is used.
        if has_nondet(index):
            temporary = self._symbols.create_temporary(type_, "index")
            self.add((Assign(temporary, index),))
            index = temporary
        low, high = Binary("<=", Constant(0), index), Binary("<", index, Constant(size))
        self.add((Assert(Binary("&&", low, high), 0),))
        return index if type_ == Type(64) else Cast(Type(64), index)

    def _read_field(self, node: c_ast.StructRef) -> Expression:
        member = self._read_member(node)
        if isinstance(member, Identifier) and member.type.is_array:
            raise self.build_error(node, f"the array {node.field.name!r} without an index")
        return member

    def _read_member(self, node: c_ast.StructRef) -> Identifier | Element:
        """Return the variable of a structure's field, which may be an array."""
        is_indexed = isinstance(node.name, c_ast.ArrayRef)
        identifier = node.name.name if is_indexed else node.name
        if node.type != "." or not isinstance(identifier, c_ast.ID):
            raise self.build_error(node, "a pointer")
        structure = self._symbols.look_up(identifier.name)
        if not isinstance(structure, Structure) or structure.is_array != is_indexed:
            raise self.build_error(node, f"the field {node.field.name!r} of what is no structure")
        index = self.read(node.name.subscript) if is_indexed else Constant(0)
        return self._select_field(node, structure, index)

    def _select_field(
        self, node: c_ast.StructRef, structure: Structure, index: Expression
    ) -> Identifier | Element:
        """Return the variable of a field of a structure, or of an element in an array."""
        if node.field.name not in structure.variables:
            raise self.build_error(node, f"the field {node.field.name!r} of what is no structure")
        variable = structure.variables[node.field.name]
        return variable.element(index) if structure.is_array else variable


class AllocationReader(_AggregateReader):
    """Reader of expressions that allocate memory.

    Attributes:
        read_base_type: reads the integer type or structure of a type name; must be set before the
            first use.
    """

    read_base_type: Callable[[c_ast.Node], Type | StructType]

    def prescan(self, unit: c_ast.FileAST) -> None:
        """Collect the functions that a file defines."""
        self._defined_functions = find_definitions(unit)

    def read_allocation(
        self, node: c_ast.Node, target_type: Type | StructType | None, name: str
    ) -> Target | None:
        """Create a variable for allocated memory; return None without an allocation.

        Args:
            node: expression that may allocate memory.
            target_type: target type of the pointer that receives the address; None for `void`.
            name: name of the pointer.
        """
        call = node
        while isinstance(call, c_ast.Cast) and isinstance(call.to_type.type, c_ast.PtrDecl):
            # A cast to `void *` fits every pointer; other casts must match the type.
            cast_type = call.to_type.type
            if not is_void(cast_type.type) and self.read_base_type(cast_type.type) != target_type:
                raise self.build_error(node, "a pointer to another type than its target has")
            call = call.expr
        function = callee_name(call) if isinstance(call, c_ast.FuncCall) else ""
        # A function of the file with this name is not the allocator.
        if function not in _ALLOCATORS or function in self._defined_functions:
            return None
        if target_type is None:
            raise self.build_error(node, "memory of an open type")
        target = self._create_object(call, target_type, name)
        # `alloca` frees its memory at the end of the function.
        if function != "malloc":
            self._symbols.automatic_depths[root_variable(target)] = self._symbols.call_depth
        return target

    def _create_object(
        self, node: c_ast.FuncCall, target_type: Type | StructType, name: str
    ) -> Target:
        """Create a variable for allocated memory, with arbitrary values."""
        arguments: Sequence[c_ast.Node] = node.args.exprs if node.args else ()
        is_single = len(arguments) == 1 and self._is_sizeof(arguments[0], target_type)
        if isinstance(target_type, StructType) and is_single:
            structure = self._symbols.create_structure(name, target_type)
            self.add(tuple(Havoc(field.name) for field in structure.variables.values()))
            return structure
        if len(arguments) != 1:
            raise self.build_error(node, f"the call of {callee_name(node)} with these arguments")
        if isinstance(target_type, StructType):
            # Each field is one array, and there are no arrays of arrays in a program.
            if any(type_.is_array for type_ in target_type.types.values()):
                raise self.build_error(node, "an array of structures with arrays")
            length = self._read_element_count(arguments[0], target_type, name)
            structure = self._symbols.create_structure(name, target_type, length)
            self.add(tuple(Havoc(field.name) for field in structure.variables.values()))
            return structure
        type_ = target_type
        if not is_single:
            type_ = type_.to_array(self._read_element_count(arguments[0], target_type, name))
        variable = self._symbols.create_variable(type_, name)
        self.add((Havoc(variable.name),))
        return variable

    def _read_element_count(
        self, node: c_ast.Node, target_type: Type | StructType, name: str
    ) -> Expression:
        """Compute the number of elements that fit into the allocated bytes.

        A number that is unknown at parse time is stored in a variable.
        """
        # The size of structures is unspecified, so only `n * sizeof(type)` is supported.
        size = 0 if isinstance(target_type, StructType) else max(1, target_type.bits // 8)
        count_node = node if size == 1 else None
        if isinstance(node, c_ast.BinaryOp) and node.op == "*":
            for count, size_node in ((node.left, node.right), (node.right, node.left)):
                count_node = count if self._is_sizeof(size_node, target_type) else count_node
        value = self.read(node if count_node is None else count_node)
        constant = fold_constant(value)
        if count_node is None and not size:
            raise self.build_error(node, "memory of such a size")
        # A constant needs no variable for the length.
        if constant is not None and constant > 0:
            return Constant(constant if count_node is not None else constant // size)
        type_ = promote(value.type)
        # The number is evaluated twice, and a product in 64 bits could wrap around.
        if count_node is None or has_nondet(value) or (type_.bits == 64 and size != 1):
            raise self.build_error(node, "memory of such a size")
        # The conversion to `size_t` turns a negative number into a huge one.
        if type_.bits == 64:
            value = Ternary(Binary("<", value, _UNBOUNDED_LENGTH), value, _UNBOUNDED_LENGTH)
        if type_.signed:
            value = Ternary(Binary(">=", value, Constant(0)), value, _UNBOUNDED_LENGTH)
        length = self._symbols.create_length_variable(name)
        self.add((Assign(length, value),))
        return length

    def _is_sizeof(self, node: c_ast.Node, target_type: Type | StructType) -> bool:
        """Check that an expression is `sizeof` of a type."""
        if not (isinstance(node, c_ast.UnaryOp) and node.op == "sizeof"):
            return False
        match node.expr:
            case c_ast.Typename(type=c_ast.TypeDecl() as type_name):
                return self.read_base_type(type_name) == target_type
            case c_ast.UnaryOp(op="*", expr=c_ast.ID(name=name)):
                pointer = self._symbols.look_up(name)
                return isinstance(pointer, Pointer) and pointer.target_type == target_type
        return False
