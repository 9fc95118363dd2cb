"""Asking a language model for invariants of programs, once for all experiments."""

import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from llmchecker.config.programs import Asking
from llmchecker.errors import ProgramError
from llmchecker.invariants.enumeration import most_probable
from llmchecker.invariants.prompts import Variant, prompt
from llmchecker.invariants.proposals import LoopProposals, ProgramProposals
from llmchecker.invariants.sampling import answers
from llmchecker.models.protocols import LanguageModel
from llmchecker.programs.expressions import c_text
from llmchecker.programs.statements import Loop, Program
from llmchecker.reading.parsing import read_program

_log = logging.getLogger(__name__)

STYLES = (Variant.FULL, Variant.CONSTRAINED)


def propose(model: LanguageModel, program: Program, asking: Asking) -> ProgramProposals:
    """Ask a model for invariants of every loop of a program.

    Returns:
        The proposals by the number of the loop.
    """
    return {loop.number: _propose(model, program, loop, asking) for loop in program.loops}


def propose_all(
    model: LanguageModel, files: Sequence[Path], asking: Asking, at_once: int = 1
) -> dict[str, ProgramProposals]:
    """Ask a model for invariants of programs.

    A program that cannot be read or is not supported is left out, and the log says why.

    Args:
        model: the model to ask.
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
        answered = pool.map(partial(_propose_to, model, asking=asking), files)
        for number, (file, proposals) in enumerate(zip(files, answered, strict=True), start=1):
            if proposals is not None:
                made[file.stem] = proposals
                _log.info("%s: program %d of %d", file.stem, number, len(files))
    return made


def _propose_to(model: LanguageModel, file: Path, asking: Asking) -> ProgramProposals | None:
    """The proposals for a file; None if its program cannot be read or is not supported."""
    try:
        return propose(model, read_program(file), asking)
    except ProgramError as error:
        _log.info("%s is left out: %s", file.stem, error)
        return None


def _propose(model: LanguageModel, program: Program, loop: Loop, asking: Asking) -> LoopProposals:
    texts, seconds = {}, {}
    # `combined` is not asked: its answers are taken from those to these two.
    for shown in STYLES:
        started = time.monotonic()
        drawn = answers(model, prompt(program, loop, shown), range(asking.iterations), asking.seed)
        texts[shown], seconds[shown] = drawn, time.monotonic() - started
    started = time.monotonic()
    shown = prompt(program, loop, Variant.CONSTRAINED)
    found = most_probable(model, shown, program, loop, asking.nodes)[: asking.candidates]
    enumerated = [(c_text(condition.expression), condition.total) for condition in found]
    return LoopProposals(texts, seconds, enumerated, time.monotonic() - started)
