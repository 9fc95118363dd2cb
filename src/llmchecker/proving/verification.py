"""One program from candidates to a verdict.

Concrete runs refute candidates, Houdini proves those that are left, and the proven ones are reduced
to what the assertions need. ESBMC then decides the program in which they are stated. A program is
verified only if both agree: every assertion follows from proven invariants, and ESBMC says that the
annotated program is correct.
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

_LEAST_SECONDS = 5.0
"""The time that ESBMC has at least, however long the proof took."""


@dataclass
class Pool:
    """The candidates of a program.

    Attributes:
        sources: every candidate once, in the order of their arrival, with the sources that proposed
            it.
    """

    sources: dict[Candidate, list[CandidateSource]] = field(default_factory=dict)

    def add(self, source: CandidateSource, loop: Loop, expressions: Iterable[Expression]) -> None:
        """Add candidates of a loop, except those that use names out of its scope."""
        for expression in expressions:
            if variables(expression) <= set(loop.scope):
                named = self.sources.setdefault(Candidate(loop.number, expression), [])
                if source not in named:
                    named.append(source)

    def of(self, loop: Loop, but: CandidateSource | None = None) -> tuple[Expression, ...]:
        """The candidates of a loop, except those that only the source `but` proposed."""
        return tuple(
            candidate.expression
            for candidate, sources in self.sources.items()
            if candidate.loop == loop.number and sources != [but]
        )

    def proven(self, candidate: Candidate) -> Proven:
        """A candidate as a proven invariant with its sources, and with those of its parts."""
        sources = list(self.sources[candidate])
        match candidate.expression:
            case Binary("||", left, right) if CandidateSource.DISJUNCTIONS in sources:
                for part in (left, right):
                    sources += self.sources[Candidate(candidate.loop, part)]
        return Proven(candidate.loop, candidate.expression, tuple(dict.fromkeys(sources)))


class Verifier:
    """Verifies one program any number of times, each time with other candidates.

    Concrete runs and ESBMC's answers are kept. A verification that uses a kept answer of ESBMC
    counts the seconds that this answer took when it was given.

    Args:
        program: the program.
        semantics: what its integers are.
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
        """Verify the program with candidates from outside, and with others that complete them.

        Args:
            proposals: the candidates of a model, or of a baseline in its place.
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
        """The result of the proof; VERIFIED here does not include ESBMC's answer."""
        if self._runs.failure is not None:
            failure = self._runs.failure
            return Verification(
                Outcome.FALSE, failure=failure, message=_told(self._program, failure)
            )
        pool = self._pool(proposals, completion)
        proven = self._inductive(prover, pool)
        follows = prover.follows(proven)
        # Disjunctions are many and slow, so they are tried only if the rest does not suffice.
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
        """Add disjunctions of the candidates that are not proven.

        The relations that runs suggest are left out: they are many, and they hold in too many
        states to tell cases apart.
        """
        for loop in self._program.loops:
            known = {c.expression for c in proven if c.loop == loop.number}
            others = pool.of(loop, but=CandidateSource.RELATIONS)
            open_ = [expression for expression in others if expression not in known]
            pool.add(
                CandidateSource.DISJUNCTIONS, loop, disjunctions(open_, self._limits.disjunctions)
            )

    def _inductive(self, prover: Prover, pool: Pool) -> tuple[Candidate, ...]:
        """The proven ones of the candidates that no concrete run refutes."""
        left = set()
        for loop in self._program.loops:
            states = self._runs.heads[loop.number]
            types = self._program.types
            for expression in unrefuted(pool.of(loop), states, self._semantics, types):
                left.add(Candidate(loop.number, expression))
        return prover.inductive(candidate for candidate in pool.sources if candidate in left)

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
        # A timeout is not kept: another verification may have more time left for ESBMC.
        if verdict.answer is not esbmc.EsbmcAnswer.TIMEOUT:
            self._answers[annotated] = verdict
        return verdict


def _told(program: Program, failure: Failure) -> str:
    what = (
        f"the assertion in line {failure.line} fails" if failure.line else "a value is out of range"
    )
    return f"{program.name}: {what} when the values drawn are {', '.join(map(str, failure.drawn))}"
