"""Houdini: the largest set of candidates that are invariants together (Flanagan and Leino 2001).

All candidates of all loops are assumed at the loop heads. Candidates that a base or step case
refutes are dropped, until none is refuted. The remaining ones are proven, and they are the same in
whatever order candidates are dropped.
"""

import contextlib
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import z3

from llmchecker.programs.expressions import Expression, Semantics
from llmchecker.programs.statements import Program
from llmchecker.proving.obligations import Preservation, obligations
from llmchecker.proving.terms import Encoder


@dataclass(frozen=True)
class Candidate:
    """An expression that may be an invariant of a loop.

    Attributes:
        loop: the number of the loop.
        expression: the condition.
    """

    loop: int
    expression: Expression


STEPS = 4_000_000
"""About how many steps Z3 takes in a second of processor time, as it counts them (`rlimit`)."""

LONGEST = 20
"""A question may take so many times the seconds by the clock: not all that Z3 does is counted."""


class ProverTimeout(Exception):
    """The time for a program's proof has run out."""


class Prover:
    """Proves invariants of one program.

    Args:
        program: the program.
        semantics: what its integers are.
        seconds: the most time for one question to the solver. It is counted in the solver's own
            steps, `STEPS` a second, so that a busy machine changes no answer.
        deadline: the value of `time.process_time()` after which no more questions are asked.

    Attributes:
        given_up: how many questions the solver left open after so many steps.
    """

    def __init__(
        self,
        program: Program,
        semantics: Semantics,
        seconds: float = 5.0,
        deadline: float = float("inf"),
    ) -> None:
        self.given_up = 0
        self._encoder = Encoder(semantics, program.types)
        self._obligations = obligations(program, self._encoder)
        self._seconds = seconds
        self._deadline = deadline
        self._terms: dict[tuple[Candidate, int], z3.BoolRef] = {}

    @contextlib.contextmanager
    def within(self, share: float) -> Iterator[None]:
        """Answer questions in a part of the time that is left, and have the rest afterwards.

        Args:
            share: the part, from 0 to 1.
        """
        now, deadline = time.process_time(), self._deadline
        self._deadline = now + share * (deadline - now)
        try:
            yield
        finally:
            self._deadline = deadline

    def inductive(self, candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
        """The largest set of the candidates that are invariants together, in the given order.

        A candidate that the solver cannot decide in time is left out.

        Raises:
            ProverTimeout: the deadline has passed.
        """
        active = list(dict.fromkeys(candidates))
        settled = False
        # A dropped candidate may have supported others, so all cases are checked again.
        while not settled:
            settled = True
            for preservation in self._obligations.preservations:
                kept = self._kept(active, preservation)
                settled = settled and len(kept) == len(active)
                active = kept
        return tuple(active)

    def follows(self, invariants: Sequence[Candidate]) -> bool:
        """Whether every assertion, and every range, follows from proven invariants.

        Raises:
            ProverTimeout: the deadline has passed.
        """
        return self._core_of_goals(invariants) is not None

    def needed(self, invariants: Sequence[Candidate]) -> tuple[Candidate, ...]:
        """A small set of proven invariants that is inductive by itself and proves the assertions.

        Unsatisfiable cores tell which invariants the proofs use. Each of these is then left out on
        trial, beginning with the last. No proper subset of the result is inductive and proves the
        assertions, unless a question takes too long or the time runs out.

        Args:
            invariants: an inductive set from which every assertion follows.
        """
        used = None
        with contextlib.suppress(ProverTimeout):
            found = self._core_of_goals(invariants)
            if found is None:
                raise ValueError("the assertions do not follow from these invariants")
            used = self._closed(found, invariants)
        if used is None:
            return tuple(invariants)
        kept = tuple(candidate for candidate in invariants if candidate in used)
        with contextlib.suppress(ProverTimeout):
            for candidate in reversed(kept):
                fewer = self.inductive(other for other in kept if other != candidate)
                if len(fewer) < len(kept) and self.follows(fewer):
                    kept = fewer
        return kept

    def _closed(
        self, found: set[Candidate], invariants: Sequence[Candidate]
    ) -> set[Candidate] | None:
        """Some invariants and all that their proofs use, directly or through other proofs.

        None if a proof is not found again in time.
        """
        used: set[Candidate] = set()
        open_ = set(found)
        while open_:
            used |= open_
            further: set[Candidate] = set()
            for preservation in self._obligations.preservations:
                goals = [c for c in invariants if c in open_ and c.loop == preservation.loop]
                if goals:
                    wanted = z3.And([self._term(c, preservation) for c in goals])
                    core = self._core(invariants, preservation.path, wanted)
                    if core is None:
                        return None
                    further |= core
            open_ = further - used
        return used

    def _kept(self, active: list[Candidate], preservation: Preservation) -> list[Candidate]:
        """The active candidates that a base or step case does not refute."""
        mine = [c for c in active if c.loop == preservation.loop]
        while mine:
            terms = [self._term(c, preservation) for c in mine]
            solver = self._solver(preservation.path, active)
            solver.add(z3.Not(z3.And(terms)))
            answer = self._check(solver)
            if answer == z3.unsat:
                break
            dropped = set()
            if answer == z3.sat:
                model = solver.model()
                dropped = {
                    c
                    for c, term in zip(mine, terms, strict=True)
                    if z3.is_false(model.eval(term, model_completion=True))
                }
            if not dropped:
                # There is no answer, or Z3's model leaves the value of a quantifier open.
                dropped = set(self._undecided(active, mine, preservation))
            mine = [c for c in mine if c not in dropped]
            active = [c for c in active if c not in dropped]
            if not dropped:
                break
        return active

    def _undecided(
        self, active: list[Candidate], mine: list[Candidate], preservation: Preservation
    ) -> Iterable[Candidate]:
        """The candidates for which no proof is found when each is asked about alone."""
        for candidate in mine:
            solver = self._solver(preservation.path, active)
            solver.add(z3.Not(self._term(candidate, preservation)))
            if self._check(solver) != z3.unsat:
                yield candidate

    def _term(self, candidate: Candidate, place: Preservation | None) -> z3.BoolRef:
        """A candidate as a term at a base or step case; for None, at the head of its loop."""
        key = (candidate, id(place))
        if key not in self._terms:
            head = self._obligations.heads[candidate.loop]
            state = head.state if place is None else place.state
            self._terms[key] = self._encoder.truth(candidate.expression, state)
            # Candidates need no ranges: as a formula, an element out of range is some number.
            self._encoder.checks.clear()
        return self._terms[key]

    def _solver(self, path: z3.BoolRef, active: Iterable[Candidate]) -> z3.Solver:
        """A solver that assumes a path, and all active candidates at the heads of their loops."""
        solver = z3.Solver()
        solver.add(path)
        for candidate in active:
            reached = self._obligations.heads[candidate.loop].reached
            solver.add(z3.Implies(reached, self._term(candidate, None)))
        return solver

    def _core_of_goals(self, invariants: Sequence[Candidate]) -> set[Candidate] | None:
        """Invariants from which all goals follow; None if one does not follow."""
        used: set[Candidate] = set()
        for goal in self._obligations.goals:
            core = self._core(invariants, goal.path, goal.condition)
            if core is None:
                return None
            used |= core
        return used

    def _core(
        self, invariants: Sequence[Candidate], path: z3.BoolRef, wanted: z3.BoolRef
    ) -> set[Candidate] | None:
        """Invariants from which a condition follows on a path; None if it does not follow."""
        solver = z3.Solver()
        solver.add(path, z3.Not(wanted))
        # Each invariant hangs on a name that is assumed; the solver's core then says which it used.
        names = {}
        for number, candidate in enumerate(invariants):
            name = z3.Bool(f"candidate!{number}")
            names[name] = candidate
            reached = self._obligations.heads[candidate.loop].reached
            solver.add(z3.Implies(z3.And(name, reached), self._term(candidate, None)))
        if self._check(solver, *names) != z3.unsat:
            return None
        return {names[name] for name in solver.unsat_core()}

    def _check(self, solver: z3.Solver, *assumptions: z3.BoolRef) -> z3.CheckSatResult:
        left = self._deadline - time.process_time()
        if left <= 0:
            raise ProverTimeout
        seconds = min(self._seconds, left)
        solver.set("rlimit", counted(STEPS * seconds))
        solver.set("timeout", counted(1000 * LONGEST * seconds))
        answer = solver.check(*assumptions)
        if answer == z3.unknown:
            self.given_up += 1
        return answer


def counted(number: float) -> int:
    """A number that Z3 takes as a limit, for which it has 32 bits; 0 would be no limit."""
    return max(1, min(int(number), 2**32 - 2))
