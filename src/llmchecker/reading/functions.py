"""Calls of C functions: those with a known meaning, those of the file, and those that it lacks.

A function of the file is read again for each of its calls, with its parameters as variables. A
function that calls itself has no such reading and is refused.
"""

import re
from collections.abc import Callable, Sequence

from pycparser import c_ast

from llmchecker.errors import UnsupportedProgram
from llmchecker.programs.expressions import (
    INT,
    Constant,
    Expression,
    Identifier,
    Nondet,
    Type,
    is_partial,
)
from llmchecker.programs.properties import Property
from llmchecker.programs.statements import (
    Assert,
    Assign,
    Assume,
    Block,
    Branch,
    Forget,
    Statement,
    Stop,
)
from llmchecker.reading.binding import Place
from llmchecker.reading.c_expressions import called
from llmchecker.reading.declarations import DeclarationReader
from llmchecker.reading.known_functions import ASSERTS, ASSUMES, KNOWN, Parameters, parameters_of
from llmchecker.reading.pointers import PointerReader
from llmchecker.reading.remarks import mathematical, refuse_remark
from llmchecker.reading.scopes import Names, Pointer
from llmchecker.translating.syntax import is_void
from llmchecker.translating.translation import FAILURES, REMARK, STOPS

_MOST_CALLS = 300
"""The most calls of a file's own functions: each is a copy of the function's body."""

_WRITING = frozenset(("printf", "puts", "putchar"))
"""Functions of the C library that only write."""

_LIBRARY = frozenset(
    "abs labs llabs atoi atol atoll atof strtol strtoul strtoll strtoull strtod rand random srand "
    "rand_r getchar getc fgetc fgets gets scanf fscanf sscanf read write open close malloc calloc "
    "realloc free alloca aligned_alloc memcpy memset memmove memcmp memchr strlen strnlen strcmp "
    "strncmp strcpy strncpy strcat strncat strchr strrchr strstr strdup strtok setjmp longjmp "
    "signal raise fork vfork system atexit quick_exit div ldiv lldiv time clock getpid getppid "
    "toupper tolower isalnum isalpha isascii isblank iscntrl isdigit isgraph islower isprint "
    "ispunct isspace isupper isxdigit sleep usleep kill wait getenv qsort bsearch ffs ffsl ffsll "
    "printf fprintf sprintf snprintf vprintf puts putchar putc fputc fputs fflush perror pow sqrt "
    "fabs floor ceil fmod exp log log2 log10 sin cos tan round trunc lround llround imaxabs "
    "execve execl _exit _Exit on_exit pthread_create pthread_join pthread_exit syscall main".split()
)
"""Functions of the C library that do not return just any value, or do more."""

_OPEN = re.compile(
    r"__(BLAST|VERIFIER)_(NONDET|nondet)\w*|__llbmc_nondef_\w+|_nondet\w*|_unknown\w*"
)
"""Functions with reserved names that benchmarks use, and that no library has."""

_ARGUMENTS = {"atoi": INT, "atol": Type(64), "atoll": Type(64)}
"""Functions that read a number from a text: of an argument of the program, any number."""


_REACHED = frozenset(("reach_error", "__VERIFIER_error"))
"""Functions whose calls SV-COMP asks about, whatever they do."""


class CallReader:
    """Reads the calls in one file.

    Args:
        unit: the file's syntax tree.
        names: what the names of the text stand for.
        declarations: reads types.
        asked: what is asked of the program.

    Attributes:
        reader: gets what a call does; it is set before anything is read.
        body: reads the body of a function, given the variable for its result.
        parameters: the types of the known functions' parameters.
        lowered: whether a call became something else than a call.
        texts: the parameter of `main` for the texts that the program was started with.
    """

    reader: PointerReader
    body: Callable[[c_ast.Compound, str | Pointer | None], Block]
    parameters: Parameters

    def __init__(
        self,
        unit: c_ast.FileAST,
        names: Names,
        declarations: DeclarationReader,
        asked: Property,
    ) -> None:
        self._names = names
        self._asked = asked
        self._declarations = declarations
        self._defined = {
            part.decl.name: part for part in unit.ext if isinstance(part, c_ast.FuncDef)
        }
        self._declared = {
            part.name: part
            for part in unit.ext
            if isinstance(part, c_ast.Decl) and isinstance(part.type, c_ast.FuncDecl)
        }
        self._active: list[str] = []
        self._calls = 0
        self.lowered = False
        self.texts = ""

    def call(self, node: c_ast.FuncCall, used: bool) -> Expression | None:
        """What a call does is added to the reader; the value is returned, if there is one."""
        name = called(node)
        arguments = node.args.exprs if node.args else []
        if name.startswith(REMARK) and not used:
            self.reader.add(self._remarked(name, node, arguments))
            return None
        if name in (ASSERTS | FAILURES) and self._inlines(name):
            return self._value(node, self._inlined(node, self._defined[name], arguments), used)
        if name in KNOWN and not used:
            self.reader.add(self._known(name, node, arguments))
            return None
        if name in _WRITING and not used and name not in self._defined:
            texts = [argument for argument in arguments if not _is_text(argument)]
            values = self.reader.evaluated_all(texts)
            self.reader.add(tuple(s for v in values for s in _kept(v)))
            return None
        if name in self._defined and name not in KNOWN and name != "main":
            return self._value(node, self._inlined(node, self._defined[name], arguments), used)
        if name == "free" and not used and len(arguments) == 1:
            self.reader.free(arguments[0])
            return None
        if name not in KNOWN and name not in _LIBRARY and name not in _WRITING:
            returned = self._open(name, node, arguments)
            if returned is not None:
                return returned
        if name in _ARGUMENTS and name not in self._defined and self._of_main(arguments):
            self.lowered = True
            return Nondet(_ARGUMENTS[name])
        where = " in an expression" if used else ""
        raise self._unsupported(node, f"the call of {name or 'a function'}{where}")

    def pointing(self, node: c_ast.FuncCall) -> Pointer:
        """The pointer that the call of a function of the file returns; what it does is added."""
        arguments = node.args.exprs if node.args else []
        result = self._inlined(node, self._defined[called(node)], arguments)
        if not isinstance(result, Pointer):
            raise self._unsupported(node, f"the call of {called(node)}")
        return result

    def _value(
        self, node: c_ast.FuncCall, result: str | Pointer | None, used: bool
    ) -> Expression | None:
        """What a call returns, as a value."""
        if isinstance(result, Pointer):
            if used:
                raise self._unsupported(node, "a pointer as a value")
            return None
        return None if result is None else Identifier(result)

    def _unsupported(self, node: c_ast.Node, what: str) -> UnsupportedProgram:
        return self.reader.unsupported(node, what)

    def _of_main(self, arguments: Sequence[c_ast.Node]) -> bool:
        """Whether the only argument is a text that the program was started with."""
        match arguments:
            case [c_ast.ArrayRef(name=c_ast.ID(name=name), subscript=c_ast.Constant())]:
                return (
                    len(self._active) == 0 and name == self.texts and not self._names.meaning(name)
                )
        return False

    def _inlines(self, name: str) -> bool:
        """Whether an assertion or failure is but what the file says of it."""
        reached = self._asked is Property.REACH and name in _REACHED
        return self._asked is not Property.ASSERT and name in self._defined and not reached

    def _fails(self, name: str) -> bool:
        """Whether a false condition, or a call, violates what is asked; else it ends the run."""
        if self._asked is Property.REACH:
            return name in _REACHED or name not in ("assert", "__assert_fail")
        return self._asked is Property.ASSERT

    def _known(self, name: str, node: c_ast.FuncCall, arguments: Sequence) -> Block:
        if name in STOPS and len(arguments) == (name == "exit"):
            return (*(s for a in arguments for s in self.reader.performed(a)), Stop())
        if name in FAILURES and all(isinstance(a, c_ast.Constant) for a in arguments):
            return (
                (Assert(Constant(0), node.coord.line), Stop()) if self._fails(name) else (Stop(),)
            )
        if name in ASSERTS | ASSUMES:
            before, condition = self._condition(name, node, arguments)
            if name in ASSERTS and self._fails(name):
                return (*before, Assert(condition, node.coord.line))
            return (*before, Assume(condition))
        raise self._unsupported(node, f"the call of {name}")

    def _remarked(self, name: str, node: c_ast.FuncCall, arguments: Sequence) -> Block:
        """The assertion that a remark makes."""
        if len(arguments) != 1:
            where = name.removeprefix(REMARK).replace("_", " ").strip() or "of nothing"
            raise self._unsupported(node, f"an assertion in a remark {where}")
        self.lowered = True

        def refuse(what: str) -> UnsupportedProgram:
            return self._unsupported(node, what)

        refuse_remark(arguments[0], refuse)
        done = self.reader.evaluated(arguments[0])
        condition = mathematical(done.value, self._names.types, refuse)
        asserted = self._asked is Property.ASSERT
        return (Assert(condition, node.coord.line),) if asserted else ()

    def _condition(
        self, name: str, node: c_ast.FuncCall, arguments: Sequence
    ) -> tuple[Block, Expression]:
        """The condition that a call asserts or assumes: its first argument.

        `__ESBMC_assert` may have a message as its second one.
        """
        message = name == "__ESBMC_assert" and len(arguments) == 2
        if len(arguments) != 1 and not (message and isinstance(arguments[1], c_ast.Constant)):
            raise self._unsupported(node, f"the call of {name} with these arguments")
        # The macro compares with zero; a function converts to an integer.
        macro = name == "assert" and name not in self.parameters.types
        done = (self.reader.condition if macro else self.reader.evaluated)(arguments[0])
        if not self.parameters.keep(name, done.value, self._names.types):
            raise self._unsupported(node, f"the call of {name}, which cuts its argument short,")
        return done.before, done.value

    def _open(
        self, name: str, node: c_ast.FuncCall, arguments: Sequence[c_ast.Node]
    ) -> Expression | None:
        """The value of a function that the file does not define: any of its type.

        Such a function changes no variable of the program, and returns.
        """
        declared = self._declared.get(name)
        # A function that nobody declares returns an int (C90 3.3.2.2).
        if not name or (name[0] == "_" and not _OPEN.fullmatch(name)):
            return None
        if declared is not None and declared.storage and declared.storage != ["extern"]:
            return None
        values = self.reader.evaluated_all([a for a in arguments if not _is_text(a)])
        self.reader.add(tuple(s for value in values for s in _kept(value)))
        self.lowered = True
        if declared is None:
            return Nondet()
        result = declared.type.type
        return Constant(0) if is_void(result) else Nondet(self._declarations.type_named(result))

    def _inlined(
        self, node: c_ast.FuncCall, function: c_ast.FuncDef, arguments: Sequence[c_ast.Node]
    ) -> str | Pointer | None:
        """The variable or pointer that has what a function of the file returns, if anything."""
        name = function.decl.name
        parameters = parameters_of(function.decl)
        self._refuse_shape(node, function, len(arguments), len(parameters))
        self.lowered = True
        result = self._result(function)
        values = self.reader.passed(arguments, parameters)
        self._active.append(name)
        self._names.enter()
        block: list[Statement] = []
        for parameter, argument, value in zip(parameters, arguments, values, strict=True):
            if isinstance(value, Place):
                block += self.reader.parameter(parameter, value, argument)
                continue
            type_ = self._declarations.type_named(parameter.type)
            own = self._names.declare(parameter.name, type_)
            block.append(Assign(Identifier(own), value))
        if isinstance(result, str):
            block.append(Forget(result))
        block += self.body(function.body, result)
        self._names.leave()
        self._active.pop()
        self.reader.add(tuple(block))
        return result

    def _refuse_shape(
        self, node: c_ast.FuncCall, function: c_ast.FuncDef, given: int, taken: int
    ) -> None:
        """Refuse recursion, and calls that do not fit the definition."""
        name = function.decl.name
        self._calls += 1
        if name in self._active:
            raise self._unsupported(node, f"recursion of {name}")
        if self._calls > _MOST_CALLS:
            raise self._unsupported(node, f"more than {_MOST_CALLS} calls of functions")
        unnamed = any(not isinstance(p, c_ast.Decl) for p in parameters_of(function.decl))
        if given != taken or function.param_decls or unnamed:
            raise self._unsupported(node, f"the call of {name} with these arguments")

    def _result(self, function: c_ast.FuncDef) -> str | Pointer | None:
        """A variable or pointer for what the function returns; None if it returns nothing."""
        returned = function.decl.type.type
        if isinstance(returned, c_ast.PtrDecl):
            pointer, begun = self.reader.result(returned, function.decl.name)
            self.reader.add(begun)
            return pointer
        if is_void(returned):
            return None
        type_ = self._declarations.type_named(returned)
        return self._names.temporary(type_, f"{function.decl.name}_result")


def _is_text(node: c_ast.Node) -> bool:
    return isinstance(node, c_ast.Constant) and node.type == "string"


def _kept(value: Expression) -> Block:
    """A statement that evaluates a value that nobody uses, if that may fail."""
    return (Branch(value, (), ()),) if is_partial(value) else ()
