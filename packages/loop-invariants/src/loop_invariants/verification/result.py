"""Results of a verification: outcomes, limits and proven invariants."""

from dataclasses import dataclass
from enum import StrEnum

from loop_invariants.interpreter.simulation import Failure
from loop_invariants.ir.expressions import Expression, format_c
from loop_invariants.limits import Limit

_MAX_SECONDS = 1_000_000
"""Maximum seconds for a program, since solvers count milliseconds in 32 bits."""


class CandidateSource(StrEnum):
    """The source of a candidate."""

    GIVEN = "given"
    """Invariants that a person gives, by line or in the text."""
    SAMPLED = "sampled"
    """Sampled continuations of a language model."""
    RANDOM = "random"
    """Random well-formed atoms, a baseline for chance."""
    ATOMS = "atoms"
    """Conditions of the program, negated and weakened."""
    RELATIONS = "relations"
    """Equalities and bounds that concrete runs suggest."""
    POLYNOMIALS = "polynomials"
    """Equalities of polynomials that concrete runs suggest."""
    CONGRUENCES = "congruences"
    """Remainders by the constants that change or divide the loop's variables."""
    TEMPLATES = "templates"
    """Quantified conditions on the array elements that a loop has processed."""
    SPACER = "spacer"
    """Solutions of the program's Horn clauses by Z3's Spacer."""
    DISJUNCTIONS = "disjunctions"
    """Disjunctions of two unproven candidates, neither from `relations` alone."""


class Outcome(StrEnum):
    """The outcome of the verification of a program."""

    VERIFIED = "verified"
    """Every assertion is proven, and ESBMC confirms it."""
    FALSE = "false"
    """A concrete run violates an assertion."""
    SAFE_BY_ESBMC = "safe by esbmc, not confirmed"
    """ESBMC alone searched all runs; it chooses one meaning where C leaves several."""
    NOT_PROVEN = "not proven"
    """The assertions do not follow from the proven invariants."""
    NO_CANDIDATE = "no candidate"
    """No source proposed a well-formed condition, and the assertions need one."""
    NO_ASSERTION = "no assertion"
    """No called function has a known assertion or failure call."""
    PROVER_TIMEOUT = "prover timeout"
    """The proof exceeded its time limit."""
    ESBMC_TIMEOUT = "esbmc timeout"
    """The assertions are proven, but ESBMC exceeded its time limit."""
    ESBMC_DISAGREES = "esbmc disagrees"
    """The assertions are proven, but ESBMC does not confirm it."""
    ESBMC_ERROR = "esbmc error"
    """ESBMC ended without a verdict: out of memory, or unsupported C."""
    UNSUPPORTED = "unsupported"
    """The front end or the semantics do not support the program."""
    UNREADABLE = "unreadable"
    """The file cannot be read or is not C."""
    KILLED = "killed"
    """The process ran out of memory or was killed."""


@dataclass(frozen=True)
class CompiledViolation:
    """A violation that a run of the compiled text confirms.

    Attributes:
        kind: `assertion`, `index`, `division`, `null`, `shift` or `overflow`.
        line: line of the text; 0 if the compiled program does not report it.
        inputs: values that the run read, in order.
    """

    kind: str
    line: int
    inputs: tuple[int, ...]


@dataclass(frozen=True)
class ProvenInvariant:
    """A proven invariant.

    Attributes:
        loop: the loop number.
        line: line of the loop in the source.
        expression: the condition.
        sources: the sources that proposed it, in order of their first proposal. For a disjunction,
            the sources of its two parts come last.
    """

    loop: int
    line: int
    expression: Expression
    sources: tuple[CandidateSource, ...]

    @property
    def text(self) -> str:
        """The condition in C."""
        return format_c(self.expression)


@dataclass(frozen=True)
class VerificationResult:
    """The result of the verification of a program.

    Attributes:
        outcome: the outcome.
        invariants: proven invariants that the proof of the assertions needs; empty if the
            assertions do not follow.
        seconds: wall-clock seconds of the verification, including ESBMC.
        failure: the run that violates the program, if the outcome is FALSE.
        message: description of the problem for a reader; empty without a problem.
        limits: the limits that left the verification, or a part of it, without a result.
        searched_depth: iterations of each loop to which ESBMC finds no violation of the original
            text; None without such a search.
        violation: kind, line and inputs of a violation, if a compiled run confirms it.
        is_exhaustive: whether all runs of the original text were searched.
        assumptions: sentences that a proof rests on.
        is_lowered: whether the invariants are those of a program whose loops or variables differ
            from the text's.
    """

    outcome: Outcome
    invariants: tuple[ProvenInvariant, ...] = ()
    seconds: float = 0.0
    failure: Failure | None = None
    message: str = ""
    limits: tuple[Limit, ...] = ()
    searched_depth: int | None = None
    violation: CompiledViolation | None = None
    is_exhaustive: bool = False
    assumptions: tuple[str, ...] = ()
    is_lowered: bool = False


def format_no_assertion(program: str) -> str:
    """Format the message of the outcome `NO_ASSERTION` for a program's name."""
    problem = "no called function has a known assertion or failure call"
    return f"{program}: {problem}; add one, or name it by --errors"


BUILTIN_SOURCES = (
    CandidateSource.ATOMS,
    CandidateSource.RELATIONS,
    CandidateSource.POLYNOMIALS,
    CandidateSource.CONGRUENCES,
    CandidateSource.TEMPLATES,
    CandidateSource.SPACER,
    CandidateSource.DISJUNCTIONS,
)
"""The sources within this package, in the order in which the verifier tries them."""


def check_seconds(seconds: float) -> float:
    """Return the seconds after a check of their range.

    Raises:
        ValueError: the seconds are not a number, not positive, or more than `_MAX_SECONDS`.
    """
    # A negated comparison also rejects NaN, for which every comparison is false.
    if not 0 < seconds <= _MAX_SECONDS:
        raise ValueError(f"seconds must be more than 0 and at most {_MAX_SECONDS:,}")
    return seconds
