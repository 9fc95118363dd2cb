"""A C translation unit as a program of the intermediate representation.

Covered are integers of all types, arrays, structures, arrays of these, all statements of C, and
pointers whose target is known at parse time. Function bodies are inlined at each call. The
functions of verification benchmarks (`__VERIFIER_nondet_…`, `__VERIFIER_assume`,
`__VERIFIER_assert`, `assert`, `abort`, `reach_error` and similar) have their known meaning. A file
that defines them otherwise is rejected.

Everything else is rejected with its name, file and line. Examples are floating point, recursion,
jumps over declarations, and expressions that depend on an unspecified order of evaluation.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from pycparser import c_ast

from llmchecker.errors import UnsupportedProgram
from loop_invariants.c_files import read_included_headers, read_source
from loop_invariants.frontend.acsl_assertions import has_contract
from loop_invariants.frontend.calls import CallReader
from loop_invariants.frontend.declarations import DeclarationReader
from loop_invariants.frontend.error_names import ErrorNames, mark_errors
from loop_invariants.frontend.expressions import MAX_NESTING, callee_name
from loop_invariants.frontend.pointer_binding import NullablePointer
from loop_invariants.frontend.pointers import PointerReader, is_pointer
from loop_invariants.frontend.statements import StatementReader
from loop_invariants.frontend.symbol_table import SymbolTable
from loop_invariants.frontend.syntax_tree import find_main_function, iter_nodes, parse_c
from loop_invariants.frontend.verifier_builtins import list_parameters, read_builtins
from loop_invariants.ir.expressions import Binary, Constant, iter_subexpressions
from loop_invariants.ir.instrumentation import Property, add_overflow_assertions
from loop_invariants.ir.statements import (
    Assume,
    Program,
    Statement,
    child_blocks,
    iter_expressions,
    iter_statements,
)

_MAX_LOOPS = 100
_MAX_LOOP_STATEMENTS = 2_000
_MAX_STATEMENTS = 12_000
_MAX_EXPRESSION_NODES = 200_000


SV_COMP = ErrorNames()
"""The names of errors that the frontend knows."""


def read_program(
    path: Path,
    required_property: Property = Property.ASSERT,
    error_names: ErrorNames = SV_COMP,
) -> Program:
    """Parse a C file; the name of the program is the file name without `.c`.

    Args:
        path: path of the file.
        required_property: property to prove. Overflow is defined for 32-bit integers; over
            mathematical integers, a program could draw values outside of every type.
        error_names: further names of errors.

    Raises:
        UnreadableProgram: the file cannot be read, is not C, or has no `main`.
        UnsupportedProgram: the file contains an unsupported construct; the message has its file and
            line.
    """
    source = read_source(path)
    sibling_files = read_included_headers(path, source)
    return parse_program(
        source, path.stem, path.name, required_property, sibling_files, error_names
    )


def parse_program(
    source: str,
    name: str,
    file: str | None = None,
    required_property: Property = Property.ASSERT,
    sibling_files: Mapping[str, str] = MappingProxyType({}),
    error_names: ErrorNames = SV_COMP,
) -> Program:
    """Parse C text, as `read_program` parses a file.

    Args:
        source: C text.
        name: name of the program.
        file: name of the file in messages; by default the name of the program with `.c`.
        required_property: property to prove.
        sibling_files: texts of the included headers in the same folder, by name.
        error_names: further names of errors.
    """
    file = file or f"{name}.c"
    try:
        program = _build_with_nullable_pointers(
            _FrontEnd(name, source, file, required_property, sibling_files, error_names)
        )
        # Instrumentation makes a program larger, so the size is checked before and after.
        _check_size(program, file)
        if required_property is not Property.NO_OVERFLOW:
            return program
        program = add_overflow_assertions(program)
    except RecursionError as error:
        raise UnsupportedProgram(f"{file}: such deep nesting is not supported; split it") from error
    _check_size(program, file)
    return program


def _build_with_nullable_pointers(front_end: "_FrontEnd") -> Program:
    """Build a program; repeat with each pointer that may be used without a target."""
    # Only parsing shows which pointers need a state variable.
    nullable: frozenset[str] = frozenset()
    while True:
        try:
            return front_end.build_program(nullable)
        except NullablePointer as null_pointer:
            nullable |= {null_pointer.name}


def _check_size(program: Program, file: str) -> None:
    """Check that a program is small enough for a proof to end in time."""
    level, depth = list(program.body), 0
    # Level by level, since recursion would fail for deep nesting.
    while level and depth <= MAX_NESTING:
        depth += 1
        level = [statement for s in level for block in child_blocks(s) for statement in block]
    # Deep nesting would exceed the recursion limit of later steps.
    if level:
        problem = f"more than {MAX_NESTING} levels of loops and branches"
        raise UnsupportedProgram(f"{file}: {problem} are not supported; split them")
    loops = program.loops
    loop_statements = {id(s) for loop in loops for s in iter_statements((loop,))}
    # The message for loops names the line of the first loop above the limit.
    loop = f"{file}:{loops[min(len(loops) - 1, _MAX_LOOPS)].line}" if loops else file
    expression_nodes = sum(1 for _ in iter_subexpressions(*iter_expressions(program.body)))
    counted_kind = "statements in loops, those of called functions included,"
    for number, limit, problem, location in (
        (len(loops), _MAX_LOOPS, "loops", loop),
        (len(loop_statements), _MAX_LOOP_STATEMENTS, counted_kind, loop),
        (sum(1 for _ in iter_statements(program.body)), _MAX_STATEMENTS, "statements", file),
        (expression_nodes, _MAX_EXPRESSION_NODES, "parts of expressions", file),
    ):
        if number > limit:
            raise UnsupportedProgram(
                f"{location}: more than {limit:,} {problem} are not supported; split them"
            )


@dataclass(frozen=True)
class _FrontEnd:
    """The frontend for one file: from its text to a program."""

    name: str
    source: str
    file: str
    required_property: Property
    sibling_files: Mapping[str, str]
    error_names: ErrorNames

    @cached_property
    def _unit(self) -> c_ast.FileAST:
        unit = parse_c(self.source, self.file, self.sibling_files)
        mark_errors(unit, self.error_names, self.file)
        return unit

    def build_program(self, nullable_pointers: frozenset[str]) -> Program:
        """Build the program of the file.

        Args:
            nullable_pointers: names of the pointers that a run may use without a target.

        Raises:
            NullablePointer: another such pointer was found.
        """
        unit = self._unit
        # A generated name must differ from every word of the text, headers included.
        full_text = "\n".join((self.source, *self.sibling_files.values()))
        names = SymbolTable(re.findall(r"[A-Za-z_]\w*", full_text))
        declarations = DeclarationReader(names)
        calls = CallReader(unit, names, declarations, self.required_property)
        reader = PointerReader(self.file, names, calls.read_call, declarations.read_type)
        control = StatementReader(names, reader, declarations)
        # These parts depend on each other: a call contains statements, which contain calls.
        declarations.expression_reader = calls.expression_reader = reader
        reader.nullable_pointers, reader.read_pointer_call = (
            nullable_pointers,
            calls.read_pointer_call,
        )
        declarations.declare_pointer, reader.read_base_type = (
            reader.declare_pointer,
            declarations.read_base_type,
        )
        calls.read_body = control.read_function_body
        # Deep nesting is rejected before recursive functions visit the tree.
        reader.check_nesting(unit)
        reader.prescan(unit)
        # A false one makes the text no C, also in a function that is not called.
        for assertion in iter_nodes(unit, (c_ast.StaticAssert,)):
            raise reader.build_error(assertion, "a static assertion")
        # The call is the reason, not the type of its buffer.
        for call in iter_nodes(unit, (c_ast.FuncCall,)):
            if callee_name(call) in ("setjmp", "longjmp"):
                raise reader.build_error(call, f"the call of {callee_name(call)}")
        main = find_main_function(unit, self.file)
        calls.builtin_parameters = read_builtins(unit, reader)
        global_statements: list[Statement] = []
        for declaration in unit.ext:
            global_statements += self._read_global(declaration, declarations, reader)
        parameter_statements = self._read_main_parameters(main, declarations, reader)
        if main.decl.storage or main.decl.funcspec:
            raise reader.build_error(main, "a main that is static or inline")
        body = control.read_block(main.body)
        # ESBMC does not find the headers in the program's folder.
        is_lowered = control.is_lowered or calls.is_lowered or bool(self.sibling_files)
        # ESBMC's loop invariants forget writes through pointers, and so does its k-induction.
        is_lowered = is_lowered or _has_pointers(unit)
        return Program(
            self.name,
            self.source,
            names.types,
            (*global_statements, *declarations.static_initializers, *parameter_statements, *body),
            is_lowered=is_lowered
            or names.has_renames
            or bool(parameter_statements)
            or self.required_property is not Property.ASSERT,
            has_range_checks=self.required_property is Property.ASSERT,
            syntax_tree=unit,
        )

    def _read_main_parameters(
        self,
        main: c_ast.FuncDef,
        declarations: DeclarationReader,
        reader: PointerReader,
    ) -> list[Statement]:
        """Declare the parameters of `main`: integers have arbitrary values.

        The number of program arguments is not negative (C11 5.1.2.2.1). The second parameter, the
        texts of the arguments, cannot be used.
        """
        # Parameters in the style of K&R C have no types in the list.
        if main.param_decls:
            raise reader.build_error(main, "a main with parameters declared behind it")
        parameters = list_parameters(main.decl)
        # A contract would restrict the parameters.
        if parameters and has_contract(self.source):
            raise reader.build_error(main, "an ACSL contract with parameters of main")
        unnamed_parameters = [p for p in parameters if not isinstance(p, c_ast.Decl)]
        if unnamed_parameters:
            raise reader.build_error(main, "a parameter of main without a name")
        statements: list[Statement] = []
        integer_parameters = [p for p in parameters if not is_pointer(p.type)]
        for parameter in integer_parameters:
            statements += declarations.declare(parameter)
        # The first parameter is the number of arguments.
        if len(parameters) > 1 and is_pointer(parameters[1].type) and integer_parameters:
            count = reader.read(c_ast.ID(integer_parameters[0].name))
            statements.append(Assume(Binary(">=", count, Constant(0))))
        return statements

    def _read_global(
        self, part: c_ast.Node, declarations: DeclarationReader, reader: PointerReader
    ) -> list[Statement]:
        """Read a declaration outside of functions into statements."""
        match part:
            case c_ast.Decl(type=c_ast.FuncDecl()) | c_ast.FuncDef():
                return []  # calls read it
            case c_ast.Decl():
                return list(declarations.declare(part, is_global=True))
            case c_ast.Typedef():
                declarations.read_typedef(part)
                return []
        description = getattr(part, "name", None) or type(part).__name__
        raise reader.build_error(part, f"{description!r} outside of functions")


def _has_pointers(unit: c_ast.FileAST) -> bool:
    """Check that a text uses a pointer or an address outside of prototypes."""
    declarations = (node for node in unit.ext if not _is_prototype(node))
    return any(
        isinstance(node, c_ast.PtrDecl) or node.op in ("*", "&")
        for declaration in declarations
        for node in iter_nodes(declaration, (c_ast.PtrDecl, c_ast.UnaryOp))
    )


def _is_prototype(node: c_ast.Node) -> bool:
    return isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.FuncDecl)
