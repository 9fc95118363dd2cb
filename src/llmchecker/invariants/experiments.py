"""The experiments on programs: prompts, sources and tools compared, one attempt at a time.

An attempt is one way to verify one program. What cannot be treated, or takes too long, is an
attempt with that outcome, so that every table has every program.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import Any

from llmchecker.errors import UnreadableProgram, UnsupportedProgram
from llmchecker.files import read_json, write_json
from llmchecker.invariants import esbmc
from llmchecker.invariants.baselines import random_atoms, shortest_first
from llmchecker.invariants.c_programs import annotate, read_program
from llmchecker.invariants.expressions import Expression, Semantics, text
from llmchecker.invariants.programs import Loop, Program
from llmchecker.invariants.prompts import Variant
from llmchecker.invariants.proposals import ProgramProposals
from llmchecker.invariants.sampling import Proposed
from llmchecker.invariants.verification import (
    COMPLETION,
    Limits,
    Outcome,
    Result,
    Source,
    Verifier,
)

THIS_METHOD = "this method"

VARIANTS = {
    f"{variant}, filter {'on' if filtered else 'off'}": (variant, filtered)
    for variant, filtered in product(Variant, (False, True))
}
"""The paper's six variants: three kinds of prompt, each with and without a syntactic filter."""

PROPOSING = (Source.SAMPLED, Source.ENUMERATED, Source.RANDOM, Source.SHORTEST)
MODEL = (Source.SAMPLED, Source.ENUMERATED)

COMBINATIONS: dict[str, tuple[Source, ...]] = {
    **{f"{source} alone": (source,) for source in (*PROPOSING, *COMPLETION[:2])},
    "program": COMPLETION,
    **{f"program + {source}": (*COMPLETION, source) for source in PROPOSING},
    "all": (*COMPLETION, *MODEL),
}
"""The sources that are compared: each alone, those of the program together, and with each other."""

_OUTCOMES = {
    esbmc.Answer.SUCCESSFUL: Outcome.VERIFIED,
    esbmc.Answer.FAILED: Outcome.FALSE,
    esbmc.Answer.UNKNOWN: Outcome.NOT_PROVEN,
    esbmc.Answer.TIMEOUT: Outcome.ESBMC_TIMEOUT,
    esbmc.Answer.ERROR: Outcome.ESBMC_ERROR,
}


@dataclass(frozen=True)
class Invariant:
    """A proven and needed invariant of the loop in a line, and the sources that proposed it."""

    line: int
    text: str
    sources: tuple[Source, ...]


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


@dataclass(frozen=True)
class Setting:
    """What all attempts on a set of programs share.

    Attributes:
        limits: of one attempt.
        candidates: that each source but sampling may propose for a loop.
        tool_seconds: that ESBMC may take where it works without invariants.
        seed: of the random atoms.
    """

    semantics: Semantics
    limits: Limits
    candidates: int
    tool_seconds: float
    seed: int


class Subject:
    """A program that attempts are made on, read and run when it is first asked for."""

    def __init__(self, file: Path, setting: Setting, proposals: ProgramProposals) -> None:
        self.file = file
        self.setting = setting
        self.proposals = proposals

    @cached_property
    def program(self) -> Program:
        """The program; raises UnreadableProgram or UnsupportedProgram."""
        return read_program(self.file)

    @cached_property
    def verifier(self) -> Verifier:
        """Its verifier; raises UnsupportedProgram."""
        return Verifier(self.program, self.setting.semantics, self.setting.limits)

    def attempt(self, way: str, result: Result, **more: Any) -> Attempt:
        """The attempt that had a result."""
        lines = {loop.number: loop.line for loop in self.program.loops}
        return Attempt(
            self.file.stem,
            self.setting.semantics,
            way,
            result.outcome,
            result.seconds,
            tuple(
                Invariant(lines[proven.loop], text(proven.expression), proven.sources)
                for proven in result.invariants
            ),
            message=result.message,
            **more,
        )


Way = Callable[[str, Subject], Attempt]
"""Makes an attempt that is called by a name."""


def attempts(
    files: Sequence[Path],
    ways: Mapping[str, Way],
    setting: Setting,
    proposals: Mapping[str, ProgramProposals],
) -> Iterator[Attempt]:
    """Yield an attempt for every program and way.

    Args:
        proposals: of a model, by the name of the program.

    Raises:
        MissingTool: there is no ESBMC.
    """
    for file in files:
        subject = Subject(file, setting, proposals.get(file.stem, {}))
        made = [_attempted(name, way, subject) for name, way in ways.items()]
        solved = sum(attempt.solved for attempt in made)
        logging.info("%s: verified %d of %d ways", file.stem, solved, len(made))
        yield from made


def variant_ways() -> dict[str, Way]:
    """The variants of the prompt; nothing but what the model wrote is a candidate."""
    return dict.fromkeys(VARIANTS, _sampled)


def source_ways() -> dict[str, Way]:
    """The combinations of sources."""
    return dict.fromkeys(COMBINATIONS, _combined)


def tool_ways() -> dict[str, Way]:
    """ESBMC by unrolling and by k-induction, and this method with all sources."""
    modes = (esbmc.Mode.BMC, esbmc.Mode.K_INDUCTION)
    tools: dict[str, Way] = {f"ESBMC {mode}": partial(_checked, mode=mode) for mode in modes}
    return {**tools, THIS_METHOD: _all_sources}


def write_attempts(made: Sequence[Attempt], path: str | Path) -> None:
    """Write attempts as JSON."""
    write_json({"attempts": [asdict(attempt) for attempt in made]}, path)


def read_attempts(path: str | Path) -> tuple[Attempt, ...]:
    """Read attempts as `write_attempts` wrote them."""
    return tuple(_read(record) for record in read_json(path)["attempts"])


def _read(record: Mapping[str, Any]) -> Attempt:
    invariants = tuple(
        Invariant(i["line"], i["text"], tuple(Source(source) for source in i["sources"]))
        for i in record["invariants"]
    )
    semantics, outcome = Semantics(record["semantics"]), Outcome(record["outcome"])
    return Attempt(
        **{**record, "semantics": semantics, "outcome": outcome, "invariants": invariants}
    )


def _attempted(name: str, way: Way, subject: Subject) -> Attempt:
    """An attempt; that a program is not covered is an outcome."""
    try:
        return way(name, subject)
    except UnsupportedProgram as error:
        outcome, message = Outcome.UNSUPPORTED, str(error)
    except UnreadableProgram as error:
        outcome, message = Outcome.UNREADABLE, str(error)
    semantics = subject.setting.semantics
    return Attempt(subject.file.stem, semantics, name, outcome, message=message)


def _sampled(name: str, subject: Subject) -> Attempt:
    """A variant of the prompt, with the fewest iterations that do: more never prove less."""
    variant, filtered = VARIANTS[name]
    loops = subject.program.loops
    answered = {
        loop.number: made.proposed(variant, filtered, subject.program, loop)
        for loop in loops
        if (made := subject.proposals.get(loop.number)) is not None
    }
    verify = partial(_verified_after, subject, answered)
    most = max((made.iterations for made in subject.proposals.values()), default=0)
    result, iterations = verify(most), most
    if result.outcome is Outcome.VERIFIED:
        low = 0
        while low < iterations:
            middle = (low + iterations) // 2
            tried = verify(middle)
            if tried.outcome is Outcome.VERIFIED:
                result, iterations = tried, middle
            else:
                low = middle + 1
    used = [one for of_loop in answered.values() for one in of_loop[:iterations]]
    seconds = sum(made.sampling_seconds(variant, iterations) for made in subject.proposals.values())
    return subject.attempt(
        name,
        replace(result, seconds=result.seconds + seconds),
        iterations=iterations,
        parse_errors=sum(len(one.unparsed) + len(one.filtered) for one in used),
    )


def _verified_after(
    subject: Subject, answered: Mapping[int, Sequence[Proposed]], iterations: int
) -> Result:
    """What becomes of a program with what the first iterations propose, and nothing else."""
    proposed = {number: _candidates(of[:iterations]) for number, of in answered.items()}
    return subject.verifier.verify({Source.SAMPLED: proposed}, completion=())


def _candidates(answered: Sequence[Proposed]) -> tuple[Expression, ...]:
    return tuple(dict.fromkeys(c for one in answered for c in one.candidates))


def _combined(name: str, subject: Subject) -> Attempt:
    """A combination of sources."""
    sources = COMBINATIONS[name]
    proposals = {
        source: {loop.number: _proposed(source, loop, subject) for loop in subject.program.loops}
        for source in PROPOSING
        if source in sources
    }
    completion = tuple(source for source in sources if source in COMPLETION)
    result = subject.verifier.verify(proposals, completion)
    return subject.attempt(
        name, replace(result, seconds=result.seconds + _asking(sources, subject))
    )


def _all_sources(name: str, subject: Subject) -> Attempt:
    return replace(_combined("all", subject), way=name)


def _asking(sources: Sequence[Source], subject: Subject) -> float:
    """The seconds that a model took for what a combination uses of it."""
    seconds = 0.0
    for made in subject.proposals.values():
        if Source.SAMPLED in sources:
            seconds += made.sampling_seconds(Variant.COMBINED, made.iterations)
        if Source.ENUMERATED in sources:
            seconds += made.enumeration_seconds
    return seconds


def _proposed(source: Source, loop: Loop, subject: Subject) -> Sequence[Expression]:
    """What a source proposes for a loop, at most as much as the setting allows."""
    program, setting = subject.program, subject.setting
    if source is Source.RANDOM:
        return random_atoms(program, loop, setting.candidates, setting.seed)
    if source is Source.SHORTEST:
        return shortest_first(program, loop, setting.candidates)
    made = subject.proposals.get(loop.number)
    if made is None:
        return ()
    if source is Source.ENUMERATED:
        return made.conditions(program, loop)[: setting.candidates]
    sampled = _candidates(made.proposed(Variant.COMBINED, False, program, loop))
    return sampled[: setting.candidates]


def _checked(name: str, subject: Subject, mode: esbmc.Mode) -> Attempt:
    """ESBMC alone, on the program without any invariant."""
    source = annotate(subject.program, {})
    setting = subject.setting
    verdict = esbmc.check(source, mode, setting.semantics, setting.tool_seconds)
    outcome = _OUTCOMES[verdict.answer]
    message = "" if outcome is Outcome.VERIFIED else verdict.message
    return Attempt(
        subject.file.stem, setting.semantics, name, outcome, verdict.seconds, message=message
    )
