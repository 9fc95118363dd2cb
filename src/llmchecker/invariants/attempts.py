"""Attempts to verify programs, the ways to make them, and the files that hold them.

An attempt is one way to verify one program. If the program cannot be treated or takes too long,
that is the attempt's outcome. So every table has every program.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from llmchecker.files import read_sealed_json, write_sealed_json
from llmchecker.invariants.prompts import Variant
from llmchecker.programs.expressions import Semantics
from llmchecker.proving import esbmc
from llmchecker.proving.outcomes import COMPLETION, CandidateSource, Limit, Outcome

VARIANTS = {
    f"{variant}, filter {'on' if filtered else 'off'}": (variant, filtered)
    for variant, filtered in product(Variant, (False, True))
}
"""The paper's six variants: three kinds of prompt, each with and without a syntactic filter."""

_BASELINES = (CandidateSource.RANDOM, CandidateSource.SHORTEST)
_MODEL = (CandidateSource.SAMPLED, CandidateSource.ENUMERATED)

WITHOUT_MODEL: dict[str, tuple[CandidateSource, ...]] = {
    **{
        f"{source} alone": (source,)
        for source in (*_BASELINES, CandidateSource.ATOMS, CandidateSource.RELATIONS)
    },
    "program": COMPLETION,
    **{f"program + {source}": (*COMPLETION, source) for source in _BASELINES},
}
"""Combinations of sources that need no model; `program` stands for those within this package."""

ALL = "all"

WITH_MODEL: dict[str, tuple[CandidateSource, ...]] = {
    **{f"{source} alone": (source,) for source in _MODEL},
    **{f"program + {source}": (*COMPLETION, source) for source in _MODEL},
    ALL: (*COMPLETION, *_MODEL),
}
"""Combinations of sources that include one of a model."""

REPAIRED: dict[str, tuple[CandidateSource, ...]] = {
    f"{CandidateSource.REPAIRED} alone": (),
    f"program + {CandidateSource.REPAIRED}": COMPLETION,
}
"""Ways with rounds of repair, and the sources of this package beside what a model proposes.

What it sampled first is among the candidates of both.
"""

TOOLS = {f"ESBMC {mode}": mode for mode in (esbmc.Mode.BMC, esbmc.Mode.K_INDUCTION)}
"""The tools that work without invariants."""

THIS_METHOD = "this method"
"""The name of `all` in comparisons with other tools."""


@dataclass(frozen=True)
class Invariant:
    """A proven invariant that the proof needs.

    Attributes:
        line: the line of its loop.
        text: the condition in C.
        sources: the sources that proposed it.
    """

    line: int
    text: str
    sources: tuple[CandidateSource, ...]


@dataclass(frozen=True)
class Attempt:
    """One way to verify one program, and its result.

    Attributes:
        program: the program's name.
        semantics: what the integers of the program are.
        way: a variant of the prompt, a combination of sources, or a tool.
        outcome: how the attempt ended.
        seconds: how long the attempt took, the model's time included.
        invariants: the invariants that the proof needs; none without a proof.
        iterations: the number of the model's answers that were used; None if the way uses none.
        parse_errors: the number of texts in these answers that are no condition over the loop's
            variables, or that the syntactic filter rejected; None as for `iterations`.
        message: what went wrong, for a person.
        limits: what ended the attempt, or a part of it, without an answer.
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


def beside_tools(attempts: Iterable[Attempt]) -> tuple[Attempt, ...]:
    """The attempts that use all sources, under the name `THIS_METHOD`."""
    return tuple(replace(attempt, way=THIS_METHOD) for attempt in attempts if attempt.way == ALL)


def write_attempts(made: Sequence[Attempt], path: str | Path) -> None:
    """Write attempts as JSON."""
    write_sealed_json({"attempts": [asdict(attempt) for attempt in made]}, path)


def read_attempts(*paths: str | Path) -> tuple[Attempt, ...]:
    """Read the attempts of several files that `write_attempts` wrote."""
    return tuple(_read(record) for path in paths for record in read_sealed_json(path)["attempts"])


def _read(record: Mapping[str, Any]) -> Attempt:
    invariants = tuple(
        Invariant(i["line"], i["text"], tuple(CandidateSource(source) for source in i["sources"]))
        for i in record["invariants"]
    )
    read = {
        "semantics": Semantics(record["semantics"]),
        "outcome": Outcome(record["outcome"]),
        "invariants": invariants,
        "limits": tuple(map(Limit, record["limits"])),
    }
    return Attempt(**{**record, **read})
