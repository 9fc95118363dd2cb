"""Asking a language model for invariants of programs, once for all experiments."""

import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from llmchecker.config.programs import Asking
from llmchecker.errors import ProgramError, UnusableText
from llmchecker.invariants.enumeration import most_probable
from llmchecker.invariants.prompts import Variant, prompt
from llmchecker.invariants.proposals import LoopProposals, ProgramProposals
from llmchecker.invariants.sampling import answers, served_answers
from llmchecker.models.protocols import LanguageModel
from llmchecker.programs.expressions import c_text
from llmchecker.programs.statements import Loop, Program
from llmchecker.reading.parsing import read_program
from llmchecker.serving.connecting import connect_writer, is_served
from llmchecker.serving.writing import ServedWriter

_log = logging.getLogger(__name__)


class Proposer(Protocol):
    """What is asked for invariants."""

    def answers(self, prompt: str, iterations: Sequence[int]) -> list[tuple[str, ...]]:
        """The texts of the invariants that it writes after a prompt, for every iteration."""
        ...

    def probable(self, prompt: str, program: Program, loop: Loop) -> list[tuple[str, float]]:
        """The conditions that it most probably writes, if that can be told; else none."""
        ...


@dataclass(frozen=True)
class InProcess:
    """A model of this machine.

    Attributes:
        model: the model.
        asking: how it is asked.
    """

    model: LanguageModel
    asking: Asking

    def answers(self, prompt: str, iterations: Sequence[int]) -> list[tuple[str, ...]]:
        """The texts of the invariants that it writes after a prompt, for every iteration."""
        return answers(self.model, prompt, iterations, self.asking.seed)

    def probable(self, prompt: str, program: Program, loop: Loop) -> list[tuple[str, float]]:
        """The conditions that it most probably writes, with a lower bound of the probability."""
        found = most_probable(self.model, prompt, program, loop, self.asking.nodes)
        kept = found[: self.asking.candidates]
        return [(c_text(condition.expression), condition.total) for condition in kept]


@dataclass(frozen=True)
class Served:
    """A model behind a server, which tells no probabilities.

    Attributes:
        writer: what asks the server.
        asking: how it is asked.
        kept: the directory of its answers.
    """

    writer: ServedWriter
    asking: Asking
    kept: Path

    def answers(self, prompt: str, iterations: Sequence[int]) -> list[tuple[str, ...]]:
        """The texts of the invariants that it writes after a prompt, for every iteration."""
        return served_answers(self.writer, prompt, iterations, self.asking.seed, self.kept)

    def probable(self, prompt: str, program: Program, loop: Loop) -> list[tuple[str, float]]:
        """None."""
        del prompt, program, loop
        return []


STYLES = (Variant.FULL, Variant.CONSTRAINED)


def proposer_of(
    directory: Path, asking: Asking, kept: Path, threads: int, loading: Mapping[str, str]
) -> Proposer:
    """What a model directory holds, ready to be asked.

    Args:
        directory: of a model, or of a served one.
        asking: how it is asked.
        kept: where the answers of a server are kept.
        threads: batches that a model computes at once.
        loading: the arguments of `load_model` that describe a model of this machine.
    """
    if is_served(directory):
        return Served(connect_writer(directory), asking, kept)
    # transformers takes seconds to import, which a server does not need
    from llmchecker.loading.models import load_model

    return InProcess(load_model(directory, threads=threads, **loading), asking)


def propose(proposer: Proposer, program: Program, asking: Asking) -> ProgramProposals:
    """Ask for invariants of every loop of a program.

    Returns:
        The proposals by the number of the loop.
    """
    return {loop.number: _propose(proposer, program, loop, asking) for loop in program.loops}


def propose_all(
    proposer: Proposer, files: Sequence[Path], asking: Asking, at_once: int = 1
) -> dict[str, ProgramProposals]:
    """Ask for invariants of programs.

    A program that cannot be read, is not supported or is too long for the model is left out, and
    the log says why.

    Args:
        proposer: what is asked.
        files: the C files.
        asking: how many proposals are asked for, and with which seed.
        at_once: the number of programs that are asked about at the same time. The proposals do not
            depend on it. A step has few rows and occupies one thread of a model only, so several
            programs together finish sooner.

    Returns:
        The proposals for every program, by its name.
    """
    made = {}
    with ThreadPoolExecutor(at_once) as pool:
        answered = pool.map(partial(_propose_to, proposer, asking=asking), files)
        for number, (file, proposals) in enumerate(zip(files, answered, strict=True), start=1):
            if proposals is not None:
                made[file.stem] = proposals
                _log.info("%s: program %d of %d", file.stem, number, len(files))
    return made


def _propose_to(proposer: Proposer, file: Path, asking: Asking) -> ProgramProposals | None:
    """The proposals for a file; None if its program cannot be read, also by the model."""
    try:
        return propose(proposer, read_program(file), asking)
    except (ProgramError, UnusableText) as error:
        _log.info("%s is left out: %s", file.stem, error)
        return None


def _propose(proposer: Proposer, program: Program, loop: Loop, asking: Asking) -> LoopProposals:
    texts, seconds = {}, {}
    # `combined` is not asked: its answers are taken from those to these two.
    for shown in STYLES:
        started = time.monotonic()
        drawn = proposer.answers(prompt(program, loop, shown), range(asking.iterations))
        texts[shown], seconds[shown] = drawn, time.monotonic() - started
    started = time.monotonic()
    enumerated = proposer.probable(prompt(program, loop, Variant.CONSTRAINED), program, loop)
    return LoopProposals(texts, seconds, enumerated, time.monotonic() - started)
