"""Symbolic execution of a C text: all its runs, or a run that violates the property."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from pycparser import c_ast, c_parser

from llmchecker.errors import ProgramError
from loop_invariants.execution.c_types import (
    INT,
    Array,
    FunctionType,
    Integer,
    PointerType,
    UnsupportedC,
)
from loop_invariants.execution.calls import CallCompiler
from loop_invariants.execution.library import LIBRARY_TEXT
from loop_invariants.execution.machine import Code, Machine, State, Undecided, Violation
from loop_invariants.execution.scopes import FunctionName, TypeName, Variable
from loop_invariants.frontend.error_names import ErrorNames, mark_errors
from loop_invariants.frontend.preprocessing.preprocessor import parse_preprocessed
from loop_invariants.frontend.verifier_builtins import is_violation
from loop_invariants.ir.instrumentation import Property

_KINDS = {
    Property.ASSERT: frozenset(("assertion", "index", "null", "division", "shift")),
    Property.REACH: frozenset(("assertion",)),
    Property.NO_OVERFLOW: frozenset(("overflow", "division")),
}
_STANDARD_PRAGMAS = ("STDC", "once", "GCC diagnostic")


@dataclass(frozen=True)
class ExecutionResult:
    """The result of a symbolic execution.

    Attributes:
        is_complete: whether all runs end and none violates the property.
        problem: why the execution is not complete; empty if it is.
        kind: kind of a violation; empty without one.
        line: line of the violation.
        inputs: values that the violating run reads, in order.
        is_real: whether the violation depends on these inputs only.
        assumptions: sentences that the result rests on.
    """

    is_complete: bool = False
    problem: str = ""
    kind: str = ""
    line: int = 0
    inputs: tuple[int, ...] = ()
    is_real: bool = False
    assumptions: tuple[str, ...] = ()


def execute(
    source: str,
    name: str,
    required_property: Property,
    error_names: ErrorNames,
    sibling_files: Mapping[str, str],
    seconds: float,
) -> ExecutionResult:
    """Run a C text on all inputs.

    Args:
        source: the C text.
        name: name of the program.
        required_property: property to prove.
        error_names: further names of errors.
        sibling_files: texts of the headers in the same folder, by name.
        seconds: maximum seconds by the clock.
    """
    deadline = time.monotonic() + seconds
    machine = Machine(_KINDS[required_property], deadline)
    try:
        unit = parse_preprocessed(source, f"{name}.c", sibling_files)
        mark_errors(unit, error_names, name)
        executor = _Executor(machine, unit, required_property)
        state = executor.build_start()
        machine.explore(state)
    except Violation as violation:
        return ExecutionResult(
            problem="a run violates the property",
            kind=violation.kind,
            line=violation.line,
            inputs=violation.inputs,
            is_real=violation.is_real,
            assumptions=tuple(machine.assumptions),
        )
    except (UnsupportedC, Undecided, ProgramError) as error:
        return ExecutionResult(problem=str(error))
    except RecursionError:
        return ExecutionResult(problem="deep nesting")
    return ExecutionResult(is_complete=True, assumptions=tuple(machine.assumptions))


class _Executor(CallCompiler):
    """The declarations of a text, and the state in which its runs start."""

    def __init__(self, machine: Machine, unit: c_ast.FileAST, required_property: Property) -> None:
        super().__init__(machine, required_property is Property.NO_OVERFLOW)
        self._required_property = required_property
        self.asserts_hold = lambda name: is_violation(name, required_property)
        library = c_parser.CParser().parse(LIBRARY_TEXT, "library")
        self.definitions = {
            node.decl.name: (node, True) for node in library.ext if isinstance(node, c_ast.FuncDef)
        }
        self.start_function(Code("file"), INT)
        self._pending: list[tuple[int, Variable, c_ast.Node]] = []
        self._globals: dict[str, tuple[Variable, bool]] = {}
        for node in unit.ext:
            self._declare_global(node)
        self._define_globals()

    def _declare_global(self, node: c_ast.Node) -> None:
        match node:
            case c_ast.FuncDef():
                name = node.decl.name
                if name in self.definitions and not self.definitions[name][1]:
                    raise UnsupportedC(f"two definitions of {name}")
                self.definitions[name] = (node, False)
                self._declare_function(node.decl)
            case c_ast.Typedef():
                try:
                    self.scope.symbols[node.name] = TypeName(self.read_type(node))
                except UnsupportedC:
                    # A floating type is an error where it is used only.
                    self.scope.symbols.pop(node.name, None)
            case c_ast.Decl(type=c_ast.FuncDecl()):
                self._declare_function(node)
            case c_ast.Decl():
                self._declare_variable(node)
            case c_ast.StaticAssert():
                if not self.fold_constant(node.cond):
                    raise UnsupportedC("this static assertion")
            case c_ast.Pragma() if str(node.string).startswith(_STANDARD_PRAGMAS):
                return
            case _:
                raise UnsupportedC("this declaration")

    def _declare_function(self, node: c_ast.Decl) -> None:
        try:
            type_ = self.read_type(node.type)
        except UnsupportedC:
            # A function of floating types is an error where it is called only.
            return
        assert isinstance(type_, FunctionType)
        known = self.scope.symbols.get(node.name)
        # A later declaration without parameters keeps those of an earlier one.
        if isinstance(known, FunctionName) and type_.parameters is None:
            return
        self.scope.symbols[node.name] = FunctionName(node.name, type_)

    def _declare_variable(self, node: c_ast.Decl) -> None:
        storage = node.storage or []
        type_ = self.read_type(node.type)
        if node.name is None:
            return
        if "_Thread_local" in storage:
            raise UnsupportedC("a variable of a thread")
        if isinstance(type_, FunctionType):
            self.scope.symbols[node.name] = FunctionName(node.name, type_)
            return
        if isinstance(type_, Array) and type_.length is None:
            if node.init is None:
                raise UnsupportedC("an array of an open length")
            type_ = self.find_initialized_type(type_, node.init)
        is_const = "const" in (getattr(node.type, "quals", None) or ())
        known = self._globals.get(node.name)
        if known is None:
            number, _ = self.machine.create_static(type_.size, 0, "static")
            variable = Variable(type_, None, number, is_const)
            is_defined = "extern" not in storage
        else:
            variable, is_defined = known
            is_defined = is_defined or "extern" not in storage
            if variable.type != type_ and not isinstance(type_, Array):
                raise UnsupportedC("two types of a variable")
        self._globals[node.name] = (variable, is_defined)
        self.scope.symbols[node.name] = variable
        is_external = "static" not in storage and not is_const
        if is_external and known is None:
            self.machine.external_objects.append((variable.obj, variable.type))
        if node.init is not None:
            self.initialize_static(variable.obj, variable.type, node.init)
            self._globals[node.name] = (variable, True)

    def _define_globals(self) -> None:
        """Give the variables of other files any value."""
        for variable, is_defined in self._globals.values():
            if not is_defined:
                self.machine.statics[variable.obj].fill = None
                self.machine.statics[variable.obj].cells.clear()

    def build_start(self) -> State:
        """Build the state at the start of `main`."""
        if "main" not in self.definitions:
            raise UnsupportedC("a text without main")
        definition = self.definitions["main"][0]
        type_ = self.read_type(definition.decl.type)
        assert isinstance(type_, FunctionType)
        if definition.decl.storage:
            raise UnsupportedC("a static main")
        end = Code("end", 0, [self.machine.end])
        code = self.find_code("main")
        state = State(code)
        state.frames.append((end, 0, []))
        parameters = type_.parameters or ()
        for index, parameter in enumerate(parameters):
            if isinstance(parameter, Integer):
                symbol = self.machine.create_symbol(parameter.bits)
                if index == 0 and len(parameters) > 1:
                    self.machine.assume(state, symbol >= 0)
                state.stack.append(symbol)
            elif isinstance(parameter, PointerType):
                # A use of the texts of the arguments is not supported.
                state.stack.append(_ARGUMENTS)
            else:
                raise UnsupportedC("this parameter of main")
        return state


class _Unknown:
    """A value without a use."""


_ARGUMENTS = _Unknown()
