"""Functions of verification benchmarks: what they mean, and whether a file defines them alike.

A call of one of them is an assertion, an assumption, a stop or a failure. A file may declare or
define them itself. Its declaration or definition must then agree with the known meaning; otherwise
the program is refused. A function that returns although its condition is false assumes nothing, for
example, whatever its name.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pycparser import c_ast

from llmchecker.programs.expressions import BOOL, INT, Expression, Type, is_truth, promoted, type_of
from llmchecker.reading.c_expressions import ExpressionReader, called, drawn
from llmchecker.translating.syntax import integer_type, nodes_in
from llmchecker.translating.translation import FAILURES, STOPS

ASSERTS = frozenset(("assert", "__VERIFIER_assert", "__ESBMC_assert", "__llbmc_assert"))
"""Functions whose argument must hold."""

ASSUMES = frozenset(
    ("__VERIFIER_assume", "__ESBMC_assume", "__llbmc_assume", "assume_abort_if_not", "assume")
)
"""Functions that return only where their argument holds."""

KNOWN = ASSERTS | ASSUMES | STOPS | FAILURES

_CALLED_BY_THE_LIBRARY = frozenset(("malloc", "calloc", "realloc", "free", "atexit"))
"""Functions that the C library may call by itself, before or during `main`."""

_RESERVED = re.compile(
    r"_[A-Za-z]\w*|__(builtin|atomic|sync|libc|gmon|cxa|cyg|stack|errno|TMC|gcc|tls|emutls|register"
    r"|deregister|frame|fentry|mcount|morecore|malloc|memalign|free|realloc|after|environ|progname"
    r"|x86|asan|ubsan|tsan|sanitizer|(pre)?init_|fini_|start_|stop_|data_|bss_|dso_)\w*"
)
"""Names of functions that a compiler or the code around `main` may call by themselves."""


@dataclass(frozen=True)
class Parameters:
    """The type to which each known function converts its argument.

    Attributes:
        types: the parameter's type by the function's name; a function that is not declared gets
            its argument as an int.
    """

    types: Mapping[str, Type]

    def keep(self, name: str, condition: Expression, types: Mapping[str, Type]) -> bool:
        """Whether a condition keeps its truth when it is converted to the parameter's type."""
        if is_truth(condition) or (name == "assert" and name not in self.types):
            # 0 and 1 fit every type, and the macro `assert` compares with zero, converting nothing.
            return True
        to = self.types.get(name, INT)
        return to == BOOL or promoted(type_of(condition, types)).bits <= to.bits


def read_known_functions(unit: c_ast.FileAST, reader: ExpressionReader) -> Parameters:
    """Check all that a file says of functions other than `main`.

    Returns:
        The types of the known functions' parameters.

    Raises:
        UnsupportedProgram: the file gives a function another meaning than the known one.
    """
    types: dict[str, Type] = {}
    declared = set()
    for node in nodes_in(unit, (c_ast.Decl,)):
        if isinstance(node.type, c_ast.FuncDecl):
            declared.add(node.name)
            types |= _declared(node, reader)
    for part in unit.ext:
        if isinstance(part, c_ast.FuncDef) and part.decl.name != "main":
            _refuse_definition(part, reader)
    # C assumes that a function which is not declared returns an int. A variable that begins with it
    # has any value of its own type then, which is what the function's name says too.
    alike = {
        id(node.init)
        for node in nodes_in(unit, (c_ast.Decl,))
        if isinstance(node.init, c_ast.FuncCall)
        and integer_type(node.type) == drawn(called(node.init))
    }
    for call in nodes_in(unit, (c_ast.FuncCall,)):
        name = called(call)
        if name not in declared and drawn(name) not in (None, INT) and id(call) not in alike:
            raise reader.unsupported(call, f"the call of {name}, which is not declared,")
    return Parameters(types)


def _declared(node: c_ast.Decl, reader: ExpressionReader) -> dict[str, Type]:
    """The parameter's type, where a declaration of an assertion or assumption names one."""
    name, result = node.name, integer_type(node.type.type)
    type_ = drawn(name)
    if type_ is not None and (result != type_ or parameters_of(node)):
        raise reader.unsupported(node, f"{name!r} of another type than its name says")
    if name in KNOWN and node.funcspec:
        raise reader.unsupported(node, f"{' '.join(node.funcspec)} for {name!r}")
    if name not in ASSERTS | ASSUMES or node.type.args is None:
        return {}
    first, *others = parameters_of(node) or [None]
    type_ = None if first is None else integer_type(getattr(first, "type", None))
    if type_ is None or (others and name != "__ESBMC_assert"):
        raise reader.unsupported(node, f"{name!r} with other parameters than one integer")
    return {name: type_}


def parameters_of(node: c_ast.Decl) -> list[c_ast.Node]:
    """The parameters of a function's declaration; `void` is none."""
    arguments = node.type.args.params if node.type.args is not None else []
    alone = len(arguments) == 1 and isinstance(arguments[0], c_ast.Typename)
    if alone and getattr(getattr(arguments[0].type, "type", None), "names", None) == ["void"]:
        return []
    return arguments


def _refuse_definition(definition: c_ast.FuncDef, reader: ExpressionReader) -> None:
    """Refuse the definition of a function unless it agrees with its known meaning.

    A function without a known meaning may have any definition, which its calls take in.
    """
    name = definition.decl.name
    own = name in STOPS or drawn(name) is not None or name in _CALLED_BY_THE_LIBRARY
    if own or (name not in KNOWN and _RESERVED.fullmatch(name)):
        raise reader.unsupported(definition, f"a definition of {name!r}")
    if name not in ASSERTS | ASSUMES:
        # No run of a verified program calls a failure; the calls of others take in their bodies.
        return
    parameters = parameters_of(definition.decl)
    if len(parameters) != 1 or not isinstance(parameters[0], c_ast.Decl) or definition.param_decls:
        raise reader.unsupported(definition, f"a definition of {name!r} without one parameter")
    kept = _Definition(name, parameters[0].name)
    if not kept.means_what_is_known(definition.body.block_items or ()):
        raise reader.unsupported(definition, f"this definition of {name!r}")


@dataclass(frozen=True)
class _Definition:
    """A function's body, read for what it does with its parameter.

    If the parameter holds, the body must do nothing. If it does not, an assumption must not return.
    An assertion may then do anything, since it has already failed.

    Attributes:
        name: of the function.
        parameter: the name of its only parameter.
    """

    name: str
    parameter: str

    @property
    def assumes(self) -> bool:
        """Whether the function is an assumption, not an assertion."""
        return self.name in ASSUMES

    def means_what_is_known(self, body: Sequence[c_ast.Node]) -> bool:
        """Whether the body only returns if the parameter holds, and else stops as it must.

        Labels are looked through: a jump to one is no statement that is allowed here.
        """
        # Whether a run whose parameter does not hold is over; where an assertion failed, it is.
        stopped = not self.assumes
        for statement in _flat(body):
            match statement:
                case c_ast.If(cond=cond, iftrue=then, iffalse=rest) if self._is_negation(cond):
                    if rest is not None and not _is_empty(rest):
                        return False
                    stopped = stopped or _stops(then)
                case c_ast.While(cond=cond) if self._is_negation(cond):
                    # Where the parameter does not hold, it never will: the body leaves it alone.
                    stopped = stopped or _is_empty(statement.stmt)
                case c_ast.FuncCall() if not self.assumes and self._asserts_parameter(statement):
                    continue
                case c_ast.Return(expr=None):
                    return stopped
                case c_ast.EmptyStatement():
                    continue
                case _:
                    return False
            if not stopped:
                return False
        return stopped

    def _is_negation(self, node: c_ast.Node) -> bool:
        match node:
            case c_ast.UnaryOp(op="!", expr=c_ast.ID(name=name)):
                return name == self.parameter
            case c_ast.BinaryOp(op="==", left=c_ast.ID(name=name), right=c_ast.Constant(value="0")):
                return name == self.parameter
        return False

    def _asserts_parameter(self, call: c_ast.FuncCall) -> bool:
        arguments = call.args.exprs if call.args else []
        match call, arguments:
            case c_ast.FuncCall(name=c_ast.ID(name="assert")), [c_ast.ID(name=name)]:
                # The definition of `assert` must not use `assert`: it would call itself for ever.
                return self.name != "assert" and name == self.parameter
        return False


def _flat(nodes: Sequence[c_ast.Node]) -> Iterator[c_ast.Node]:
    """Yield statements in their order, those in blocks and behind labels too."""
    for node in nodes:
        match node:
            case c_ast.Compound(block_items=items):
                yield from _flat(items or ())
            case c_ast.Label(stmt=stmt) if not isinstance(stmt, c_ast.Goto):
                yield from _flat((stmt,))
            case _:
                yield node


def _stops(node: c_ast.Node) -> bool:
    """Whether a run that reaches the statement certainly never goes on after it."""
    match node:
        case c_ast.Compound(block_items=[first, *_]):
            return _stops(first)
        case c_ast.FuncCall():
            arguments = node.args.exprs if node.args else []
            constant = all(isinstance(argument, c_ast.Constant) for argument in arguments)
            return called(node) in STOPS and constant
        case c_ast.While(cond=c_ast.Constant(value="1"), stmt=stmt):
            return _is_empty(stmt)
        case c_ast.For(init=None, cond=None, next=None, stmt=stmt):
            return _is_empty(stmt)
        case c_ast.Label(name=label, stmt=c_ast.Goto(name=target)):
            return label == target
    return False


def _is_empty(node: c_ast.Node) -> bool:
    return all(isinstance(inner, c_ast.EmptyStatement) for inner in _flat((node,)))
