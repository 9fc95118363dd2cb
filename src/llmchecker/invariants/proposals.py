"""What a language model proposed for a set of programs, kept as JSON and read as conditions."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from llmchecker.errors import UnsupportedProgram
from llmchecker.files import read_json, write_json
from llmchecker.invariants.prompts import Variant, variant_of
from llmchecker.programs.c_expressions import parse_candidate
from llmchecker.programs.expressions import Expression
from llmchecker.programs.statements import Loop, Program

_FILTER = re.compile(r"(?:[A-Za-z_]\w*+|\d++|\s|<=?|>=?|==|!=?|&&|\|\||[-+*()])++", flags=re.ASCII)


@dataclass(frozen=True)
class Proposed:
    """What one answer proposes.

    Attributes:
        iteration: its number, from 0 on.
        candidates: conditions over at least one variable, distinct, in the order of the text.
        filtered: texts that the syntactic filter rejects.
        unparsed: texts that are no such condition, among them what did not end in time.
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
        seconds: that all answers to a kind of prompt took.
        enumerated: the most probable conditions and their probabilities, the most probable first.
        enumeration_seconds: that these took.
    """

    answers: Mapping[Variant, Sequence[Sequence[str]]]
    seconds: Mapping[Variant, float]
    enumerated: Sequence[tuple[str, float]]
    enumeration_seconds: float

    @property
    def iterations(self) -> int:
        """How many answers there are to each kind of prompt."""
        return len(self.answers[Variant.FULL])

    def proposed(
        self, variant: Variant, filtered: bool, program: Program, loop: Loop
    ) -> tuple[Proposed, ...]:
        """What the answers of a variant propose, by iteration."""
        texts = (self.answers[variant_of(variant, i)][i] for i in range(self.iterations))
        return tuple(proposed(i, t, program, loop, filtered) for i, t in enumerate(texts))

    def sampling_seconds(self, variant: Variant, iterations: int) -> float:
        """The seconds that the first iterations of a variant took, as a share of all."""
        shares = (self.seconds[variant_of(variant, i)] / self.iterations for i in range(iterations))
        return sum(shares)

    def conditions(self, program: Program, loop: Loop) -> tuple[Expression, ...]:
        """The enumerated conditions."""
        texts = (written for written, _ in self.enumerated)
        return tuple(parse_candidate(written, loop.scope, program.types) for written in texts)


ProgramProposals = Mapping[int, LoopProposals]
"""By the number of the loop."""


def proposed(
    iteration: int, texts: Sequence[str], program: Program, loop: Loop, filtered: bool
) -> Proposed:
    """Read the texts of an answer to a question for invariants of a loop."""
    candidates: dict[Expression, None] = {}
    rejected, unparsed = [], []
    for text in texts:
        if filtered and not _FILTER.fullmatch(text):
            rejected.append(text)
            continue
        try:
            candidates.setdefault(parse_candidate(text, loop.scope, program.types))
        except UnsupportedProgram:
            unparsed.append(text)
    return Proposed(iteration, tuple(candidates), tuple(rejected), tuple(unparsed))


def write_proposals(proposals: Mapping[str, ProgramProposals], path: str | Path) -> None:
    """Write the proposals for programs, by name."""
    content = {
        name: {str(number): asdict(made) for number, made in loops.items()}
        for name, loops in proposals.items()
    }
    write_json(content, path)


def read_proposals(path: str | Path) -> dict[str, ProgramProposals]:
    """Read proposals as `write_proposals` wrote them."""
    return {
        name: {int(number): _read(made) for number, made in loops.items()}
        for name, loops in read_json(path).items()
    }


def _read(made: Mapping) -> LoopProposals:
    return LoopProposals(
        {Variant(shown): texts for shown, texts in made["answers"].items()},
        {Variant(shown): seconds for shown, seconds in made["seconds"].items()},
        [(written, probability) for written, probability in made["enumerated"]],
        made["enumeration_seconds"],
    )
