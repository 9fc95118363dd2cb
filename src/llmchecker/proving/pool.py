"""The candidates of a program, with the sources that proposed them."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from llmchecker.programs.expressions import Binary, Expression, variables
from llmchecker.programs.statements import Loop
from llmchecker.proving.houdini import Candidate
from llmchecker.proving.outcomes import CandidateSource, Limit, Proven


@dataclass
class Pool:
    """The candidates of a program.

    Attributes:
        sources: every candidate once, in the order of their arrival, with the sources that proposed
            it.
        tried: the sources whose candidates were asked about.
        limits: `CANDIDATES` if there were more than may be tried.
    """

    sources: dict[Candidate, list[CandidateSource]] = field(default_factory=dict)
    tried: set[CandidateSource] = field(default_factory=set)
    limits: set[Limit] = field(default_factory=set)

    def add(self, source: CandidateSource, loop: Loop, expressions: Iterable[Expression]) -> None:
        """Add candidates of a loop, except those that use names out of its scope."""
        for expression in expressions:
            if variables(expression) <= set(loop.scope):
                named = self.sources.setdefault(Candidate(loop.number, expression), [])
                if source not in named:
                    named.append(source)

    def of(self, loop: Loop, but: Collection[CandidateSource] = ()) -> tuple[Expression, ...]:
        """The candidates of a loop, except those that only the sources `but` proposed."""
        return tuple(
            candidate.expression
            for candidate, sources in self.sources.items()
            if candidate.loop == loop.number and not set(sources) <= set(but)
        )

    def proven(self, candidate: Candidate) -> Proven:
        """A candidate as a proven invariant with its sources, and with those of its parts."""
        sources = list(self.sources[candidate])
        match candidate.expression:
            case Binary("||", left, right) if CandidateSource.DISJUNCTIONS in sources:
                for part in (left, right):
                    sources += self.sources.get(Candidate(candidate.loop, part), ())
        return Proven(candidate.loop, candidate.expression, tuple(dict.fromkeys(sources)))
