"""What a language model proposes for a set of programs, made once and kept as JSON."""

import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from llmchecker.errors import ProgramError
from llmchecker.files import read_json, write_json
from llmchecker.invariants.c_expressions import parse_candidate
from llmchecker.invariants.c_programs import read_program
from llmchecker.invariants.enumeration import most_probable
from llmchecker.invariants.expressions import Expression, text
from llmchecker.invariants.programs import Loop, Program
from llmchecker.invariants.prompts import Variant, prompt, style
from llmchecker.invariants.sampling import Proposed, answers, proposed
from llmchecker.invariants.settings import Asking
from llmchecker.language_models import LanguageModel

_log = logging.getLogger(__name__)

STYLES = (Variant.FULL, Variant.CONSTRAINED)


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
        texts = (self.answers[style(variant, i)][i] for i in range(self.iterations))
        return tuple(proposed(i, t, program, loop, filtered) for i, t in enumerate(texts))

    def sampling_seconds(self, variant: Variant, iterations: int) -> float:
        """The seconds that the first iterations of a variant took, as a share of all."""
        shares = (self.seconds[style(variant, i)] / self.iterations for i in range(iterations))
        return sum(shares)

    def conditions(self, program: Program, loop: Loop) -> tuple[Expression, ...]:
        """The enumerated conditions."""
        texts = (written for written, _ in self.enumerated)
        return tuple(parse_candidate(written, loop.scope, program.types) for written in texts)


ProgramProposals = Mapping[int, LoopProposals]
"""By the number of the loop."""


def propose(model: LanguageModel, program: Program, asking: Asking) -> ProgramProposals:
    """Ask a model for invariants of every loop of a program."""
    return {loop.number: _propose(model, program, loop, asking) for loop in program.loops}


def propose_all(
    model: LanguageModel, files: Sequence[Path], asking: Asking, at_once: int = 1
) -> dict[str, ProgramProposals]:
    """Ask a model for invariants of programs, by name.

    What cannot be read or is not supported is told in the log and left out.

    Args:
        at_once: programs that are asked about at the same time; what is proposed does not depend
            on it. The few rows of a step keep no more than one thread of a model at work.
    """
    made = {}
    with ThreadPoolExecutor(at_once) as pool:
        answered = pool.map(partial(_propose_to, model, asking=asking), files)
        for number, (file, proposals) in enumerate(zip(files, answered, strict=True), start=1):
            if proposals is not None:
                made[file.stem] = proposals
                _log.info("%s: program %d of %d", file.stem, number, len(files))
    return made


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


def _propose_to(model: LanguageModel, file: Path, asking: Asking) -> ProgramProposals | None:
    """The proposals for a file; None if it cannot be treated."""
    try:
        return propose(model, read_program(file), asking)
    except ProgramError as error:
        _log.info("%s is left out: %s", file.stem, error)
        return None


def _propose(model: LanguageModel, program: Program, loop: Loop, asking: Asking) -> LoopProposals:
    texts, seconds = {}, {}
    for shown in STYLES:
        started = time.monotonic()
        drawn = answers(model, prompt(program, loop, shown), range(asking.iterations), asking.seed)
        texts[shown], seconds[shown] = drawn, time.monotonic() - started
    started = time.monotonic()
    shown = prompt(program, loop, Variant.CONSTRAINED)
    found = most_probable(model, shown, program, loop, asking.nodes)[: asking.candidates]
    enumerated = [(text(condition.expression), condition.total) for condition in found]
    return LoopProposals(texts, seconds, enumerated, time.monotonic() - started)


def _read(made: Mapping) -> LoopProposals:
    return LoopProposals(
        {Variant(shown): texts for shown, texts in made["answers"].items()},
        {Variant(shown): seconds for shown, seconds in made["seconds"].items()},
        [(written, probability) for written, probability in made["enumerated"]],
        made["enumeration_seconds"],
    )
