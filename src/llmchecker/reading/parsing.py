"""The front end: it reads C and returns a program.

It covers integers of all types, arrays and structures of them, arrays of these, pointers whose
target is known where the text is read, all statements of C, and functions, whose bodies are taken
in where they are called. The functions of verification benchmarks (`__VERIFIER_nondet_…`,
`__VERIFIER_assume`, `__VERIFIER_assert`, `assert`, `abort`, `reach_error` and their like) have
their known meaning; a file that defines them otherwise is refused. Everything else is refused too,
by name, file and line: floating point, recursion, jumps over declarations, and expressions whose
value depends on an order of evaluation that C leaves open.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from pycparser import c_ast

from llmchecker.errors import UnsupportedProgram
from llmchecker.programs.expressions import Binary, Constant, Identifier, walk
from llmchecker.programs.properties import Property, overflow_asserted
from llmchecker.programs.scalars import with_scalars
from llmchecker.programs.statements import (
    Assume,
    Program,
    Statement,
    expressions_in,
    parts,
    statements,
)
from llmchecker.reading.binding import PerhapsNull
from llmchecker.reading.c_expressions import MOST_NESTED
from llmchecker.reading.control import StatementReader
from llmchecker.reading.declarations import DeclarationReader
from llmchecker.reading.functions import CallReader
from llmchecker.reading.known_functions import parameters_of, read_known_functions
from llmchecker.reading.pointers import PointerReader, is_pointer
from llmchecker.reading.remarks import Contract
from llmchecker.reading.scopes import Names
from llmchecker.translating.contracts import REQUIRED
from llmchecker.translating.files import headers_beside, stored_text
from llmchecker.translating.syntax import main_function, parse_c

_MOST_LOOPS = 100
_MOST_REPEATED = 2_000
_MOST_STATEMENTS = 12_000
_MOST_PARTS = 200_000


def read_program(path: Path, asked: Property = Property.ASSERT) -> Program:
    """Read a C file; the program gets the file's name without `.c`.

    Args:
        path: the file.
        asked: what is asked of the program. What is asked of overflow is meant for 32-bit integers:
            over mathematical ones, a program could draw what no type holds.

    Raises:
        UnreadableProgram: the file cannot be read, is not C, or has no `main`.
        UnsupportedProgram: the file has a construct that is not covered; the message names it with
            file and line.
    """
    source = stored_text(path)
    beside = headers_beside(path, source)
    return parse_program(source, path.stem, path.name, asked, beside)


def parse_program(
    source: str,
    name: str,
    file: str | None = None,
    asked: Property = Property.ASSERT,
    beside: Mapping[str, str] = MappingProxyType({}),
) -> Program:
    """Read C text, as `read_program` reads a file.

    Args:
        source: the C text.
        name: the program's name.
        file: the file's name in messages; by default the program's name with `.c`.
        asked: what is asked of the program.
        beside: the texts of the headers that lie beside the file and that it includes, by name.
    """
    file = file or f"{name}.c"
    try:
        program = with_scalars(_read(_FrontEnd(name, source, file, asked, beside)))
        _refuse_large(program, file)
        if asked is not Property.NO_OVERFLOW:
            return program
        program = overflow_asserted(program)
    except RecursionError as error:
        raise UnsupportedProgram(f"{file}: such deep nesting is not supported") from error
    _refuse_large(program, file)
    return program


def _read(front_end: "_FrontEnd") -> Program:
    """Read a program, anew with each pointer that some run may use without a target."""
    nullable: frozenset[str] = frozenset()
    while True:
        try:
            return front_end.program(nullable)
        except PerhapsNull as found:
            nullable |= {found.name}


def _refuse_large(program: Program, file: str) -> None:
    """Refuse a program of which no proof could end in time, with what is too much of it."""
    level, depth = list(program.body), 0
    # Level by level, since recursion is what deep nesting would break.
    while level and depth <= MOST_NESTED:
        depth += 1
        level = [inner for s in level for part in parts(s) for inner in part]
    if level:
        what = f"more than {MOST_NESTED} levels of loops and branches"
        raise UnsupportedProgram(f"{file}: {what} are not supported")
    loops = program.loops
    inside = {id(s) for loop in loops for s in statements((loop,))}
    # What is too much in loops is said where a loop stands, the first that is one too many.
    loop = f"{file}:{loops[min(len(loops) - 1, _MOST_LOOPS)].line}" if loops else file
    inner = "statements in loops, those of called functions included,"
    for number, most, what, place in (
        (len(loops), _MOST_LOOPS, "loops", loop),
        (len(inside), _MOST_REPEATED, inner, loop),
        (sum(1 for _ in statements(program.body)), _MOST_STATEMENTS, "statements", file),
        (_size(program), _MOST_PARTS, "parts of expressions", file),
    ):
        if number > most:
            raise UnsupportedProgram(f"{place}: more than {most:,} {what} are not supported")


def _size(program: Program) -> int:
    return sum(1 for expression in expressions_in(program.body) for _ in walk(expression))


class _FrontEnd:
    """Turns the syntax tree of one file into a program."""

    def __init__(
        self, name: str, source: str, file: str, asked: Property, beside: Mapping[str, str]
    ) -> None:
        self._name, self._source, self._file, self._asked = name, source, file, asked
        self._beside = beside
        self._whole = "\n".join((source, *beside.values()))

    def program(self, nullable: frozenset[str]) -> Program:
        """The program that the file describes.

        Args:
            nullable: the names of the pointers that some run may use without a target.

        Raises:
            PerhapsNull: there is another such pointer.
        """
        unit = parse_c(self._source, self._file, self._beside)
        names = Names(re.findall(r"[A-Za-z_]\w*", self._whole))
        declarations = DeclarationReader(names)
        calls = CallReader(unit, names, declarations, self._asked)
        reader = PointerReader(self._file, names, calls.call, declarations.type_named)
        control = StatementReader(names, reader, declarations)
        # These read each other's parts: a call holds statements, which hold calls.
        declarations.reader = calls.reader = reader
        reader.nullable, reader.pointing = nullable, calls.pointing
        declarations.pointer, reader.kind_named = reader.declared_pointer, declarations.kind_named
        calls.body = control.function
        reader.refuse_deep(unit)
        reader.look_through(unit)
        main = main_function(unit, self._file)
        self._contract = next(
            (p.init.exprs for p in unit.ext if getattr(p, "name", None) == REQUIRED), []
        )
        calls.parameters = read_known_functions(unit, reader)
        outside: list[Statement] = []
        for part in unit.ext:
            outside += self._outside(part, declarations, reader)
        given = self._given(main, names, declarations, reader)
        calls.texts = _texts(main)
        if main.decl.storage or main.decl.funcspec:
            raise reader.unsupported(main, "a main that is static or inline")
        body = control.block(main.body)
        # ESBMC finds no header that lies beside the file.
        lowered = control.lowered or calls.lowered or bool(self._beside)
        return Program(
            self._name,
            self._source,
            names.types,
            (*outside, *declarations.statics, *given, *body),
            lowered=lowered or names.renamed or bool(given) or self._asked is not Property.ASSERT,
            ranges=self._asked is Property.ASSERT,
        )

    def _given(
        self,
        main: c_ast.FuncDef,
        names: Names,
        declarations: DeclarationReader,
        reader: PointerReader,
    ) -> list[Statement]:
        """The statements for the parameters of `main`: integers have any value.

        The number of a program's arguments, whose texts stand in a second parameter, is not
        negative (C11 5.1.2.2.1). That second parameter cannot be used. A contract in a remark
        restricts the integers, and gives pointers their arrays.
        """
        if main.param_decls:
            raise reader.unsupported(main, "a main with parameters declared behind it")
        parameters = parameters_of(main.decl)
        unnamed = [p for p in parameters if not isinstance(p, c_ast.Decl)]
        if unnamed:
            raise reader.unsupported(main, "a parameter of main without a name")
        given: list[Statement] = []
        integers = [p for p in parameters if not is_pointer(p.type)]
        for parameter in integers:
            given += declarations.declare(parameter)
        contract = self._contract
        # Each clause must have been understood: what one requires, another may rely on.
        if parameters and len(re.findall(r"\brequires\b", self._source)) != len(contract):
            raise reader.unsupported(main, "this ACSL contract with parameters of main")
        if contract and parameters:
            pointers = [p for p in parameters if is_pointer(p.type)]
            return [*given, *Contract(contract, names, declarations, reader).given(pointers)]
        if len(parameters) > 1 and is_pointer(parameters[1].type) and integers:
            own = names.meaning(integers[0].name)
            given.append(Assume(Binary(">=", Identifier(own.name), Constant(0))))
        return given

    def _outside(
        self, part: c_ast.Node, declarations: DeclarationReader, reader: PointerReader
    ) -> list[Statement]:
        """The statements for what stands outside of functions."""
        match part:
            case c_ast.Decl(type=c_ast.FuncDecl()) | c_ast.FuncDef():
                return []  # calls read it
            case c_ast.Decl(name=name) if name == REQUIRED:
                return []  # the parameters of `main` read it
            case c_ast.Decl():
                return list(declarations.declare(part, constants_only=True))
            case c_ast.Typedef():
                declarations.typedef(part)
                return []
        what = getattr(part, "name", None) or type(part).__name__
        raise reader.unsupported(part, f"{what!r} outside of functions")


def _texts(main: c_ast.FuncDef) -> str:
    """The second parameter of `main` if the first is its length; empty if there is none."""
    match parameters_of(main.decl):
        case [c_ast.Decl(), c_ast.Decl(name=name, type=c_ast.PtrDecl() | c_ast.ArrayDecl())]:
            return name
    return ""
