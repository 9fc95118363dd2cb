"""Builtin functions of verification benchmarks, and checks of their definitions.

A call of a builtin is an assertion, an assumption, a stop or a failure. A file may declare or
define builtins itself. The declaration or definition must agree with the known meaning; otherwise
the program is rejected. For example, a function that returns although its condition is false is not
an assumption, whatever its name.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pycparser import c_ast

from loop_invariants.frontend.expressions import ExpressionReader, callee_name, nondet_type
from loop_invariants.frontend.preprocessing.translation_phases import (
    FAILURE_FUNCTIONS,
    NAMED_ASSERTION,
    STOP_FUNCTIONS,
)
from loop_invariants.frontend.syntax_tree import iter_nodes, parse_integer_type
from loop_invariants.ir.expressions import BOOL, INT, Expression, Type, is_boolean, promote
from loop_invariants.ir.instrumentation import Property

ASSERT_FUNCTIONS = frozenset(
    ("assert", "__VERIFIER_assert", "__ESBMC_assert", "__llbmc_assert", NAMED_ASSERTION)
)
"""Functions whose argument must hold."""

ASSUME_FUNCTIONS = frozenset(
    ("__VERIFIER_assume", "__ESBMC_assume", "__llbmc_assume", "assume_abort_if_not", "assume")
)
"""Functions that return only if their argument holds."""

VERIFIER_BUILTINS = ASSERT_FUNCTIONS | ASSUME_FUNCTIONS | STOP_FUNCTIONS | FAILURE_FUNCTIONS

INPUT_NAME = re.compile(r"_*(?:unknown|nondet|NONDET)\w*")
"""Names of inputs that benchmarks call without a declaration."""

_LIBRARY_CALLBACKS = frozenset(("malloc", "calloc", "realloc", "free", "atexit"))
"""Functions that the C library may call, before or during `main`."""

_RESERVED_NAME = re.compile(
    r"_[A-Za-z]\w*|__(builtin|atomic|sync|libc|gmon|cxa|cyg|stack|errno|TMC|gcc|tls|emutls|register"
    r"|deregister|frame|fentry|mcount|morecore|malloc|memalign|free|realloc|after|environ|progname"
    r"|x86|asan|ubsan|tsan|sanitizer|(pre)?init_|fini_|start_|stop_|data_|bss_|dso_)\w*"
)
"""Functions that a compiler or the startup code around `main` may call."""


def is_violation(name: str, required_property: Property) -> bool:
    """Check that an error of a function violates a property, and does not end the run."""
    if required_property is Property.REACH:
        return name not in ("assert", "__assert_fail")
    return required_property is Property.ASSERT


@dataclass(frozen=True)
class BuiltinParameters:
    """Parameter types of the builtins.

    Attributes:
        types: type of the parameter, by name of the function. An undeclared function converts its
            argument to an int.
    """

    types: Mapping[str, Type]

    def is_lossless(self, name: str, condition: Expression) -> bool:
        """Check that the parameter's type keeps the truth of a condition."""
        if is_boolean(condition) or (name == "assert" and name not in self.types):
            # 0 and 1 fit every type. The macro `assert` compares with zero and converts nothing.
            return True
        parameter_type = self.types.get(name, INT)
        # A conversion to a narrower type could turn a nonzero value into 0.
        return parameter_type == BOOL or promote(condition.type).bits <= parameter_type.bits


def read_builtins(unit: c_ast.FileAST, reader: ExpressionReader) -> BuiltinParameters:
    """Check all declarations and definitions of functions other than `main`.

    Args:
        unit: syntax tree of the file.
        reader: builds errors with file and line.

    Returns:
        The parameter types of the builtins.

    Raises:
        UnsupportedProgram: a definition in the file disagrees with the known meaning.
    """
    types: dict[str, Type] = {}
    declared_names = set()
    # Each declaration of a function is checked, not only the last.
    for node in iter_nodes(unit, (c_ast.Decl,)):
        if isinstance(node.type, c_ast.FuncDecl):
            declared_names.add(node.name)
            types |= _read_declaration(node, reader)
    for definition in unit.ext:
        if isinstance(definition, c_ast.FuncDef) and definition.decl.name != "main":
            _check_definition(definition, reader)
    # In C, an undeclared function returns an int. A variable initialized by such a call has any
    # value of its own type, which is also the meaning of the function's name.
    standard_calls = {
        id(node.init)
        for node in iter_nodes(unit, (c_ast.Decl,))
        if isinstance(node.init, c_ast.FuncCall)
        and parse_integer_type(node.type) == nondet_type(callee_name(node.init))
    }
    for call in iter_nodes(unit, (c_ast.FuncCall,)):
        name = callee_name(call)
        if (
            name not in declared_names
            and nondet_type(name) not in (None, INT)
            and id(call) not in standard_calls
        ):
            raise reader.build_error(call, f"the call of {name}, which is not declared,")
    return BuiltinParameters(types)


def _read_declaration(node: c_ast.Decl, reader: ExpressionReader) -> dict[str, Type]:
    """Return the parameter's type in a declaration of an assertion or assumption."""
    name, result = node.name, parse_integer_type(node.type.type)
    type_ = nondet_type(name)
    # The value of the function must be any value of the type in its name.
    if type_ is not None and (result != type_ or list_parameters(node)):
        raise reader.build_error(node, f"{name!r} of another type than its name says")
    if name in VERIFIER_BUILTINS and node.funcspec:
        raise reader.build_error(node, f"{' '.join(node.funcspec)} for {name!r}")
    if name not in ASSERT_FUNCTIONS | ASSUME_FUNCTIONS or node.type.args is None:
        return {}
    parameter, *other_parameters = list_parameters(node) or [None]
    type_ = None if parameter is None else parse_integer_type(getattr(parameter, "type", None))
    # A parameter of another type could change the truth of the argument.
    if type_ is None or (other_parameters and name != "__ESBMC_assert"):
        raise reader.build_error(node, f"{name!r} with other parameters than one integer")
    return {name: type_}


def list_parameters(node: c_ast.Decl) -> list[c_ast.Node]:
    """Return the parameters of a function declaration; `(void)` has none."""
    arguments = node.type.args.params if node.type.args is not None else []
    is_single = len(arguments) == 1 and isinstance(arguments[0], c_ast.Typename)
    if is_single and getattr(getattr(arguments[0].type, "type", None), "names", None) == ["void"]:
        return []
    return arguments


def _check_definition(definition: c_ast.FuncDef, reader: ExpressionReader) -> None:
    """Check that the definition of a builtin agrees with its known meaning.

    Other functions may have any definition, since their calls are inlined.
    """
    name = definition.decl.name
    is_reserved = (
        name in STOP_FUNCTIONS or nondet_type(name) is not None or name in _LIBRARY_CALLBACKS
    )
    if is_reserved or (name not in VERIFIER_BUILTINS and _RESERVED_NAME.fullmatch(name)):
        raise reader.build_error(definition, f"a definition of {name!r}")
    if name not in ASSERT_FUNCTIONS | ASSUME_FUNCTIONS:
        # A failure is never called in a correct program; calls of others are inlined.
        return
    parameters = list_parameters(definition.decl)
    if len(parameters) != 1 or not isinstance(parameters[0], c_ast.Decl) or definition.param_decls:
        raise reader.build_error(definition, f"a definition of {name!r} without one parameter")
    known_definition = _Definition(name, parameters[0].name)
    if not known_definition.has_known_meaning(definition.body.block_items or ()):
        raise reader.build_error(definition, f"this definition of {name!r}")


@dataclass(frozen=True)
class _Definition:
    """The body of a builtin's definition, in relation to its parameter.

    If the parameter holds, the body must have no effect. If not, an assumption must not return. An
    assertion may then have any effect, since it has already failed.
    """

    name: str
    parameter: str

    @property
    def is_assumption(self) -> bool:
        """Whether the function is an assumption, not an assertion."""
        return self.name in ASSUME_FUNCTIONS

    def has_known_meaning(self, body: Sequence[c_ast.Node]) -> bool:
        """Check that the body returns only if the parameter holds, or has failed before.

        Labels are ignored, since no jump is a permitted statement here.
        """
        # Whether a run with a false parameter has ended; a failed assertion ends it.
        can_stop = not self.is_assumption
        for statement in _iter_flat(body):
            match statement:
                case c_ast.If(cond=condition, iftrue=then_branch, iffalse=else_branch) if (
                    self._is_negation(condition)
                ):
                    # With a true parameter, only the `else` part is executed.
                    if else_branch is not None and not _is_empty(else_branch):
                        return False
                    can_stop = can_stop or _is_nonreturning(then_branch)
                case c_ast.While(cond=condition) if self._is_negation(condition):
                    # The condition stays false, since the body does not change the parameter.
                    can_stop = can_stop or _is_empty(statement.stmt)
                case c_ast.FuncCall() if not self.is_assumption and self._is_parameter_assertion(
                    statement
                ):
                    continue
                # A run with a true parameter ends here; later statements do not matter.
                case c_ast.Return(expr=None):
                    return can_stop
                case c_ast.EmptyStatement():
                    continue
                case _:
                    return False
            if not can_stop:
                return False
        return can_stop

    def _is_negation(self, node: c_ast.Node) -> bool:
        match node:
            case c_ast.UnaryOp(op="!", expr=c_ast.ID(name=self.parameter)):
                return True
            case c_ast.BinaryOp(
                op="==", left=c_ast.ID(name=self.parameter), right=c_ast.Constant(value="0")
            ):
                return True
        return False

    def _is_parameter_assertion(self, call: c_ast.FuncCall) -> bool:
        arguments = call.args.exprs if call.args else []
        match call, arguments:
            case c_ast.FuncCall(name=c_ast.ID(name="assert")), [c_ast.ID(name=name)]:
                # A definition of `assert` must not use `assert`, since it would call itself
                # forever.
                return self.name != "assert" and name == self.parameter
        return False


def _iter_flat(nodes: Sequence[c_ast.Node]) -> Iterator[c_ast.Node]:
    """Yield statements in order, including those in blocks and after labels."""
    for node in nodes:
        match node:
            case c_ast.Compound(block_items=items):
                yield from _iter_flat(items or ())
            case c_ast.Label(stmt=stmt) if not isinstance(stmt, c_ast.Goto):
                yield from _iter_flat((stmt,))
            case _:
                yield node


def _is_nonreturning(node: c_ast.Node) -> bool:
    """Check that no run continues after the statement."""
    match node:
        case c_ast.Compound(block_items=[first, *_]):
            return _is_nonreturning(first)
        case c_ast.FuncCall():
            arguments = node.args.exprs if node.args else []
            # A constant argument has no side effect.
            constant = all(isinstance(argument, c_ast.Constant) for argument in arguments)
            return callee_name(node) in STOP_FUNCTIONS and constant
        case c_ast.While(cond=c_ast.Constant(value="1"), stmt=stmt):
            return _is_empty(stmt)
        case c_ast.For(init=None, cond=None, next=None, stmt=stmt):
            return _is_empty(stmt)
        # A label that jumps to itself is an endless loop.
        case c_ast.Label(name=label, stmt=c_ast.Goto(name=target)) if label == target:
            return True
    return False


def _is_empty(node: c_ast.Node) -> bool:
    return all(isinstance(statement, c_ast.EmptyStatement) for statement in _iter_flat((node,)))
