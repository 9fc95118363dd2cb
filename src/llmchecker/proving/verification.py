"""One program from candidates to a verdict.

Concrete runs refute candidates, Houdini proves those that are left, and the proven ones are reduced
to what the assertions need. ESBMC then decides the program in which they are stated. A program is
verified only if both agree: every assertion follows from proven invariants, and ESBMC says that the
annotated program is correct.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from llmchecker.programs.expressions import (
    Binary,
    Constant,
    Expression,
    Quantified,
    Semantics,
    walk,
)
from llmchecker.programs.runs import Drawn, Failure, Repeated, run_program, unrefuted
from llmchecker.programs.statements import (
    Loop,
    Program,
)
from llmchecker.proving import esbmc
from llmchecker.proving.annotation import annotate
from llmchecker.proving.horn import spacer
from llmchecker.proving.houdini import Candidate, Prover, ProverTimeout, has_products
from llmchecker.proving.outcomes import (
    COMPLETION,
    CandidateSource,
    Limit,
    Outcome,
    Verification,
    seconds_within_reason,
)
from llmchecker.proving.pool import Pool
from llmchecker.suggesting.completion import (
    atoms,
    congruences,
    disjunctions,
    never_left,
)
from llmchecker.suggesting.observed import related, watched
from llmchecker.suggesting.polynomials import polynomials
from llmchecker.suggesting.templates import templates


@dataclass(frozen=True)
class Limits:
    """What the verification of a program may cost.

    Attributes:
        seconds: the time for the proof and ESBMC together; ESBMC has at least 5 seconds.
        disjunctions: the most disjunctions that are tried for a loop.
        runs: the number of concrete runs.

    Raises:
        ValueError: the seconds are no number, not more than 0, or too many.
    """

    seconds: float = 60.0
    disjunctions: int = 1000
    runs: int = 400

    def __post_init__(self) -> None:
        seconds_within_reason(self.seconds)

    @property
    def question(self) -> float:
        """The seconds for one question to the prover: few must not take all the time."""
        return self.seconds / 20


Proposals = Mapping[int, Sequence[Expression]]
"""Candidates by the number of the loop."""


DEFAULT = Limits()

_FROM_RUNS = (CandidateSource.RELATIONS, CandidateSource.POLYNOMIALS)

_AMONG_PRODUCTS = (
    CandidateSource.ATOMS,
    CandidateSource.POLYNOMIALS,
    CandidateSource.RELATIONS,
    CandidateSource.CONGRUENCES,
    CandidateSource.TEMPLATES,
    CandidateSource.SPACER,
    CandidateSource.DISJUNCTIONS,
)

_ASKED_ALONE = (CandidateSource.TEMPLATES, CandidateSource.DISJUNCTIONS)
"""The sources whose candidates are each asked about by itself first."""

_SHARE = 0.4
"""The part of the time that is left which the candidates of one more source may take."""

_MOST_TOLD = 40
"""The most values of a run that a message lists."""

_LEAST_SECONDS = 5.0
"""The time that ESBMC has at least, however long the proof took."""


class Verifier:
    """Verifies one program any number of times, each time with other candidates.

    Concrete runs and ESBMC's answers are kept. A verification that uses a kept answer of ESBMC
    counts the seconds that this answer took when it was given.

    Args:
        program: the program.
        semantics: what its integers are.
        limits: what each verification may cost.

    Attributes:
        runs: the concrete runs.

    Raises:
        UnsupportedProgram: the semantics do not cover the program.
    """

    def __init__(self, program: Program, semantics: Semantics, limits: Limits = DEFAULT) -> None:
        self._program = program
        self._semantics = semantics
        self._machine = semantics is Semantics.INT32
        self._limits = limits
        Prover(program, semantics)  # refuses what the semantics do not cover, before any run
        self.runs = run_program(program, semantics, runs=limits.runs)
        self._answers: dict[str, esbmc.EsbmcVerdict] = {}
        self._holding: dict[Candidate, bool] = {}  # whether no run refutes a candidate
        self._solutions: dict[tuple, Proposals] = {}  # of Spacer, by what was known
        self._products = has_products(program)
        self._templates = templates(program)
        # Where variables are multiplied, many bounds make every question slow.
        order = sorted(COMPLETION, key=_AMONG_PRODUCTS.index) if self._products else COMPLETION
        self._order = [s for s in order if self._templates or s is not CandidateSource.TEMPLATES]

    def verify(
        self,
        proposals: Mapping[CandidateSource, Proposals],
        completion: Sequence[CandidateSource] = COMPLETION,
    ) -> Verification:
        """Verify the program with candidates from outside, and with others that complete them.

        Args:
            proposals: the candidates of a model, or of a baseline in its place.
            completion: the sources within this package that are switched on.

        Raises:
            MissingTool: there is no ESBMC.
        """
        started = time.monotonic()
        deadline = time.process_time() + self._limits.seconds
        prover = Prover(self._program, self._semantics, self._limits.question, deadline)
        try:
            result = self._proven(prover, proposals, completion, deadline)
        except ProverTimeout:
            message = f"no proof within {self._limits.seconds:g} s"
            limits = (Limit.PROVER_TIME,)
            result = Verification(Outcome.PROVER_TIMEOUT, message=message, limits=limits)
        if result.outcome is Outcome.VERIFIED:
            result = self._confirmed(result, deadline)
        return replace(result, seconds=result.seconds + time.monotonic() - started)

    def _proven(
        self,
        prover: Prover,
        proposals: Mapping[CandidateSource, Proposals],
        completion: Sequence[CandidateSource],
        deadline: float,
    ) -> Verification:
        """The result of the proof; VERIFIED here does not include ESBMC's answer."""
        if self.runs.failure is not None:
            failure = self.runs.failure
            return Verification(
                Outcome.FALSE, failure=failure, message=_told(self._program, failure)
            )
        pool = Pool()
        for loop in self._program.loops:
            for source, proposed in proposals.items():
                pool.add(source, loop, proposed.get(loop.number, ()))
        proven: tuple[Candidate, ...] = ()
        late = follows = False
        # What is slow comes late, and is tried only if the rest does not suffice.
        for source in (None, *(s for s in self._order if s in completion)):
            if source is not None:
                self._extend(pool, source, proven, _SHARE / 2 * (deadline - time.process_time()))
            try:
                with prover.within(_SHARE):
                    proven, follows = self._enlarged(prover, pool, source, proven)
            except ProverTimeout:
                late = True
                continue
            finally:
                pool.tried |= {source} - {None}
            if follows:
                needed = prover.needed(proven)
                found = tuple(pool.proven(candidate) for candidate in needed)
                return Verification(Outcome.VERIFIED, found)
        if late:
            raise ProverTimeout
        nothing = self._program.loops and not pool.sources
        return Verification(
            Outcome.NO_CANDIDATE if nothing else Outcome.NOT_PROVEN,
            limits=tuple(limit for limit in Limit if limit in prover.limits | pool.limits),
            known=tuple(map(pool.proven, proven)),
        )

    def _enlarged(
        self,
        prover: Prover,
        pool: Pool,
        source: CandidateSource | None,
        proven: tuple[Candidate, ...],
    ) -> tuple[tuple[Candidate, ...], bool]:
        """What is proven with the candidates of one more source, and whether this suffices."""
        if source is CandidateSource.DISJUNCTIONS:
            proven = prover.alone(self._asked_about(pool, proven), proven)
        elif source is CandidateSource.TEMPLATES:
            open_ = [c for c in self._unrefuted(pool, source) if c not in proven]
            proven = prover.alone(open_, proven)
            pool.tried.add(source)
        if source in _ASKED_ALONE and prover.follows(proven):
            return proven, True
        known = prover.inductive(self._asked_about(pool, proven))
        follows = prover.follows(known)
        if follows or source is not CandidateSource.TEMPLATES or len(known) <= len(proven):
            return known, follows
        # What is true of elements may need what is true of their sum, and the other way round.
        return self._enlarged(prover, pool, source, known)

    def _extend(
        self, pool: Pool, source: CandidateSource, proven: Sequence[Candidate], seconds: float
    ) -> None:
        """Add the candidates of a source within this package.

        Args:
            pool: gets the candidates.
            source: the source.
            proven: what is proven so far.
            seconds: the most time for finding them.
        """
        if source is CandidateSource.SPACER:
            known = [(candidate.loop, candidate.expression) for candidate in proven]
            key = tuple(known)
            if key not in self._solutions:
                self._solutions[key] = spacer(self._program, self._semantics, seconds, known)
            found = self._solutions[key]
            for loop in self._program.loops:
                pool.add(source, loop, found.get(loop.number, ()))
            return
        for loop in self._program.loops:
            states = self.runs.heads[loop.number]
            match source:
                case CandidateSource.ATOMS:
                    pool.add(source, loop, atoms(self._program, loop))
                case CandidateSource.RELATIONS:
                    found = related(self._program, loop, states, self._semantics)
                    pool.add(source, loop, found)
                case CandidateSource.POLYNOMIALS:
                    numbers = watched(self._program, loop)
                    pool.add(source, loop, polynomials(numbers, states))
                case CandidateSource.TEMPLATES:
                    pool.add(source, loop, self._templates.get(loop.number, ()))
                case CandidateSource.CONGRUENCES:
                    pool.add(source, loop, congruences(self._program, loop))
                case CandidateSource.DISJUNCTIONS:
                    self._disjoin(pool, loop, proven)

    def _disjoin(self, pool: Pool, loop: Loop, proven: Sequence[Candidate]) -> None:
        """Add disjunctions of the candidates that are not proven.

        The relations that runs suggest are left out: they are many, and they hold in too many
        states to tell cases apart. Over machine integers, they too are joined with the conditions
        under which the loop may go on for ever.
        """
        known = {c.expression for c in proven if c.loop == loop.number}
        most = self._limits.disjunctions
        if self._machine:
            parts = [expression for expression in pool.of(loop) if expression not in known]
            for way in never_left(self._program, loop):
                joined = (Binary("||", way, part) for part in parts[:most])
                pool.add(CandidateSource.DISJUNCTIONS, loop, joined)
        others = pool.of(loop, but=_FROM_RUNS)
        open_ = [expression for expression in others if expression not in known]
        joined = disjunctions(open_, most)
        pool.add(CandidateSource.DISJUNCTIONS, loop, joined)
        if len(joined) == most:
            pool.limits.add(Limit.CANDIDATES)

    def _asked_about(self, pool: Pool, proven: Sequence[Candidate]) -> list[Candidate]:
        """The candidates that no concrete run refutes.

        Args:
            pool: the candidates.
            proven: what was proven of the pool before. Of disjunctions, and of bounds among
                products, no others are asked about again, for there are many and that is slow.
        """
        slow = {*_ASKED_ALONE}
        if self._products:
            slow.add(CandidateSource.RELATIONS)
        slow &= pool.tried
        settled = set(proven)
        return [
            candidate
            for candidate in self._unrefuted(pool)
            if candidate in settled or not set(pool.sources[candidate]) <= slow
        ]

    def _unrefuted(self, pool: Pool, only: CandidateSource | None = None) -> list[Candidate]:
        """The candidates that no concrete run refutes, of all sources or of one."""
        for loop in self._program.loops:
            new = [e for e in pool.of(loop) if Candidate(loop.number, e) not in self._holding]
            states, types = self.runs.heads[loop.number], self._program.types
            holding = set(unrefuted(new, states, self._semantics, types))
            self._holding |= {Candidate(loop.number, e): e in holding for e in new}
        return [
            candidate
            for candidate, sources in pool.sources.items()
            if self._holding[candidate] and (only is None or only in sources)
        ]

    def _confirmed(self, result: Verification, deadline: float) -> Verification:
        """The result after ESBMC's answer to a proven program.

        Its seconds are those of a kept answer, else 0: the caller measures the time of a new one.
        """
        stated: dict[int, list[Expression]] = {loop.number: [] for loop in self._program.loops}
        for invariant in result.invariants:
            stated[invariant.loop].append(invariant.expression)
        # ESBMC unrolls a loop without invariants, perhaps for ever, so each has at least `1`.
        annotated = annotate(self._program, {n: e or [Constant(1)] for n, e in stated.items()})
        known = annotated in self._answers
        difficulty = esbmc.Difficulty.PRODUCTS if self._products else esbmc.Difficulty.NONE
        if any(
            isinstance(part, Quantified) for e in stated.values() for i in e for part in walk(i)
        ):
            difficulty = esbmc.Difficulty.QUANTIFIERS
        left = max(_LEAST_SECONDS, deadline - time.process_time())
        verdict = self._asked(annotated, left, difficulty)
        result = replace(result, seconds=verdict.seconds if known else 0.0)
        if verdict.answer is esbmc.EsbmcAnswer.SUCCESSFUL:
            return result
        if verdict.answer is esbmc.EsbmcAnswer.TIMEOUT:
            message = f"ESBMC said nothing within {verdict.seconds:.0f} s"
            outcome = Outcome.ESBMC_TIMEOUT
        else:
            message = f"ESBMC says: {verdict.message}"
            failed = verdict.answer is esbmc.EsbmcAnswer.ERROR
            outcome = Outcome.ESBMC_ERROR if failed else Outcome.ESBMC_DISAGREES
        return replace(result, outcome=outcome, message=message, limits=verdict.limits)

    def _asked(
        self, annotated: str, seconds: float, difficulty: esbmc.Difficulty
    ) -> esbmc.EsbmcVerdict:
        if annotated in self._answers:
            return self._answers[annotated]
        verdict = esbmc.ask_esbmc(
            annotated, esbmc.Mode.INVARIANTS, self._semantics, seconds, difficulty
        )
        # A timeout is not kept: another verification may have more time left for ESBMC.
        if verdict.answer is not esbmc.EsbmcAnswer.TIMEOUT:
            self._answers[annotated] = verdict
        return verdict


def _told(program: Program, failure: Failure) -> str:
    what = (
        f"the assertion in line {failure.line} fails"
        if failure.line
        else "a value or a pointer is out of range"
    )
    drawn = [str(event.value) for event in failure.trace if isinstance(event, Drawn)]
    if len(drawn) > _MOST_TOLD:
        drawn[_MOST_TOLD:] = [f"… {len(drawn) - _MOST_TOLD} more"]
    again = [event for event in failure.trace if isinstance(event, Repeated)]
    rounds = sum(event.rounds * event.times for event in again)
    after = f", and {rounds:,} rounds of loops are like those before them" if again else ""
    return f"{program.name}: {what} when the values drawn are {', '.join(drawn)}{after}"
