"""Expressions of a syntax tree whose value may depend on the evaluation order (C11 6.5p2).

    a[i] = i++;     x = f() + global;     f() + g()

The test is conservative: it may report an expression whose value does not depend on the order.
A verifier chooses one order, so its verdict holds only for texts without such expressions.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pycparser import c_ast

from llmchecker.programs.frontend.c_ast import iter_nodes
from llmchecker.programs.frontend.expressions import callee_name

_SEQUENCED = ("&&", "||")
_STEPS = ("++", "--", "p++", "p--")


@dataclass(frozen=True)
class _Effects:
    """The effects and reads of an expression.

    Attributes:
        assigns: whether the expression assigns to a variable itself.
        calls: whether the expression calls a function that may change shared variables.
        reads: whether the expression reads a variable.
        reads_shared: whether the expression reads a variable that a called function may change.
    """

    assigns: bool = False
    calls: bool = False
    reads: bool = False
    reads_shared: bool = False

    def __or__(self, other: "_Effects") -> "_Effects":
        return _Effects(
            self.assigns or other.assigns,
            self.calls or other.calls,
            self.reads or other.reads,
            self.reads_shared or other.reads_shared,
        )

    def may_change(self, other: "_Effects") -> bool:
        """Return whether these effects may change the value of another operand."""
        if self.assigns:
            return other.reads or other.assigns or other.calls
        return self.calls and (other.reads_shared or other.calls or other.assigns)


class _OrderDependence(Exception):
    """An expression whose value may depend on the evaluation order."""


def has_order_dependence(unit: c_ast.FileAST) -> bool:
    """Return whether an expression of a text may depend on the evaluation order."""
    functions = [node for node in unit.ext if isinstance(node, c_ast.FuncDef)]
    defined_names = frozenset(function.decl.name for function in functions)
    try:
        for function in functions:
            reader = _EffectReader(defined_names, _find_private_names(function))
            for expression in _iter_full_expressions(function.body):
                reader.read(expression)
    except _OrderDependence:
        return True
    return False


def _find_private_names(function: c_ast.FuncDef) -> frozenset[str]:
    """Return the parameters and local variables that no other function can change."""
    names = {
        node.name
        for node in iter_nodes(function, (c_ast.Decl,))
        if isinstance(node.type, c_ast.TypeDecl | c_ast.PtrDecl) and "static" not in node.storage
    }
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
        private_names: variables that no other function can change.
    """

    def __init__(self, defined_names: frozenset[str], private_names: frozenset[str]) -> None:
        self._defined_names, self._private_names = defined_names, private_names

    def read(self, node: c_ast.Node) -> _Effects:
        """Return the effects of an expression.

        Raises:
            _OrderDependence: its value may depend on the evaluation order.
        """
        match node:
            case c_ast.Constant():
                return _Effects()
            case c_ast.ID(name=name):
                return _Effects(reads=True, reads_shared=name not in self._private_names)
            case c_ast.Assignment():
                return self._read_assignment(node)
            case c_ast.UnaryOp(op="sizeof"):
                return _Effects()
            case c_ast.UnaryOp(op=op, expr=operand):
                effects = self.read(operand)
                is_step = op in _STEPS
                # A step of an operand with effects of its own would need the rules of assignment.
                if is_step and (effects.assigns or effects.calls):
                    raise _OrderDependence
                return effects | _Effects(assigns=is_step, reads_shared=op == "*")
            # The left operand is evaluated before the right one.
            case c_ast.BinaryOp(op=op) if op in _SEQUENCED:
                return self._union(node)
            case c_ast.TernaryOp() | c_ast.ExprList():
                return self._union(node)
            case c_ast.FuncCall():
                return self._read_call(node)
            case c_ast.StructRef():
                return self.read(node.name) | _Effects(reads=True, reads_shared=True)
            case c_ast.ArrayRef():
                return self._read_operands(node) | _Effects(reads_shared=True)
        return self._read_operands(node)

    def _union(self, node: c_ast.Node) -> _Effects:
        effects = _Effects()
        for _, child in node.children():
            effects |= self.read(child)
        return effects

    def _read_operands(self, node: c_ast.Node) -> _Effects:
        """Return the effects of operands that are evaluated in any order."""
        return self._combine([child for _, child in node.children()])

    def _combine(self, operands: list[c_ast.Node]) -> _Effects:
        effects = [self.read(operand) for operand in operands]
        for index, operand in enumerate(effects):
            others = (*effects[:index], *effects[index + 1 :])
            if any(operand.may_change(other) for other in others):
                raise _OrderDependence
        union = _Effects()
        for operand in effects:
            union |= operand
        return union

    def _read_call(self, node: c_ast.FuncCall) -> _Effects:
        # Arguments are evaluated in any order, and all of them before the call.
        effects = self._combine([*(node.args.exprs if node.args else [])])
        name = callee_name(node)
        # A call through a pointer may reach every function of the text.
        calls = not name or name in self._defined_names or name in self._private_names
        return effects | _Effects(calls=calls)

    def _read_assignment(self, node: c_ast.Assignment) -> _Effects:
        target, value = self.read(node.lvalue), self.read(node.rvalue)
        is_plain = node.op == "=" and isinstance(node.lvalue, c_ast.ID)
        # The value of `x = f()` is complete before the assignment, and `x` itself is not read.
        if is_plain and not value.assigns:
            return value | _Effects(assigns=True)
        if value.may_change(target) or target.may_change(value):
            raise _OrderDependence
        return target | value | _Effects(assigns=True)
