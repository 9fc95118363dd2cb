"""Memory that C allocates: variables of the program, structures and arrays of their own.

There is always enough of it, as SV-COMP has it, and what it holds at first is open.
"""

from collections.abc import Callable

from pycparser import c_ast

from llmchecker.programs.expressions import (
    Binary,
    Constant,
    Expression,
    Ternary,
    Type,
    is_open,
    promoted,
    type_of,
)
from llmchecker.programs.statements import Assign, Forget
from llmchecker.reading.c_expressions import called
from llmchecker.reading.declarations import folded
from llmchecker.reading.effects import EffectReader
from llmchecker.reading.scopes import Fields, Pointer, Target, Variable, root_of
from llmchecker.translating.syntax import is_void

_ENORMOUS = Constant(1 << 62)
"""More elements than an index reaches."""

_ALLOCATING = frozenset(("malloc", "alloca", "__builtin_alloca"))


class AllocationReader(EffectReader):
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
        if len(arguments) != 1 or isinstance(kind, Fields):
            raise self.unsupported(node, f"the call of {called(node)} with these arguments")
        type_ = kind
        if not alone:
            type_ = Type(kind.bits, kind.signed, self._elements(arguments[0], kind, name))
        own = self._names.made(type_, name)
        self.add((Forget(own),))
        return Variable(own)

    def _elements(self, node: c_ast.Node, kind: Type, name: str) -> Expression:
        """How many elements fit into so many bytes; a number that a run decides is stored."""
        size = max(1, kind.bits // 8)
        counted = node if size == 1 else None
        if isinstance(node, c_ast.BinaryOp) and node.op == "*":
            for count, each in ((node.left, node.right), (node.right, node.left)):
                counted = count if self._is_size_of(each, kind) else counted
        value = self.read(node if counted is None else counted)
        known = folded(value, self._names)
        if known is not None and known > 0:
            return Constant(known if counted is not None else known // size)
        type_ = promoted(type_of(value, self._names.types))
        if counted is None or is_open(value) or (type_.bits == 64 and size > 1):
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
