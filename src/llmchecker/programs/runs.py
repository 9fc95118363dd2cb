"""Concrete runs, which can refute a candidate or an assertion beyond doubt.

A run draws a value for everything that the program leaves open, from a seeded generator, and stops
after a number of loop iterations. Further runs, which look for violations alone, pass over many
iterations that are alike. Integers behave as the semantics say, as in `proving.terms`.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from llmchecker.programs.evaluation import (
    ConcreteState,
    Evaluation,
    Evaluator,
    Undetermined,
    Violation,
    copied,
)
from llmchecker.programs.expressions import (
    BOOL,
    INT_MAX,
    INT_MIN,
    Constant,
    Expression,
    Semantics,
    Type,
    converted_number,
    walk,
)
from llmchecker.programs.leaps import Leaper
from llmchecker.programs.machine import Machine
from llmchecker.programs.repairs import MOST_REPAIRS, Draws, Repairer
from llmchecker.programs.statements import (
    Loop,
    Program,
    expressions_in,
    statements,
)

_SMALL = tuple(range(-3, 11))

_MOST_STEPS = 10_000_000
"""The most statements that all runs of a program may take together: some seconds."""

_LEAST_RUNS = 5

_LONG_RUNS = 400
_LONG_ITERATIONS = 100
"""Iterations of a run with leaps, without those that it passes over."""

_WIDE = 0.4
"""The part of the values in such a run that may be any of their type."""

_AT_BORDERS = 0.3
"""The part of these that are next to a border of their type."""

_DECISIONS = 0.7
"""The part of what functions return that is 0 or 1 in runs that try many ways."""

_MOST_TRIES = 3_000
"""The most times that all such runs ask whether rounds are alike: about a second."""

_WITHOUT_LEAPS = 25
"""After so many runs in which no leap was made, none is expected in others."""

_COMMON = 40
"""Each extreme is among the values to draw once in so many."""

_KEPT_ITERATIONS = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55)
"""The iterations whose states are kept, equally many of each.

Early iterations stand close together, since runs differ most in how they begin.
"""


@dataclass(frozen=True)
class Drawn:
    """A value that the program leaves open.

    Attributes:
        name: the variable that has no value; empty if a function returned any value.
        value: the value that it had in the run.
    """

    name: str
    value: int


@dataclass(frozen=True)
class Head:
    """A run at the head of a loop.

    Attributes:
        line: the loop's line in the source.
        values: the integers in scope, by name.
    """

    line: int
    values: Mapping[str, int]


@dataclass(frozen=True)
class Repeated:
    """Iterations of a loop that are made again and again, all with the same values drawn.

    Attributes:
        line: the loop's line in the source.
        rounds: so many iterations, the last before, are repeated together.
        times: how often they are repeated; the loop's head that comes next is that after it.
    """

    line: int
    rounds: int
    times: int


@dataclass(frozen=True)
class Failure:
    """A run that violates the program.

    Attributes:
        line: the line of the assertion that does not hold; 0 if an index, a divisor or an array's
            length is out of range.
        trace: the values that were drawn and the loops' heads that were reached, in order. What is
            repeated stands there once.
    """

    line: int
    trace: tuple["Drawn | Head | Repeated", ...]


@dataclass(frozen=True)
class Runs:
    """What concrete runs saw.

    Attributes:
        heads: for every loop, by number, distinct states in which runs reached its head.
        failure: the first run that violates the program; None if there is none.
    """

    heads: Mapping[int, Sequence[ConcreteState]]
    failure: Failure | None


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
        runs: the number of runs, and half as many look for long ways through loops; fewer are made
            of a program of many statements.
        iterations: a run is stopped after so many iterations of all its loops together.
        kept: the most distinct states that are returned for a loop and one of the iterations
            0, 1, 2, 3, 5, 8, 13, 21, 34 and 55.
        seed: equal seeds give equal runs.
    """
    size = max(1, sum(1 for _ in statements(program.body)))
    runs = min(runs, max(_LEAST_RUNS, _MOST_STEPS // (iterations * size)))
    machine = Machine(program, semantics, iterations)
    pool = _pool(program, semantics)
    seen = _Seen(program, kept)
    failure = None
    for number in range(runs + runs // 2):
        source = random.Random(f"{seed} {number}")
        # The last third looks for long ways through loops.
        machine.stays = source.randint(1, iterations) if number >= runs else 0
        values = _values(pool, source, semantics, decisions=machine.stays > 0)
        line, draws = _mended(machine, program, semantics, seen, values)
        if line is not None and failure is None:
            machine.value = draws.again().draw  # for the same run again, now written down
            failure = Failure(line, _trace(machine, program))
    if failure is None and program.loops:
        failure = _long_failure(program, semantics, pool, seed)
    return Runs(seen.heads(), failure)


def _long_failure(
    program: Program, semantics: Semantics, pool: Sequence[int], seed: int
) -> Failure | None:
    """A run that violates the program, among runs that pass over iterations that are alike."""
    size = sum(1 for _ in statements(program.body))
    machine = Machine(program, semantics, _LONG_ITERATIONS)
    leaps = tries = 0
    for number in range(min(_LONG_RUNS, _MOST_STEPS // (_LONG_ITERATIONS * size))):
        if tries > _MOST_TRIES or (leaps == 0 and number == _WITHOUT_LEAPS):
            break
        named = f"{seed} long {number}"
        leapers: list[Leaper] = []

        def leaper(draw: Callable[[Type, str], int]) -> Leaper:
            leapers.append(Leaper(program, semantics, random.Random(named), draw))  # noqa: B023
            return leapers[-1]  # noqa: B023

        values = _values(pool, random.Random(f"{named} values"), semantics, wide=True)
        line, draws = _mended(machine, program, semantics, None, values, leaper)
        leaps += leapers[-1].leaps
        tries += sum(of_run.tries for of_run in leapers)
        if line is not None:
            return Failure(line, _trace(machine, program, leaper(draws.again().draw)))
    return None


def _mended(
    machine: Machine,
    program: Program,
    semantics: Semantics,
    seen: "_Seen | None",
    value: Callable[[Type, str], int],
    leaper: Callable[[Callable[[Type, str], int]], Leaper] | None = None,
) -> tuple[int | None, Draws]:
    """A run, begun again with other values while an assumption ends it; the line that it violates.

    All the states that it comes by are seen, also those before an assumption.
    """
    draws = Draws(value, semantics)
    repairer = Repairer(Evaluator(semantics, program.types, lambda type_: 0), random.Random(0))
    left = MOST_REPAIRS
    while True:
        refusals: list[tuple[Expression, ConcreteState]] = []
        heads = 0

        def head(loop: Loop, iteration: int, state: ConcreteState) -> None:
            nonlocal heads
            heads += 1
            if seen is not None:
                seen.see(loop, iteration, state)

        machine.value, machine.head = draws.draw, head
        machine.drawn, machine.rewind = partial(len, draws.drawn), draws.rewind
        if leaper is not None:
            leaping = leaper(draws.draw)
            machine.value, machine.leap = leaping.value, leaping.leap
            machine.rewind = None  # what a leap repeats are the values of rounds that were made
        machine.refused = lambda *refusal: refusals.append(refusal)  # noqa: B023
        line = machine.run({name: machine.arbitrary(name) for name in program.types})
        # A run that came by many heads has shown something already.
        left -= 1 + heads
        again = repairer.repaired(draws, *refusals[0]) if refusals and left > 0 else None
        if again is None:
            return line, draws
        draws = again


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


def _values(
    pool: Sequence[int],
    source: random.Random,
    semantics: Semantics,
    wide: bool = False,
    decisions: bool = False,
) -> Callable[[Type, str], int]:
    """A function that draws values of types.

    Args:
        pool: the values to draw from.
        source: decides.
        semantics: what integers are.
        wide: whether to draw also what the program does not name.
        decisions: whether most of what functions return is 0 or 1, equally often: of many branches
            that are decided one after the other, the last ones are seldom reached otherwise.
    """

    def value(type_: Type, name: str) -> int:
        if type_ == BOOL or (decisions and not name and source.random() < _DECISIONS):
            return source.getrandbits(1)
        if wide and source.random() < _WIDE:
            if source.random() < _AT_BORDERS:
                # converted, a number past the border of the type is one at its other border
                drawn = source.choice((type_.least, type_.most)) + source.randint(-20, 20)
            else:
                drawn = source.choice((-1, 1)) * source.getrandbits(source.randint(1, type_.bits))
            return converted_number(drawn, Type(64), type_, semantics)
        # Many programs only ask whether a value is 0, and would rarely see one otherwise.
        drawn = source.choice((0, 1, 1) if source.random() < 0.3 else pool)
        return converted_number(drawn, Type(64), type_, semantics)

    return value


def _trace(
    machine: Machine, program: Program, leaper: Leaper | None = None
) -> tuple[Drawn | Head | Repeated, ...]:
    """What a run draws and where it comes by."""
    events: list[Drawn | Head | Repeated] = []
    machine.rewind = None
    if leaper is not None:
        machine.value, machine.leap = leaper.value, leaper.leap
    state = {name: machine.arbitrary(name) for name in program.types}
    draw = machine.value

    def value(type_: Type, name: str) -> int:
        drawn = draw(type_, name)
        events.append(Drawn(name, drawn))
        return drawn

    def head(loop: Loop, iteration: int, state: ConcreteState) -> None:
        names = (name for name in loop.scope if not program.types[name].array)
        events.append(Head(loop.line, {name: state[name] for name in names}))

    def passed(loop: Loop, rounds: int, times: int) -> None:
        events.append(Repeated(loop.line, rounds, times))

    machine.value, machine.head = value, head
    if leaper is not None:
        leaper.passed = passed
    machine.run(state)
    return tuple(events)


class _Seen:
    """The states in which runs of a program reached the heads of its loops."""

    def __init__(self, program: Program, kept: int) -> None:
        self._kept = kept
        self._seen: dict[int, dict[int, dict[tuple, ConcreteState]]] = {
            loop.number: {iteration: {} for iteration in _KEPT_ITERATIONS} for loop in program.loops
        }

    def heads(self) -> dict[int, tuple[ConcreteState, ...]]:
        """The states that were kept for every loop, each once."""
        distinct = {
            loop: {key: state for states in of_loop.values() for key, state in states.items()}
            for loop, of_loop in self._seen.items()
        }
        return {loop: tuple(states.values()) for loop, states in distinct.items()}

    def see(self, loop: Loop, iteration: int, state: ConcreteState) -> None:
        """Keep a copy of the state at a loop's head, if it is new and wanted."""
        seen = self._seen[loop.number].get(iteration)
        if seen is None or len(seen) == self._kept:
            return
        key = tuple(tuple(sorted(v.items())) if isinstance(v, dict) else v for v in state.values())
        if key not in seen:
            seen[key] = copied(state)


def _pool(program: Program, semantics: Semantics) -> tuple[int, ...]:
    """The values to draw from: small ones, the program's literals and neighbours, and extremes."""
    near = {
        node.value + offset
        for expression in expressions_in(program.body)
        for node in walk(expression)
        if isinstance(node, Constant)
        for offset in (-1, 0, 1)
    }
    signed = all(t.signed or t.element == BOOL for t in program.types.values())
    wide = semantics is Semantics.INT32 or not signed
    extremes = (INT_MIN, INT_MAX) if wide else (-1000, 1000)
    plain = (*_SMALL, *_SMALL, *sorted(near))
    return plain + extremes * (1 + len(plain) // _COMMON)
