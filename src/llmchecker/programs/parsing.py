"""The front end: it reads C and returns a program.

It covers `main` with integers, arrays of integers with one index, branches and loops (`while`,
`for`, `do` around a body without loops), and the functions of verification benchmarks:
`__VERIFIER_nondet_…`, `__VERIFIER_assume`, `__ESBMC_assume`, `__VERIFIER_assert`, `assert`,
`abort`, `exit` and `reach_error`. These functions have their known meaning; a file that defines
them otherwise is refused. Everything else is refused too, by name, file and line.
"""

from collections.abc import Sequence
from pathlib import Path

from pycparser import c_ast, c_generator

from llmchecker.errors import UnreadableProgram, UnsupportedProgram
from llmchecker.programs.c_expressions import NONDET, ExpressionReader, called
from llmchecker.programs.expressions import (
    BOOL,
    Binary,
    Constant,
    Element,
    Expression,
    Identifier,
    Nondet,
    Type,
    walk,
)
from llmchecker.programs.known_functions import (
    ASSERTS,
    ASSUMES,
    KNOWN,
    Parameters,
    read_known_functions,
)
from llmchecker.programs.statements import (
    Assert,
    Assign,
    Assume,
    Block,
    Branch,
    Break,
    Continue,
    Forget,
    Loop,
    Program,
    Statement,
    Stop,
)
from llmchecker.programs.syntax import (
    LOOPS,
    integer_type,
    loops_in,
    main_function,
    nodes_in,
    parse_c,
)
from llmchecker.programs.translation import FAILURES, STOPS

_LARGEST_LIST = 64
"""The most elements that an initialisation may set: each becomes an assignment of its own."""


def read_program(path: Path) -> Program:
    """Read a C file; the program gets the file's name without `.c`.

    Raises:
        UnreadableProgram: the file cannot be read, is not C, or has no `main`.
        UnsupportedProgram: the file has a construct that is not covered; the message names it with
            file and line.
    """
    try:
        # As bytes, since Python would turn carriage returns into line ends, and compilers do not.
        source = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableProgram(f"{path} cannot be read: {error}") from error
    return parse_program(source, path.stem, path.name)


def parse_program(source: str, name: str, file: str | None = None) -> Program:
    """Read C text, as `read_program` reads a file.

    Args:
        source: the C text.
        name: the program's name.
        file: the file's name in messages; by default the program's name with `.c`.
    """
    file = file or f"{name}.c"
    return _FrontEnd(name, source, file).program(parse_c(source, file))


class _FrontEnd:
    """Turns the syntax tree of one file into a program."""

    def __init__(self, name: str, source: str, file: str) -> None:
        self._name, self._source, self._file = name, source, file
        self._types: dict[str, Type] = {}
        self._scopes: list[list[str]] = [[]]  # the names of every open scope, outermost first
        self._numbers: dict[int, int] = {}  # the number of every loop, by the identity of its node
        self._around = 0  # the loops around the statement that is being read
        self._parameters = Parameters({})
        # The reader asks this object for the scope and shares its types: both grow as it reads.
        self._reader = ExpressionReader(file, self, self._types)

    def __contains__(self, name: str) -> bool:
        """Whether a name is a variable in scope."""
        return any(name in scope for scope in self._scopes)

    def program(self, unit: c_ast.FileAST) -> Program:
        """The program that a file's syntax tree describes."""
        self._reader.refuse_deep(unit)
        main = main_function(unit, self._file)
        self._parameters = read_known_functions(unit, self._reader)
        self._numbers = {id(loop): number for number, loop in enumerate(loops_in(main.body))}
        body: list[Statement] = []
        for part in unit.ext:
            match part:
                case c_ast.Decl(type=c_ast.FuncDecl()) | c_ast.FuncDef():
                    pass  # `read_known_functions` has checked it
                case c_ast.Decl():
                    body += self._declaration(part, zero=True)
                case c_ast.Typedef(name=name) if name != "bool" or integer_type(part.type) == BOOL:
                    pass  # a variable of such a type is refused where it is declared
                case _:
                    what = getattr(part, "name", None) or type(part).__name__
                    raise self._unsupported(part, f"{what!r} outside of functions")
        if _parameters(main) or main.param_decls:
            raise self._unsupported(main, "a parameter of main")
        if main.decl.storage or main.decl.funcspec:
            raise self._unsupported(main, "a main that is static or inline")
        body += self._block(main.body)
        return Program(self._name, self._source, self._types, tuple(body))

    def _unsupported(self, node: c_ast.Node, what: str) -> UnsupportedProgram:
        return self._reader.unsupported(node, what)

    def _block(self, node: c_ast.Node | None) -> Block:
        """The statements of a block with a scope of its own."""
        self._scopes.append([])
        statements: list[Statement] = []
        if isinstance(node, c_ast.Compound):
            for item in node.block_items or ():
                statements += self._statement(item)
        elif node is not None:
            statements += self._statement(node)
        self._scopes.pop()
        return tuple(statements)

    def _statement(self, node: c_ast.Node) -> Block:
        match node:
            case c_ast.Compound():
                return self._block(node)
            case c_ast.Decl():
                return self._declaration(node)
            case c_ast.DeclList():
                return tuple(s for decl in node.decls for s in self._declaration(decl))
            case c_ast.ExprList():
                return tuple(s for expression in node.exprs for s in self._statement(expression))
            case c_ast.Assignment():
                return self._assignment(node)
            case c_ast.UnaryOp(op="p++" | "++" | "p--" | "--"):
                return self._increment(node)
            case c_ast.FuncCall():
                return self._call(node)
            case c_ast.If():
                condition = self._reader.read(node.cond)
                return (Branch(condition, self._block(node.iftrue), self._block(node.iffalse)),)
            case c_ast.While() | c_ast.For() | c_ast.DoWhile():
                return self._loop(node)
            case c_ast.Break() | c_ast.Continue():
                if not self._around:
                    raise self._unsupported(node, "break or continue outside a loop")
                return (Break() if isinstance(node, c_ast.Break) else Continue(),)
            case c_ast.Return():
                # Only `main` is read, so a return ends the run.
                return (*self._evaluated(*([] if node.expr is None else [node.expr])), Stop())
            case c_ast.EmptyStatement():
                return ()
        raise self._unsupported(node, _STATEMENTS.get(type(node), type(node).__name__))

    def _declaration(self, node: c_ast.Decl, zero: bool = False) -> Block:
        """The statements that give a new variable its value.

        Args:
            zero: whether a variable without an initial value is 0, as outside of functions.
        """
        length = None
        declared = node.type
        before: Block = ()
        if isinstance(declared, c_ast.ArrayDecl):
            length, before = self._length(node)
            declared = declared.type
        if isinstance(declared, c_ast.FuncDecl):
            return ()
        self._refuse_storage(node, zero)
        element = self._type(declared)
        if length is not None:
            values = self._array_values(node, length, zero)
        elif node.init is not None:
            values = (Assign(Identifier(node.name), self._reader.read(node.init)),)
        else:
            values = (Assign(Identifier(node.name), Constant(0)) if zero else Forget(node.name),)
        self._declare(node, Type(element.bits, element.signed, length))
        return before + values

    def _refuse_storage(self, node: c_ast.Decl, outside: bool) -> None:
        """Refuse variables that others may set (`volatile`) or that keep values (`static`)."""
        words = {*node.quals, *node.storage} - {"const", "auto", "register"}
        if outside:
            words -= {"static"}
        if words:
            raise self._unsupported(node, f"{' '.join(sorted(words))} for {node.name!r}")

    def _type(self, node: c_ast.Node) -> Type:
        type_ = integer_type(node)
        if type_ is not None:
            return type_
        if isinstance(node, c_ast.TypeDecl) and isinstance(node.type, c_ast.IdentifierType):
            raise self._unsupported(node, f"the type {' '.join(node.type.names)}")
        inner = node.type if isinstance(node, c_ast.TypeDecl) else node
        raise self._unsupported(node, _STATEMENTS.get(type(inner), "a type that is no integer"))

    def _declare(self, node: c_ast.Decl, type_: Type) -> None:
        if node.name in KNOWN or node.name.startswith(NONDET):
            raise self._unsupported(node, f"a variable {node.name!r}, which is a known function,")
        if node.name[0] == "_" and len(self._scopes) == 1:
            # Some of these are variables of the C library.
            raise self._unsupported(node, f"the reserved name {node.name!r} outside of functions")
        # A program has one type and one value for every name, so none may hide another.
        if node.name in self:
            raise self._unsupported(node, f"a second {node.name!r} in the scope of the first")
        known = self._types.get(node.name)
        if known is not None and known != type_:
            raise self._unsupported(node, f"a second {node.name!r} of another type")
        self._types[node.name] = type_
        self._scopes[-1].append(node.name)

    def _length(self, node: c_ast.Decl) -> tuple[Expression, Block]:
        """An array's number of elements, and statements that keep it if only a run can tell it."""
        if node.type.dim is None:
            if not isinstance(node.init, c_ast.InitList):
                raise self._unsupported(node, "an array without a length")
            return Constant(len(node.init.exprs)), ()
        length = self._reader.read(node.type.dim)
        if isinstance(length, Constant):
            return length, ()
        # C does not allow this name, so no statement and no candidate can use it.
        kept = Identifier(f"{node.name}.length")
        self._types[kept.name] = Type(64)
        # An array must have an element: C leaves undefined what follows otherwise (C11 6.7.6.2).
        return kept, (Assign(kept, length), Assert(Binary(">", kept, Constant(0)), 0))

    def _array_values(self, node: c_ast.Decl, length: Expression, zero: bool) -> Block:
        if node.init is None and not zero:
            return (Forget(node.name),)
        listed = [] if node.init is None else self._listed(node)
        if not isinstance(length, Constant) or length.value > _LARGEST_LIST:
            raise self._unsupported(node, f"giving values to more than {_LARGEST_LIST} elements")
        values = [*listed, *[Constant(0)] * (length.value - len(listed))]
        return tuple(Assign(Element(node.name, Constant(i)), v) for i, v in enumerate(values))

    def _listed(self, node: c_ast.Decl) -> list[Expression]:
        if not isinstance(node.init, c_ast.InitList):
            raise self._unsupported(node, "an array that is not given a list of values")
        if any(isinstance(value, c_ast.NamedInitializer) for value in node.init.exprs):
            raise self._unsupported(node, "an index in a list of values")
        return [self._reader.read(value) for value in node.init.exprs]

    def _target(self, node: c_ast.Node) -> Identifier | Element:
        target = self._reader.read(node)
        if isinstance(target, Identifier | Element):
            return target
        raise self._unsupported(node, "an assignment to neither a variable nor an element")

    def _assignment(self, node: c_ast.Assignment) -> Block:
        target = self._target(node.lvalue)
        value = self._reader.read(node.rvalue)
        if node.op == "=":
            return (Assign(target, value),)
        if node.op not in ("+=", "-=", "*=", "/=", "%="):
            raise self._unsupported(node, f"the operator {node.op}")
        return (Assign(target, Binary(node.op[0], self._determined(target, node), value)),)

    def _increment(self, node: c_ast.UnaryOp) -> Block:
        target = self._target(node.expr)
        changed = Binary(node.op.strip("p")[0], self._determined(target, node), Constant(1))
        return (Assign(target, changed),)

    def _determined(self, target: Identifier | Element, node: c_ast.Node) -> Identifier | Element:
        """A target that is read and then written; refused if these could be different elements."""
        if any(isinstance(part, Nondet) for part in walk(target)):
            raise self._unsupported(node, "changing an element at an open index")
        return target

    def _call(self, node: c_ast.FuncCall) -> Block:
        name = called(node)
        arguments = node.args.exprs if node.args else []
        if name in STOPS and len(arguments) == (name == "exit"):
            return (*self._evaluated(*arguments), Stop())
        if name in FAILURES and all(isinstance(a, c_ast.Constant) for a in arguments):
            return (Assert(Constant(0), node.coord.line), Stop())
        if name in ASSERTS | ASSUMES:
            condition = self._condition(name, node, arguments)
            return (Assert(condition, node.coord.line) if name in ASSERTS else Assume(condition),)
        raise self._unsupported(node, f"the call of {name or 'a function'}")

    def _evaluated(self, *nodes: c_ast.Node) -> Block:
        """Statements that evaluate expressions whose values nobody uses.

        They are kept because they may divide by zero.
        """
        values = [self._reader.read(node) for node in nodes]
        return tuple(Branch(value, (), ()) for value in values if not isinstance(value, Constant))

    def _condition(self, name: str, node: c_ast.FuncCall, arguments: Sequence) -> Expression:
        """The condition that a call asserts or assumes: its first argument.

        `__ESBMC_assert` may have a message as its second one.
        """
        message = name == "__ESBMC_assert" and len(arguments) == 2
        if len(arguments) != 1 and not (message and isinstance(arguments[1], c_ast.Constant)):
            raise self._unsupported(node, f"the call of {name} with these arguments")
        condition = self._reader.read(arguments[0])
        if not self._parameters.keep(name, condition, self._types):
            raise self._unsupported(node, f"the call of {name}, which cuts its argument short,")
        return condition

    def _loop(self, node: c_ast.Node) -> Block:
        self._scopes.append([])
        before: Block = ()
        if isinstance(node, c_ast.For):
            before = self._statement(node.init) if node.init is not None else ()
        scope = tuple(sorted(name for names in self._scopes for name in names))
        guard = self._reader.read(node.cond) if node.cond is not None else Constant(1)
        self._around += 1
        body = self._block(node.stmt)
        self._around -= 1
        step: Block = ()
        if isinstance(node, c_ast.For) and node.next is not None:
            step = self._statement(node.next)
        if isinstance(node, c_ast.DoWhile):
            # `do` is read as its body once, then as `while`. A loop inside would stand in the
            # program twice under one number, and `break` would leave no loop the first time.
            if any(nodes_in(node.stmt, (*LOOPS, c_ast.Break, c_ast.Continue))):
                raise self._unsupported(node, "`do` around a loop, a break or a continue")
            before = body
        self._scopes.pop()
        number = self._numbers[id(node)]
        return (*before, Loop(number, node.coord.line, guard, body, step, scope))


def _parameters(main: c_ast.FuncDef) -> bool:
    """Whether `main` has parameters; `void` is none."""
    arguments = main.decl.type.args
    if arguments is None:
        return False
    return c_generator.CGenerator().visit(arguments) != "void"


_STATEMENTS = {
    c_ast.BinaryOp: "an expression without an effect",
    c_ast.ID: "an expression without an effect",
    c_ast.Cast: "an expression without an effect",
    c_ast.Enum: "an enumeration",
    c_ast.Goto: "goto",
    c_ast.Label: "a label",
    c_ast.Switch: "switch",
    c_ast.PtrDecl: "a pointer",
    c_ast.ArrayDecl: "an array of arrays",
    c_ast.Struct: "a structure",
    c_ast.Typedef: "a typedef",
    c_ast.FuncDef: "a function inside a function",
}
