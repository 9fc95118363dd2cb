"""A language model's proposals for a set of programs, kept as JSON and read as conditions."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from llmchecker.errors import UnsupportedProgram
from llmchecker.files import read_sealed_json, write_sealed_json
from llmchecker.invariants.prompts import Variant, variant_of
from llmchecker.programs.expressions import Expression
from llmchecker.programs.statements import Loop, Program
from llmchecker.reading.c_expressions import parse_candidate

_FILTER = re.compile(r"(?:[A-Za-z_]\w*+|\d++|\s|<=?|>=?|==|!=?|&&|\|\||[-+*()])++", flags=re.ASCII)


MOST_CHARACTERS = 1000
"""Characters of the longest text that is read as a condition."""


@dataclass(frozen=True)
class Proposed:
    """What one answer proposes.

    Attributes:
        iteration: the number of the answer, from 0 on.
        candidates: the distinct conditions over at least one variable, in the order of the text.
        filtered: the texts that the syntactic filter rejects.
        unparsed: the texts that are no such condition; one that did not end in time is among them.
    """

    iteration: int
    candidates: tuple[Expression, ...]
    filtered: tuple[str, ...]
    unparsed: tuple[str, ...]


@dataclass(frozen=True)
class LoopProposals:
    """What a model proposes for one loop.

    Attributes:
        answers: for `full` and `constrained`, the texts of every iteration's answer.
        seconds: the time that all answers to each kind of prompt took.
        enumerated: the most probable conditions with their probabilities, the most probable first.
        enumeration_seconds: the time that the enumerated conditions took.
    """

    answers: Mapping[Variant, Sequence[Sequence[str]]]
    seconds: Mapping[Variant, float]
    enumerated: Sequence[tuple[str, float]]
    enumeration_seconds: float

    @property
    def iterations(self) -> int:
        """The number of answers to each kind of prompt."""
        return len(self.answers[Variant.FULL])

    def proposed(
        self, variant: Variant, filtered: bool, program: Program, loop: Loop
    ) -> tuple[Proposed, ...]:
        """What the answers of a variant propose, one entry for every iteration."""
        texts = (self.answers[variant_of(variant, i)][i] for i in range(self.iterations))
        return tuple(proposed(i, t, program, loop, filtered) for i, t in enumerate(texts))

    def sampling_seconds(self, variant: Variant, iterations: int) -> float:
        """The seconds of a variant's first iterations.

        All answers grow together, so each counts an equal share of their time.
        """
        shares = (self.seconds[variant_of(variant, i)] / self.iterations for i in range(iterations))
        return sum(shares)

    def conditions(self, program: Program, loop: Loop) -> tuple[Expression, ...]:
        """The enumerated conditions."""
        texts = (written for written, _ in self.enumerated)
        return tuple(parse_candidate(written, loop.scope, program.types) for written in texts)


ProgramProposals = Mapping[int, LoopProposals]
"""The proposals for a program, by the number of the loop."""


def proposed(
    iteration: int, texts: Sequence[str], program: Program, loop: Loop, filtered: bool
) -> Proposed:
    """Read the texts of one answer as conditions over the loop's variables.

    Args:
        iteration: the number of the answer, from 0 on.
        texts: the texts of the answer.
        program: supplies the types of the variables.
        loop: supplies the variables.
        filtered: whether the syntactic filter is on.
    """
    candidates: dict[Expression, None] = {}
    rejected, unparsed = [], []
    for text in texts:
        if filtered and not _FILTER.fullmatch(text):
            rejected.append(text)
            continue
        if len(text) > MOST_CHARACTERS:
            unparsed.append(text)
            continue
        try:
            candidates.setdefault(parse_candidate(text, loop.scope, program.types))
        except UnsupportedProgram:
            unparsed.append(text)
    return Proposed(iteration, tuple(candidates), tuple(rejected), tuple(unparsed))


def write_proposals(proposals: Mapping[str, ProgramProposals], path: str | Path) -> None:
    """Write the proposals for programs, by the programs' names, as JSON."""
    content = {
        name: {str(number): asdict(made) for number, made in loops.items()}
        for name, loops in proposals.items()
    }
    write_sealed_json(content, path)


def read_proposals(path: str | Path) -> dict[str, ProgramProposals]:
    """Read the proposals of a file that `write_proposals` wrote."""
    return {
        name: {int(number): _read(made) for number, made in loops.items()}
        for name, loops in read_sealed_json(path).items()
    }


def _read(made: Mapping) -> LoopProposals:
    return LoopProposals(
        {Variant(shown): texts for shown, texts in made["answers"].items()},
        {Variant(shown): seconds for shown, seconds in made["seconds"].items()},
        [(written, probability) for written, probability in made["enumerated"]],
        made["enumeration_seconds"],
    )
