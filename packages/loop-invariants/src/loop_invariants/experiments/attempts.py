"""Attempts to verify programs, their strategies, and their JSON files.

An attempt is the result of a single strategy on a single program. Failures and timeouts are
outcomes too, so every table contains every program.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from pydantic import TypeAdapter

from llmchecker.utils.atomic_files import read_json_with_digest, write_json_with_digest
from loop_invariants.ir.expressions import Semantics
from loop_invariants.limits import Limit
from loop_invariants.proposals.prompt_templates import PromptVariant
from loop_invariants.verification import esbmc
from loop_invariants.verification.result import BUILTIN_SOURCES, CandidateSource, Outcome

VARIANTS = {
    f"{variant}, filter {'on' if is_filtered else 'off'}": (variant, is_filtered)
    for variant, is_filtered in product(PromptVariant, (False, True))
}
"""The paper's six variants: three prompts, each with and without a syntactic filter."""

MODEL_FREE_COMBINATIONS: dict[str, tuple[CandidateSource, ...]] = {
    **{
        f"{source} alone": (source,)
        for source in (CandidateSource.RANDOM, CandidateSource.ATOMS, CandidateSource.RELATIONS)
    },
    "program": BUILTIN_SOURCES,
    f"program + {CandidateSource.RANDOM}": (*BUILTIN_SOURCES, CandidateSource.RANDOM),
}
"""Source combinations without a model; `program` is the sources within this package."""

_METHOD_SOURCES = f"program + {CandidateSource.SAMPLED}"

MODEL_COMBINATIONS: dict[str, tuple[CandidateSource, ...]] = {
    f"{CandidateSource.SAMPLED} alone": (CandidateSource.SAMPLED,),
    _METHOD_SOURCES: (*BUILTIN_SOURCES, CandidateSource.SAMPLED),
}
"""Source combinations that include a source of a model."""

TOOLS = {f"ESBMC {mode}": mode for mode in (esbmc.Mode.BMC, esbmc.Mode.K_INDUCTION)}
"""The modes of ESBMC that need no invariants, by name."""

BOTH_ENGINES = "program + ESBMC unwind"
"""The strategy of the command `verify`: the prover, then the search by ESBMC."""

THIS_METHOD = "this method"
"""The name of the strategy `program + sampled` in comparisons with other tools."""


@dataclass(frozen=True)
class Invariant:
    """A proven invariant that the proof of the assertions needs."""

    line: int
    text: str
    sources: tuple[CandidateSource, ...]


@dataclass(frozen=True)
class Attempt:
    """The result of a strategy on a program.

    Attributes:
        program: the program's name.
        semantics: the semantics of the program's integers.
        way: the strategy: a variant of the prompt, a combination of sources, or a tool.
        outcome: the outcome.
        seconds: wall-clock seconds of the attempt, including the model's time.
        invariants: the invariants that the proof needs; empty without a proof.
        iterations: number of the model's answers that the strategy used; None if it uses none.
        parse_errors: number of texts in these answers that are not conditions over the loop's
            variables, or that the syntactic filter rejected; None as for `iterations`.
        message: description of the problem for a reader.
        limits: the limits that left the attempt, or a part of it, without a result.
    """

    program: str
    semantics: Semantics
    way: str
    outcome: Outcome
    seconds: float = 0.0
    invariants: tuple[Invariant, ...] = ()
    iterations: int | None = None
    parse_errors: int | None = None
    message: str = ""
    limits: tuple[Limit, ...] = ()

    @property
    def solved(self) -> bool:
        """Whether the program is verified."""
        return self.outcome is Outcome.VERIFIED


def select_method_attempts(attempts: Iterable[Attempt]) -> tuple[Attempt, ...]:
    """Select the attempts with the sources of program and model; name them `THIS_METHOD`."""
    return tuple(
        replace(attempt, way=THIS_METHOD) for attempt in attempts if attempt.way == _METHOD_SOURCES
    )


_ATTEMPTS = TypeAdapter(tuple[Attempt, ...])


def write_attempts(attempts: Sequence[Attempt], path: str | Path) -> None:
    """Write attempts as JSON."""
    records = _ATTEMPTS.dump_python(tuple(attempts), mode="json")
    write_json_with_digest({"attempts": records}, path)


def read_attempts(*paths: str | Path) -> tuple[Attempt, ...]:
    """Read the attempts of files from `write_attempts`."""
    records = [record for path in paths for record in read_json_with_digest(path)["attempts"]]
    return _ATTEMPTS.validate_python(records)
