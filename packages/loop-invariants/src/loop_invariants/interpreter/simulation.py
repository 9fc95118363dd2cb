"""Concrete execution of programs, which can refute a candidate or an assertion.

A run draws every nondeterministic value from a seeded generator and stops after a maximum number of
loop iterations. Integers follow the semantics, as in `verification.z3_encoding`.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loop_invariants.interpreter.evaluator import (
    CompiledExpression,
    ConcreteState,
    Evaluator,
    Undetermined,
    Violation,
    copy_state,
)
from loop_invariants.interpreter.machine import Machine
from loop_invariants.ir.expressions import (
    BOOL,
    INT_MAX,
    INT_MIN,
    Expression,
    Semantics,
    Type,
    convert_number,
)
from loop_invariants.ir.statements import Loop, Program, collect_constants, iter_statements

_SMALL_VALUES = tuple(range(-3, 11))

_MAX_STEPS = 10_000_000
"""Maximum number of statements in all runs of a program together: a few seconds."""

_MIN_RUNS = 5

_DECISION_SHARE = 0.7
"""Share of function results that are 0 or 1 in runs that search for long paths."""

_VALUES_PER_EXTREME = 40
"""Number of ordinary values in the pool for each copy of the extreme values."""

_Draw = Callable[[Type, str], int]
"""Draws a value of a type; the name is that of an uninitialized variable, else empty."""

_SAMPLED_ITERATIONS = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55)
"""Iterations whose states are recorded, with the same limit for each.

Early iterations are dense, since runs differ most at their beginning.
"""


@dataclass(frozen=True)
class NondetValue:
    """A nondeterministic value of a run.

    Attributes:
        name: name of the uninitialized variable; empty for the result of a function.
        value: value in the run.
    """

    name: str
    value: int


@dataclass(frozen=True)
class HeadState:
    """A state of a run at the head of a loop."""

    line: int
    values: Mapping[str, int]


@dataclass(frozen=True)
class Failure:
    """A run that violates the program.

    Attributes:
        line: line of the failed assertion; 0 if an index, a divisor or an array's length is out of
            range.
        trace: nondeterministic values and loop heads of the run, in order.
    """

    line: int
    trace: tuple[NondetValue | HeadState, ...]


@dataclass(frozen=True)
class _SimulationResult:
    """Result of concrete runs.

    Attributes:
        head_states: distinct states at the head of every loop, by number of the loop.
        failure: first run that violates the program; None if no run does.
    """

    head_states: Mapping[int, Sequence[ConcreteState]]
    failure: Failure | None


def run_program(
    program: Program,
    semantics: Semantics,
    runs: int = 400,
    max_iterations: int = 60,
    max_states: int = 50,
    seed: int = 0,
) -> _SimulationResult:
    """Run a program several times with random nondeterministic values.

    Args:
        program: the program.
        semantics: semantics of its integers.
        runs: number of runs; half as many additional runs draw mostly truth values. Large programs
            get fewer runs.
        max_iterations: maximum number of iterations of all loops together in a run.
        max_states: maximum number of distinct states that are returned for a loop and each of the
            iterations 0, 1, 2, 3, 5, 8, 13, 21, 34 and 55.
        seed: seed of the generator; equal seeds give equal runs.
    """
    size = max(1, sum(1 for _ in iter_statements(program.body)))
    runs = min(runs, max(_MIN_RUNS, _MAX_STEPS // (max_iterations * size)))
    machine = Machine(program, semantics, max_iterations)
    pool = _build_pool(program, semantics)
    recorder = _HeadStateRecorder(program, max_states)
    failure = None

    def build_draw(number: int) -> _Draw:
        # In the last third, function results are mostly truth values, as branches need them.
        rng = random.Random(f"{seed} {number}")
        return _build_draw(pool, rng, semantics, has_decisions=number >= runs)

    for number in range(runs + runs // 2):
        machine.draw, machine.on_head = build_draw(number), recorder.record
        line = machine.run(machine.draw_state())
        if line is not None and failure is None:
            machine.draw = build_draw(number)  # for the same run again, now written down
            failure = Failure(line, record_trace(machine, program))
    return _SimulationResult(recorder.collect_states(), failure)


def filter_unrefuted(
    expressions: Sequence[Expression], states: Sequence[ConcreteState], semantics: Semantics
) -> tuple[Expression, ...]:
    """Return the expressions that no state refutes.

    A state in which an expression has no value does not refute it.
    """
    # The draw is never used: expressions of candidates are deterministic.
    evaluator = Evaluator(semantics, lambda type_: 0)

    def holds(expression: Expression) -> bool:
        value = evaluator.interpret(expression)
        return all(_is_not_false(value, state) for state in states)

    return tuple(e for e in expressions if holds(e))


def _is_not_false(value: CompiledExpression, state: ConcreteState) -> bool:
    try:
        return bool(value(state))
    except (Undetermined, Violation):
        return True


def _build_draw(
    pool: Sequence[int],
    rng: random.Random,
    semantics: Semantics,
    has_decisions: bool,
) -> _Draw:
    """Build a function that draws values of types.

    Args:
        pool: values to draw from.
        rng: source of randomness.
        semantics: semantics of the integers.
        has_decisions: whether most function results are 0 or 1, equally often. Otherwise the last
            of many consecutive branches are rarely reached.
    """

    def draw(type_: Type, name: str) -> int:
        if type_ == BOOL or (has_decisions and not name and rng.random() < _DECISION_SHARE):
            return rng.getrandbits(1)
        # Many programs compare a value with 0 only, and would rarely draw it otherwise.
        number = rng.choice((0, 1, 1) if rng.random() < 0.3 else pool)
        return convert_number(number, Type(64), type_, semantics)

    return draw


def record_trace(machine: Machine, program: Program) -> tuple[NondetValue | HeadState, ...]:
    """Repeat a run and record its nondeterministic values and loop heads."""
    events: list[NondetValue | HeadState] = []
    state, draw = machine.draw_state(), machine.draw

    def record_draw(type_: Type, name: str) -> int:
        value = draw(type_, name)
        events.append(NondetValue(name, value))
        return value

    def record_head(loop: Loop, iteration: int, state: ConcreteState) -> None:
        # A trace names only integers.
        names = (name for name in loop.scope if not program.types[name].is_array)
        events.append(HeadState(loop.line, {name: state[name] for name in names}))

    machine.draw, machine.on_head = record_draw, record_head
    machine.run(state)
    return tuple(events)


class _HeadStateRecorder:
    """Recorder of the states at loop heads of a program."""

    def __init__(self, program: Program, max_states: int) -> None:
        self._max_states = max_states
        self._states: dict[int, dict[int, dict[tuple[Any, ...], ConcreteState]]] = {
            loop.number: {iteration: {} for iteration in _SAMPLED_ITERATIONS}
            for loop in program.loops
        }

    def collect_states(self) -> dict[int, tuple[ConcreteState, ...]]:
        """Return the recorded states of every loop, without duplicates."""
        states_of_loops = {
            loop: {key: state for states in loop_states.values() for key, state in states.items()}
            for loop, loop_states in self._states.items()
        }
        return {loop: tuple(states.values()) for loop, states in states_of_loops.items()}

    def record(self, loop: Loop, iteration: int, state: ConcreteState) -> None:
        """Copy the state at a loop head, if it is new and the iteration is sampled."""
        recorded_states = self._states[loop.number].get(iteration)
        if recorded_states is None or len(recorded_states) == self._max_states:
            return
        # Dicts of arrays are not hashable.
        key = tuple(tuple(sorted(v.items())) if isinstance(v, dict) else v for v in state.values())
        if key not in recorded_states:
            recorded_states[key] = copy_state(state)


def _build_pool(program: Program, semantics: Semantics) -> tuple[int, ...]:
    """Build the pool: small values, extremes, literals and their neighbours."""
    constants = collect_constants(program.body)
    neighbors = {value + offset for value in constants for offset in (-1, 0, 1)}
    # Unsigned values wrap around even over mathematical integers.
    signed = all(t.signed or t.element_type == BOOL for t in program.types.values())
    has_wide_range = semantics is Semantics.INT32 or not signed
    extreme_values = (INT_MIN, INT_MAX) if has_wide_range else (-1000, 1000)
    # Small values appear twice, so that they are drawn more often.
    ordinary_values = (*_SMALL_VALUES, *_SMALL_VALUES, *sorted(neighbors))
    return ordinary_values + extreme_values * (1 + len(ordinary_values) // _VALUES_PER_EXTREME)
