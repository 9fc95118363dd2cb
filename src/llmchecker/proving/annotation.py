"""Invariants written back into C text before their loops, in the words of ESBMC.

Calls of functions with a known meaning become calls of ESBMC's own functions. ESBMC would otherwise
treat a function without a body as one that returns any value and has no effect.
"""

from collections.abc import Iterator, Mapping, Sequence

from pycparser import c_ast, c_generator, c_parser

from llmchecker.programs.expressions import (
    Constant,
    Element,
    Expression,
    Identifier,
    Nondet,
    Quantified,
    Type,
    c_name,
    c_text,
    replaced,
    walk,
    with_children,
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
    Labelled,
    Leave,
    Loop,
    Program,
    Statement,
    Stop,
)
from llmchecker.reading.c_expressions import NONDET, NONDET_TYPES, called
from llmchecker.reading.known_functions import ASSERTS, ASSUMES
from llmchecker.translating.syntax import loops_in, main_function, nodes_in, parse_c
from llmchecker.translating.translation import FAILURES, STOPS

INVARIANT = "__ESBMC_loop_invariant"
ASSERT = "__ESBMC_assert"
ASSUME = "__ESBMC_assume"


def annotate(program: Program, invariants: Mapping[int, Sequence[Expression]]) -> str:
    """The program's C text for ESBMC, with `__ESBMC_loop_invariant(…);` right before its loops.

    A `for` loop with invariants keeps its guard and step; its initialisation moves before the
    invariants. A `do` loop with invariants becomes its body, followed by a `while` loop. Where the
    loops of the program are not those of its text, the program itself is written as C.

    Args:
        invariants: the invariants of each loop, by the loop's number; a loop without any stays as
            it is.
    """
    if program.lowered:
        return written(program, invariants)
    unit = parse_c(program.source, program.name)
    main = main_function(unit, program.name)
    scopes = [loop.scope for loop in program.loops]
    # Keyed by identity: `_replace` meets the very same nodes again.
    stated = {
        id(loop): _stated(invariants[number], scopes[number])
        for number, loop in enumerate(loops_in(main.body))
        if invariants.get(number)
    }
    for call in nodes_in(main.body, (c_ast.FuncCall,)):
        _call_esbmc(call)
    _replace(main.body, stated)
    return c_generator.CGenerator().visit(unit)


def written(program: Program, invariants: Mapping[int, Sequence[Expression]]) -> str:
    """A program in C for ESBMC, made from its statements alone.

    Args:
        invariants: the invariants of each loop, by the loop's number.
    """
    # ESBMC knows the one that returns a `char`, and takes `signed char` for another type.
    names = {end: "char" if end == "char" else c_name(t) for end, t in _DRAWN.items()}
    drawn = [f"extern {name} {NONDET}{end}(void);" for end, name in names.items()]
    everywhere = [i for stated in invariants.values() for i in stated]
    bound = {q.variable for i in everywhere for q in walk(i) if isinstance(q, Quantified)}
    declared = [
        _declaration(name, type_)
        for name, type_ in program.types.items()
        if type_.length is None or isinstance(type_.length, Constant)
    ]
    declared += [f"int {name};" for name in sorted(bound - set(program.types))]
    body = _Writer(program.types, invariants).block(program.body)
    return "\n".join([*drawn, "int main(void)", "{", *declared, *body, "}", ""])


_DRAWN = {end: NONDET_TYPES[end] for end in ("int", "uint", "long", "ulong", "short", "ushort")}
_DRAWN |= {end: NONDET_TYPES[end] for end in ("char", "uchar", "bool")}


def _declaration(name: str, type_: Type) -> str:
    length = "" if type_.length is None else f"[{_c_text(type_.length)}]"
    return f"{c_name(type_.element)} {_c_text(Identifier(name))}{length};"


def _c_text(expression: Expression) -> str:
    """C text in which values are drawn by the functions of their types."""
    for end, type_ in _DRAWN.items():
        expression = replaced(expression, Nondet(type_), Identifier(f"{NONDET}{end}()"))
    # The length of an array that a run decides has a name that C does not allow.
    return c_text(_renamed(expression)).replace(".length", "__length")


def _renamed(expression: Expression) -> Expression:
    """The expression with C's names for elements that are integers of their own."""
    match expression:
        case Identifier(name=name):
            return Identifier(name.replace("[", "__").removesuffix("]"))
    return with_children(expression, _renamed)


_SHORT = 16
"""The most elements of an array that are given values one by one."""


class _Writer:
    """Writes statements as lines of C."""

    def __init__(
        self, types: Mapping[str, Type], invariants: Mapping[int, Sequence[Expression]]
    ) -> None:
        self._types = types
        self._invariants = invariants
        self._loops: list[Loop] = []

    def block(self, block: Block) -> list[str]:
        """The lines of a block, without braces around it."""
        lines: list[str] = []
        opened = 0
        for statement in block:
            if isinstance(statement, Forget) and self._types[statement.name].array:
                each = self._forgotten(statement.name)
                # A long array has open values where it is declared, and only there.
                lines += each or ["{", _declaration(statement.name, self._types[statement.name])]
                opened += not each
            else:
                lines += self._lines(statement)
        return [*lines, *["}"] * opened]

    def _forgotten(self, name: str) -> list[str]:
        """Lines that give every element of a short array any value; none for another array."""
        type_ = self._types[name]
        if not isinstance(type_.length, Constant) or type_.length.value > _SHORT:
            return []
        elements = (Element(name, Constant(index)) for index in range(type_.length.value))
        return [f"{_c_text(e)} = {_c_text(Nondet(type_.element))};" for e in elements]

    def _lines(self, statement: Statement) -> Iterator[str]:
        match statement:
            case Assign(target=target, value=value):
                yield f"{_c_text(target)} = {_c_text(value)};"
            case Forget(name=name):
                yield f"{_c_text(Identifier(name))} = {_c_text(Nondet(self._types[name]))};"
            case Assume(condition=condition):
                yield f"{ASSUME}({_c_text(condition)});"
            case Assert(condition=condition):
                yield f'{ASSERT}({_c_text(condition)}, "assertion");'
            case Stop():
                yield f"{ASSUME}(0);"
            case Branch(condition=condition, then=then, otherwise=otherwise):
                yield from (f"if ({_c_text(condition)}) {{", *self.block(then))
                yield from ("} else {", *self.block(otherwise), "}")
            case Labelled(label=label, body=body):
                yield from ("{", *self.block(body), "}", f"{label}: ;")
            case Leave(label=label):
                yield f"goto {label};"
            case Break():
                yield "break;"
            case Continue():
                again = self._loops[-1]
                yield f"goto step_of_{again.number};" if again.step else "continue;"
            case Loop():
                yield from self._loop(statement)

    def _loop(self, loop: Loop) -> Iterator[str]:
        for invariant in self._invariants.get(loop.number, ()):
            yield f"{INVARIANT}({_c_text(invariant)});"
        self._loops.append(loop)
        body = self.block(loop.body)
        self._loops.pop()
        yield from (f"while ({_c_text(loop.guard)}) {{", "{", *body, "}")
        if loop.step:
            yield from (f"step_of_{loop.number}: ;", *self.block(loop.step))
        yield "}"


def _call_esbmc(node: c_ast.FuncCall) -> None:
    """Turn the call of a function with a known meaning into ESBMC's call of that meaning."""
    name = called(node)
    condition = node.args.exprs[:1] if node.args else []
    if name in (*STOPS, *FAILURES):
        # To stop is to assume what is false; to fail is to assert it.
        condition = [c_ast.Constant("int", "0")]
    if name in (*ASSERTS, *FAILURES) and condition:
        comment = c_ast.Constant("string", '"assertion"')
        node.name.name, node.args = ASSERT, c_ast.ExprList([*condition, comment])
    elif name in (*ASSUMES, *STOPS) and condition:
        node.name.name, node.args = ASSUME, c_ast.ExprList(condition)


def _annotated(loop: c_ast.Node, stated: Sequence[c_ast.Node]) -> c_ast.Compound:
    """A block that holds a loop's initialisation, the statements, and then the loop itself."""
    match loop:
        case c_ast.For(init=init, cond=cond, next=next_, stmt=stmt):
            match init:
                case c_ast.DeclList(decls=before) | c_ast.ExprList(exprs=before):
                    pass
                case _:
                    before = [init] if init else []
            rest = c_ast.For(None, cond, next_, stmt)
        case c_ast.DoWhile(cond=cond, stmt=stmt):
            # The first round runs before any invariant is stated, as `parsing` reads it too.
            before = [stmt]
            rest = c_ast.While(cond, stmt)
        case _:
            before, rest = [], loop
    return c_ast.Compound([*before, *stated, rest])


def _stated(invariants: Sequence[Expression], scope: Sequence[str]) -> list[c_ast.Node]:
    """The statements that state invariants, with declarations for their bound variables."""
    bound = {q.variable for i in invariants for q in walk(i) if isinstance(q, Quantified)}
    lines = [f"int {name};" for name in sorted(bound - set(scope))]
    lines += [f"{INVARIANT}({c_text(invariant)});" for invariant in invariants]
    unit = c_parser.CParser().parse(f"void f(void) {{ {' '.join(lines)} }}")
    return list(unit.ext[0].body.block_items)


def _replace(node: c_ast.Node, stated: Mapping[int, Sequence[c_ast.Node]]) -> None:
    """Put statements before the loops that they belong to, the innermost loops first."""
    # pycparser names a child by its attribute, or by `attribute[index]` inside a list.
    for name, child in node.children():
        _replace(child, stated)
        if id(child) not in stated:
            continue
        annotated = _annotated(child, stated[id(child)])
        attribute, bracket, index = name.partition("[")
        if bracket:
            getattr(node, attribute)[int(index.rstrip("]"))] = annotated
        else:
            setattr(node, attribute, annotated)
