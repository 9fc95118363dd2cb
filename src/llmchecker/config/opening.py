"""Opening of a configured or named model, which its first use loads."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmchecker.config import paths
from llmchecker.config.models import ModelConfig
from llmchecker.config.registry_keys import ExpansionConfig
from llmchecker.errors import UnusableModel
from llmchecker.models.application import Application
from llmchecker.models.fetch import ensure_model
from llmchecker.models.lazy_model import LazyModel
from llmchecker.models.servers.settings import ServerSource, is_served
from llmchecker.models.servers.spending import Spending
from llmchecker.models.sources.adapters import ADAPTER_CONFIG
from llmchecker.models.sources.model_directory import MODEL_CONFIG
from llmchecker.models.text_answer import TextModel
from llmchecker.trees.builder import TreeBuilder
from llmchecker.trees.distribution_cache import DistributionCache
from llmchecker.utils.optional_packages import explain_missing_packages
from llmchecker.utils.processes import count_cores

if TYPE_CHECKING:
    from llmchecker.models.interface import LanguageModel


def open_model(
    model: ModelConfig, expansion: ExpansionConfig, spending: Spending
) -> LazyModel | TextModel:
    """Open a model, and fetch it if it is absent.

    Its first use loads a model with distributions. Of a model that returns texts alone, nothing is
    requested before.

    Args:
        model: the model, with its decoding.
        expansion: the settings of models with distributions.
        spending: what the run has spent on texts alone, with its limits.

    Raises:
        SourceError: the model is absent and cannot be fetched, or a directory has no model.
        ConfigError: the directory contains another model; or a limit of money is given, and the
            model has no prices.
        MissingTool: the packages for servers are not installed.
    """
    return open_texts(model, spending) if model.is_text_only else open_lazily(model, expansion)


def load_opened_model(opened: LazyModel | TextModel) -> "LanguageModel | TextModel":
    """Load an opened model, unless it returns texts alone.

    Raises:
        UnusableModel: the model cannot be loaded.
    """
    return opened if isinstance(opened, TextModel) else opened.model


def open_tree_builder(model: ModelConfig, expansion: ExpansionConfig) -> TreeBuilder:
    """Open a model with distributions, as in `open_model`, for its trees.

    Args:
        model: the model, with its decoding.
        expansion: the settings of trees.
    """
    return TreeBuilder(
        open_lazily(model, expansion),
        build_cache(expansion),
        expansion.build_limits(model.mem_mb),
    )


def open_lazily(model: ModelConfig, expansion: ExpansionConfig) -> LazyModel:
    """Open a model with distributions, as in `open_model`."""
    directory = model.directory
    # a directory that a user names is the model itself, and no copy is made
    if model.given_directory is None:
        assert not isinstance(model.source, Application)
        ensure_model(model.source, directory, Path(paths.model_lock(model.name)))
    elif not (directory / MODEL_CONFIG).is_file() and not is_served(directory):
        if (directory / ADAPTER_CONFIG).is_file():
            raise UnusableModel(
                f"model: {directory} is an adapter; write {{source: ITS_MODEL, adapter: "
                f"{directory}}} in a suite or a configuration"
            )
        raise UnusableModel(f"model: {directory} has no {MODEL_CONFIG}; name a model")
    return LazyModel(
        directory=directory,
        # without a scheduler, a model uses every core of the process by default
        threads=expansion.threads or count_cores(),
        **build_model_settings(model, expansion),
    )


def open_texts(model: ModelConfig, spending: Spending) -> TextModel:
    """Open a model that returns texts alone, as in `open_model`."""
    if isinstance(model.source, Application):
        return model.source
    assert isinstance(model.source, ServerSource)
    with explain_missing_packages():
        from llmchecker.models.servers.text_client import TextClient
    return TextClient(
        model.name,
        model.source,
        Path(paths.texts_directory(model.name)),
        decoding=model.decoding,
        template=model.template,
        reader=model.reader,
        prices=model.prices,
        spending=spending,
    )


def build_model_settings(model: ModelConfig, expansion: ExpansionConfig) -> dict[str, Any]:
    """Build the arguments of a `LazyModel`, without its directory and threads.

    Args:
        model: the model, with its decoding.
        expansion: the settings of models with distributions.
    """
    return {
        **model.load_settings,
        "memory_bytes": expansion.memory_bytes,
        "decoding": model.decoding,
        "template": model.template,
        "reader": model.reader,
        "end_of_sequence": expansion.end_of_sequence,
    }


def build_cache(expansion: ExpansionConfig) -> DistributionCache:
    """Build the cache of distributions, with the limit of the configuration."""
    return DistributionCache(Path(paths.STORE_DIRECTORY), expansion.max_cache_bytes)
