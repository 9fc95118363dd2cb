"""Deployments: a model with a system prompt and a decoding, as users meet it."""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmchecker.config import paths
from llmchecker.config.config import Config
from llmchecker.config.keys import ExpansionConfig, ModelKeys
from llmchecker.config.models import (
    ModelConfig,
    check_has_distributions,
    parse_model,
    select_decoding,
)
from llmchecker.errors import ConfigError, UnknownName, UnusableText, did_you_mean
from llmchecker.models.decoding.chat_template import Start
from llmchecker.models.decoding.settings import decoding_as_json
from llmchecker.models.servers.connection import ensure_model
from llmchecker.trees.builder import TreeBuilder
from llmchecker.trees.distribution_cache import DistributionCache, PromptDistributions

if TYPE_CHECKING:
    from llmchecker.models.interface import LanguageModel
    from llmchecker.trees.expansion import EndOfSequence

_MIN_SHARED_TOKENS = 8
"""Minimum number of common tokens that are computed once."""


@dataclass(frozen=True)
class Deployment:
    """A model with a system prompt and a decoding.

    Attributes:
        name: the name in all outputs.
        model: the model with its decoding.
        system: the system prompt of chats; None for none.
        directory: directory of the model.
        is_fetched: whether the workflow's source of the model fills the directory.
    """

    name: str
    model: ModelConfig
    system: str | None
    directory: Path
    is_fetched: bool

    def describe(self) -> dict[str, Any]:
        """Return all that determines the answers, as JSON."""
        return {
            "name": self.name,
            "source": str(self.model.source.source),
            "kind": self.model.kind,
            "dtype": self.model.dtype,
            "decoding": decoding_as_json(self.model.decoding),
            "system": self.system,
        }


def resolve_deployment(
    key: str,
    name: str,
    config: Config | None,
    folder: Path,
    system: str | None,
    decoding: Mapping[str, Any],
) -> Deployment:
    """Find the model of a name: one of the configuration, or a directory.

    Args:
        key: the key with the name, for messages.
        name: the name of a model, or the path of a directory.
        config: the configuration; None without one.
        folder: the folder to which a path is relative.
        system: the system prompt.
        decoding: the keys of the suite, with or without `decoding`.

    Raises:
        UnknownName: the name is neither a model nor a directory.
        ConfigError: the model has no distributions, or no decoding.
    """
    models = {} if config is None else config.models
    directory = folder / Path(name).expanduser()
    if name in models:
        model = models[name]
        model_directory, is_fetched = Path(paths.model_directory(name)), True
    elif directory.is_dir():
        keys = ModelKeys(label=directory.name or name, source=f"path:{directory.absolute()}")
        model = parse_model(directory.name.lower() or "model", keys)
        model_directory, is_fetched = directory.absolute(), False
    else:
        hint = did_you_mean(name, models) or ";"
        known = ", ".join(models) or "no models, as no configuration was found"
        raise UnknownName(f"{key}: {name!r} is no directory and no model{hint} known are {known}")
    check_has_distributions(key, model)
    model = replace(model, decoding=select_decoding("decoding", decoding, model))
    return Deployment(name, model, system, model_directory, is_fetched)


@dataclass(frozen=True)
class OpenDeployment:
    """The model of a deployment, which the first use loads.

    The common beginning of the prompts, such as a system prompt, is computed once.

    Attributes:
        builder: the model with its stored distributions.
        starts: all prompts of the deployment.
    """

    builder: TreeBuilder
    starts: tuple[Start, ...]

    @property
    def end_of_sequence(self) -> "EndOfSequence":
        """Whether an end-of-sequence token ends a text."""
        return self.builder.end_of_sequence

    @cached_property
    def model(self) -> "LanguageModel":
        """The loaded model."""
        model, beginning = self.builder.model, self._beginning
        # servers share beginnings themselves, and masked models have none
        if not beginning or not hasattr(model, "share_prompt"):
            return model
        return model.share_prompt(beginning, self._prompts[0])

    def open_distributions(self, start: Start) -> PromptDistributions:
        """Open the stored distributions after a start string.

        Raises:
            UnusableText: the model cannot encode the start string.
        """
        if self.model is self.builder.model:
            return self.builder.open_distributions(start)
        # two pieces of a prompt may change the last bits of probabilities
        key = json.dumps([self.builder.model_fingerprint, self._beginning])
        fingerprint = hashlib.sha256(key.encode()).hexdigest()
        return self.builder.cache.open_distributions(fingerprint, self.model.encode(start))

    @cached_property
    def _prompts(self) -> list[tuple[int, ...]]:
        """The tokens of all prompts that the model can encode, without repetitions."""
        prompts: dict[tuple[int, ...], None] = {}
        for start in dict.fromkeys(self.starts):
            # the case of this prompt reports the error
            with contextlib.suppress(UnusableText):
                prompts[self.builder.model.encode(start)] = None
        return list(prompts)

    @cached_property
    def _beginning(self) -> tuple[int, ...]:
        """The tokens with which all prompts begin; empty if they are too few."""
        if len(self._prompts) < 2:
            return ()
        # of all sequences, the first and the last in order differ earliest
        first, last = min(self._prompts), max(self._prompts)
        length = 0
        while length < len(first) - 1 and first[length] == last[length]:
            length += 1
        return first[:length] if length >= _MIN_SHARED_TOKENS else ()


def open_deployment(
    deployment: Deployment, expansion: ExpansionConfig, starts: Iterable[Start]
) -> OpenDeployment:
    """Open the model of a deployment; the first use loads it.

    Args:
        deployment: the deployment.
        expansion: the settings of trees.
        starts: all its prompts.

    Raises:
        SourceError: the model is absent and cannot be fetched.
        ConfigError: the directory contains another model.
    """
    model = deployment.model
    if deployment.is_fetched:
        lock = Path(paths.model_lock(model.name))
        ensure_model(model.source, deployment.directory, lock)
    elif not (deployment.directory / "config.json").is_file():
        raise ConfigError(f"model: {deployment.directory} has no config.json; name a model")
    builder = TreeBuilder(
        directory=deployment.directory,
        kind=model.kind,
        dtype=model.dtype,
        device=model.device,
        threads=expansion.threads or len(os.sched_getaffinity(0)),
        memory_bytes=expansion.memory_bytes,
        end_of_sequence=expansion.end_of_sequence,
        cache=DistributionCache(Path(paths.STORE_DIRECTORY), expansion.max_cache_bytes),
        decoding=model.decoding,
        limits=expansion.build_limits(model.mem_mb),
    )
    return OpenDeployment(builder, tuple(starts))
