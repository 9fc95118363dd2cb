"""Houdini: the largest set of candidates that are invariants together (Flanagan and Leino 2001).

All candidates of all loops are assumed at the loop heads. Candidates that a base or step case
refutes are dropped, until none is refuted. The remaining ones are proven, and they are the same in
whatever order candidates are dropped.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import z3

from llmchecker.programs.expressions import Binary, Cast, Expression, Semantics, variables, walk
from llmchecker.programs.statements import Program, expressions_in
from llmchecker.proving.obligations import obligations
from llmchecker.proving.outcomes import Limit
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


_ALONE = 0.6
"""The part of the time that is left which asking about each candidate alone may take."""

_QUICK = 0.05
"""The part of the time for a question that one about a candidate alone may take."""


_IN_PARTS = 0.2
"""The part of the time for a question that one about a part of the candidates may take."""

_ON_TRIAL = 0.5
"""The part of the time that is left which leaving out invariants on trial may take."""

_QUICK_TRIAL = 0.2
"""The part of the time for a question that one on trial may take."""

_OFTEN = 25
"""After so many invariants that were found alone it is asked whether the assertions follow."""


_REASONS = {
    "max. resource limit exceeded": {Limit.SOLVER_STEPS},
    "timeout": {Limit.CLOCK},
    "canceled": {Limit.CLOCK},
}
"""What Z3 says of a question that a limit left open."""


class ProverTimeout(Exception):
    """The time for a program's proof has run out."""


class _Reading:
    """A program's obligations in one encoding, and candidates as terms of it.

    Attributes:
        preservations: the base and step of every loop.
        goals: what must follow.
    """

    def __init__(self, program: Program, semantics: Semantics, numbers: bool) -> None:
        self._encoder = Encoder(semantics, program.types, numbers)
        made = obligations(program, self._encoder)
        self._heads = made.heads
        self.preservations = made.preservations
        self.goals = made.goals
        self._terms: dict[tuple[Candidate, int | None], z3.BoolRef] = {}

    @property
    def exact(self) -> bool:
        """Whether a counterexample is one of the program."""
        return self._encoder.exact

    def term(self, candidate: Candidate, place: int | None) -> z3.BoolRef:
        """A candidate at a base or step case, by its index; for None, at the head of its loop."""
        key = (candidate, place)
        if key not in self._terms:
            at = self._heads[candidate.loop] if place is None else self.preservations[place]
            self._terms[key] = self._encoder.truth(candidate.expression, at.state)
            # Candidates need no ranges: as a formula, an element out of range is some number.
            self._encoder.checks.clear()
        return self._terms[key]

    def assumed(self, candidate: Candidate) -> z3.BoolRef:
        """The candidate where its loop is reached."""
        return z3.Implies(self._heads[candidate.loop].reached, self.term(candidate, None))


class Prover:
    """Proves invariants of one program.

    Args:
        program: the program.
        semantics: what its integers are.
        seconds: the most time for one question to the solver. It is counted in the solver's own
            steps, `STEPS` a second, so that a busy machine changes no answer.
        deadline: the value of `time.process_time()` after which no more questions are asked.

    Attributes:
        limits: which limits left questions to the solver open.
        undecided: the candidates that it left open when it was asked about each alone. They are not
            asked about again: every question that they are part of takes long.
    """

    def __init__(
        self,
        program: Program,
        semantics: Semantics,
        seconds: float = 5.0,
        deadline: float = float("inf"),
    ) -> None:
        self.limits: set[Limit] = set()
        self.undecided: set[Candidate] = set()
        # Numbers that wrap around mean the same as bit vectors. What one cannot decide in time, the
        # other often can: sums of numbers are far easier, products and bits of vectors.
        products = has_products(program)
        kinds = (not products, products) if semantics is Semantics.INT32 else (False,)
        self._readings = [_Reading(program, semantics, numbers) for numbers in kinds]
        self._seconds = seconds / len(kinds)
        self._deadline = deadline
        self._together = 1

    @contextlib.contextmanager
    def within(self, share: float, question: float = 1.0) -> Iterator[None]:
        """Answer questions in a part of the time that is left, and have the rest afterwards.

        Args:
            share: the part, from 0 to 1.
            question: the part of the time for one question that one may take meanwhile.
        """
        now, deadline, seconds = time.process_time(), self._deadline, self._seconds
        self._deadline = now + share * (deadline - now)
        self._seconds = question * seconds
        try:
            yield
        finally:
            self._deadline, self._seconds = deadline, seconds

    def inductive(self, candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
        """The largest set of the candidates that are invariants together, in the given order.

        A candidate that the solver cannot decide in time is left out.

        Raises:
            ProverTimeout: the deadline has passed.
        """
        active = [c for c in dict.fromkeys(candidates) if c not in self.undecided]
        settled = False
        self._together = len(active) or 1
        # A dropped candidate may have supported others, so all cases are checked again.
        while not settled:
            settled = True
            for place in range(len(self._readings[0].preservations)):
                kept = self._kept(active, place)
                settled = settled and len(kept) == len(active)
                active = kept
        return tuple(active)

    def alone(
        self, candidates: Iterable[Candidate], proven: Sequence[Candidate]
    ) -> tuple[Candidate, ...]:
        """Proven invariants, and each candidate that is one by itself, given those before it.

        Of very many candidates, this decides in time what `inductive` does not, since each question
        is a small one. It misses those that need each other. It ends where the time is over, or
        where every assertion follows.
        """
        known = list(proven)
        places = self._readings[0].preservations
        with contextlib.suppress(ProverTimeout), self.within(_ALONE, question=_QUICK):
            for candidate in candidates:
                mine = [n for n, place in enumerate(places) if place.loop == candidate.loop]
                together = [*known, candidate]
                if all(
                    self._refuted(together, [candidate], (), place)[0] == z3.unsat
                    for place in reversed(mine)
                ):
                    known = together
                    if (len(known) - len(proven)) % _OFTEN == 0 and self.follows(known):
                        break
        return tuple(known)

    def follows(self, invariants: Sequence[Candidate]) -> bool:
        """Whether every assertion, and every range, follows from proven invariants.

        Raises:
            ProverTimeout: the deadline has passed.
        """
        return self._core_of_goals(invariants) is not None

    def needed(self, invariants: Sequence[Candidate]) -> tuple[Candidate, ...]:
        """A small set of proven invariants that is inductive by itself and proves the assertions.

        Unsatisfiable cores tell which invariants the proofs use. Each of these is then left out on
        trial, first those in more than 64 bits, which ESBMC finds hard, then the last. No proper
        subset of the result is inductive and proves the assertions, unless a question takes too
        long or the time runs out.

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
        wide = [c for c in reversed(kept) if _is_wide(c.expression)]
        with contextlib.suppress(ProverTimeout), self.within(_ON_TRIAL, question=_QUICK_TRIAL):
            for candidate in (*wide, *(c for c in reversed(kept) if c not in wide)):
                # What is left open without one may be decided with it again.
                self.undecided = set()
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
            for place, preservation in enumerate(self._readings[0].preservations):
                wanted = [c for c in invariants if c in open_ and c.loop == preservation.loop]
                core = self._core_of_case(invariants, wanted, place) if wanted else set()
                if core is None:
                    return None
                further |= core
            open_ = further - used
        return used

    def _core_of_case(
        self, invariants: Sequence[Candidate], wanted: Sequence[Candidate], place: int
    ) -> set[Candidate] | None:
        """Invariants by which a base or step case preserves others; None if that is not found.

        Those that are too many to be decided together are decided one by one.
        """
        core = self._core(invariants, partial(_preserved, wanted=wanted, place=place))
        if core is not None or len(wanted) == 1:
            return core
        cores = [self._core_of_case(invariants, [candidate], place) for candidate in wanted]
        return None if None in cores else set().union(*cores)

    def _kept(self, active: list[Candidate], place: int) -> list[Candidate]:
        """The active candidates that a base or step case does not refute.

        Candidates that are too many to be decided together are decided in parts, the smaller the
        longer it takes.
        """
        loop = self._readings[0].preservations[place].loop
        active = list(active)
        open_ = [c for c in active if c.loop == loop]
        while open_:
            part = open_[: self._together]
            # All together have the time of a question, and so has one: parts only lead to it.
            share = _IN_PARTS if 1 < len(part) < len(active) else 1.0
            with self.within(1.0, question=share):
                answer, refuted = self._refuted(active, part, open_, place)
            if answer == z3.unsat:
                open_ = open_[len(part) :]
                continue
            if not refuted and len(part) > 1:
                self._together = len(part) // 2
                continue
            if not refuted:
                # There is no answer, or Z3's model leaves the value of a quantifier open.
                self.undecided.update(part)
                refuted = set(part)
            open_ = [c for c in open_ if c not in refuted]
            active = [c for c in active if c not in refuted]
        return active

    def _refuted(
        self,
        active: Sequence[Candidate],
        asked: Sequence[Candidate],
        others: Sequence[Candidate],
        place: int,
    ) -> tuple[z3.CheckSatResult, set[Candidate]]:
        """Whether candidates are all preserved.

        Returns:
            `unsat` if they are; else the candidates that a counterexample refutes, which may be
            among the others too.
        """
        for reading in self._readings:
            case = reading.preservations[place]
            wanted = z3.And([reading.term(c, place) for c in asked])
            solver = z3.Solver()
            solver.add(case.path, z3.Not(wanted), *map(reading.assumed, active))
            answer = self._check(solver)
            if answer == z3.unsat:
                return answer, set()
            if answer == z3.sat and (reading.exact or reading is self._readings[-1]):
                model = solver.model()
                truths = ((c, model.eval(reading.term(c, place), True)) for c in others)
                return answer, {c for c, truth in truths if z3.is_false(truth)}
        return z3.unknown, set()

    def _core_of_goals(self, invariants: Sequence[Candidate]) -> set[Candidate] | None:
        """Invariants from which all goals follow; None if one does not follow."""
        used: set[Candidate] = set()
        for number in range(len(self._readings[0].goals)):
            core = self._core(invariants, partial(_asked, number=number))
            if core is None:
                return None
            used |= core
        return used

    def _core(
        self,
        invariants: Sequence[Candidate],
        question: Callable[[_Reading], tuple[z3.BoolRef, z3.BoolRef]],
    ) -> set[Candidate] | None:
        """Invariants from which a condition follows on a path; None if it does not follow.

        Args:
            invariants: what may be assumed.
            question: the path and the condition in an encoding.
        """
        for reading in self._readings:
            path, wanted = question(reading)
            solver = z3.Solver()
            solver.add(path, z3.Not(wanted))
            # Each invariant hangs on a name that is assumed; the core then says which are used.
            names = {z3.Bool(f"candidate!{n}"): c for n, c in enumerate(invariants)}
            solver.add(*(z3.Implies(name, reading.assumed(c)) for name, c in names.items()))
            answer = self._check(solver, *names)
            if answer == z3.unsat:
                return {names[name] for name in solver.unsat_core()}
            if answer == z3.sat and reading.exact:
                break
        return None

    def _check(self, solver: z3.Solver, *assumptions: z3.BoolRef) -> z3.CheckSatResult:
        left = self._deadline - time.process_time()
        if left <= 0:
            raise ProverTimeout
        seconds = min(self._seconds, left)
        solver.set("rlimit", counted(STEPS * seconds))
        solver.set("timeout", counted(1000 * LONGEST * seconds))
        answer = solver.check(*assumptions)
        if answer == z3.unknown:
            self.limits |= _REASONS.get(solver.reason_unknown(), set())
        return answer


def _preserved(
    reading: _Reading, wanted: Sequence[Candidate], place: int
) -> tuple[z3.BoolRef, z3.BoolRef]:
    """That candidates are preserved, as a question to `Prover._core`."""
    return reading.preservations[place].path, z3.And([reading.term(c, place) for c in wanted])


def _asked(reading: _Reading, number: int) -> tuple[z3.BoolRef, z3.BoolRef]:
    """That a goal follows, as a question to `Prover._core`."""
    goal = reading.goals[number]
    return goal.path, goal.condition


def _is_wide(expression: Expression) -> bool:
    """Whether an expression computes in more than 64 bits."""
    return any(isinstance(part, Cast) and part.type.bits > 64 for part in walk(expression))


def counted(number: float) -> int:
    """A number that Z3 takes as a limit, for which it has 32 bits; 0 would be no limit."""
    return max(1, min(int(number), 2**32 - 2))


def has_products(program: Program) -> bool:
    """Whether variables of a program are multiplied with, or divided by, each other."""
    return any(
        isinstance(part, Binary)
        and part.operator in ("*", "/", "%")
        and variables(part.left)
        and variables(part.right)
        for expression in expressions_in(program.body)
        for part in walk(expression)
    )
