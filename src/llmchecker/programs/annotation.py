"""Invariants written back into C text before their loops, in the words of ESBMC.

Calls of functions with a known meaning become calls of ESBMC's own functions. ESBMC would otherwise
treat a function without a body as one that returns any value and has no effect.
"""

from collections.abc import Mapping, Sequence

from pycparser import c_ast, c_generator, c_parser

from llmchecker.programs.c_expressions import called
from llmchecker.programs.expressions import (
    Expression,
    Quantified,
    c_text,
    walk,
)
from llmchecker.programs.known_functions import ASSERTS, ASSUMES
from llmchecker.programs.statements import (
    Program,
)
from llmchecker.programs.syntax import loops_in, main_function, nodes_in, parse_c
from llmchecker.programs.translation import FAILURES, STOPS

INVARIANT = "__ESBMC_loop_invariant"
ASSERT = "__ESBMC_assert"
ASSUME = "__ESBMC_assume"


def annotate(program: Program, invariants: Mapping[int, Sequence[Expression]]) -> str:
    """The program's C text for ESBMC, with `__ESBMC_loop_invariant(…);` right before its loops.

    A `for` loop with invariants keeps its guard and step; its initialisation moves before the
    invariants. A `do` loop with invariants becomes its body, followed by a `while` loop.

    Args:
        invariants: the invariants of each loop, by the loop's number; a loop without any stays as
            it is.
    """
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
