"""The experiments on programs, which compare prompts, sources and tools, attempt by attempt."""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from llmchecker.errors import UnreadableProgram, UnsupportedProgram
from llmchecker.invariants.attempts import (
    TOOLS,
    VARIANTS,
    WITH_MODEL,
    WITHOUT_MODEL,
    Attempt,
    Invariant,
)
from llmchecker.invariants.baselines import random_atoms, shortest_first
from llmchecker.invariants.prompts import Variant
from llmchecker.invariants.proposals import ProgramProposals, Proposed
from llmchecker.programs.expressions import Expression, Semantics, c_text
from llmchecker.programs.statements import Loop, Program
from llmchecker.proving import esbmc
from llmchecker.proving.annotation import annotate
from llmchecker.proving.outcomes import COMPLETION, CandidateSource, Limit, Outcome, Verification
from llmchecker.proving.verification import Limits, Verifier
from llmchecker.reading.parsing import read_program

_OUTCOMES = {
    esbmc.EsbmcAnswer.SUCCESSFUL: Outcome.VERIFIED,
    esbmc.EsbmcAnswer.FAILED: Outcome.FALSE,
    esbmc.EsbmcAnswer.UNKNOWN: Outcome.NOT_PROVEN,
    esbmc.EsbmcAnswer.TIMEOUT: Outcome.ESBMC_TIMEOUT,
    esbmc.EsbmcAnswer.ERROR: Outcome.ESBMC_ERROR,
}


@dataclass(frozen=True)
class Setting:
    """What all attempts on a set of programs share.

    Attributes:
        semantics: what the integers of the programs are.
        limits: what one attempt may cost.
        candidates: the most candidates that a source may propose for a loop; variants of the prompt
            have no such limit.
        tool_seconds: the most seconds that ESBMC may take without invariants.
        seed: the seed of the random atoms.
    """

    semantics: Semantics
    limits: Limits
    candidates: int
    tool_seconds: float
    seed: int


class Subject:
    """A program on which attempts are made; it is read and run when it is first needed.

    Args:
        file: the C file.
        setting: what all attempts share.
        proposals: what a model proposed for the program's loops; empty without a model.
    """

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

    def attempt(self, way: str, result: Verification, **more: Any) -> Attempt:
        """The attempt with the result of a verification.

        Args:
            way: the name of the way.
            result: the result.
            more: other fields of the attempt.
        """
        lines = {loop.number: loop.line for loop in self.program.loops}
        return Attempt(
            self.file.stem,
            self.setting.semantics,
            way,
            result.outcome,
            result.seconds,
            tuple(
                Invariant(lines[proven.loop], c_text(proven.expression), proven.sources)
                for proven in result.invariants
            ),
            message=result.message,
            limits=result.limits,
            **more,
        )


Way = Callable[[str, Subject], Attempt]
"""Makes an attempt on a subject, under the name of the way."""


def attempts(
    files: Sequence[Path],
    ways: Mapping[str, Way],
    setting: Setting,
    proposals: Mapping[str, ProgramProposals],
) -> Iterator[Attempt]:
    """Yield an attempt for every program and way.

    Args:
        files: the C files.
        ways: the ways by their names.
        setting: what all attempts share.
        proposals: what a model proposed, by the name of the program.

    Raises:
        MissingTool: there is no ESBMC.
    """
    for file in files:
        subject = Subject(file, setting, proposals.get(file.stem, {}))
        made = [attempted(name, way, subject) for name, way in ways.items()]
        solved = sum(attempt.solved for attempt in made)
        logging.info("%s: verified %d of %d ways", file.stem, solved, len(made))
        yield from made


def attempted(name: str, way: Way, subject: Subject) -> Attempt:
    """The attempt of a way; what cannot be read or is not covered has that as its outcome."""
    try:
        return way(name, subject)
    except UnsupportedProgram as error:
        outcome, message = Outcome.UNSUPPORTED, str(error)
    except UnreadableProgram as error:
        outcome, message = Outcome.UNREADABLE, str(error)
    except MemoryError:
        outcome, message = Outcome.KILLED, "verifying it takes more memory than there is"
    limits = (Limit.MEMORY,) if outcome is Outcome.KILLED else ()
    semantics = subject.setting.semantics
    return Attempt(subject.file.stem, semantics, name, outcome, message=message, limits=limits)


def _sampled(name: str, subject: Subject) -> Attempt:
    """A variant of the prompt, with the fewest iterations that verify the program.

    More iterations propose more and prove no less, so the fewest are found by halving.
    """
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
        _limited(replace(result, seconds=result.seconds + seconds), {Limit.ANSWERS}),
        iterations=iterations,
        parse_errors=sum(len(one.unparsed) + len(one.filtered) for one in used),
    )


def _verified_after(
    subject: Subject, answered: Mapping[int, Sequence[Proposed]], iterations: int
) -> Verification:
    """Verify a program with the proposals of the first iterations, and with no other candidates."""
    proposed = {number: _candidates(of[:iterations]) for number, of in answered.items()}
    return subject.verifier.verify({CandidateSource.SAMPLED: proposed}, completion=())


def _candidates(answered: Sequence[Proposed]) -> tuple[Expression, ...]:
    return tuple(dict.fromkeys(c for one in answered for c in one.candidates))


def _combined(name: str, subject: Subject) -> Attempt:
    """A combination of sources."""
    sources = (WITHOUT_MODEL | WITH_MODEL)[name]
    proposals = {
        source: {loop.number: _proposed(source, loop, subject) for loop in subject.program.loops}
        for source in sources
        if source not in COMPLETION
    }
    completion = tuple(source for source in sources if source in COMPLETION)
    result = subject.verifier.verify(proposals, completion)
    most = subject.setting.candidates
    limits = {
        _PROPOSED_WITHIN[source]
        for source, made in proposals.items()
        if source in _PROPOSED_WITHIN and any(made.values())
    }
    if any(len(of_loop) >= most for made in proposals.values() for of_loop in made.values()):
        limits.add(Limit.CANDIDATES)
    seconds = result.seconds + _asking(sources, subject)
    return subject.attempt(name, _limited(replace(result, seconds=seconds), limits))


_PROPOSED_WITHIN = {
    CandidateSource.SAMPLED: Limit.ANSWERS,
    CandidateSource.ENUMERATED: Limit.NODES,
}
"""What ends the proposals of a model, which could go on for ever."""


def _limited(result: Verification, limits: Collection[Limit]) -> Verification:
    """The result with the limits of what was proposed, where more proposals might have helped."""
    if result.outcome not in (Outcome.NOT_PROVEN, Outcome.NO_CANDIDATE):
        return result
    return replace(result, limits=tuple(x for x in Limit if x in limits or x in result.limits))


def _asking(sources: Sequence[CandidateSource], subject: Subject) -> float:
    """The seconds that a model took for the proposals that a combination uses."""
    seconds = 0.0
    for made in subject.proposals.values():
        if CandidateSource.SAMPLED in sources:
            seconds += made.sampling_seconds(Variant.COMBINED, made.iterations)
        if CandidateSource.ENUMERATED in sources:
            seconds += made.enumeration_seconds
    return seconds


def _proposed(source: CandidateSource, loop: Loop, subject: Subject) -> Sequence[Expression]:
    """The candidates that a source proposes for a loop, at most as many as the setting allows."""
    program, setting = subject.program, subject.setting
    if source is CandidateSource.RANDOM:
        return random_atoms(program, loop, setting.candidates, setting.seed)
    if source is CandidateSource.SHORTEST:
        return shortest_first(program, loop, setting.candidates)
    made = subject.proposals.get(loop.number)
    if made is None:
        return ()
    if source is CandidateSource.ENUMERATED:
        return made.conditions(program, loop)[: setting.candidates]
    sampled = _candidates(made.proposed(Variant.COMBINED, False, program, loop))
    return sampled[: setting.candidates]


def _checked(name: str, subject: Subject) -> Attempt:
    """ESBMC alone, on the program without any invariant."""
    source = annotate(subject.program, {})
    setting = subject.setting
    verdict = esbmc.ask_esbmc(source, TOOLS[name], setting.semantics, setting.tool_seconds)
    outcome = _OUTCOMES[verdict.answer]
    message = "" if outcome is Outcome.VERIFIED else verdict.message
    return Attempt(
        subject.file.stem,
        setting.semantics,
        name,
        outcome,
        verdict.seconds,
        message=message,
        limits=verdict.limits,
    )


def without_enumeration(ways: Mapping[str, Way]) -> dict[str, Way]:
    """The ways that a model has a part in although it tells no probabilities, and all others.

    Args:
        ways: by their names; what they use beside enumerated conditions stays as it is.
    """
    only = [way for way in ways if str(CandidateSource.ENUMERATED) in way]
    return {name: way for name, way in ways.items() if name not in only}


EXPERIMENTS: dict[str, dict[str, Way]] = {
    "variants": dict.fromkeys(VARIANTS, _sampled),
    "baselines": dict.fromkeys(WITHOUT_MODEL, _combined),
    "sources": dict.fromkeys(WITH_MODEL, _combined),
    "tools": dict.fromkeys(TOOLS, _checked),
}
"""The ways of every experiment. The ways of `variants` and `sources` need a model's proposals."""
