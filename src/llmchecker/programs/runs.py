"""Concrete runs, which can refute a candidate or an assertion beyond doubt.

A run draws a value for everything that the program leaves open, from a seeded generator, and stops
after a number of loop iterations. Integers behave as the semantics say, as in `proving.terms`.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from llmchecker.programs.evaluation import (
    ConcreteState,
    Evaluation,
    Evaluator,
    Undetermined,
    Violation,
)
from llmchecker.programs.expressions import (
    BOOL,
    INT_MAX,
    INT_MIN,
    Constant,
    Expression,
    Identifier,
    Semantics,
    Type,
    walk,
)
from llmchecker.programs.statements import (
    Assert,
    Assign,
    Assume,
    Block,
    Branch,
    Break,
    Forget,
    Loop,
    Program,
    Statement,
    Stop,
    expressions_in,
)

_SMALL = tuple(range(-3, 11))

_KEPT_ITERATIONS = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55)
"""The iterations whose states are kept, equally many of each.

Early iterations stand close together, since runs differ most in how they begin.
"""


@dataclass(frozen=True)
class Failure:
    """A run that violates the program.

    Attributes:
        line: the line of the assertion that does not hold; 0 if an index, a divisor or an array's
            length is out of range.
        drawn: the values that were drawn, in order.
    """

    line: int
    drawn: tuple[int, ...]


@dataclass(frozen=True)
class Runs:
    """What concrete runs saw.

    Attributes:
        heads: for every loop, by number, distinct states in which runs reached its head.
        failure: the first run that violates the program; None if there is none.
    """

    heads: Mapping[int, Sequence[ConcreteState]]
    failure: Failure | None


class _End(Exception):
    """A run is over: an assumption fails, the program stops, or it has run long enough."""


def run_program(
    program: Program,
    semantics: Semantics,
    runs: int = 400,
    iterations: int = 60,
    kept: int = 50,
    seed: int = 0,
) -> Runs:
    """Run a program a number of times.

    Args:
        runs: the number of runs.
        iterations: a run is stopped after so many iterations of all its loops together.
        kept: the most distinct states that are returned for a loop and one of the iterations
            0, 1, 2, 3, 5, 8, 13, 21, 34 and 55.
        seed: equal seeds give equal runs.
    """
    machine = _Machine(program, semantics, iterations, kept)
    failure = None
    for number in range(runs):
        line = machine.run(random.Random(f"{seed} {number}"))
        if line is not None and failure is None:
            failure = Failure(line, tuple(machine.drawn))
    return Runs(machine.heads(), failure)


def unrefuted(
    expressions: Sequence[Expression],
    states: Sequence[ConcreteState],
    semantics: Semantics,
    types: Mapping[str, Type],
) -> tuple[Expression, ...]:
    """The expressions that no state refutes.

    A state in which an expression has no value does not refute it.
    """
    evaluator = Evaluator(semantics, types, lambda type_: 0)

    def holds(expression: Expression) -> bool:
        value = evaluator.value(expression)
        return all(_not_false(value, state) for state in states)

    return tuple(e for e in expressions if holds(e))


def _not_false(value: Evaluation, state: ConcreteState) -> bool:
    try:
        return bool(value(state))
    except (Undetermined, Violation):
        return True


class _Machine:
    """Runs one program, and keeps the states at its loop heads."""

    def __init__(self, program: Program, semantics: Semantics, iterations: int, kept: int) -> None:
        self._types = program.types
        self._iterations = iterations
        self._kept = kept
        self._evaluator = Evaluator(semantics, program.types, self._draw)
        self._pool = _pool(program, semantics)
        self._block = self._compiled(program.body)
        self._random = random.Random()
        self._left = 0
        self.drawn: list[int] = []
        self._seen: dict[int, dict[int, dict[tuple, ConcreteState]]] = {
            loop.number: {iteration: {} for iteration in _KEPT_ITERATIONS} for loop in program.loops
        }

    def run(self, generator: random.Random) -> int | None:
        """The line of the assertion that a run violates; 0 for a range, None without violation."""
        self._random, self._left, self.drawn = generator, self._iterations, []
        state: ConcreteState = {name: self._arbitrary(type_) for name, type_ in self._types.items()}
        try:
            self._block(state)
        except Violation as violation:
            return violation.line
        except (_End, Undetermined):
            # After a value that is not decided, nothing that the run does is certain.
            pass
        return None

    def heads(self) -> dict[int, tuple[ConcreteState, ...]]:
        """The states that were kept for every loop, each once."""
        distinct = {
            loop: {key: state for states in of_loop.values() for key, state in states.items()}
            for loop, of_loop in self._seen.items()
        }
        return {loop: tuple(states.values()) for loop, states in distinct.items()}

    def _draw(self, type_: Type) -> int:
        if type_ == BOOL:
            value = self._random.getrandbits(1)
        elif self._random.random() < 0.3:
            # Many programs only ask whether a value is 0, and would rarely see one otherwise.
            value = self._random.choice((0, 1, 1))
        else:
            value = self._random.choice(self._pool)
        value = self._evaluator.wrapped(value, type_)
        self.drawn.append(value)
        return value

    def _arbitrary(self, type_: Type) -> object:
        return {} if type_.array else self._draw(type_)

    def _compiled(self, block: Block) -> Callable[[ConcreteState], type | None]:
        """A function that changes a state as a block does.

        It returns Break or Continue if the block was left by one of them, else None.
        """
        steps = [self._statement(statement) for statement in block]

        def go(state: ConcreteState) -> type | None:
            for step in steps:
                left = step(state)
                if left is not None:
                    return left
            return None

        return go

    def _statement(self, statement: Statement) -> Callable[[ConcreteState], type | None]:
        match statement:
            case Assign():
                return self._assign(statement)
            case Forget(name=name):
                return lambda state: state.update({name: self._arbitrary(self._types[name])})
            case Assume(condition=condition):
                return self._guard(condition, _End)
            case Assert(condition=condition, line=line):
                return self._guard(condition, lambda: Violation(line))
            case Branch(condition=condition, then=then, otherwise=otherwise):
                test = self._evaluator.value(condition)
                a, b = self._compiled(then), self._compiled(otherwise)
                return lambda state: a(state) if test(state) else b(state)
            case Loop():
                return self._loop(statement)
            case Stop():
                return self._guard(Constant(0), _End)
        return lambda state: type(statement)

    def _guard(
        self, condition: Expression, error: Callable[[], Exception]
    ) -> Callable[[ConcreteState], None]:
        test = self._evaluator.value(condition)

        def check(state: ConcreteState) -> None:
            if not test(state):
                raise error()

        return check

    def _assign(self, statement: Assign) -> Callable[[ConcreteState], None]:
        target = statement.target
        if isinstance(target, Identifier):
            value = self._evaluator.as_type(statement.value, self._types[target.name])
            return lambda state: state.__setitem__(target.name, value(state))
        value = self._evaluator.as_type(statement.value, self._types[target.array].element)
        index = self._evaluator.index(target.array, target.index)
        return lambda state: state[target.array].__setitem__(index(state), value(state))

    def _loop(self, loop: Loop) -> Callable[[ConcreteState], type | None]:
        test = self._evaluator.value(loop.guard)
        body, step = self._compiled(loop.body), self._compiled(loop.step)

        def go(state: ConcreteState) -> type | None:
            for iteration in count():
                self._see(loop.number, iteration, state)
                if not test(state):
                    return None
                self._left -= 1
                if self._left < 0:
                    raise _End
                if body(state) is Break:
                    return None
                step(state)

        return go

    def _see(self, loop: int, iteration: int, state: ConcreteState) -> None:
        """Keep a copy of the state at a loop's head, if it is new and wanted."""
        seen = self._seen[loop].get(iteration)
        if seen is None or len(seen) == self._kept:
            return
        copied = {n: dict(v) if isinstance(v, dict) else v for n, v in state.items()}
        key = tuple(tuple(sorted(v.items())) if isinstance(v, dict) else v for v in copied.values())
        seen.setdefault(key, copied)


def _pool(program: Program, semantics: Semantics) -> tuple[int, ...]:
    """The values to draw from: small ones, the program's literals and neighbours, and extremes."""
    near = {
        node.value + offset
        for expression in expressions_in(program.body)
        for node in walk(expression)
        if isinstance(node, Constant)
        for offset in (-1, 0, 1)
    }
    extremes = (INT_MIN, INT_MAX) if semantics is Semantics.INT32 else (-1000, 1000)
    return (*_SMALL, *_SMALL, *sorted(near), *extremes)
