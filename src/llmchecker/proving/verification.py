"""One program from candidates to a verdict.

Candidates are refuted by concrete runs, proven by Houdini and reduced to what the assertions need;
ESBMC then decides the program with them stated. "Verified" takes both: a proof of every assertion
from proven invariants, and ESBMC's own verdict on the annotated program.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from llmchecker.programs.annotation import annotate
from llmchecker.programs.expressions import Binary, Constant, Expression, Semantics, variables
from llmchecker.programs.runs import Failure, run_program, unrefuted
from llmchecker.programs.statements import Loop, Program
from llmchecker.proving import esbmc
from llmchecker.proving.completion import atoms, disjunctions
from llmchecker.proving.houdini import Candidate, Prover, ProverTimeout
from llmchecker.proving.outcomes import (
    COMPLETION,
    CandidateSource,
    Outcome,
    Proven,
    Verification,
    seconds_within_reason,
)
from llmchecker.proving.relations import relations


@dataclass(frozen=True)
class Limits:
    """What a program may cost.

    Attributes:
        seconds: for the proof and ESBMC together; ESBMC has at least 5.
        disjunctions: how many are tried.
        runs: concrete runs.

    Raises:
        ValueError: no program can be given so many seconds.
    """

    seconds: float = 60.0
    disjunctions: int = 1000
    runs: int = 400

    def __post_init__(self) -> None:
        seconds_within_reason(self.seconds)

    @property
    def question(self) -> float:
        """Seconds for one question to the prover: few questions must not use up all the time."""
        return self.seconds / 20


Proposals = Mapping[int, Sequence[Expression]]
"""Candidates by the number of the loop."""


DEFAULT = Limits()

_LEAST_SECONDS = 5.0
"""What ESBMC has at least, however long the proof took."""


@dataclass
class Pool:
    """The candidates of a program with their sources, each once, in the order they came."""

    sources: dict[Candidate, list[CandidateSource]] = field(default_factory=dict)

    def add(self, source: CandidateSource, loop: Loop, expressions: Iterable[Expression]) -> None:
        """Add candidates of a loop; those that name what is not in its scope are left out."""
        for expression in expressions:
            if variables(expression) <= set(loop.scope):
                named = self.sources.setdefault(Candidate(loop.number, expression), [])
                if source not in named:
                    named.append(source)

    def of(self, loop: Loop, but: CandidateSource | None = None) -> tuple[Expression, ...]:
        """The candidates of a loop, those left out that only the one source has."""
        return tuple(
            candidate.expression
            for candidate, sources in self.sources.items()
            if candidate.loop == loop.number and sources != [but]
        )

    def proven(self, candidate: Candidate) -> Proven:
        """A candidate as an invariant that remembers its sources, and those of what it joins."""
        sources = list(self.sources[candidate])
        match candidate.expression:
            case Binary("||", left, right) if CandidateSource.DISJUNCTIONS in sources:
                for part in (left, right):
                    sources += self.sources[Candidate(candidate.loop, part)]
        return Proven(candidate.loop, candidate.expression, tuple(dict.fromkeys(sources)))


class Verifier:
    """Verifies one program, any number of times with other candidates.

    Concrete runs and ESBMC's answers are kept between the times; a time that is spared one counts
    the seconds that it took.

    Args:
        limits: what each verification may cost.

    Raises:
        UnsupportedProgram: the semantics do not cover the program.
    """

    def __init__(self, program: Program, semantics: Semantics, limits: Limits = DEFAULT) -> None:
        self._program = program
        self._semantics = semantics
        self._limits = limits
        Prover(program, semantics)  # refuses what the semantics do not cover, before any run
        self._runs = run_program(program, semantics, runs=limits.runs)
        self._answers: dict[str, esbmc.EsbmcVerdict] = {}

    def verify(
        self,
        proposals: Mapping[CandidateSource, Proposals],
        completion: Sequence[CandidateSource] = COMPLETION,
    ) -> Verification:
        """Verify the program with candidates from outside and those that complete them.

        Args:
            proposals: of a model, or of what stands in its place.
            completion: the sources within this package that are switched on.

        Raises:
            MissingTool: there is no ESBMC.
        """
        started = time.monotonic()
        deadline = started + self._limits.seconds
        prover = Prover(self._program, self._semantics, self._limits.question, deadline)
        try:
            result = self._proven(prover, proposals, completion)
        except ProverTimeout:
            message = f"no proof within {self._limits.seconds:g} s"
            result = Verification(Outcome.PROVER_TIMEOUT, message=message)
        if result.outcome is Outcome.VERIFIED:
            result = self._confirmed(result, deadline)
        return replace(result, seconds=result.seconds + time.monotonic() - started)

    def _proven(
        self,
        prover: Prover,
        proposals: Mapping[CandidateSource, Proposals],
        completion: Sequence[CandidateSource],
    ) -> Verification:
        """VERIFIED if the assertions are proven; ESBMC has not been asked yet."""
        if self._runs.failure is not None:
            failure = self._runs.failure
            return Verification(
                Outcome.FALSE, failure=failure, message=_told(self._program, failure)
            )
        pool = self._pool(proposals, completion)
        proven = self._inductive(prover, pool)
        follows = prover.follows(proven)
        if not follows and CandidateSource.DISJUNCTIONS in completion:
            self._disjoin(pool, proven)
            proven = self._inductive(prover, pool)
            follows = prover.follows(proven)
        if not follows:
            nothing = self._program.loops and not pool.sources
            return Verification(Outcome.NO_CANDIDATE if nothing else Outcome.NOT_PROVEN)
        needed = prover.needed(proven)
        return Verification(Outcome.VERIFIED, tuple(pool.proven(candidate) for candidate in needed))

    def _pool(
        self, proposals: Mapping[CandidateSource, Proposals], completion: Sequence[CandidateSource]
    ) -> Pool:
        pool = Pool()
        for loop in self._program.loops:
            if CandidateSource.ATOMS in completion:
                pool.add(CandidateSource.ATOMS, loop, atoms(self._program, loop))
            for source, proposed in proposals.items():
                pool.add(source, loop, proposed.get(loop.number, ()))
            if CandidateSource.RELATIONS in completion:
                numbers = [name for name in loop.scope if not self._program.types[name].array]
                states = self._runs.heads[loop.number]
                pool.add(CandidateSource.RELATIONS, loop, relations(numbers, states))
        return pool

    def _disjoin(self, pool: Pool, proven: Sequence[Candidate]) -> None:
        """Add disjunctions of what is not proven.

        The bounds that runs suggest hold of too much to tell cases apart, and are many.
        """
        for loop in self._program.loops:
            known = {c.expression for c in proven if c.loop == loop.number}
            others = pool.of(loop, but=CandidateSource.RELATIONS)
            open_ = [expression for expression in others if expression not in known]
            pool.add(
                CandidateSource.DISJUNCTIONS, loop, disjunctions(open_, self._limits.disjunctions)
            )

    def _inductive(self, prover: Prover, pool: Pool) -> tuple[Candidate, ...]:
        """What is proven of the candidates that no concrete run refutes."""
        left = set()
        for loop in self._program.loops:
            states = self._runs.heads[loop.number]
            types = self._program.types
            for expression in unrefuted(pool.of(loop), states, self._semantics, types):
                left.add(Candidate(loop.number, expression))
        return prover.inductive(candidate for candidate in pool.sources if candidate in left)

    def _confirmed(self, result: Verification, deadline: float) -> Verification:
        """What ESBMC makes of a proven program; its seconds are those that a kept answer spared."""
        stated: dict[int, list[Expression]] = {loop.number: [] for loop in self._program.loops}
        for invariant in result.invariants:
            stated[invariant.loop].append(invariant.expression)
        # ESBMC unrolls a loop of which nothing is stated.
        annotated = annotate(self._program, {n: e or [Constant(1)] for n, e in stated.items()})
        known = annotated in self._answers
        verdict = self._asked(annotated, max(_LEAST_SECONDS, deadline - time.monotonic()))
        result = replace(result, seconds=verdict.seconds if known else 0.0)
        if verdict.answer is esbmc.EsbmcAnswer.SUCCESSFUL:
            return result
        if verdict.answer is esbmc.EsbmcAnswer.TIMEOUT:
            message = f"ESBMC said nothing within {verdict.seconds:.0f} s"
            return replace(result, outcome=Outcome.ESBMC_TIMEOUT, message=message)
        failed = verdict.answer is esbmc.EsbmcAnswer.ERROR
        outcome = Outcome.ESBMC_ERROR if failed else Outcome.ESBMC_DISAGREES
        return replace(result, outcome=outcome, message=f"ESBMC says: {verdict.message}")

    def _asked(self, annotated: str, seconds: float) -> esbmc.EsbmcVerdict:
        if annotated in self._answers:
            return self._answers[annotated]
        verdict = esbmc.ask_esbmc(annotated, esbmc.Mode.INVARIANTS, self._semantics, seconds)
        if verdict.answer is not esbmc.EsbmcAnswer.TIMEOUT:
            self._answers[annotated] = verdict
        return verdict


def _told(program: Program, failure: Failure) -> str:
    what = (
        f"the assertion in line {failure.line} fails" if failure.line else "a value is out of range"
    )
    return f"{program.name}: {what} when the values drawn are {', '.join(map(str, failure.drawn))}"
