"""Rounds of repair: what failed is told to a proposer, and what it writes then is proven as before.

As in LaM4Inv (Wu et al., ASE 2024) and Loopy (Kamath et al., 2023) a prompt names the obligation
that failed, with the values of a counterexample. A round asks about the loops through which the
counterexample goes.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from llmchecker.config.programs import Repairing
from llmchecker.errors import UnusableText
from llmchecker.files import read_sealed_json, write_sealed_json
from llmchecker.invariants.asking import Proposer
from llmchecker.invariants.attempts import REPAIRED, Attempt
from llmchecker.invariants.experiments import Setting, Subject, attempted
from llmchecker.invariants.prompts import Variant, prompt, variant_of
from llmchecker.invariants.proposals import ProgramProposals, Proposed, proposed
from llmchecker.programs.expressions import Expression, c_text
from llmchecker.programs.statements import Loop
from llmchecker.proving.houdini import Candidate
from llmchecker.proving.outcomes import CandidateSource, Limit, Outcome, Verification
from llmchecker.repairing.counterexamples import Diagnosis, Failed, Obligation

MOST_KNOWN = 4
"""Proven invariants that a prompt shows."""

MOST_FAILED = 3
"""Refuted candidates of which a prompt tells why."""

_OPEN = (Outcome.NOT_PROVEN, Outcome.NO_CANDIDATE)
"""Outcomes after which another invariant may help."""


@dataclass(frozen=True)
class Round:
    """What was asked about a loop in a round, and answered.

    Attributes:
        program: the program's name.
        way: the way of the attempt.
        number: of the round, from 1 on.
        line: of the loop.
        failed: what the prompt tells of the failures, a line each.
        answers: the texts of every answer.
        seconds: the time that the answers took.
    """

    program: str
    way: str
    number: int
    line: int
    failed: Sequence[str]
    answers: Sequence[Sequence[str]]
    seconds: float


@dataclass
class _Found:
    """What was proposed for a loop so far.

    Attributes:
        sampled: by the first answers.
        repaired: in rounds.
        latest: the candidates of the last answers.
    """

    sampled: dict[Expression, None]
    repaired: dict[Expression, None] = field(default_factory=dict)
    latest: tuple[Expression, ...] = ()

    @property
    def count(self) -> int:
        """How many candidates there are."""
        return len(self.sampled | self.repaired)


def repairs(
    proposer: Proposer,
    files: Sequence[Path],
    setting: Setting,
    repairing: Repairing,
    proposals: Mapping[str, ProgramProposals],
) -> Iterator[tuple[Attempt, tuple[Round, ...]]]:
    """Yield an attempt with repair for every program and way of `REPAIRED`, and its rounds.

    Args:
        proposer: what is asked.
        files: the C files.
        setting: what all attempts share.
        repairing: how often the proposer is asked.
        proposals: its first proposals, by the name of the program.

    Raises:
        MissingTool: there is no ESBMC.
    """
    for file in files:
        subject = Subject(file, setting, proposals.get(file.stem, {}))
        for name in REPAIRED:
            rounds: list[Round] = []

            def repair(way: str, subject: Subject, rounds: list[Round] = rounds) -> Attempt:
                return _Repair(proposer, subject, way, repairing, rounds).attempt()

            made = attempted(name, repair, subject)
            number = max((one.number for one in rounds), default=0)
            logging.info("%s: %s after %d rounds, %s", file.stem, made.outcome, number, name)
            yield made, tuple(rounds)


class _Repair:
    """One attempt with repair."""

    def __init__(
        self,
        proposer: Proposer,
        subject: Subject,
        way: str,
        repairing: Repairing,
        rounds: list[Round],
    ) -> None:
        self._proposer = proposer
        self._subject = subject
        self._way = way
        self._repairing = repairing
        self._rounds = rounds
        self._loops = subject.program.loops
        self._errors = 0
        self._first = max((made.iterations for made in subject.proposals.values()), default=0)
        self._found = {loop.number: self._sampled(loop) for loop in self._loops}

    def attempt(self) -> Attempt:
        """Prove, tell what failed and ask, until a proof or a limit ends it."""
        subject, setting = self._subject, self._subject.setting
        seconds, used = self._asked_before(), 0.0
        limits: set[Limit] = set()
        number = 0
        while True:
            began = time.process_time()
            result = subject.verifier.verify(self._proposals(), REPAIRED[self._way])
            used += time.process_time() - began
            seconds += result.seconds
            if result.outcome not in _OPEN:
                break
            if number == self._repairing.rounds:
                limits.add(Limit.ANSWERS)
                break
            if used > setting.limits.seconds:
                limits.add(Limit.PROVER_TIME)
                break
            open_ = [n for n in self._found if self._found[n].count < setting.candidates]
            if not open_:
                limits.add(Limit.CANDIDATES)
                break
            try:
                for made in self._asked(result, number + 1, open_):
                    self._rounds.append(made)
                    seconds += made.seconds
            except UnusableText as error:
                result = replace(result, message=str(error))
                break
            number += 1
        result = replace(
            result,
            seconds=seconds,
            limits=tuple(x for x in Limit if x in limits or x in result.limits),
        )
        answers = self._first + number * self._repairing.answers
        return subject.attempt(self._way, result, iterations=answers, parse_errors=self._errors)

    def _sampled(self, loop: Loop) -> _Found:
        made = self._subject.proposals.get(loop.number)
        if made is None:
            return _Found({})
        read = made.proposed(Variant.COMBINED, False, self._subject.program, loop)
        found = self._read(read)[: self._subject.setting.candidates]
        return _Found(dict.fromkeys(found), latest=found)

    def _read(self, answered: Sequence[Proposed]) -> tuple[Expression, ...]:
        """The candidates of answers; what is none is counted."""
        self._errors += sum(len(one.unparsed) + len(one.filtered) for one in answered)
        return tuple(dict.fromkeys(c for one in answered for c in one.candidates))

    def _asked_before(self) -> float:
        made = self._subject.proposals.values()
        return sum(one.sampling_seconds(Variant.COMBINED, one.iterations) for one in made)

    def _proposals(self) -> dict[CandidateSource, dict[int, Sequence[Expression]]]:
        return {
            CandidateSource.SAMPLED: {n: tuple(f.sampled) for n, f in self._found.items()},
            CandidateSource.REPAIRED: {n: tuple(f.repaired) for n, f in self._found.items()},
        }

    def _asked(self, result: Verification, number: int, open_: Sequence[int]) -> Iterator[Round]:
        """Ask about the loops of a counterexample, and yield what was asked and answered."""
        program, setting = self._subject.program, self._subject.setting
        known = [Candidate(proven.loop, proven.expression) for proven in result.known]
        diagnosis = Diagnosis(program, setting.semantics, self._subject.verifier.runs.heads)
        useless = {failed.loop: failed for failed in diagnosis.useless(known)}
        # Where Z3 tells no way to a violation, every loop may be the one that lacks something.
        concerned = [n for n in open_ if n in useless] or open_
        for loop in self._loops:
            if loop.number not in concerned:
                continue
            failed = self._refuted(diagnosis, loop, known)
            failed += [useless[loop.number]] if loop.number in useless else []
            told = [one.told() for one in failed] or [_UNKNOWN]
            shown = _shortest([c.expression for c in known if c.loop == loop.number])
            began = time.monotonic()
            answered = self._answers(loop, number, shown, told)
            made = Round(
                program.name, self._way, number, loop.line, told, answered, time.monotonic() - began
            )
            found = self._found[loop.number]
            read = (proposed(0, texts, program, loop, False) for texts in answered)
            found.latest = self._read(tuple(read))
            room = setting.candidates - found.count
            new = [c for c in found.latest if c not in found.sampled | found.repaired]
            found.repaired |= dict.fromkeys(new[:room])
            yield made

    def _refuted(
        self, diagnosis: Diagnosis, loop: Loop, known: Sequence[Candidate]
    ) -> list[Failed]:
        """Why some of the last candidates are no invariants."""
        told: list[Failed] = []
        for expression in self._found[loop.number].latest:
            candidate = Candidate(loop.number, expression)
            if candidate not in known and len(told) < MOST_FAILED:
                failed = diagnosis.refuted(candidate, known)
                told += [failed] if failed is not None else []
        # a candidate that only the step refutes is the nearest to an invariant, and told last
        return sorted(told, key=lambda failed: list(Obligation).index(failed.obligation))

    def _answers(
        self, loop: Loop, number: int, known: Sequence[str], failed: Sequence[str]
    ) -> list[tuple[str, ...]]:
        """The answers of a round; their numbers go on from those before."""
        count = self._repairing.answers
        first = self._first + (number - 1) * count
        styles: dict[Variant, list[int]] = {}
        for iteration in range(first, first + count):
            styles.setdefault(variant_of(Variant.COMBINED, iteration), []).append(iteration)
        answered: list[tuple[str, ...]] = []
        for style, iterations in styles.items():
            text = prompt(self._subject.program, loop, style, known, failed)
            answered += self._proposer.answers(text, iterations)
        return answered


_UNKNOWN = "the invariants so far do not imply what is asserted"


def _shortest(expressions: Sequence[Expression]) -> list[str]:
    """The shortest of some conditions, as C."""
    return sorted(map(c_text, expressions), key=lambda text: (len(text), text))[:MOST_KNOWN]


def write_rounds(rounds: Sequence[Round], path: str | Path) -> None:
    """Write what was asked in rounds, and answered, as JSON."""
    write_sealed_json({"rounds": [vars(one) for one in rounds]}, path)


def read_rounds(path: str | Path) -> tuple[Round, ...]:
    """Read the rounds of a file that `write_rounds` wrote."""
    return tuple(Round(**one) for one in read_sealed_json(path)["rounds"])
