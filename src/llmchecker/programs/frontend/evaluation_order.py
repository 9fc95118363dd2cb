"""Expressions whose value may depend on the evaluation order (C11 6.5p2).

    a[i] = i++;     x = f() + global;     f() + g()

The test is conservative: it may report an expression whose value does not depend on the order.
A verifier chooses one order, so its verdict holds only for texts without such expressions.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pycparser import c_ast

from llmchecker.programs.frontend.expressions import callee_name
from llmchecker.programs.frontend.syntax_tree import iter_nodes

_SEQUENCED = ("&&", "||")
_STEPS = ("++", "--", "p++", "p--")


_MEMORY = frozenset(("*", "()"))
"""Names of all variables that a pointer, and that a called function may reach."""

_CALLED = frozenset(("()",))
"""Name of all variables that a called function may reach."""


@dataclass(frozen=True)
class _Effects:
    """The effects and reads of an expression.

    Attributes:
        assigned: variables that the expression may change.
        read: variables that the expression reads.
    """

    assigned: frozenset[str] = frozenset()
    read: frozenset[str] = frozenset()

    def __or__(self, other: "_Effects") -> "_Effects":
        return _Effects(self.assigned | other.assigned, self.read | other.read)

    def may_change(self, other: "_Effects") -> bool:
        """Return whether these effects may change another operand."""
        return bool(self.assigned & (other.read | other.assigned))


_MEMORY_READ = _Effects(read=_MEMORY)
_CALL = _Effects(assigned=_CALLED, read=_CALLED)


class _OrderDependence(Exception):
    """An expression whose value may depend on the evaluation order."""


def has_order_dependence(unit: c_ast.FileAST) -> bool:
    """Return whether an expression of a text may depend on the evaluation order."""
    functions = [node for node in unit.ext if isinstance(node, c_ast.FuncDef)]
    defined_names = frozenset(function.decl.name for function in functions)
    global_arrays = _find_arrays(node for node in unit.ext if isinstance(node, c_ast.Decl))
    try:
        for function in functions:
            declarations = list(iter_nodes(function.body, (c_ast.Decl,)))
            arrays = (global_arrays | _find_arrays(declarations)) - _find_scalars(function)
            reader = _EffectReader(defined_names, _find_private_names(function), arrays)
            for expression in _iter_full_expressions(function.body):
                reader.read(expression)
    except _OrderDependence:
        return True
    return False


def _find_arrays(declarations: Iterable[c_ast.Decl]) -> frozenset[str]:
    return frozenset(d.name for d in declarations if isinstance(d.type, c_ast.ArrayDecl))


def _find_scalars(function: c_ast.FuncDef) -> frozenset[str]:
    """Return the names in a function that are no arrays; a parameter is none."""
    bodies = iter_nodes(function.body, (c_ast.Decl,))
    scalars = {node.name for node in bodies if not isinstance(node.type, c_ast.ArrayDecl)}
    parameters = iter_nodes(function.decl.type, (c_ast.Decl,))
    return frozenset(scalars | {node.name for node in parameters})


def _find_private_names(function: c_ast.FuncDef) -> frozenset[str]:
    """Return the local variables that no pointer or other function reaches."""
    declarations = list(iter_nodes(function, (c_ast.Decl,)))
    names = {
        node.name
        for node in declarations
        if isinstance(node.type, c_ast.TypeDecl | c_ast.PtrDecl)
        and not {"static", "extern"} & set(node.storage)
    }
    # A name that is declared again in a block may be another variable there.
    names -= {node.name for node in declarations if node.name in names and node.storage}
    for node in iter_nodes(function.body, (c_ast.UnaryOp,)):
        # An address may reach other functions.
        if node.op == "&":
            names -= {part.name for part in iter_nodes(node, (c_ast.ID,))}
    return frozenset(names)


def _iter_full_expressions(node: c_ast.Node) -> Iterator[c_ast.Node]:
    """Yield the full expressions of a statement (C11 6.8p4)."""
    for _, child in node.children():
        if isinstance(child, _EXPRESSIONS):
            yield child
        else:
            yield from _iter_full_expressions(child)


_EXPRESSIONS = (
    c_ast.ArrayRef,
    c_ast.Assignment,
    c_ast.BinaryOp,
    c_ast.Cast,
    c_ast.CompoundLiteral,
    c_ast.Constant,
    c_ast.ExprList,
    c_ast.FuncCall,
    c_ast.ID,
    c_ast.InitList,
    c_ast.StructRef,
    c_ast.TernaryOp,
    c_ast.UnaryOp,
)


class _EffectReader:
    """A reader of the effects of expressions in one function.

    Args:
        defined_names: functions that the text defines.
        private_names: variables that no pointer or other function reaches.
        arrays: names of arrays, whose address never changes.
    """

    def __init__(
        self,
        defined_names: frozenset[str],
        private_names: frozenset[str],
        arrays: frozenset[str],
    ) -> None:
        self._defined_names, self._private_names = defined_names, private_names
        self._arrays = arrays

    def read(self, node: c_ast.Node) -> _Effects:
        """Return the effects of an expression.

        Raises:
            _OrderDependence: its value may depend on the evaluation order.
        """
        match node:
            case c_ast.Constant():
                return _Effects()
            case c_ast.ID(name=name):
                return _Effects() if name in self._arrays else _Effects(read=self._cells(name))
            case c_ast.Assignment():
                return self._read_assignment(node)
            case c_ast.UnaryOp(op="sizeof"):
                return _Effects()
            case c_ast.UnaryOp(op=op, expr=operand) if op in _STEPS:
                return self._step(operand)
            case c_ast.UnaryOp(op="*"):
                return self.read(node.expr) | _MEMORY_READ
            # The left operand is evaluated before the right one.
            case c_ast.BinaryOp(op=op) if op in _SEQUENCED:
                return self._union(node)
            case c_ast.TernaryOp() | c_ast.ExprList():
                return self._union(node)
            case c_ast.FuncCall():
                return self._read_call(node)
            case c_ast.StructRef():
                return self.read(node.name) | _MEMORY_READ
            case c_ast.ArrayRef():
                return self._combine([node.name, node.subscript]) | _MEMORY_READ
        return self._combine([child for _, child in node.children()])

    def _cells(self, name: str) -> frozenset[str]:
        """Return the names under which effects may reach a variable."""
        names = frozenset((name,))
        return names if name in self._private_names else names | _MEMORY

    def _read_target(self, node: c_ast.Node) -> tuple[_Effects, frozenset[str]]:
        """Return the effects of evaluating a target, and the variables that it denotes."""
        match node:
            case c_ast.ID(name=name):
                return _Effects(), self._cells(name)
            case c_ast.ArrayRef():
                return self._combine([node.name, node.subscript]), _MEMORY
            case c_ast.StructRef(type=".", name=c_ast.ID(name=name)):
                return _Effects(), self._cells(name) | _MEMORY
        effects = self._combine([child for _, child in node.children()])
        return effects, _MEMORY

    def _step(self, operand: c_ast.Node) -> _Effects:
        effects, cells = self._read_target(operand)
        if effects.assigned & (cells | effects.read):
            raise _OrderDependence
        return effects | _Effects(assigned=cells, read=cells)

    def _union(self, node: c_ast.Node) -> _Effects:
        effects = _Effects()
        for _, child in node.children():
            effects |= self.read(child)
        return effects

    def _combine(self, operands: Iterable[c_ast.Node]) -> _Effects:
        """Return the effects of operands that are evaluated in any order."""
        effects = [self.read(operand) for operand in operands]
        union = _Effects()
        for index, operand in enumerate(effects):
            others = (*effects[:index], *effects[index + 1 :])
            if any(operand.may_change(other) for other in others):
                raise _OrderDependence
            union |= operand
        return union

    def _read_call(self, node: c_ast.FuncCall) -> _Effects:
        # Arguments are evaluated in any order, and all of them before the call.
        effects = self._combine(node.args.exprs if node.args else ())
        name = callee_name(node)
        # A call through a pointer may reach every function of the text.
        is_own = not name or name in self._defined_names or name in self._private_names
        return effects | _CALL if is_own else effects

    def _read_assignment(self, node: c_ast.Assignment) -> _Effects:
        target, cells = self._read_target(node.lvalue)
        value = self.read(node.rvalue)
        # The value is complete before the assignment, and only `=` does not read its target.
        read = frozenset() if node.op == "=" else cells
        is_plain = node.op == "=" and isinstance(node.lvalue, c_ast.ID)
        # The call in `x = f()` may assign `x` too, and the assignment comes last.
        written = frozenset((node.lvalue.name,)) if is_plain else cells - _CALLED
        if value.assigned & (written | read) or value.may_change(target):
            raise _OrderDependence
        if target.may_change(value) or target.assigned & cells:
            raise _OrderDependence
        return target | value | _Effects(assigned=cells, read=read)
