"""Parts of arrays and structures, and memory that C allocates: variables of the program.

There is always enough memory, as SV-COMP has it, and what it holds at first is open.
"""

from collections.abc import Callable

from pycparser import c_ast

from llmchecker.programs.expressions import (
    Binary,
    Cast,
    Constant,
    Element,
    Expression,
    Identifier,
    Ternary,
    Type,
    is_open,
    promoted,
    type_of,
)
from llmchecker.programs.statements import Assert, Assign, Forget
from llmchecker.reading.c_expressions import called
from llmchecker.reading.effects import EffectReader
from llmchecker.reading.scopes import Fields, Grid, Pointer, Structure, Target, Variable, root_of
from llmchecker.translating.evaluations import folded
from llmchecker.translating.syntax import is_void

_ENORMOUS = Constant(1 << 62)
"""More elements than an index reaches."""

_ALLOCATING = frozenset(("malloc", "alloca", "__builtin_alloca"))


class PartReader(EffectReader):
    """Reads elements of arrays and fields of structures."""

    def _readers(self) -> dict[type, Callable[..., Expression]]:
        return super()._readers() | {c_ast.StructRef: self._field}

    def _element(self, node: c_ast.ArrayRef, bound: frozenset[str]) -> Expression:
        if isinstance(node.name, c_ast.StructRef):
            member = self._member(node.name, bound)
            if not isinstance(member, Identifier) or not self._names.types[member.name].array:
                raise self.unsupported(node, "an index of what is no array")
            return Element(member.name, self.read(node.subscript, bound))
        if not isinstance(node.name, c_ast.ID):
            return self._of_grid(node, bound)
        meaning = self._names.meaning(node.name.name)
        array = isinstance(meaning, Variable) and self._names.types[meaning.name].array
        if not array or node.name.name in bound:
            what = f"an index of {node.name.name!r}, which is not an array in scope,"
            raise self.unsupported(node, what)
        return Element(meaning.name, self.read(node.subscript, bound))

    def _of_grid(self, node: c_ast.ArrayRef, bound: frozenset[str]) -> Expression:
        """An element of an array of arrays, of which no index may leave its range."""
        subscripts: list[c_ast.Node] = []
        inner: c_ast.Node = node
        while isinstance(inner, c_ast.ArrayRef):
            subscripts.insert(0, inner.subscript)
            inner = inner.name
        grid = self._names.meaning(inner.name) if isinstance(inner, c_ast.ID) else None
        if not isinstance(grid, Grid) or len(subscripts) != len(grid.sizes) or bound:
            raise self.unsupported(node, "an array of arrays")
        place: Expression = Constant(0)
        for index, size in zip(self.evaluated_all(subscripts), grid.sizes, strict=True):
            within = self._within(index, size)
            row = Binary("*", place, Constant(size))
            place = within if place == Constant(0) else Binary("+", row, within)
        return Element(grid.name, place)

    def _within(self, index: Expression, size: int) -> Expression:
        """An index, in 64 bits, that is asserted to be in its range."""
        if isinstance(index, Constant) and 0 <= index.value < size:
            return index
        type_ = type_of(index, self._names.types)
        if is_open(index):
            kept = Identifier(self._names.temporary(type_, "index"))
            self.add((Assign(kept, index),))
            index = kept
        low, high = Binary("<=", Constant(0), index), Binary("<", index, Constant(size))
        self.add((Assert(Binary("&&", low, high), 0),))
        return index if type_ == Type(64) else Cast(Type(64), index)

    def _field(self, node: c_ast.StructRef, bound: frozenset[str]) -> Expression:
        member = self._member(node, bound)
        if isinstance(member, Identifier) and self._names.types[member.name].array:
            raise self.unsupported(node, f"the array {node.field.name!r} without an index")
        return member

    def _member(self, node: c_ast.StructRef, bound: frozenset[str]) -> Identifier | Element:
        """A field of a structure; it may be an array."""
        indexed = isinstance(node.name, c_ast.ArrayRef)
        named = node.name.name if indexed else node.name
        if node.type != "." or not isinstance(named, c_ast.ID):
            raise self.unsupported(node, "a pointer")
        structure = self._names.meaning(named.name)
        if not isinstance(structure, Structure) or structure.array != indexed:
            raise self.unsupported(node, f"the field {node.field.name!r} of what is no structure")
        index = self.read(node.name.subscript, bound) if indexed else Constant(0)
        return self._part(node, structure, index)

    def _part(
        self, node: c_ast.StructRef, structure: Structure, index: Expression
    ) -> Identifier | Element:
        """A field of a structure, or of one in an array."""
        if node.field.name not in structure.variables:
            raise self.unsupported(node, f"the field {node.field.name!r} of what is no structure")
        name = structure.variables[node.field.name]
        return Element(name, index) if structure.array else Identifier(name)


class AllocationReader(PartReader):
    """Reads expressions that allocate memory.

    Attributes:
        kind_named: the integer type or structure that a type's name stands for; it is set before
            anything is read.
    """

    kind_named: Callable[[c_ast.Node], Type | Fields]

    def look_through(self, unit: c_ast.FileAST) -> None:
        """See which functions a file defines."""
        self._defined = {part.decl.name for part in unit.ext if isinstance(part, c_ast.FuncDef)}

    def allocated(self, node: c_ast.Node, kind: Type | Fields | None, name: str) -> Target | None:
        """A variable for the memory that an expression allocates; None if it allocates none.

        Args:
            kind: the type of what the pointer that gets it points to; None for `void`.
            name: the pointer's name.
        """
        call = node
        while isinstance(call, c_ast.Cast) and isinstance(call.to_type.type, c_ast.PtrDecl):
            # A type that fits is asked of every cast but one to `void *`.
            to = call.to_type.type
            if not is_void(to.type) and self.kind_named(to.type) != kind:
                raise self.unsupported(node, "a pointer to another type than its target has")
            call = call.expr
        function = called(call) if isinstance(call, c_ast.FuncCall) else ""
        if function not in _ALLOCATING or function in self._defined:
            return None
        if kind is None:
            raise self.unsupported(node, "memory of an open type")
        target = self._object(call, kind, name)
        if function != "malloc":
            self._names.automatic[root_of(target)] = self._names.depth
        return target

    def _object(self, node: c_ast.FuncCall, kind: Type | Fields, name: str) -> Target:
        """A new variable for memory that is allocated; it has any value."""
        arguments = node.args.exprs if node.args else ()
        alone = len(arguments) == 1 and self._is_size_of(arguments[0], kind)
        if isinstance(kind, Fields) and alone:
            structure = self._names.made_structure(name, kind)
            self.add(tuple(Forget(field) for field in structure.variables.values()))
            return structure
        if len(arguments) != 1:
            raise self.unsupported(node, f"the call of {called(node)} with these arguments")
        if isinstance(kind, Fields):
            if any(type_.array for type_ in kind.types.values()):
                raise self.unsupported(node, "an array of structures with arrays")
            length = self._elements(arguments[0], kind, name)
            structure = self._names.made_structure(name, kind, length)
            self.add(tuple(Forget(field) for field in structure.variables.values()))
            return structure
        type_ = kind
        if not alone:
            type_ = Type(kind.bits, kind.signed, self._elements(arguments[0], kind, name))
        own = self._names.made(type_, name)
        self.add((Forget(own),))
        return Variable(own)

    def _elements(self, node: c_ast.Node, kind: Type | Fields, name: str) -> Expression:
        """How many elements fit into so many bytes; a number that a run decides is stored."""
        # Of structures the size is open: only a number of them is known.
        size = 0 if isinstance(kind, Fields) else max(1, kind.bits // 8)
        counted = node if size == 1 else None
        if isinstance(node, c_ast.BinaryOp) and node.op == "*":
            for count, each in ((node.left, node.right), (node.right, node.left)):
                counted = count if self._is_size_of(each, kind) else counted
        value = self.read(node if counted is None else counted)
        known = folded(value, self._names.types)
        if counted is None and not size:
            raise self.unsupported(node, "memory of such a size")
        if known is not None and known > 0:
            return Constant(known if counted is not None else known // size)
        type_ = promoted(type_of(value, self._names.types))
        if counted is None or is_open(value) or (type_.bits == 64 and size != 1):
            raise self.unsupported(node, "memory of such a size")
        # A negative number becomes an enormous one of an unsigned type.
        if type_.bits == 64:
            value = Ternary(Binary("<", value, _ENORMOUS), value, _ENORMOUS)
        if type_.signed:
            value = Ternary(Binary(">=", value, Constant(0)), value, _ENORMOUS)
        length = self._names.length_of(name)
        self.add((Assign(length, value),))
        return length

    def _is_size_of(self, node: c_ast.Node, kind: Type | Fields) -> bool:
        """Whether an expression is `sizeof` of a type."""
        if not (isinstance(node, c_ast.UnaryOp) and node.op == "sizeof"):
            return False
        match node.expr:
            case c_ast.Typename(type=c_ast.TypeDecl() as named):
                return self.kind_named(named) == kind
            case c_ast.UnaryOp(op="*", expr=c_ast.ID(name=name)):
                pointer = self._names.meaning(name)
                return isinstance(pointer, Pointer) and pointer.kind == kind
        return False
