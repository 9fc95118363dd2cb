"""The outcomes of verification, and what a verification leaves behind."""

from dataclasses import dataclass
from enum import StrEnum

from llmchecker.programs.expressions import Expression
from llmchecker.programs.runs import Failure

MOST_SECONDS = 1_000_000
"""The most time that a program may be given, since solvers count milliseconds in 32 bits."""


class CandidateSource(StrEnum):
    """Where a candidate comes from."""

    SAMPLED = "sampled"
    """Continuations of a prompt, drawn from a language model."""
    ENUMERATED = "enumerated"
    """The most probable well-formed conditions of a language model."""
    REPAIRED = "repaired"
    """What a language model wrote after it was told what failed, with a counterexample."""
    RANDOM = "random"
    """Random well-formed atoms, as chance would propose them."""
    SHORTEST = "shortest"
    """Well-formed conditions by size, as patience would propose them."""
    ATOMS = "atoms"
    """Conditions of the program, negated and weakened."""
    RELATIONS = "relations"
    """Equalities and bounds that concrete runs suggest."""
    POLYNOMIALS = "polynomials"
    """Equalities of polynomials that concrete runs suggest."""
    CONGRUENCES = "congruences"
    """Remainders by the constants that the loop's variables are moved or divided by."""
    TEMPLATES = "templates"
    """Quantified conditions on the elements of arrays that a loop has come by."""
    SPACER = "spacer"
    """What Z3's Spacer finds as a solution of the program's Horn clauses."""
    DISJUNCTIONS = "disjunctions"
    """Disjunctions of two unproven candidates that not only `relations` proposed."""


class Outcome(StrEnum):
    """How the verification of a program ends."""

    VERIFIED = "verified"
    """Every assertion is proven, and ESBMC says so too."""
    FALSE = "false"
    """A concrete run violates an assertion."""
    NOT_PROVEN = "not proven"
    """The assertions do not follow from what could be proven."""
    NO_CANDIDATE = "no candidate"
    """Nothing well-formed was proposed, and the assertions do not follow without invariants."""
    PROVER_TIMEOUT = "prover timeout"
    """The proof took too long."""
    ESBMC_TIMEOUT = "esbmc timeout"
    """The assertions are proven, but ESBMC took too long."""
    ESBMC_DISAGREES = "esbmc disagrees"
    """The assertions are proven, but ESBMC does not say so."""
    ESBMC_ERROR = "esbmc error"
    """ESBMC ended without an answer: out of memory, or C that it does not read."""
    UNSUPPORTED = "unsupported"
    """The program holds what the front end or the semantics do not cover."""
    UNREADABLE = "unreadable"
    """The file cannot be read or is not C."""
    KILLED = "killed"
    """Memory ran out, or somebody ended the process that verified it."""


class Limit(StrEnum):
    """What ended an attempt, or a part of it, before there was an answer."""

    PROVER_TIME = "prover time"
    """The processor time for the proof."""
    SOLVER_STEPS = "solver steps"
    """The steps that Z3 may take for one question, as it counts them."""
    CLOCK = "clock"
    """Many times the processor time by the clock: a guard against what never ends and is not
    counted."""
    ESBMC_TIME = "ESBMC time"
    """The processor time of ESBMC."""
    ESBMC_MEMORY = "ESBMC memory"
    """The memory of ESBMC."""
    MEMORY = "memory"
    """The memory of this program."""
    CANDIDATES = "candidates"
    """The number of candidates that a source may propose for a loop."""
    ANSWERS = "answers"
    """The number of answers that a model may give."""
    NODES = "nodes"
    """The number of next-token distributions that a search for conditions may compute."""


@dataclass(frozen=True)
class Proven:
    """A proven invariant.

    Attributes:
        loop: the number of its loop.
        expression: the condition.
        sources: the sources that proposed it, in the order in which they did. For a disjunction,
            the sources of its two parts come last.
    """

    loop: int
    expression: Expression
    sources: tuple[CandidateSource, ...]


@dataclass(frozen=True)
class Verification:
    """The result of a verification.

    Attributes:
        outcome: how the verification ended.
        invariants: the proven invariants that the proof of the assertions needs; none if the
            assertions do not follow.
        seconds: how long the verification took, ESBMC included.
        failure: the run that violates the program, if the outcome is FALSE.
        message: what went wrong, for a person; empty if nothing did.
        limits: what ended the attempt, or a part of it, without an answer; none if it has one.
        known: what was proven of the loops although the assertions do not follow.
    """

    outcome: Outcome
    invariants: tuple[Proven, ...] = ()
    seconds: float = 0.0
    failure: Failure | None = None
    message: str = ""
    limits: tuple[Limit, ...] = ()
    known: tuple[Proven, ...] = ()


COMPLETION = (
    CandidateSource.ATOMS,
    CandidateSource.RELATIONS,
    CandidateSource.POLYNOMIALS,
    CandidateSource.CONGRUENCES,
    CandidateSource.TEMPLATES,
    CandidateSource.SPACER,
    CandidateSource.DISJUNCTIONS,
)
"""The sources within this package, in the order in which they are tried."""


def seconds_within_reason(seconds: float) -> float:
    """The same seconds, if a program can be given so much time.

    Raises:
        ValueError: the seconds are no number, not more than 0, or more than `MOST_SECONDS`.
    """
    # Written so that NaN, which compares with nothing, is refused too.
    if not 0 < seconds <= MOST_SECONDS:
        raise ValueError(f"seconds must be more than 0 and at most {MOST_SECONDS:,}")
    return seconds
