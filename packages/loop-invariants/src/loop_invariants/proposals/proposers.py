"""Proposers: language models that propose invariants, once for all experiments."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, cast

from llmchecker.errors import ProgramError, UnusableText
from llmchecker.models.interface import LanguageModel
from llmchecker.models.servers.connection import connect_text_client
from llmchecker.models.servers.settings import is_served
from llmchecker.models.servers.text_client import TextClient
from loop_invariants.frontend.translation_unit import read_program
from loop_invariants.ir.statements import Loop, Program
from loop_invariants.proposals.prompt_templates import PromptVariant, build_prompt
from loop_invariants.proposals.proposal_set import LoopProposals, ProgramProposals
from loop_invariants.proposals.sampling import request_answers, sample_answers
from loop_invariants.proposals.settings import ProposalSettings

_log = logging.getLogger(__name__)


_Proposer = Callable[[str, Sequence[int]], list[tuple[str, ...]]]
"""A source of proposals: the invariants' texts in each iteration's answer to a prompt."""


_VARIANTS = (PromptVariant.FULL, PromptVariant.CONSTRAINED)


def load_proposer(
    directory: Path,
    settings: ProposalSettings,
    cache_directory: Path,
    threads: int,
    load_arguments: Mapping[str, Any],
) -> _Proposer:
    """Load the proposer of a model directory.

    Args:
        directory: the directory of a local or served model.
        settings: the settings of the proposals.
        cache_directory: the directory for cached answers of a server.
        threads: number of batches that a local model computes at once.
        load_arguments: the arguments of `load_model` for a local model.
    """
    if is_served(directory):
        return build_proposer(connect_text_client(directory, cache_directory), settings)
    # The import of transformers takes seconds, and a server does not need it.
    from llmchecker.models.transformers.load import load_model

    # The configuration accepts causal models only.
    model = cast(LanguageModel, load_model(directory, threads=threads, **load_arguments))
    return build_proposer(model, settings)


def build_proposer(model: LanguageModel | TextClient, settings: ProposalSettings) -> _Proposer:
    """Build the proposer of an open model."""
    if isinstance(model, TextClient):
        return lambda prompt, iterations: request_answers(model, prompt, iterations, settings.seed)
    return lambda prompt, iterations: sample_answers(model, prompt, iterations, settings.seed)


def propose_for_program(
    proposer: _Proposer, program: Program, settings: ProposalSettings
) -> ProgramProposals:
    """Propose invariants of every loop of a program.

    Returns:
        The proposals by loop number.
    """
    return {
        loop.number: _propose_for_loop(proposer, program, loop, settings) for loop in program.loops
    }


def propose_invariants(
    proposer: _Proposer, files: Sequence[Path], settings: ProposalSettings, max_workers: int = 1
) -> dict[str, ProgramProposals]:
    """Propose invariants of programs.

    A program that is unreadable, not supported or too long for the model is left out and logged.

    Args:
        proposer: the proposer.
        files: the C files.
        settings: the number of proposals and their seed.
        max_workers: number of programs processed at the same time. The proposals do not depend on
            it. A step has few rows and uses a single thread of a model, so several programs
            together finish sooner.

    Returns:
        The proposals for every program, by program name.
    """
    program_proposals = {}
    with ThreadPoolExecutor(max_workers) as pool:
        results = pool.map(partial(_propose_for_file, proposer, settings=settings), files)
        for number, (file, proposals) in enumerate(zip(files, results, strict=True), start=1):
            if proposals is not None:
                program_proposals[file.stem] = proposals
                _log.info("%s: program %d of %d", file.stem, number, len(files))
    return program_proposals


def _propose_for_file(
    proposer: _Proposer, file: Path, settings: ProposalSettings
) -> ProgramProposals | None:
    """Propose invariants for a file; None if program or model is rejected."""
    try:
        return propose_for_program(proposer, read_program(file), settings)
    except (ProgramError, UnusableText) as error:
        # A single unusable program must not end the proposals for the others.
        _log.info("%s is left out: %s", file.stem, error)
        return None


def _propose_for_loop(
    proposer: _Proposer, program: Program, loop: Loop, settings: ProposalSettings
) -> LoopProposals:
    texts, seconds = {}, {}
    # `combined` needs no answers of its own: it reuses the answers to these two prompts.
    for variant in _VARIANTS:
        start_time = time.monotonic()
        answers = proposer(build_prompt(program, loop, variant), range(settings.iterations))
        texts[variant], seconds[variant] = answers, time.monotonic() - start_time
    return LoopProposals(texts, seconds)
