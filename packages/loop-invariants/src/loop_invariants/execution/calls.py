"""Calls of C: functions of the text, of the library, and those that no file defines."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import z3
from pycparser import c_ast

from loop_invariants.execution.c_types import (
    CHAR,
    INT,
    LONG,
    ULONG,
    VOID,
    CType,
    FunctionType,
    Integer,
    PointerType,
    Record,
    UnsupportedC,
    Void,
)
from loop_invariants.execution.library_operations import (
    ALLOCATORS,
    LIBRARY_OPERATIONS,
    check_overlap,
    print_text,
)
from loop_invariants.execution.machine import Code, Machine, State
from loop_invariants.execution.scopes import FunctionName, Scope, Variable
from loop_invariants.execution.statements import StatementCompiler, return_to_caller
from loop_invariants.execution.values import Address, Bytes, Function, fold, to_truth, to_vector
from loop_invariants.frontend.expressions import nondet_type
from loop_invariants.frontend.preprocessing.translation_phases import FAILURE_FUNCTIONS
from loop_invariants.frontend.verifier_builtins import (
    ASSERT_FUNCTIONS,
    ASSUME_FUNCTIONS,
    INPUT_NAME,
)

_IGNORED = frozenset(("srand", "__ESBMC_loop_invariant", "__invariant", "__loop_invariant"))
_MODELLED = frozenset("abs labs llabs offsetof rand printf putchar puts snprintf".split())
"""Functions that a method `_call_` of `CallCompiler` compiles."""
_NAMES_WITH_ARGUMENT = ASSERT_FUNCTIONS | ASSUME_FUNCTIONS | {"putchar"}
_PURE = frozenset("abs labs llabs __builtin_expect offsetof".split())

_CONVERSION = re.compile(
    r"%(?:[-+ #0]*\d*(?:\.\d+)?(?:hh|h|ll|l|z|j|t)?(?=[diouxX])|-?\d*(?=[cs])|(?=%))(.)"
)
"""A conversion of a number or a whole string in the text of a print; the group is its kind."""

_FORMAT = re.compile(rf"(?:[^%\\]|\\[^x0-7%]|{_CONVERSION.pattern})*", flags=re.DOTALL)
"""The text of a print without a `%` that an escape writes."""


def _find_input_type(name: str) -> Integer | None:
    """Return the type of a nondet function's result by its name; None for another function."""
    known = nondet_type(name)
    if known is None:
        return None
    return Integer(max(known.bits, 8), known.signed, is_bool=known.bits == 1)


class CallCompiler(StatementCompiler):
    """A compiler of calls, and of functions at their first call.

    Attributes:
        definitions: definitions of the functions, by name, and whether the library has them.
        asserts_hold: the functions whose false argument is a violation.
        failures: the functions whose call is a violation.
    """

    definitions: dict[str, tuple[c_ast.FuncDef, bool]]
    asserts_hold: Callable[[str], bool]

    def __init__(self, machine: Machine, checks_overflow: bool) -> None:
        super().__init__(machine, checks_overflow)
        self.file_scope = self.scope
        self._codes: dict[str, Code] = {}
        self._types: dict[int, CType] = {}

    def is_pure_call(self, name: str) -> bool:
        """Return whether a function has no effects on memory."""
        return name in _PURE and name not in self.definitions

    # -- functions -------------------------------------------------------------------------

    def find_code(self, name: str) -> Code:
        """Return the code of a function, which its first call compiles."""
        code = self._codes.get(name)
        if code is None:
            code = self._codes[name] = Code(name)
            definition, code.is_library = self.definitions[name]
            # The function at whose call it is compiled goes on afterwards.
            outer = dict(vars(self))
            try:
                self._compile_function(code, definition)
            except UnsupportedC as error:
                construct = f"{name}: {error}"

                def fail(state: State) -> None:
                    raise UnsupportedC(construct)

                code.operations[:], code.lines[:] = [fail], []
            finally:
                vars(self).update(outer)
        return code

    def _compile_function(self, code: Code, definition: c_ast.FuncDef) -> None:
        if definition.param_decls:
            raise UnsupportedC("parameters declared behind a function")
        if set(definition.decl.funcspec or ()) - {"inline", "_Noreturn"}:
            raise UnsupportedC("a function specifier")
        self.scope = Scope(self.file_scope)
        type_ = self.read_type(definition.decl.type)
        assert isinstance(type_, FunctionType)
        if type_.is_variadic:
            raise UnsupportedC("a variadic function")
        self.start_function(code, type_.result)
        arguments = definition.decl.type.args
        parameters: list[tuple[int, int]] = []
        for parameter, part in zip(
            arguments.params if arguments else (), type_.parameters or (), strict=False
        ):
            slot = self.new_slot()
            parameters.append((slot, part.size))
            if getattr(parameter, "name", None):
                self.scope.symbols[parameter.name] = Variable(part, slot)
        machine = self.machine

        def enter(state: State) -> None:
            for slot, size in reversed(parameters):
                number = machine.create_object(state, size, None, "auto")
                value = state.stack.pop()
                state.slots[slot] = number
                item = state.objects[number]
                if isinstance(value, Bytes):
                    item.write_bytes(0, value, lambda: machine.create_symbol(8))
                elif isinstance(value, z3.BoolRef):
                    item.cells[0] = (size, fold(to_vector(value, 8 * size)))
                else:
                    item.cells[0] = (size, value)

        self.emit(enter)
        self.block(definition.body)
        if isinstance(type_.result, Void):
            self.emit(return_to_caller)
        elif code.name == "main":
            self.push(0)
            self.emit(return_to_caller)
        else:

            def fall_off(state: State) -> None:
                # Only a use of the missing value is undefined.
                raise UnsupportedC("the end of a function without a value")

            self.emit(fall_off)
        self.finish_function()

    def _emit_entry(self, name: str) -> None:
        """Emit the call of a function whose arguments are on the stack."""

        self.emit(lambda state: self._enter(state, name))

    def _enter(self, state: State, name: str) -> None:
        code = self.find_code(name)
        state.frames.append((state.code, state.pc, state.slots))
        state.code, state.pc, state.slots = code, 0, [0] * code.slots

    # -- calls -----------------------------------------------------------------------------

    def compile_call(self, node: c_ast.FuncCall) -> CType:
        """Compile a call; return the type of its result."""
        arguments = list(node.args.exprs) if node.args else []
        if isinstance(node.name, c_ast.ID):
            name = node.name.name
            symbol = self.scope.look_up(name)
            if not isinstance(symbol, Variable):
                return self._call_by_name(name, symbol, arguments)
        return self._call_by_address(node.name, arguments)

    def _call_by_name(self, name: str, symbol: Any, arguments: list[c_ast.Node]) -> CType:
        if name in FAILURE_FUNCTIONS or name == "__VERIFIER_error":
            for argument in arguments:
                self.effects(argument)
            self._emit_failure(name)
            return VOID
        if name in self.definitions and not self.definitions[name][1]:
            return self._call_defined(name, arguments)
        if not arguments and name in _NAMES_WITH_ARGUMENT:
            raise UnsupportedC(f"the call of {name} without an argument")
        if name in ASSERT_FUNCTIONS:
            self._push_condition(name, symbol, arguments[0])
            self._emit_condition("assertion", self.asserts_hold(name))
            return VOID
        if name in ASSUME_FUNCTIONS:
            self._push_condition(name, symbol, arguments[0])
            self._emit_condition("assumption", False)
            return VOID
        if name in ("alloca", "__builtin_unreachable", "__builtin_trap"):
            raise UnsupportedC(name)
        if name in ("abort", "exit", "_Exit"):
            for argument in arguments:
                self.effects(argument)
            self.emit(self.machine.end)
            return VOID
        input_type = _find_input_type(name)
        if input_type is not None and not arguments:
            declared = symbol.type.result if isinstance(symbol, FunctionName) else input_type
            if not isinstance(declared, Integer) or (
                declared.bits,
                declared.signed,
                declared.is_bool,
            ) != (input_type.bits, input_type.signed, input_type.is_bool):
                raise UnsupportedC(f"{name} of another type than its name says")
            self._emit_input(input_type)
            return input_type
        if name in _IGNORED:
            if any(map(self.has_effects, arguments)):
                raise UnsupportedC(f"{name} with effects")
            return VOID
        if name in _MODELLED:
            result: CType = getattr(self, f"_call_{name}")(arguments)
            return result
        if name in LIBRARY_OPERATIONS:
            return self._call_operation(name, arguments)
        if name in self.definitions:
            return self._call_defined(name, arguments)
        return self._call_undefined(name, symbol, arguments)

    def _call_defined(self, name: str, arguments: list[c_ast.Node]) -> CType:
        type_ = self._read_function_type(name)
        parameters = type_.parameters or ()
        if len(parameters) != len(arguments):
            raise UnsupportedC(f"a call of {name} with other arguments")
        self._push_arguments(arguments, parameters)
        self._emit_entry(name)
        return type_.result

    def _read_function_type(self, name: str) -> FunctionType:
        outer, self.scope = self.scope, self.file_scope
        try:
            type_ = self.read_type(self.definitions[name][0].decl.type)
        finally:
            self.scope = outer
        assert isinstance(type_, FunctionType)
        return type_

    def _push_arguments(self, arguments: list[c_ast.Node], types: tuple[CType, ...]) -> None:
        if len(arguments) != len(types):
            raise UnsupportedC("a call with other arguments")

        def build(argument: c_ast.Node, type_: CType) -> Callable[[], None]:
            return lambda: self.cast_to(self.value(argument), type_)

        parts = [build(a, t) for a, t in zip(arguments, types, strict=True)]
        self.unordered(arguments, parts)

    def _call_by_address(self, node: c_ast.Node, arguments: list[c_ast.Node]) -> CType:
        if isinstance(node, c_ast.UnaryOp) and node.op == "*":
            node = node.expr
        type_ = self.find_type(node)
        target = type_.target if isinstance(type_, PointerType) else None
        if not isinstance(target, FunctionType) or target.parameters is None:
            raise UnsupportedC("a call of this value")
        if target.is_variadic or len(target.parameters) != len(arguments):
            raise UnsupportedC("a call with other arguments")
        types = target.parameters

        def build(argument: c_ast.Node, part: CType) -> Callable[[], None]:
            return lambda: self.cast_to(self.value(argument), part)

        parts: list[Callable[[], Any]] = [lambda: self.value(node)]
        parts += [build(a, t) for a, t in zip(arguments, types, strict=True)]
        self.unordered([node, *arguments], parts)
        count = len(arguments)

        def enter(state: State) -> None:
            function = state.stack[-1 - count]
            if isinstance(function, Address) and function.obj == 0:
                self.machine.violate(state, "null")
            if not isinstance(function, Function) or function.name not in self.definitions:
                raise UnsupportedC("a call of this address")
            if self._read_function_type(function.name) != target:
                raise UnsupportedC("a call with another type")
            del state.stack[-1 - count]
            self._enter(state, function.name)

        self.emit(enter)
        return target.result

    # -- verification functions ------------------------------------------------------------

    def _emit_failure(self, name: str) -> None:
        machine, is_violation = self.machine, self.asserts_hold(name)

        def fail(state: State) -> None:
            if is_violation:
                machine.violate(state, "assertion")
            machine.end(state)

        self.emit(fail)

    def _push_condition(self, name: str, symbol: Any, argument: c_ast.Node) -> None:
        """Compile the argument of an assertion or assumption, as its declaration converts it."""
        type_ = self.value(argument)
        parameters = symbol.type.parameters if isinstance(symbol, FunctionName) else None
        if parameters:
            self.cast_to(type_, parameters[0])
        elif name != "assert" and not (isinstance(type_, Integer) and type_.bits <= INT.bits):
            # The macro `assert` converts nothing; a function without a declaration may.
            raise UnsupportedC(f"{name} of a wide value without a declaration")

    def _emit_condition(self, kind: str, is_violation: bool) -> None:
        """Emit a condition of a run; `kind` names it in messages."""
        machine = self.machine

        def check(state: State) -> None:
            truth = to_truth(state.stack.pop())
            if state.logs and truth is not True:
                raise UnsupportedC(f"an {kind} in an expression with other effects")
            if is_violation:
                machine.check(state, truth, kind)
            else:
                machine.assume(state, truth)

        self.emit(check)

    def _emit_input(self, type_: Integer) -> None:
        def draw(state: State) -> None:
            state.stack.append(self._draw(state, type_))

        self.emit(draw)

    def _draw(self, state: State, type_: Integer) -> z3.BitVecRef:
        """Draw an input."""
        symbol = self.machine.create_symbol(type_.bits, is_real=True)
        state.inputs = (*state.inputs, (type_, symbol))
        if type_.is_bool:
            self.machine.assume(state, z3.ULE(symbol, 1))
        return symbol

    def _call_undefined(self, name: str, symbol: Any, arguments: list[c_ast.Node]) -> CType:
        """Compile the call of a function of another file, which changes what it can name."""
        machine = self.machine
        result: CType = symbol.type.result if isinstance(symbol, FunctionName) else INT
        for argument in arguments:
            type_ = self.value(argument)
            if not isinstance(type_, Integer):
                raise UnsupportedC(f"the call of {name}")
            self.pop()
        if not isinstance(result, Integer | Void):
            raise UnsupportedC(f"the call of {name}")
        is_input = INPUT_NAME.fullmatch(name) is not None
        is_declared = isinstance(symbol, FunctionName)
        if not is_declared and not is_input:
            raise UnsupportedC(f"the call of {name}, which is not declared,")
        if isinstance(result, Integer):
            self._emit_input(result)
        if is_input or not machine.external_objects:
            machine.assumptions[f"{name} returns any value and changes nothing"] = None
            return result
        machine.assumptions[f"{name} calls no function of this file"] = None

        def change(state: State) -> None:
            if state.logs:
                raise UnsupportedC(f"the call of {name} in an expression with other effects")
            for number, type_ in machine.external_objects:
                item = machine.change_object(state, number)
                if any(
                    isinstance(value, Address) and value.obj for _, value in item.cells.values()
                ):
                    raise UnsupportedC(f"the call of {name}, which may follow a pointer,")
                item.cells.clear()
                item.fill = None
                if isinstance(type_, Integer):
                    symbol = self._draw(state, type_)
                    item.cells[0] = (type_.size, symbol)

        self.emit(change)
        return result

    # -- functions of the library ----------------------------------------------------------

    def _call_operation(self, name: str, arguments: list[c_ast.Node]) -> CType:
        """Compile the call of a function of `LIBRARY_OPERATIONS`."""
        result, parameters, operation = LIBRARY_OPERATIONS[name]
        self._push_arguments(arguments, parameters)
        if name in ALLOCATORS:
            self.machine.assumptions["allocation succeeds"] = None
        self.emit(partial(operation, self.machine))
        return result

    def _call_abs(self, arguments: list[c_ast.Node], type_: Integer = INT) -> CType:
        self._push_arguments(arguments, (type_,))
        machine, bits, low = self.machine, type_.bits, type_.min_value
        checks = self._checks_overflow

        def absolute(state: State) -> None:
            value = state.stack[-1]
            vector = to_vector(value, bits)
            # The least number has no absolute value; it stays as it is where overflow wraps.
            if checks:
                machine.check(state, vector != low, "overflow")
            if type(value) is int:
                state.stack[-1] = type_.wrap(abs(value))
                return
            state.stack[-1] = fold(z3.If(vector < 0, -vector, vector))

        self.emit(absolute)
        return type_

    def _call_labs(self, arguments: list[c_ast.Node]) -> CType:
        return self._call_abs(arguments, LONG)

    _call_llabs = _call_labs

    def _call_offsetof(self, arguments: list[c_ast.Node]) -> CType:
        def find_offset(node: c_ast.Node) -> tuple[CType, int]:
            """Return the type of a part and its offset in bytes."""
            match node:
                case c_ast.ID():
                    whole, offset, name = self.read_type(arguments[0]), 0, node.name
                case c_ast.StructRef(type="."):
                    (whole, offset), name = find_offset(node.name), node.field.name
                case _:
                    raise UnsupportedC("an offset of an element")
            member = whole.find_field(name) if isinstance(whole, Record) else None
            if member is None or member.width is not None:
                raise UnsupportedC(f"the offset of {name}")
            return member.type, offset + member.offset

        self.push(find_offset(arguments[1])[1])
        return ULONG

    def _call_rand(self, arguments: list[c_ast.Node]) -> CType:
        machine = self.machine

        def draw(state: State) -> None:
            symbol = self._draw(state, INT)
            machine.assume(state, symbol >= 0)
            state.stack.append(symbol)

        self.emit(draw)
        return INT

    def _push_unknown(self) -> CType:
        """Emit a number of which nothing is known, such as the result of printing."""
        self.emit(lambda state: state.stack.append(self.machine.create_symbol(32)))
        return INT

    def _call_printf(self, arguments: list[c_ast.Node]) -> CType:
        self._print(arguments, ())
        return self._push_unknown()

    def _call_snprintf(self, arguments: list[c_ast.Node]) -> CType:
        """Compile a bounded print: any text that the bound allows, with any result."""
        self._print(arguments, (PointerType(VOID), ULONG))
        self.emit(partial(print_text, self.machine))
        return INT

    def _print(self, arguments: list[c_ast.Node], types: tuple[CType, ...]) -> None:
        """Evaluate the arguments of a print; leave those before its format on the stack.

        Args:
            arguments: the arguments.
            types: types of the parameters before the format.
        """
        text = arguments[len(types)] if len(arguments) > len(types) else None
        values = arguments[len(types) + 1 :]
        if not isinstance(text, c_ast.Constant) or not _FORMAT.fullmatch(text.value):
            raise UnsupportedC("this text of a print")
        kinds = [kind for kind in _CONVERSION.findall(text.value) if kind != "%"]
        if len(kinds) != len(values):
            raise UnsupportedC("a print of other arguments than its text names")
        targets = (*types, *(PointerType(CHAR) if kind == "s" else None for kind in kinds))

        def build(argument: c_ast.Node, target: CType | None) -> Callable[[], None]:
            def push() -> None:
                type_ = self.value(argument)
                if target is not None:
                    self.cast_to(type_, target)
                elif not isinstance(type_, Integer):
                    raise UnsupportedC("a print of this value")

            return push

        nodes = [*arguments[: len(types)], *values]
        self.unordered(nodes, [build(n, t) for n, t in zip(nodes, targets, strict=True)])
        for position, kind in reversed(list(enumerate(kinds, start=1))):
            if kind == "s":
                if types:
                    self.emit(partial(check_overlap, position=position + 1))
                self._measure_string()
            self.pop()

    def _measure_string(self) -> None:
        """Replace a string on the stack by its length, so that all of it is read."""
        if not self.definitions["strlen"][1]:
            raise UnsupportedC("a string, with an own strlen")
        self._emit_entry("strlen")

    def _call_putchar(self, arguments: list[c_ast.Node]) -> CType:
        self.effects(arguments[0])
        return self._push_unknown()

    def _call_puts(self, arguments: list[c_ast.Node]) -> CType:
        self._push_arguments(arguments, (PointerType(CHAR),))
        self._measure_string()
        self.pop()
        return self._push_unknown()
