"""Expressions whose value may depend on the evaluation order (C11 6.5p2).

    a[i] = i++;     x = f() + global;     f() + g()

The test is conservative: it may report an expression whose value does not depend on the order.
A verifier chooses one order, so its verdict holds only for texts without such expressions.
"""

from collections.abc import Collection, Iterable, Iterator, Set
from dataclasses import dataclass

from pycparser import c_ast

from loop_invariants.frontend.expressions import callee_name
from loop_invariants.frontend.syntax_tree import (
    EXPRESSION_NODES,
    LOOP_NODES,
    iter_nodes,
)

_SEQUENCED = ("&&", "||")
_STEPS = ("++", "--", "p++", "p--")
_PARTIAL = frozenset(("/", "%", "<<", ">>"))
_OVERFLOWING = frozenset(("+", "-", "*"))

_MEMORY = frozenset(("*", "()"))
"""Names of all variables that a pointer, and that a called function may reach."""

_POINTED = frozenset(("&",))
"""Name of all variables whose address a pointer may have, without those that are named."""

_CALLED = frozenset(("()",))
"""Name of all variables that a called function may reach, and of the run, which it may end."""


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
_FAILURE = _Effects(read=_CALLED)
"""Effects of an operation that may fail: a call may end the run before it."""


_PURE_FUNCTIONS = frozenset(("malloc", "calloc", "abs", "labs", "llabs"))
"""Functions of the C library that change no variable and return."""


class _OrderDependence(Exception):
    """An expression whose value may depend on the evaluation order."""


def find_order_dependence(
    unit: c_ast.FileAST, input_names: Collection[str], can_overflow: bool
) -> c_ast.Node | None:
    """Return the first expression that may depend on the evaluation order; None without one.

    Args:
        unit: syntax tree of the text.
        input_names: undefined functions that return any value and change nothing.
        can_overflow: whether an overflow violates the property.
    """
    partial_operators = _PARTIAL | _OVERFLOWING if can_overflow else _PARTIAL
    pure_functions = _PURE_FUNCTIONS | set(input_names)
    functions = [node for node in unit.ext if isinstance(node, c_ast.FuncDef)]
    global_declarations = [node for node in unit.ext if isinstance(node, c_ast.Decl)]
    global_names = {node.name for node in global_declarations}
    reading_functions = _find_reading_functions(functions, pure_functions, global_names)
    global_arrays = _find_arrays(global_declarations)
    for function in functions:
        declarations = list(iter_nodes(function.body, (c_ast.Decl,)))
        arrays = (global_arrays | _find_arrays(declarations)) - _find_scalars(function)
        # A name may be another variable in another block.
        private_names = _find_private_names(function) - global_names
        reader = _EffectReader(
            pure_functions,
            reading_functions,
            private_names,
            arrays,
            partial_operators,
        )
        for expression in _iter_full_expressions(function.body):
            try:
                reader.read(expression)
            except _OrderDependence:
                return expression
    return None


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
    # An array in a structure is an address, which may reach other functions.
    for node in iter_nodes(function.body, (c_ast.StructRef,)):
        names -= {node.name.name} if node.type == "." and isinstance(node.name, c_ast.ID) else set()
    for node in iter_nodes(function.body, (c_ast.UnaryOp,)):
        # An address may reach other functions.
        if node.op == "&":
            names -= {part.name for part in iter_nodes(node, (c_ast.ID,))}
    return frozenset(names)


def _find_reading_functions(
    functions: Iterable[c_ast.FuncDef], pure_functions: Set[str], global_names: Set[str]
) -> frozenset[str]:
    """Return the functions that only change own variables, and that never end the run.

    Endless recursion is no end: then no search by a verifier is complete. A function with a loop
    does not count, since a verifier may cut an endless loop off.
    """
    calls = {
        function.decl.name: {callee_name(call) for call in iter_nodes(function, (c_ast.FuncCall,))}
        for function in functions
        if not any(iter_nodes(function.body, (*LOOP_NODES, c_ast.Goto)))
        and _find_targets(function.body) <= _find_private_names(function) - global_names
    }
    reading = frozenset(calls)
    while changing := {name for name in reading if not calls[name] <= pure_functions | reading}:
        reading -= changing
    return reading


def _find_targets(body: c_ast.Node) -> set[str]:
    """Return the names of the variables that assignments and steps change; "*" for others."""
    targets = [node.lvalue for node in iter_nodes(body, (c_ast.Assignment,))]
    targets += [node.expr for node in iter_nodes(body, (c_ast.UnaryOp,)) if node.op in _STEPS]
    return {target.name if isinstance(target, c_ast.ID) else "*" for target in targets}


def _iter_full_expressions(node: c_ast.Node) -> Iterator[c_ast.Node]:
    """Yield the full expressions of a statement (C11 6.8p4)."""
    for _, child in node.children():
        if isinstance(child, EXPRESSION_NODES):
            yield child
        else:
            yield from _iter_full_expressions(child)


class _EffectReader:
    """A reader of the effects of expressions in one function.

    Args:
        pure_functions: functions that change no variable and return.
        reading_functions: functions of the text that only change own variables.
        private_names: variables that no pointer or other function reaches.
        arrays: names of arrays, whose address never changes.
        partial_operators: operators that may fail.
    """

    def __init__(
        self,
        pure_functions: Set[str],
        reading_functions: Set[str],
        private_names: frozenset[str],
        arrays: frozenset[str],
        partial_operators: frozenset[str],
    ) -> None:
        self._pure_functions, self._reading_functions = pure_functions, reading_functions
        self._private_names, self._arrays = private_names, arrays
        self._partial_operators = partial_operators

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
            case c_ast.BinaryOp(op=op, left=left, right=right) if op in self._partial_operators:
                return self._combine([left, right]) | _FAILURE
            case c_ast.FuncCall():
                return self._read_call(node)
            case c_ast.StructRef():
                return self.read(node.name) | _MEMORY_READ
            case c_ast.ArrayRef():
                return self._read_place(node) | _MEMORY_READ
        return self._combine([child for _, child in node.children()])

    def _cells(self, name: str) -> frozenset[str]:
        """Return the names under which effects may reach a variable."""
        names = frozenset((name,))
        return names if name in self._private_names else names | _MEMORY

    def _read_place(self, node: c_ast.ArrayRef) -> _Effects:
        """Return the effects of evaluating the address of an element."""
        return self._combine([node.name, node.subscript])

    def _has_separate_index(self, node: c_ast.Node) -> bool:
        """Return whether the variable that an index steps is no element of the array."""
        match node:
            case c_ast.ArrayRef(
                name=c_ast.ID(name=array), subscript=c_ast.UnaryOp(op=op, expr=c_ast.ID(name=index))
            ):
                return op in _STEPS and array in self._arrays and index not in self._arrays
        return False

    def _read_target(self, node: c_ast.Node) -> tuple[_Effects, frozenset[str]]:
        """Return the effects of evaluating a target, and the variables that it denotes."""
        match node:
            case c_ast.ID(name=name):
                return _Effects(), self._cells(name)
            case c_ast.ArrayRef():
                is_array = isinstance(node.name, c_ast.ID) and node.name.name in self._arrays
                return self._read_place(node), _MEMORY if is_array else _MEMORY | _POINTED
            case c_ast.StructRef(type=".", name=c_ast.ID(name=name)):
                return _Effects(), self._cells(name) | _MEMORY
            # The name of the field is no variable.
            case c_ast.StructRef():
                return self.read(node.name), _MEMORY
        effects = self._combine([child for _, child in node.children()])
        return effects, _MEMORY | _POINTED

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
        # A variable of this name is a pointer, which may reach every function of the text.
        if name in self._private_names:
            return effects | _CALL
        if name in self._reading_functions:
            return effects | _MEMORY_READ
        return effects if name in self._pure_functions else effects | _CALL

    def _read_assignment(self, node: c_ast.Assignment) -> _Effects:
        target, cells = self._read_target(node.lvalue)
        value = self.read(node.rvalue)
        # The value is complete before the assignment, and only `=` does not read its target.
        read = frozenset() if node.op == "=" else cells
        is_plain = node.op == "=" and isinstance(node.lvalue, c_ast.ID)
        # The call in `x = f()` may assign `x` too, and the assignment comes last.
        written = cells - _CALLED
        if is_plain:
            is_private = node.lvalue.name in self._private_names
            written = frozenset((node.lvalue.name,)) | (frozenset() if is_private else _POINTED)
        assigned = value.assigned
        # In `x = y = 0` both receive one value, so that the order of the assignments is irrelevant.
        # A union, in which this is no longer so, is an obstacle of its own.
        if node.op == "=":
            assigned = self._read_before_store(node.rvalue).assigned
        if assigned & (written | read) or value.may_change(target):
            raise _OrderDependence
        is_separate = self._has_separate_index(node.lvalue)
        if target.may_change(value) or (target.assigned & cells and not is_separate):
            raise _OrderDependence
        return target | value | _Effects(assigned=cells, read=read)

    def _read_before_store(self, node: c_ast.Node) -> _Effects:
        """Return the effects of an expression, without the assignments of its own value."""
        if isinstance(node, c_ast.Assignment) and node.op == "=":
            return self._read_target(node.lvalue)[0] | self._read_before_store(node.rvalue)
        return self.read(node)
