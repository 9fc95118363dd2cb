"""Attempts to verify programs: what one is, which ways there are, and their files.

An attempt is one way to verify one program. What cannot be treated, or takes too long, is an
attempt with that outcome, so that every table has every program.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from llmchecker.files import read_json, write_json
from llmchecker.invariants.prompts import Variant
from llmchecker.programs.expressions import Semantics
from llmchecker.proving import esbmc
from llmchecker.proving.outcomes import COMPLETION, CandidateSource, Outcome

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
"""Combinations of sources that need no model; `program` are those within this package."""

ALL = "all"

WITH_MODEL: dict[str, tuple[CandidateSource, ...]] = {
    **{f"{source} alone": (source,) for source in _MODEL},
    **{f"program + {source}": (*COMPLETION, source) for source in _MODEL},
    ALL: (*COMPLETION, *_MODEL),
}
"""Combinations of sources that hold one of a model."""

TOOLS = {f"ESBMC {mode}": mode for mode in (esbmc.Mode.BMC, esbmc.Mode.K_INDUCTION)}
"""The tools that work without invariants."""

THIS_METHOD = "this method"
"""What `all` is called beside other tools."""


@dataclass(frozen=True)
class Invariant:
    """A proven and needed invariant of the loop in a line, and the sources that proposed it."""

    line: int
    text: str
    sources: tuple[CandidateSource, ...]


@dataclass(frozen=True)
class Attempt:
    """One way to verify one program, and what came of it.

    Attributes:
        way: a variant of the prompt, a combination of sources, or a tool.
        seconds: that it took, those of the model included.
        iterations: of the model that were used; None where none is asked for samples.
        parse_errors: texts among its answers that are no condition over the loop's variables, or
            that the syntactic filter rejected.
        message: what went wrong, for a person.
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

    @property
    def solved(self) -> bool:
        """Whether the program is verified."""
        return self.outcome is Outcome.VERIFIED


def beside_tools(attempts: Iterable[Attempt]) -> tuple[Attempt, ...]:
    """Those of the attempts that are made with all sources, as `THIS_METHOD`."""
    return tuple(replace(attempt, way=THIS_METHOD) for attempt in attempts if attempt.way == ALL)


def write_attempts(made: Sequence[Attempt], path: str | Path) -> None:
    """Write attempts as JSON."""
    write_json({"attempts": [asdict(attempt) for attempt in made]}, path)


def read_attempts(*paths: str | Path) -> tuple[Attempt, ...]:
    """Read the attempts of several files as `write_attempts` wrote them."""
    return tuple(_read(record) for path in paths for record in read_json(path)["attempts"])


def _read(record: Mapping[str, Any]) -> Attempt:
    invariants = tuple(
        Invariant(i["line"], i["text"], tuple(CandidateSource(source) for source in i["sources"]))
        for i in record["invariants"]
    )
    semantics, outcome = Semantics(record["semantics"]), Outcome(record["outcome"])
    return Attempt(
        **{**record, "semantics": semantics, "outcome": outcome, "invariants": invariants}
    )
