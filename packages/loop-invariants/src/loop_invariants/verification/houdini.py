"""Houdini: the largest inductive set of candidates (Flanagan and Leino 2001).

All candidates of all loops are assumed at the loop heads. A candidate that a base or step case
refutes is dropped, until no candidate is refuted. The remaining candidates are invariants. The
order in which candidates are dropped does not change the result.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import z3

from loop_invariants.ir.expressions import (
    Binary,
    Cast,
    Expression,
    Semantics,
    iter_subexpressions,
    variables,
)
from loop_invariants.ir.statements import Program, iter_expressions
from loop_invariants.limits import Limit, find_remaining_seconds
from loop_invariants.verification.verification_conditions import build_verification_conditions
from loop_invariants.verification.z3_encoding import Encoder


@dataclass(frozen=True)
class Candidate:
    """A candidate: an expression that may be an invariant of a loop."""

    loop: int
    expression: Expression


STEPS_PER_SECOND = 4_000_000
"""Approximate number of Z3 steps (`rlimit`) in a second of processor time."""

MAX_CLOCK_FACTOR = 20
"""Wall-clock limit as a multiple of the seconds, as `rlimit` misses some work."""


_INDIVIDUAL_TIME_SHARE = 0.6
"""Share of the remaining time for proving candidates individually."""

_INDIVIDUAL_QUERY_SHARE = 0.05
"""Share of a query's time for a query on a single candidate."""


_PARTIAL_QUERY_SHARE = 0.2
"""Share of a query's time for a query on a part of the candidates."""

_MINIMIZE_TIME_SHARE = 0.5
"""Share of the remaining time for minimizing a set of invariants."""

_MINIMIZE_QUERY_SHARE = 0.2
"""Share of a query's time for a query during minimization."""

_CHECK_EVERY = 25
"""Number of individual proofs after which the assertions are checked again."""


_LIMITS_BY_REASON = {
    "max. resource limit exceeded": {Limit.SOLVER_STEPS},
    "timeout": {Limit.CLOCK},
    "canceled": {Limit.CLOCK},
}
"""The limits that cause Z3's reasons for an answer `unknown`."""


class ProverTimeout(Exception):
    """The time limit of a program's proof is exceeded."""


class Encoding:
    """A program's verification conditions in one encoding, with candidate terms.

    Attributes:
        cut_points: head of every loop, by loop number.
        induction_cases: base and step case of every loop.
        goals: conditions that must follow from the invariants.
    """

    def __init__(self, program: Program, semantics: Semantics, as_integers: bool) -> None:
        self._encoder = Encoder(semantics, as_integers)
        conditions = build_verification_conditions(program, self._encoder)
        self.cut_points = conditions.cut_points
        self.induction_cases = conditions.induction_cases
        self.goals = conditions.goals
        self._terms: dict[tuple[Candidate, int | None], z3.BoolRef] = {}

    @property
    def is_exact(self) -> bool:
        """Whether each counterexample of this encoding is one of the program."""
        return self._encoder.is_exact

    def encode_candidate(self, candidate: Candidate, index: int | None) -> z3.BoolRef:
        """Encode a candidate in the induction case `index`, or at its loop head for None."""
        key = (candidate, index)
        if key not in self._terms:
            point = (
                self.cut_points[candidate.loop] if index is None else self.induction_cases[index]
            )
            self._terms[key] = self._encoder.encode_condition(candidate.expression, point.state)
            # Candidates need no range checks: as a formula, an element out of range has any value.
            self._encoder.checks.clear()
        return self._terms[key]

    def encode_assumption(self, candidate: Candidate) -> z3.BoolRef:
        """Encode the assumption that the candidate holds where its loop is reached."""
        return z3.Implies(
            self.cut_points[candidate.loop].is_reached, self.encode_candidate(candidate, None)
        )


class Prover:
    """A prover of the invariants of one program.

    Args:
        program: the program.
        semantics: the semantics of the program's integers.
        seconds: maximum seconds of each solver query, counted as `STEPS_PER_SECOND` solver steps
            a second, so that the load of the machine changes no answer.
        deadline: the value of `time.process_time()` after which queries raise `ProverTimeout`.

    Attributes:
        limits: the limits that left solver queries undecided.
        undecided_candidates: the candidates that a query on each alone left undecided. They are
            excluded from further queries, which would take long with them.
    """

    def __init__(
        self,
        program: Program,
        semantics: Semantics,
        seconds: float = 5.0,
        deadline: float = float("inf"),
    ) -> None:
        self.limits: set[Limit] = set()
        self.undecided_candidates: set[Candidate] = set()
        # Wrapping integers are equivalent to bit vectors. Either may decide a query that the other
        # cannot decide in time: integers are far easier for sums, bit vectors for products and
        # bits.
        is_nonlinear = has_products(program)
        encoding_modes = (
            (not is_nonlinear, is_nonlinear) if semantics is Semantics.INT32 else (False,)
        )
        self._encodings = [
            Encoding(program, semantics, as_integers) for as_integers in encoding_modes
        ]
        self._query_seconds = seconds / len(encoding_modes)
        self._deadline = deadline
        # The number of candidates in one query; undecided queries halve it.
        self._batch_size = 1

    @contextlib.contextmanager
    def time_share(self, share: float, query_share: float = 1.0) -> Iterator[None]:
        """Restrict the queries of a `with` block to a share of the remaining time.

        Args:
            share: share of the remaining time, from 0 to 1.
            query_share: share of the time of each query, from 0 to 1.
        """
        now, deadline, seconds = time.process_time(), self._deadline, self._query_seconds
        self._deadline = now + share * (deadline - now)
        self._query_seconds = query_share * seconds
        try:
            yield
        finally:
            self._deadline, self._query_seconds = deadline, seconds

    def find_inductive_subset(self, candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
        """Find the largest inductive subset of the candidates, in the given order.

        A candidate that the solver cannot decide in time is dropped.

        Raises:
            ProverTimeout: the deadline has passed.
        """
        active = [c for c in dict.fromkeys(candidates) if c not in self.undecided_candidates]
        is_fixpoint = False
        self._batch_size = len(active) or 1
        # A dropped candidate may have supported others, so all cases are checked again.
        while not is_fixpoint:
            is_fixpoint = True
            for index in range(len(self._encodings[0].induction_cases)):
                preserved_candidates = self._select_preserved(active, index)
                is_fixpoint = is_fixpoint and len(preserved_candidates) == len(active)
                active = preserved_candidates
        return tuple(active)

    def prove_individually(
        self, candidates: Iterable[Candidate], invariants: Sequence[Candidate]
    ) -> tuple[Candidate, ...]:
        """Extend proven invariants by each candidate that is inductive relative to them.

        For very many candidates this is faster than `find_inductive_subset`, since each query is
        small. It misses candidates that depend on each other. It stops when its share of the time
        is used or every assertion follows.
        """
        proven_invariants = list(invariants)
        cases = self._encodings[0].induction_cases
        with (
            contextlib.suppress(ProverTimeout),
            self.time_share(_INDIVIDUAL_TIME_SHARE, query_share=_INDIVIDUAL_QUERY_SHARE),
        ):
            for candidate in candidates:
                # A candidate of one loop cannot change the cases of another.
                indices = [n for n, case in enumerate(cases) if case.loop == candidate.loop]
                hypotheses = [*proven_invariants, candidate]
                if all(
                    self._find_refuted(hypotheses, [candidate], (), index)[0] == z3.unsat
                    for index in reversed(indices)
                ):
                    proven_invariants = hypotheses
                    # The check of all assertions is slow, so only every 25th invariant triggers it.
                    if (
                        len(proven_invariants) - len(invariants)
                    ) % _CHECK_EVERY == 0 and self.entails_assertions(proven_invariants):
                        break
        return tuple(proven_invariants)

    def entails_assertions(self, invariants: Sequence[Candidate]) -> bool:
        """Check whether every assertion and every range check follows from invariants.

        Raises:
            ProverTimeout: the deadline has passed.
        """
        return self._find_core_of_goals(invariants) is not None

    def minimize(self, invariants: Sequence[Candidate]) -> tuple[Candidate, ...]:
        """Reduce proven invariants to a small inductive set that proves the assertions.

        Unsatisfiable cores contain the invariants that the proofs use. Each of these is then left
        out on trial, in reverse order. Expressions of more than 64 bits come first, since they
        are hard for ESBMC. No proper subset of the result is inductive and proves the assertions,
        unless a query is undecided or the time limit is exceeded.

        Args:
            invariants: an inductive set from which every assertion follows.
        """
        used_invariants = None
        with contextlib.suppress(ProverTimeout):
            core = self._find_core_of_goals(invariants)
            if core is None:
                raise ValueError("the assertions do not follow from these invariants")
            used_invariants = self._close_under_dependencies(core, invariants)
        # Without the cores in time, the whole set remains a valid proof.
        if used_invariants is None:
            return tuple(invariants)
        current_set = tuple(candidate for candidate in invariants if candidate in used_invariants)
        wide_candidates = [c for c in reversed(current_set) if _is_wide(c.expression)]
        with (
            contextlib.suppress(ProverTimeout),
            self.time_share(_MINIMIZE_TIME_SHARE, query_share=_MINIMIZE_QUERY_SHARE),
        ):
            for candidate in (
                *wide_candidates,
                *(c for c in reversed(current_set) if c not in wide_candidates),
            ):
                # Candidates that are undecided without this one may be decidable with it.
                self.undecided_candidates = set()
                subset = self.find_inductive_subset(c for c in current_set if c != candidate)
                if len(subset) < len(current_set) and self.entails_assertions(subset):
                    current_set = subset
        return current_set

    def _close_under_dependencies(
        self, initial: set[Candidate], invariants: Sequence[Candidate]
    ) -> set[Candidate] | None:
        """Add to invariants all that their proofs use, directly or through other proofs.

        Returns:
            None if a proof is not found again in time.
        """
        closure: set[Candidate] = set()
        worklist = set(initial)
        while worklist:
            closure |= worklist
            dependencies: set[Candidate] = set()
            for index, case in enumerate(self._encodings[0].induction_cases):
                targets = [c for c in invariants if c in worklist and c.loop == case.loop]
                core = self._find_core_of_case(invariants, targets, index) if targets else set()
                if core is None:
                    return None
                dependencies |= core
            worklist = dependencies - closure
        return closure

    def _find_core_of_case(
        self, invariants: Sequence[Candidate], targets: Sequence[Candidate], index: int
    ) -> set[Candidate] | None:
        """Find invariants by which a base or step case preserves the targets.

        Targets that are too many for one query are queried one by one.

        Returns:
            None if a core is not found.
        """
        core = self._find_core(
            invariants, partial(_build_preservation_query, targets=targets, index=index)
        )
        if core is not None or len(targets) == 1:
            return core
        core = set()
        for target in targets:
            target_core = self._find_core_of_case(invariants, [target], index)
            if target_core is None:
                return None
            core |= target_core
        return core

    def _select_preserved(self, active: list[Candidate], index: int) -> list[Candidate]:
        """Select the active candidates that a base or step case does not refute.

        Candidates that are too many for one query are queried in parts; each undecided query
        halves their size.
        """
        loop = self._encodings[0].induction_cases[index].loop
        active = list(active)
        unchecked_candidates = [c for c in active if c.loop == loop]
        while unchecked_candidates:
            batch = unchecked_candidates[: self._batch_size]
            # Queries on all candidates or on one have the full time; parts only prepare them.
            share = _PARTIAL_QUERY_SHARE if 1 < len(batch) < len(active) else 1.0
            with self.time_share(1.0, query_share=share):
                answer, refuted_candidates = self._find_refuted(
                    active, batch, unchecked_candidates, index
                )
            if answer == z3.unsat:
                unchecked_candidates = unchecked_candidates[len(batch) :]
                continue
            # An undecided part is halved, since smaller queries are easier.
            if not refuted_candidates and len(batch) > 1:
                self._batch_size = len(batch) // 2
                continue
            if not refuted_candidates:
                # Z3 gives no answer, or its model leaves the value of a quantifier undetermined.
                self.undecided_candidates.update(batch)
                refuted_candidates = set(batch)
            unchecked_candidates = [c for c in unchecked_candidates if c not in refuted_candidates]
            active = [c for c in active if c not in refuted_candidates]
        return active

    def _find_refuted(
        self,
        active: Sequence[Candidate],
        targets: Sequence[Candidate],
        others: Sequence[Candidate],
        index: int,
    ) -> tuple[z3.CheckSatResult, set[Candidate]]:
        """Search for a counterexample to the preservation of the targets.

        Returns:
            `unsat` if all targets are preserved; else Z3's answer, and the candidates of `others`
            that the counterexample refutes.
        """
        for encoding in self._encodings:
            case = encoding.induction_cases[index]
            claim = z3.And([encoding.encode_candidate(c, index) for c in targets])
            solver = z3.Solver()
            solver.add(case.path, z3.Not(claim), *map(encoding.encode_assumption, active))
            answer = self._query(solver)
            if answer == z3.unsat:
                return answer, set()
            # An inexact encoding has spurious counterexamples, so the next encoding is tried first.
            if answer == z3.sat and (encoding.is_exact or encoding is self._encodings[-1]):
                model = solver.model()
                truths = (
                    (c, model.eval(encoding.encode_candidate(c, index), True)) for c in others
                )
                return answer, {c for c, truth in truths if z3.is_false(truth)}
        return z3.unknown, set()

    def _find_core_of_goals(self, invariants: Sequence[Candidate]) -> set[Candidate] | None:
        """Find invariants from which all goals follow; None if a goal does not follow."""
        used_invariants: set[Candidate] = set()
        for number in range(len(self._encodings[0].goals)):
            core = self._find_core(invariants, partial(_build_goal_query, number=number))
            if core is None:
                return None
            used_invariants |= core
        return used_invariants

    def _find_core(
        self,
        invariants: Sequence[Candidate],
        query: Callable[[Encoding], tuple[z3.BoolRef, z3.BoolRef]],
    ) -> set[Candidate] | None:
        """Find invariants from which a condition follows on a path; None if it does not.

        Args:
            invariants: the invariants that may be assumed.
            query: returns the path and the condition in an encoding.
        """
        for encoding in self._encodings:
            path, condition = query(encoding)
            solver = z3.Solver()
            solver.add(path, z3.Not(condition))
            # A Boolean guards each invariant, so the core contains the guards of the used
            # invariants.
            guards = {z3.Bool(f"candidate!{n}"): c for n, c in enumerate(invariants)}
            solver.add(
                *(z3.Implies(guard, encoding.encode_assumption(c)) for guard, c in guards.items())
            )
            answer = self._query(solver, *guards)
            if answer == z3.unsat:
                return {guards[guard] for guard in solver.unsat_core()}
            if answer == z3.sat and encoding.is_exact:
                # An exact counterexample holds in every encoding, so no other needs a try.
                break
        return None

    def _query(self, solver: z3.Solver, *assumptions: z3.BoolRef) -> z3.CheckSatResult:
        clock_seconds = find_remaining_seconds()
        remaining_seconds = min(self._deadline - time.process_time(), clock_seconds)
        if remaining_seconds <= 0:
            raise ProverTimeout
        seconds = min(self._query_seconds, remaining_seconds)
        solver.set("rlimit", to_z3_limit(STEPS_PER_SECOND * seconds))
        clock_seconds = min(MAX_CLOCK_FACTOR * seconds, clock_seconds)
        solver.set("timeout", to_z3_limit(1000 * clock_seconds))
        answer = solver.check(*assumptions)
        if answer == z3.unknown:
            self.limits |= _LIMITS_BY_REASON.get(solver.reason_unknown(), set())
        return answer


def _build_preservation_query(
    encoding: Encoding, targets: Sequence[Candidate], index: int
) -> tuple[z3.BoolRef, z3.BoolRef]:
    """Build the query that candidates are preserved, for `Prover._find_core`."""
    return encoding.induction_cases[index].path, z3.And(
        [encoding.encode_candidate(c, index) for c in targets]
    )


def _build_goal_query(encoding: Encoding, number: int) -> tuple[z3.BoolRef, z3.BoolRef]:
    """Build the query that a goal follows, for `Prover._find_core`."""
    goal = encoding.goals[number]
    return goal.path, goal.condition


def _is_wide(expression: Expression) -> bool:
    """Check whether an expression computes in more than 64 bits."""
    return any(
        isinstance(part, Cast) and part.type.bits > 64 for part in iter_subexpressions(expression)
    )


def to_z3_limit(number: float) -> int:
    """Convert a number to a 32-bit limit of Z3, at least 1, since 0 means no limit."""
    return max(1, min(int(number), 2**32 - 2))


def has_products(program: Program) -> bool:
    """Check whether a program multiplies or divides variables by variables."""
    return any(
        isinstance(part, Binary)
        and part.operator in ("*", "/", "%")
        and variables(part.left)
        and variables(part.right)
        for part in iter_subexpressions(*iter_expressions(program.body))
    )
