"""Opening of a configured or named model, which its first use loads."""

from pathlib import Path
from typing import Any

from llmchecker.config import paths
from llmchecker.config.models import ModelConfig
from llmchecker.config.registry_keys import ExpansionConfig
from llmchecker.errors import ConfigError
from llmchecker.models.fetch import ensure_model
from llmchecker.models.servers.settings import ServerSource, is_served
from llmchecker.models.servers.spending import Spending
from llmchecker.models.sources.model_directory import MODEL_CONFIG
from llmchecker.models.text_answer import TextModel
from llmchecker.trees.builder import TreeBuilder
from llmchecker.trees.distribution_cache import DistributionCache
from llmchecker.utils.optional_packages import explain_missing_packages
from llmchecker.utils.processes import count_cores


def open_text_model(model: ModelConfig, spending: Spending) -> TextModel:
    """Open a model that returns texts alone; nothing is requested yet.

    Args:
        model: the model, with its decoding.
        spending: what the run has spent, with its limits.

    Raises:
        ConfigError: a limit of money is given, and the model has no prices.
        MissingTool: the packages for servers are not installed.
    """
    assert isinstance(model.source, ServerSource)
    with explain_missing_packages():
        from llmchecker.models.servers.text_client import TextClient
    return TextClient(
        model.name,
        model.source,
        Path(paths.texts_directory(model.name)),
        decoding=model.decoding,
        prices=model.prices,
        spending=spending,
    )


def open_model(model: ModelConfig, expansion: ExpansionConfig) -> TreeBuilder:
    """Open a model, and fetch it if it is absent; the first use loads it.

    Args:
        model: the model, with its decoding.
        expansion: the settings of trees.

    Raises:
        SourceError: the model is absent and cannot be fetched.
        ConfigError: the directory contains another model, or none.
    """
    directory = model.directory
    # a directory that a user names is the model itself, and no copy is made
    if model.given_directory is None:
        ensure_model(model.source, directory, Path(paths.model_lock(model.name)))
    elif not (directory / MODEL_CONFIG).is_file() and not is_served(directory):
        raise ConfigError(f"model: {directory} has no {MODEL_CONFIG}; name a model")
    return TreeBuilder(
        directory=directory,
        # without a scheduler, a model uses every core of the process by default
        threads=expansion.threads or count_cores(),
        limits=expansion.build_limits(model.mem_mb),
        **build_tree_settings(model, expansion),
    )


def build_model_settings(model: ModelConfig, expansion: ExpansionConfig) -> dict[str, Any]:
    """Build the arguments of a `LazyModel`, without its directory and threads.

    Args:
        model: the model, with its decoding.
        expansion: the settings of trees.
    """
    return {
        **model.load_settings,
        "memory_bytes": expansion.memory_bytes,
        "decoding": model.decoding,
    }


def build_tree_settings(model: ModelConfig, expansion: ExpansionConfig) -> dict[str, Any]:
    """Build the arguments of a `TreeBuilder`, without its directory, threads and limits.

    Args:
        model, expansion: as in `build_model_settings`.
    """
    return {
        **build_model_settings(model, expansion),
        "end_of_sequence": expansion.end_of_sequence,
        "cache": build_cache(expansion),
    }


def build_cache(expansion: ExpansionConfig) -> DistributionCache:
    """Build the cache of distributions, with the limit of the configuration."""
    return DistributionCache(Path(paths.STORE_DIRECTORY), expansion.max_cache_bytes)
