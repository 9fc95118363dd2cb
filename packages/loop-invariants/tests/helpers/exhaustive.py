"""Programs over so few values that all their states can be listed, and a literal interpreter.

It shares nothing with the package's encoding and runs: it carries sets of states through the
statements. A variable holds three bits or one, so that promoted arithmetic never leaves an int.
"""

import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from loop_invariants.ir.expressions import (
    COMPARISONS,
    Binary,
    Constant,
    Expression,
    Identifier,
    Nondet,
    Ternary,
    Type,
    Unary,
)
from loop_invariants.ir.statements import (
    Assert,
    Assign,
    Assume,
    Block,
    Branch,
    Break,
    Continue,
    Havoc,
    Loop,
    Program,
    Statement,
    Stop,
    iter_statements,
)

NAMES = ("x", "y", "u", "b")
TYPES = {
    "x": Type(bits=3),
    "y": Type(bits=3),
    "u": Type(bits=2, signed=False),
    "b": Type(bits=1, signed=False),
}
VARIABLES = tuple(Identifier(name, type_) for name, type_ in TYPES.items())

State = tuple[int, ...]
"""The values of NAMES."""

States = frozenset[State]


def range_of(type_: Type) -> range:
    """The values of a type."""
    size = 1 << type_.bits
    return range(-size // 2, size // 2) if type_.signed else range(size)


EVERY_STATE: States = frozenset(itertools.product(*(range_of(TYPES[name]) for name in NAMES)))


def stored(value: int, type_: Type) -> int:
    """A number as a variable of the type holds it."""
    if type_.bits == 1:
        return int(value != 0)
    values = range_of(type_)
    return (value - values.start) % len(values) + values.start


def outcomes(expression: Expression, state: State) -> frozenset[int]:
    """Every value that an expression can have."""
    match expression:
        case Constant(value=value):
            return frozenset((value,))
        case Identifier(name=name):
            return frozenset((state[NAMES.index(name)],))
        case Nondet(type=type_):
            return frozenset(range_of(type_))
        case Unary(operator=op, operand=operand):
            return frozenset(-v if op == "-" else int(v == 0) for v in outcomes(operand, state))
        case Ternary(condition=condition, then=then, otherwise=otherwise):
            chosen = (then if c else otherwise for c in outcomes(condition, state))
            return frozenset().union(*(outcomes(e, state) for e in chosen))
        case Binary(operator=op, left=left, right=right):
            pairs = itertools.product(outcomes(left, state), outcomes(right, state))
            return frozenset(int(_OPERATIONS[op](a, b)) for a, b in pairs)
    raise TypeError(expression)


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: int(a / b),
    "%": lambda a, b: a - b * int(a / b),
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "&&": lambda a, b: a != 0 and b != 0,
    "||": lambda a, b: a != 0 or b != 0,
}


def where(condition: Expression, states: Iterable[State], truth: bool = True) -> States:
    """The states in which a condition can have that truth."""
    return frozenset(s for s in states if truth in map(bool, outcomes(condition, s)))


class Interpreter:
    """Carries sets of states through a program; what it saw is in the attributes.

    Attributes:
        failed: whether a state violated an assertion.
        arrivals: by loop, the states that came to its head: at first, or from its end.
    """

    def __init__(self, program: Program) -> None:
        self.failed = False
        self.arrivals: dict[int, set[State]] = defaultdict(set)
        self._breaks: list[set[State]] = []
        self._continues: list[set[State]] = []
        self.block(program.body, EVERY_STATE)

    def block(self, block: Block, states: States) -> States:
        """The states after a block."""
        for statement in block:
            states = self._after(statement, states)
        return states

    def loop(self, loop: Loop, entering: States) -> States:
        """The states after a loop: its runs, until no new state comes to its head."""
        exits: set[State] = set()
        heads: set[State] = set()
        new = entering
        while new:
            heads |= new
            again, left = self.iteration(loop, new)
            exits |= left
            new = again - heads
        self.arrivals[loop.number] |= heads
        return frozenset(exits)

    def iteration(self, loop: Loop, heads: States) -> tuple[States, States]:
        """The states after one iteration, and those in which the loop is left."""
        self._breaks.append(set())
        self._continues.append(set())
        end = self.block(loop.body, where(loop.guard, heads))
        again = self.block(loop.step, end | self._continues.pop())
        return again, where(loop.guard, heads, False) | self._breaks.pop()

    def _after(self, statement: Statement, states: States) -> States:
        match statement:
            case Assign(target=Identifier(name=name), value=value):
                pairs = ((s, v) for s in states for v in outcomes(value, s))
                return frozenset(_with(s, name, stored(v, TYPES[name])) for s, v in pairs)
            case Havoc(name=name):
                return frozenset(_with(s, name, v) for s in states for v in range_of(TYPES[name]))
            case Assume(condition=condition):
                return where(condition, states)
            case Assert(condition=condition):
                self.failed = self.failed or bool(where(condition, states, False))
                return states
            case Branch(condition=condition, then=then, otherwise=otherwise):
                taken = self.block(then, where(condition, states))
                return taken | self.block(otherwise, where(condition, states, False))
            case Loop():
                return self.loop(statement, states)
            case Break():
                self._breaks[-1] |= states
            case Continue():
                self._continues[-1] |= states
            case Stop():
                pass
        return frozenset()


class CutInterpreter(Interpreter):
    """The same, but every loop is left from, and goes on from, any state that satisfies some."""

    def __init__(self, program: Program, invariants: Sequence[tuple[int, Expression]]) -> None:
        self._invariants = invariants
        super().__init__(program)

    def loop(self, loop: Loop, entering: States) -> States:
        self.arrivals[loop.number] |= entering
        heads = entering
        for name in sorted(_assigned(loop)):
            heads = frozenset(_with(s, name, v) for s in heads for v in range_of(TYPES[name]))
        for number, invariant in self._invariants:
            if number == loop.number:
                heads = where(invariant, heads)
        again, exits = self.iteration(loop, heads)
        self.arrivals[loop.number] |= again
        return exits


def largest_inductive(
    program: Program, tried: Sequence[tuple[int, Expression]]
) -> tuple[list[tuple[int, Expression]], bool]:
    """The largest inductive subset by brute force, and whether the assertions follow from it."""
    while True:
        seen = CutInterpreter(program, tried)
        kept = [(n, e) for n, e in tried if not where(e, seen.arrivals[n], False)]
        if len(kept) == len(tried):
            return kept, not seen.failed
        tried = kept


def _assigned(loop: Loop) -> set[str]:
    found = set()
    for statement in iter_statements((loop,)):
        match statement:
            case Assign(target=Identifier(name=name)) | Havoc(name=name):
                found.add(name)
    return found


def _with(state: State, name: str, value: int) -> State:
    at = NAMES.index(name)
    return (*state[:at], value, *state[at + 1 :])


class RandomProgram:
    """A random program with one to three loops, and random conditions over its variables."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._loops = itertools.count()
        self._left = 3
        self.program = Program(f"random {seed}", "", TYPES, self._body())

    def condition(self) -> Expression:
        """A comparison, or two of them connected."""
        one = self._comparison()
        if self._random.random() < 0.35:
            return Binary(self._random.choice(("&&", "||")), one, self._comparison())
        return Unary("!", one) if self._random.random() < 0.1 else one

    def _body(self) -> Block:
        start = [Assign(v, self._value()) for v in VARIABLES if self._random.random() < 0.7]
        blocks = [self._statement(0, False) for _ in range(self._random.randint(0, 2))]
        end = Assert(self.condition(), 1)
        return (*start, self._loop(0), *blocks, end)

    def _block(self, depth: int, inside: bool) -> Block:
        return tuple(self._statement(depth, inside) for _ in range(self._random.randint(1, 3)))

    def _statement(self, depth: int, inside: bool) -> Statement:
        chance = self._random.random()
        if chance < 0.12 and self._left > 0 and depth < 3:
            return self._loop(depth + 1)
        if chance < 0.32 and depth < 3:
            otherwise = self._block(depth + 1, inside) if self._random.random() < 0.5 else ()
            return Branch(self._guard(), self._block(depth + 1, inside), otherwise)
        if chance < 0.44 and inside and depth > 1:
            return self._random.choice((Break(), Continue(), Break(), Continue(), Stop()))
        if chance < 0.50:
            return Assume(self.condition())
        if chance < 0.55:
            return Assert(self.condition(), 2)
        if chance < 0.60:
            return Havoc(self._random.choice(NAMES))
        return Assign(self._random.choice(VARIABLES), self._value())

    def _loop(self, depth: int) -> Loop:
        number = next(self._loops)
        self._left -= 1
        body = self._block(depth + 1, True)
        step = (self._statement(9, False),) if self._random.random() < 0.5 else ()
        return Loop(number, number + 10, self._guard(), body, step, tuple(sorted(NAMES)))

    def _guard(self) -> Expression:
        if self._random.random() < 0.15:
            return Binary("!=", Nondet(Type(bits=3)), Constant(0))
        return Constant(1) if self._random.random() < 0.1 else self.condition()

    def _comparison(self) -> Expression:
        if self._random.random() < 0.05:
            return Constant(self._random.randint(0, 1))
        return Binary(self._random.choice(COMPARISONS), self._variable(), self._term())

    def _variable(self) -> Expression:
        return self._random.choice(VARIABLES)

    def _term(self) -> Expression:
        literal = Constant(self._random.randint(-4, 4))
        divided = Binary(self._random.choice("/%"), self._variable(), Constant(2))
        sum_ = Binary(self._random.choice("+-*"), self._variable(), self._variable())
        return self._random.choice((literal, literal, self._variable(), sum_, divided))

    def _value(self) -> Expression:
        step = Binary(self._random.choice("+-"), self._variable(), Constant(1))
        chosen = Ternary(self._comparison(), self._variable(), Constant(1))
        negative = Unary("-", self._variable())
        nondet = Nondet(Type(bits=3))
        some = (step, step, step, self._term(), self._term(), chosen, negative, nondet)
        return self._random.choice(some)
