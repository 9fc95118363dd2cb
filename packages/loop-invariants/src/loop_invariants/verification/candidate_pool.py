"""The candidate pool: the candidates of a program with their sources."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from loop_invariants.ir.expressions import Binary, Expression, variables
from loop_invariants.ir.statements import Loop
from loop_invariants.limits import Limit
from loop_invariants.verification.houdini import Candidate
from loop_invariants.verification.result import CandidateSource, ProvenInvariant


@dataclass
class CandidatePool:
    """The candidates of a program with the sources that proposed them.

    Attributes:
        sources: the sources of every candidate, in the order in which candidates were added.
        lines: line of each loop in the source, by loop number.
        tried_sources: the sources whose candidates the prover has already queried.
        limits: contains `CANDIDATES` if a source had more candidates than its maximum.
    """

    sources: dict[Candidate, list[CandidateSource]] = field(default_factory=dict)
    lines: dict[int, int] = field(default_factory=dict)
    tried_sources: set[CandidateSource] = field(default_factory=set)
    limits: set[Limit] = field(default_factory=set)

    def add(self, source: CandidateSource, loop: Loop, expressions: Iterable[Expression]) -> None:
        """Add candidates of a loop, except those with names out of its scope."""
        self.lines[loop.number] = loop.line
        for expression in expressions:
            if variables(expression) <= set(loop.scope):
                candidate_sources = self.sources.setdefault(Candidate(loop.number, expression), [])
                # A candidate lists each source once, although a source may propose it repeatedly.
                if source not in candidate_sources:
                    candidate_sources.append(source)

    def select_candidates(
        self, loop: Loop, excluded_sources: Collection[CandidateSource] = ()
    ) -> tuple[Expression, ...]:
        """Return the candidates of a loop that not only `excluded_sources` proposed."""
        return tuple(
            candidate.expression
            for candidate, sources in self.sources.items()
            if candidate.loop == loop.number and not set(sources) <= set(excluded_sources)
        )

    def to_proven_invariant(self, candidate: Candidate) -> ProvenInvariant:
        """Convert a candidate to a proven invariant, with the sources of its parts."""
        sources = list(self.sources[candidate])
        match candidate.expression:
            # The parts of a disjunction have sources of their own, which also contributed.
            case Binary("||", left, right) if CandidateSource.DISJUNCTIONS in sources:
                for part in (left, right):
                    sources += self.sources.get(Candidate(candidate.loop, part), ())
        loop = candidate.loop
        distinct_sources = tuple(dict.fromkeys(sources))
        return ProvenInvariant(loop, self.lines[loop], candidate.expression, distinct_sources)
