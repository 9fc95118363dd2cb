"""Small true programs, and what becomes of them when one place is changed.

A mutant is C text again. What was changed is called by where it stands: the guard of a loop, the
body, an assertion or an assumption.
"""

import copy
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import pytest
from pycparser import c_ast, c_generator, c_parser

from llmchecker.errors import UnsupportedProgram
from loop_invariants.frontend.expressions import parse_condition
from loop_invariants.frontend.translation_unit import parse_program
from loop_invariants.frontend.verifier_builtins import ASSERT_FUNCTIONS, ASSUME_FUNCTIONS
from loop_invariants.generation.syntactic import build_disjunctions, collect_atoms
from loop_invariants.ir.expressions import COMPARISONS, Expression
from loop_invariants.ir.statements import Loop, Program
from loop_invariants.verification.esbmc_annotation import annotate
from loop_invariants.verification.houdini import Candidate

KINDS = ("guard", "body", "assertion", "assumption")

_OTHER_OPERATORS = {
    **{op: tuple(other for other in COMPARISONS if other != op) for op in COMPARISONS},
    "+": ("-", "*"),
    "-": ("+",),
    "*": ("+",),
    "/": ("%", "*"),
    "%": ("/",),
    "&&": ("||",),
    "||": ("&&",),
}


@dataclass(frozen=True)
class Original:
    """A program, and for each of its loops, invariants that prove it, as far as they are known."""

    name: str
    source: str
    invariants: tuple[tuple[str, ...], ...]

    @property
    def program(self) -> Program:
        """The program that the text means."""
        return parse_program(self.source, self.name)


@dataclass(frozen=True)
class Mutant:
    """A changed program.

    Attributes:
        kind: where it was changed, one of KINDS.
        change: what was changed, for messages.
    """

    kind: str
    change: str
    program: Program


def candidates(program: Program, invariants: tuple[tuple[str, ...], ...]) -> list[Candidate]:
    """Those invariants that still make sense, the program's atoms, and some disjunctions."""
    found = []
    for loop in program.loops:
        stated = invariants[loop.number] if invariants else ()
        known = []
        for text in stated:
            with suppress(UnsupportedProgram):  # of an array with constant indices alone
                known.append(parse_condition(text, loop.scope, program.types))
        own = collect_atoms(program, loop)
        expressions = [*known, *own, *build_disjunctions([*known, *own], 4)]
        found += [Candidate(loop.number, expression) for expression in expressions]
    return found


def mutants(original: Original, seed: int = 0) -> Iterator[Mutant]:
    """Yield the mutants of a program that are still C, in an order that the seed decides."""
    unit = c_parser.CParser().parse(annotate(original.program, {}))
    numbers = sorted(
        n for n, t in original.program.types.items() if not t.is_array and "." not in n
    )
    places = list(_places(_main(unit), "body"))
    changes = [
        (kind, place, change)
        for place, (kind, node) in enumerate(places)
        for change in range(len(_changes(node, numbers)))
    ]
    random.Random(f"{original.name} {seed}").shuffle(changes)
    for kind, place, change in changes:
        changed = copy.deepcopy(unit)
        _, node = list(_places(_main(changed), "body"))[place]
        what, apply = _changes(node, numbers)[change]
        apply()
        source = c_generator.CGenerator().visit(changed)
        with suppress(UnsupportedProgram):
            # Not where a name stands before its declaration.
            yield Mutant(kind, what, parse_program(source, original.name))


def random_condition(program: Program, loop: Loop, generator: random.Random) -> Expression:
    """A comparison of two small terms over the variables in scope; of elements, quantified."""
    arrays = [name for name in loop.scope if program.types[name].is_array]
    numbers = [name for name in loop.scope if not program.types[name].is_array]
    values = [-1, 0, 1, 2, 3, 5, 7, 10, 20, 50, 100]

    def term() -> str:
        name, other = generator.choice(numbers), generator.choice(numbers)
        value = generator.choice(values)
        forms = (name, value, f"{name} + {other}", f"{name} - {other}", f"{name} + {value}")
        return str(generator.choice((*forms, f"2 * {name}", f"{name} % 2")))

    op = generator.choice(COMPARISONS)
    if arrays and generator.random() < 0.4:
        element = f"{generator.choice(arrays)}[k] {op} {generator.choice((term(), '7', '3'))}"
        within = f"k >= 0 && k < {generator.choice(numbers)}"
        text = f"__ESBMC_forall(&k, !({within}) || {element})"
    else:
        text = f"{term()} {op} {term()}"
    return parse_condition(text, loop.scope, program.types)


def _main(unit: c_ast.FileAST) -> c_ast.Node:
    return next(p for p in unit.ext if isinstance(p, c_ast.FuncDef) and p.decl.name == "main").body


def _places(node: c_ast.Node, kind: str) -> Iterator[tuple[str, c_ast.Node]]:
    """Yield every node that may be changed, with the kind of its place."""
    yield kind, node
    for name, child in node.children():
        inner = kind
        if isinstance(node, c_ast.FuncCall):
            if name == "name":
                continue
            inner = _kind_of_call(node, kind)
        if isinstance(node, (c_ast.While, c_ast.For)) and name == "cond":
            inner = "guard"
        yield from _places(child, inner)


def _kind_of_call(node: c_ast.FuncCall, kind: str) -> str:
    if node.name.name in ASSERT_FUNCTIONS:
        return "assertion"
    return "assumption" if node.name.name in ASSUME_FUNCTIONS else kind


def _changes(node: c_ast.Node, names: list[str]) -> list:
    """What may be done to one node: a text for messages, and a function that does it."""
    match node:
        case c_ast.BinaryOp(op=op):
            return [_set(node, "op", other) for other in _OTHER_OPERATORS.get(op, ())]
        case c_ast.Constant(type="int", value=value):
            return [_set(node, "value", str(int(value) + step)) for step in (1, -1)]
        case c_ast.ID(name=name) if name in names:
            return [_set(node, "name", other) for other in names if other != name]
        case c_ast.UnaryOp(op="p++" | "p--" as op):
            return [_set(node, "op", "p--" if op == "p++" else "p++")]
        case c_ast.Assignment(op="+=" | "-=" as op):
            return [_set(node, "op", "-=" if op == "+=" else "+=")]
        case c_ast.If(cond=cond):
            return [_set(node, "cond", c_ast.UnaryOp("!", cond))]
        case c_ast.Compound(block_items=items) if items:
            return [_drop(items, at) for at, item in enumerate(items) if _droppable(item)]
    return []


def _droppable(item: c_ast.Node) -> bool:
    if isinstance(item, c_ast.FuncCall):
        return item.name.name in ASSUME_FUNCTIONS
    return isinstance(item, (c_ast.Assignment, c_ast.UnaryOp, c_ast.Break, c_ast.Continue))


def _set(node: c_ast.Node, attribute: str, value: object) -> tuple:
    old = getattr(node, attribute)
    what = f"{attribute} {old} becomes {value}" if isinstance(value, str) else "branches swapped"
    return f"{node.coord}: {what}", lambda: setattr(node, attribute, value)


def _drop(items: list, at: int) -> tuple:
    return f"{items[at].coord}: statement dropped", lambda: items.pop(at)


def _original(name: str, *invariants: tuple[str, ...], body: str) -> Original:
    return Original(name, f"int main(void)\n{{\n{body.strip()}\n}}\n", invariants)


ORIGINALS = (
    _original(
        "count",
        ("x <= 10",),
        body="int x = 0; while (x < 10) { x = x + 1; } assert(x == 10);",
    ),
    _original(
        "double",
        ("s == 2 * i", "i <= n", "i >= 0", "n <= 1000"),
        body="""
int n = __VERIFIER_nondet_int();
__VERIFIER_assume(n >= 0 && n <= 1000);
int i = 0; int s = 0;
while (i < n) { s = s + 2; i = i + 1; }
assert(s == 2 * n);""",
    ),
    _original(
        "moved",
        ("a + b == c", "a >= 0"),
        body="""
int a = __VERIFIER_nondet_int();
__VERIFIER_assume(a >= 0 && a <= 100);
int b = 0; int c = a;
while (a > 0) { a--; b++; }
assert(b == c);""",
    ),
    _original(
        "nested",
        ("k == 3 * i", "i <= 4", "i >= 0"),
        ("k == 3 * i + j", "j <= 3", "i < 4", "i >= 0", "j >= 0"),
        body="""
int i = 0; int k = 0; int j = 0;
while (i < 4) {
  j = 0;
  while (j < 3) { k = k + 1; j = j + 1; }
  i = i + 1;
}
assert(k == 12);""",
    ),
    _original(
        "left_by_break",
        ("x >= 0", "x + y == z", "z <= 50"),
        body="""
int x = __VERIFIER_nondet_int();
__VERIFIER_assume(x >= 0); __VERIFIER_assume(x <= 50);
int y = 0; int z = x;
while (1) {
  if (x <= 0) { break; }
  x = x - 1;
  y = y + 1;
}
assert(y == z);""",
    ),
    _original(
        "odd_numbers",
        ("2 * odd == i - i % 2", "i <= 20", "i >= 0"),
        body="""
int odd = 0; int i;
for (i = 0; i < 20; i++) {
  if (i % 2 == 0) { continue; }
  odd = odd + 1;
}
assert(odd == 10);""",
    ),
    _original(
        "in_sequence",
        ("x <= 8", "x % 2 == 0", "x >= 0"),
        ("x == 8", "y >= 0", "y % 2 == 0"),
        body="""
int x = 0; int y = 0;
while (x < 8) { x += 2; }
y = x;
while (y > 0) { y -= 2; }
assert(y == 0 && x == 8);""",
    ),
    _original(
        "nondeterministic_guard",
        ("lo <= hi", "lo >= 0", "hi <= 20"),
        body="""
int lo = 0; int hi = 20;
while (lo < hi && __VERIFIER_nondet_int() != 0) {
  if (__VERIFIER_nondet_int() > 0) { lo = lo + 1; } else { hi = hi - 1; }
}
assert(lo <= hi);""",
    ),
    _original(
        "filled_array",
        ("i >= 0", "i <= 6", "__ESBMC_forall(&k, !(k >= 0 && k < i) || a[k] == 7)"),
        body="""
int a[6]; int i = 0;
while (i < 6) { a[i] = 7; i = i + 1; }
assert(a[2] == 7);""",
    ),
    _original(
        "largest",
        ("m >= 0", "m >= v", "i <= 10"),
        body="""
int m = 0; int v = 0; int i = 0;
while (i < 10) {
  v = __VERIFIER_nondet_int();
  if (v > m) { m = v; }
  i++;
}
assert(m >= v && i == 10);""",
    ),
    _original(
        "halved",
        ("x >= 0", "x <= 1000"),
        body="""
int x = __VERIFIER_nondet_int();
__VERIFIER_assume(x >= 0 && x <= 1000);
while (x > 1) { x = x / 2; }
assert(x == 0 || x == 1);""",
    ),
    _original(
        "to_the_middle",
        ("x + y == 50", "x <= y"),
        body="""
int x = 0; int y = 50;
while (x < y) { x = x + 1; y = y - 1; }
assert(x == 25);""",
    ),
    _original(
        "two_states",
        ("state == count % 2", "count <= 10", "count >= 0"),
        body="""
int state = 0; int count = 0;
while (count < 10) {
  if (state == 0) { state = 1; } else { state = 0; }
  count = count + 1;
}
assert(state == 0);""",
    ),
    _original(
        "narrow",
        ("n == c", "c <= 100", "c >= 0"),
        body="""
char c = 0; int n = 0;
while (c < 100) { c = c + 1; n = n + 1; }
assert(n == 100);""",
    ),
    _original(
        "early_return",
        ("y <= x", "y >= 0"),
        body="""
int x = __VERIFIER_nondet_int();
__VERIFIER_assume(x > 0 && x < 100);
int y = x;
while (y != 0) {
  if (y < 0) { return 0; }
  y = y - 1;
}
assert(y < x);""",
    ),
    _original(
        "search",
        ("i >= 0", "i <= 5", "!found || (i < 5 && a[i] == 3)"),
        body="""
int a[5]; int i = 0; _Bool found = 0;
while (i < 5 && !found) {
  if (a[i] == 3) { found = 1; } else { i = i + 1; }
}
assert(!found || a[i] == 3);""",
    ),
)

_FEW = ("nested", "left_by_break", "nondeterministic_guard", "filled_array", "narrow")
"""Names of the programs of `make test`: each kind of loop, an array and a narrow type."""


def vary_originals() -> pytest.MarkDecorator:
    """Parametrize a test over ORIGINALS, of which `make test` takes a few."""
    cases = [
        pytest.param(each, marks=() if each.name in _FEW else pytest.mark.long)
        for each in ORIGINALS
    ]
    return pytest.mark.parametrize("original", cases, ids=lambda each: each.name)
