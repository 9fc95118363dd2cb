"""What is asked: arguments and a config become a `Task`."""

import argparse
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from llmchecker.config import paths
from llmchecker.config.checks import TreeSpec
from llmchecker.config.configuration import Config, ModelConfig
from llmchecker.errors import ConfigError, UnknownName, did_you_mean
from llmchecker.queries.parser import parse
from llmchecker.queries.query import Query
from llmchecker.trees.text_tree import Truncation

DEFAULT_CONFIG = "config.yaml"

_WORKFLOW = "Snakefile"
"""The file that marks a checkout, in which results stand where the workflow has them."""


@dataclass(frozen=True)
class Task:
    """A question in which every name refers to something.

    Attributes:
        config: where models, quantifiers and the growth of trees are set.
        model: the model to ask.
        start: the text to go on from; data, of which no path is ever made.
        truncation: of the tree.
        query: what to ask, over known quantifiers; None where only the tree is asked for.
    """

    config: Config
    model: ModelConfig
    start: str
    truncation: Truncation
    query: Query | None

    @property
    def model_directory(self) -> Path:
        """Where the workflow keeps the model."""
        return Path(paths.model_directory(self.model.name))

    def tree_path(self, folder: str) -> Path:
        """Where a tree of this model and this truncation is kept, in a folder named by its text."""
        return Path(paths.tree_file(TreeSpec(self.model.name, folder, self.truncation)))


def add_task(command: argparse.ArgumentParser) -> None:
    """Add the arguments that say which tree is meant."""
    command.add_argument("--model", required=True, help="its name in the config")
    command.add_argument(
        "--start", required=True, help="the text to go on from; one that begins with -: --start=-…"
    )
    command.add_argument(
        "--alpha", required=True, type=float, help="select tokens until they hold this probability"
    )
    command.add_argument("--k", required=True, type=int, help="select at most so many tokens")
    command.add_argument("--length", required=True, type=int, help="the horizon L in tokens")
    command.add_argument(
        "--config",
        default=DEFAULT_CONFIG,
        type=Path,
        help="the configuration (default: %(default)s)",
    )


@contextlib.contextmanager
def task_asked(arguments: argparse.Namespace) -> Iterator[Task]:
    """Yield what the arguments ask, while the project is the current directory.

    Raises:
        ConfigError: the config cannot be read or used, or an argument means nothing in it.
    """
    truncation = Truncation(arguments.alpha, arguments.k, arguments.length)
    query = None if arguments.query is None else parse(arguments.query)
    config_path = arguments.config.absolute()
    # the paths in a config are relative to the project, as in a run of the workflow
    with contextlib.chdir(_project(config_path)):
        config = Config.read(config_path)
        if query is not None:
            query.require(config.quantifiers, truncation.length)
        model = config.models[_known_model(arguments.model, config)]
        yield Task(config, model, _text(arguments.start), truncation, query)


def _project(config: Path) -> Path:
    """The nearest directory above a config that holds the workflow, or else the config's own."""
    if not config.is_file():
        raise ConfigError(
            f"there is no file {config}; run llmchecker where {DEFAULT_CONFIG} is, "
            "or name a configuration by --config"
        )
    holding = (directory for directory in config.parents if (directory / _WORKFLOW).is_file())
    return next(holding, config.parent)


def _known_model(name: str, config: Config) -> str:
    if name not in config.models:
        hint = did_you_mean(name, config.models) or ";"
        known = ", ".join(config.models)
        raise UnknownName(f"--model: no model {name!r} is defined{hint} known are {known}")
    return name


def _text(start: str) -> str:
    """The start string; bytes that are no text reach Python as lone surrogates."""
    try:
        start.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"--start: {start!r} is not valid UTF-8") from error
    return start
