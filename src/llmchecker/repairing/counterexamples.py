"""Failed obligations of invariants, with the values of a counterexample.

What is told is no proof of anything: a state of Z3's that falsifies an obligation need not be one
that a run reaches. It is what a proposal must exclude.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import z3

from llmchecker.programs.evaluation import ConcreteState
from llmchecker.programs.expressions import Expression, Semantics, Type, c_text, variables
from llmchecker.programs.runs import unrefuted
from llmchecker.programs.statements import Loop, Program, changed, conditions
from llmchecker.proving.houdini import STEPS, Candidate, counted, has_products
from llmchecker.proving.obligations import Obligations, obligations
from llmchecker.proving.terms import Encoder, SymbolicState

MOST_VARIABLES = 8
"""Variables whose values are told of a state."""

SMALL = (9, 99)
"""Sizes of numbers that are tried first in counterexamples, since small ones are easy to read."""

SECONDS = 0.5
"""The time for one question, counted in Z3's steps."""


class Obligation(StrEnum):
    """What an invariant must fulfil, and a candidate did not."""

    RUN = "run"
    """To hold in every state in which a concrete run reached the loop."""
    BASE = "base"
    """To hold where the loop is first reached."""
    STEP = "step"
    """To be preserved by a round of the loop."""
    USE = "use"
    """To imply the assertions, together with the others."""


@dataclass(frozen=True)
class Failed:
    """An obligation that failed.

    Attributes:
        obligation: which one.
        loop: the number of the loop.
        candidate: the condition that failed; None where what is proven does not suffice.
        values: those of the loop's variables in the counterexample: where the loop is reached, or
            before a round.
        after: after the round, for `STEP`; else empty.
    """

    obligation: Obligation
    loop: int
    candidate: Expression | None
    values: Mapping[str, int]
    after: Mapping[str, int] = field(default_factory=dict)

    def told(self) -> str:
        """One line for a person or a model."""
        values, after = _shown(self.values), _shown(self.after)
        if self.candidate is None:
            return f"with {values} the program goes wrong although all of these invariants hold"
        text = c_text(self.candidate)
        of = f"{text} is no invariant"
        match self.obligation:
            case Obligation.RUN:
                return f"{of}: a run comes to the loop with {values}"
            case Obligation.BASE:
                return f"{of}: it is false where the loop begins, with {values}"
            case _:
                # it may hold in every run, if no run reaches the state before the round
                return f"a round may break {text}: true with {values}, false after it, with {after}"


class Diagnosis:
    """Finds out why candidates do not verify a program.

    Args:
        program: the program.
        semantics: what its integers are.
        heads: the states in which concrete runs reached each loop, by its number.
    """

    def __init__(
        self,
        program: Program,
        semantics: Semantics,
        heads: Mapping[int, Sequence[ConcreteState]],
    ) -> None:
        self._program = program
        self._semantics = semantics
        self._heads = heads
        machine = semantics is Semantics.INT32
        # as in `Prover`: what means the same is asked first in the way that is mostly decided
        kinds = (not has_products(program), False) if machine else (False,)
        self._readings = [_Reading(program, semantics, kind) for kind in dict.fromkeys(kinds)]
        self._loops = {loop.number: loop for loop in program.loops}

    def refuted(self, candidate: Candidate, proven: Sequence[Candidate]) -> Failed | None:
        """The obligation that a candidate does not fulfil, given what is proven.

        None if no limit of the solver allows an answer, or it fulfils both base and step.
        """
        state = self._reached(candidate)
        loop = self._loops[candidate.loop]
        if state is not None:
            values = {name: int(state[name]) for name in _numbers(self._program, loop, state)}
            return Failed(Obligation.RUN, candidate.loop, candidate.expression, values)
        return self._first(lambda reading: reading.not_preserved(candidate, proven, loop))

    def useless(self, proven: Sequence[Candidate]) -> tuple[Failed, ...]:
        """A state for each loop on one way to a violation that what is proven allows.

        Empty if there is none, or no limit of the solver allows an answer.
        """
        for reading in self._readings:
            for goal in reading.made.goals:
                found = reading.violated(goal.path, goal.condition, proven, self._loops)
                if found:
                    return found
        return ()

    def _first(self, question: Callable[["_Reading"], Failed | None]) -> Failed | None:
        return next((found for r in self._readings if (found := question(r)) is not None), None)

    def _reached(self, candidate: Candidate) -> ConcreteState | None:
        """A state of a run in which a candidate is false, by halving."""
        states = self._heads[candidate.loop]

        def holds(some: Sequence[ConcreteState]) -> bool:
            types = self._program.types
            return bool(unrefuted([candidate.expression], some, self._semantics, types))

        if holds(states):
            return None
        while len(states) > 1:
            half = len(states) // 2
            states = states[half:] if holds(states[:half]) else states[:half]
        return states[0]


class _Reading:
    """A program's obligations in one encoding."""

    def __init__(self, program: Program, semantics: Semantics, numbers: bool) -> None:
        self._encoder = Encoder(semantics, program.types, numbers)
        self.made: Obligations = obligations(program, self._encoder)
        self._program = program

    def not_preserved(
        self, candidate: Candidate, proven: Sequence[Candidate], loop: Loop
    ) -> Failed | None:
        """The base or step case that a candidate fails."""
        for case in self.made.preservations:
            if case.loop != candidate.loop:
                continue
            wanted = self._truth(candidate, case.state)
            head = self.made.heads[candidate.loop].state
            step = case.kind == Obligation.STEP
            assumed = [*proven, candidate]
            before, after = (head, case.state) if step else (case.state, {})
            model = self._model([case.path, z3.Not(wanted)], assumed, loop, before)
            if model is not None:
                return Failed(
                    Obligation(case.kind),
                    candidate.loop,
                    candidate.expression,
                    self._values(model, before, loop),
                    self._values(model, after, loop),
                )
        return None

    def violated(
        self,
        path: z3.BoolRef,
        condition: z3.BoolRef,
        proven: Sequence[Candidate],
        loops: Mapping[int, Loop],
    ) -> tuple[Failed, ...]:
        """The states at the loops' heads on a way on which a goal fails."""
        heads = self.made.heads
        first = next(iter(loops.values()), None)
        if first is None:
            return ()
        model = self._model([path, z3.Not(condition)], proven, first, heads[first.number].state)
        if model is None:
            return ()
        return tuple(
            Failed(Obligation.USE, n, None, self._values(model, heads[n].state, loop))
            for n, loop in loops.items()
            if z3.is_true(model.eval(heads[n].reached))
        )

    def _model(
        self,
        claims: Sequence[z3.BoolRef],
        assumed: Sequence[Candidate],
        loop: Loop,
        state: SymbolicState,
    ) -> z3.ModelRef | None:
        """A model of claims under assumptions at the loops' heads, of small numbers if any is."""
        heads = self.made.heads
        known = [
            z3.Implies(heads[c.loop].reached, self._truth(c, heads[c.loop].state)) for c in assumed
        ]
        if not self._encoder.exact:
            return None  # what Z3 found might be no counterexample
        solver = z3.Solver()
        solver.set("rlimit", counted(STEPS * SECONDS))
        solver.add(*claims, *known)
        for size in (*SMALL, None):
            solver.push()
            if size is not None:
                solver.add(*self._within(size, state, loop))
            answer = solver.check()
            model = solver.model() if answer == z3.sat else None
            solver.pop()
            if model is not None:
                return model
        return None

    def _truth(self, candidate: Candidate, state: SymbolicState) -> z3.BoolRef:
        term = self._encoder.truth(candidate.expression, state)
        self._encoder.checks.clear()
        return term

    def _within(self, size: int, state: SymbolicState, loop: Loop) -> Iterator[z3.BoolRef]:
        for name in _numbers(self._program, loop, state):
            term, type_ = state[name], self._program.types[name]
            if z3.is_bv(term) and not type_.signed:
                yield z3.ULE(term, size)
            elif not z3.is_bv(term) or term.size() > size.bit_length():
                yield z3.And(term >= -size, term <= size)

    def _values(self, model: z3.ModelRef, state: SymbolicState, loop: Loop) -> dict[str, int]:
        return {
            name: _number(model.eval(state[name], True), self._program.types[name])
            for name in _numbers(self._program, loop, state)
        }


def _numbers(program: Program, loop: Loop, state: Mapping[str, object]) -> list[str]:
    """The variables of a state whose values are told: numbers in the loop's scope.

    Of many, those come first that the program's conditions name, then those that the loop changes.
    """
    names = [name for name in loop.scope if name in state and not program.types[name].array]
    if len(names) > MOST_VARIABLES:
        named = frozenset().union(*map(variables, conditions(program.body)))
        moved = changed((loop,))
        names.sort(key=lambda name: (name not in named, name not in moved))
    return names[:MOST_VARIABLES]


def _number(value: z3.ExprRef, type_: Type) -> int:
    if z3.is_bv(value):
        return value.as_signed_long() if type_.signed else value.as_long()
    return value.as_long()


def _shown(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items()) or "any values"
