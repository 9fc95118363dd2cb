"""Counterexamples: failed obligations of invariants with values of variables.

A counterexample proves nothing: no run need reach the state of Z3 that falsifies an obligation. It
describes a state that a proposal must exclude.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import cast

import z3

from loop_invariants.generation.dynamic import tracked_variables
from loop_invariants.interpreter.evaluator import ConcreteState
from loop_invariants.interpreter.simulation import filter_unrefuted
from loop_invariants.ir.expressions import Expression, Semantics, Type, format_c
from loop_invariants.ir.statements import Loop, Program
from loop_invariants.verification.houdini import (
    STEPS_PER_SECOND,
    Candidate,
    Encoding,
    has_products,
    to_z3_limit,
)
from loop_invariants.verification.z3_encoding import SymbolicState

_MAX_VARIABLES = 8
"""Maximum number of variables in the description of a state."""

_SMALL_VALUES = (9, 99)
"""Magnitudes of numbers that are tried first, since small numbers are easy to read."""

_QUERY_SECONDS = 0.5
"""Maximum seconds of each query, counted in Z3's steps."""


class Obligation(StrEnum):
    """The obligation of an invariant that a candidate failed."""

    RUN = "run"
    """Holds in every state in which a concrete run reached the loop."""
    BASE = "base"
    """Holds where the loop is first reached."""
    STEP = "step"
    """Is preserved by an iteration of the loop."""
    USE = "use"
    """Implies the assertions, together with the other invariants."""


@dataclass(frozen=True)
class FailedObligation:
    """A failed obligation with its counterexample.

    Attributes:
        obligation: the obligation.
        loop: the loop number.
        candidate: the condition that failed; None if the proven invariants do not suffice.
        values: values of the loop's variables in the counterexample: where the loop is reached, or
            before an iteration.
        values_after: values after the iteration, for `STEP`; else empty.
    """

    obligation: Obligation
    loop: int
    candidate: Expression | None
    values: Mapping[str, int]
    values_after: Mapping[str, int] = field(default_factory=dict)

    def describe(self) -> str:
        """Describe the failure in a line for a reader or a model."""
        values, after = _format_values(self.values), _format_values(self.values_after)
        if self.candidate is None:
            return f"with {values} the program goes wrong although all of these invariants hold"
        text = format_c(self.candidate)
        problem = f"{text} is no invariant"
        match self.obligation:
            case Obligation.RUN:
                return f"{problem}: a run comes to the loop with {values}"
            case Obligation.BASE:
                return f"{problem}: it is false where the loop begins, with {values}"
            case _:
                # The candidate may be an invariant, if no run reaches the state before the
                # iteration.
                return f"a round may break {text}: true with {values}, false after it, with {after}"


class CounterexampleFinder:
    """A finder of the reasons why candidates do not verify a program.

    Args:
        program: the program.
        semantics: the semantics of the program's integers.
        head_states: the states in which concrete runs reached each loop, by loop number.
    """

    def __init__(
        self,
        program: Program,
        semantics: Semantics,
        head_states: Mapping[int, Sequence[ConcreteState]],
    ) -> None:
        self._program = program
        self._semantics = semantics
        self._head_states = head_states
        is_int32 = semantics is Semantics.INT32
        # As in `Prover`, the encoding that decides most queries on such a program comes first.
        encoding_modes = (not has_products(program), False) if is_int32 else (False,)
        self._encodings = [
            _CounterexampleEncoding(program, semantics, as_integers)
            for as_integers in dict.fromkeys(encoding_modes)
        ]
        self._loops = {loop.number: loop for loop in program.loops}

    def find_failed_obligation(
        self, candidate: Candidate, invariants: Sequence[Candidate]
    ) -> FailedObligation | None:
        """Find the obligation that a candidate fails, given proven invariants.

        Returns:
            None if the solver's limits prevent an answer, or the candidate passes base and step.
        """
        state = self._find_refuting_state(candidate)
        loop = self._loops[candidate.loop]
        # A state of a run is certain to be reachable, unlike a state of Z3.
        if state is not None:
            values = {
                # arrays, whose values are no numbers, are not selected
                name: int(cast(int, state[name]))
                for name in _select_variables(self._program, loop, state)
            }
            return FailedObligation(Obligation.RUN, candidate.loop, candidate.expression, values)
        return self._query_encodings(
            lambda reading: reading.find_failed_case(candidate, invariants, loop)
        )

    def find_violation(self, invariants: Sequence[Candidate]) -> tuple[FailedObligation, ...]:
        """Find a state for each loop on a path to a violation, given proven invariants.

        Returns:
            An empty tuple without such a path, or if the solver's limits prevent an answer.
        """
        for encoding in self._encodings:
            for goal in encoding.goals:
                violation = encoding.find_violating_states(
                    goal.path, goal.condition, invariants, self._loops
                )
                if violation:
                    return violation
        return ()

    def _query_encodings(
        self, query: Callable[["_CounterexampleEncoding"], FailedObligation | None]
    ) -> FailedObligation | None:
        return next((failure for r in self._encodings if (failure := query(r)) is not None), None)

    def _find_refuting_state(self, candidate: Candidate) -> ConcreteState | None:
        """Find a state of a run in which a candidate is false, by binary search."""
        states = self._head_states[candidate.loop]

        def is_satisfied(some: Sequence[ConcreteState]) -> bool:
            return bool(filter_unrefuted([candidate.expression], some, self._semantics))

        if is_satisfied(states):
            return None
        while len(states) > 1:
            # A half that refutes the candidate contains the state.
            middle = len(states) // 2
            states = states[middle:] if is_satisfied(states[:middle]) else states[:middle]
        return states[0]


class _CounterexampleEncoding(Encoding):
    """A program's verification conditions in one encoding, with models that refute claims."""

    def __init__(self, program: Program, semantics: Semantics, as_integers: bool) -> None:
        super().__init__(program, semantics, as_integers)
        self._program = program

    def find_failed_case(
        self, candidate: Candidate, invariants: Sequence[Candidate], loop: Loop
    ) -> FailedObligation | None:
        """Find the base or step case that a candidate fails."""
        # Base cases come before step cases, so a failed base is reported first.
        for index, case in enumerate(self.induction_cases):
            if case.loop != candidate.loop:
                continue
            claim = self.encode_candidate(candidate, index)
            head_state = self.cut_points[candidate.loop].state
            is_step = case.kind == Obligation.STEP
            assumptions = [*invariants, candidate]
            # A step has values before and after the iteration, a base only values at the head.
            start_state, end_state = (head_state, case.state) if is_step else (case.state, {})
            model = self._find_model([case.path, z3.Not(claim)], assumptions, loop, start_state)
            if model is not None:
                return FailedObligation(
                    Obligation(case.kind),
                    candidate.loop,
                    candidate.expression,
                    self._read_values(model, start_state, loop),
                    self._read_values(model, end_state, loop),
                )
        return None

    def find_violating_states(
        self,
        path: z3.BoolRef,
        condition: z3.BoolRef,
        invariants: Sequence[Candidate],
        loops: Mapping[int, Loop],
    ) -> tuple[FailedObligation, ...]:
        """Find states at the loop heads on a path on which a goal fails."""
        cut_points = self.cut_points
        first_loop = next(iter(loops.values()), None)
        # Without a loop, no head has a state to describe.
        if first_loop is None:
            return ()
        model = self._find_model(
            [path, z3.Not(condition)], invariants, first_loop, cut_points[first_loop.number].state
        )
        if model is None:
            return ()
        return tuple(
            FailedObligation(
                Obligation.USE, n, None, self._read_values(model, cut_points[n].state, loop)
            )
            for n, loop in loops.items()
            if z3.is_true(model.eval(cut_points[n].is_reached))
        )

    def _find_model(
        self,
        claims: Sequence[z3.BoolRef],
        assumptions: Sequence[Candidate],
        loop: Loop,
        state: SymbolicState,
    ) -> z3.ModelRef | None:
        """Find a model of claims under assumptions at the loop heads, small numbers first."""
        hypotheses = [self.encode_assumption(candidate) for candidate in assumptions]
        if not self.is_exact:
            return None  # Z3's counterexample might be spurious
        solver = z3.Solver()
        solver.set("rlimit", to_z3_limit(STEPS_PER_SECOND * _QUERY_SECONDS))
        solver.add(*claims, *hypotheses)
        for size in (*_SMALL_VALUES, None):
            # Each magnitude is a scope of its own, so its bounds do not affect the next.
            solver.push()
            if size is not None:
                solver.add(*self._iter_size_bounds(size, state, loop))
            answer = solver.check()
            model = solver.model() if answer == z3.sat else None
            solver.pop()
            if model is not None:
                return model
        return None

    def _iter_size_bounds(
        self, size: int, state: SymbolicState, loop: Loop
    ) -> Iterator[z3.BoolRef]:
        for name in _select_variables(self._program, loop, state):
            term, type_ = state[name], self._program.types[name]
            # A bit vector that is narrower than the bound satisfies it anyway.
            if z3.is_bv(term) and not type_.signed:
                yield z3.ULE(term, size)
            elif not z3.is_bv(term) or term.size() > size.bit_length():
                yield z3.And(term >= -size, term <= size)

    def _read_values(self, model: z3.ModelRef, state: SymbolicState, loop: Loop) -> dict[str, int]:
        return {
            name: _to_int(model.eval(state[name], True), self._program.types[name])
            for name in _select_variables(self._program, loop, state)
        }


def _select_variables(program: Program, loop: Loop, state: Mapping[str, object]) -> list[str]:
    """Select the variables to describe in a state: integers in the loop's scope."""
    names = (variable.name for variable in tracked_variables(program, loop, _MAX_VARIABLES))
    return [name for name in names if name in state]


def _to_int(value: z3.ExprRef, type_: Type) -> int:
    is_signed = z3.is_bv(value) and type_.signed
    number: int = value.as_signed_long() if is_signed else value.as_long()
    return number


def _format_values(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items()) or "any values"
