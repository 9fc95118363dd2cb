"""Candidates that a language model writes for the loops of the programs of `verify`."""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from llmchecker.config.deployment import resolve_deployment
from llmchecker.config.opening import load_opened_model, open_model
from llmchecker.config.project import DEFAULT_CONFIG
from llmchecker.config.registry import Registry
from llmchecker.errors import ConfigError, ProgramError, UnusableText
from llmchecker.models.interface import LanguageModel
from llmchecker.models.servers.spending import Spending
from llmchecker.models.servers.text_client import TextClient
from loop_invariants.frontend.translation_unit import read_program
from loop_invariants.ir.expressions import Expression
from loop_invariants.proposals.proposers import build_proposer, propose_for_program
from loop_invariants.proposals.settings import ProposalSettings

_KINDS = ("causal", "texts")
"""Kinds of models that continue a text; a served one lists only its most probable tokens."""


def sample_candidates(
    name: str, files: Sequence[Path], settings: ProposalSettings
) -> Mapping[Path, Mapping[int, Sequence[Expression]]]:
    """Return the conditions that a model writes, by file and number of the loop.

    Programs that cannot be read, or that are too long for the model, have none.

    Args:
        name: a model of the configuration, or a directory or source, as of `llmchecker check`.
        files: the C files.
        settings: the number of answers and their seed.

    Raises:
        ConfigError: no model has the name, or the model continues no text.
        SourceError: the model is absent and cannot be fetched.
        UnusableModel: the model cannot be loaded.
    """
    config = Path(DEFAULT_CONFIG)
    registry = Registry.read(config) if config.is_file() else Registry()
    deployment = resolve_deployment("--model", name, registry)
    if deployment.model.kind not in _KINDS:
        raise ConfigError(
            f"--model: {name} is {deployment.model.kind}; name a causal model or one of texts alone"
        )
    with contextlib.chdir(registry.project):
        opened = open_model(deployment.model, registry.expansion, Spending())
        model = cast(LanguageModel | TextClient, load_opened_model(opened))
    proposer = build_proposer(model, settings)
    candidates: dict[Path, Mapping[int, Sequence[Expression]]] = {}
    for file in files:
        # The verification of the file reports what is wrong with it.
        with contextlib.suppress(ProgramError, UnusableText):
            program = read_program(file)
            proposals = propose_for_program(proposer, program, settings)
            candidates[file] = {
                loop.number: proposals[loop.number].collect_candidates(program, loop)
                for loop in program.loops
            }
    return candidates
