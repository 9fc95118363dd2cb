"""Questions on the command line: arguments and a config become a `Task`."""

import argparse
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from llmchecker.config import paths
from llmchecker.config.checks import TreeSpec
from llmchecker.config.configuration import Config, ModelConfig
from llmchecker.deciding.effort import Effort
from llmchecker.errors import ConfigError, UnknownName, did_you_mean
from llmchecker.queries.parser import parse
from llmchecker.queries.query import Query
from llmchecker.trees.text_tree import Truncation

DEFAULT_CONFIG = "config.yaml"
LENGTH = 5
"""The horizon in tokens by default."""
SECONDS = 30.0
"""The time for a question by default."""

_WORKFLOW = "Snakefile"
"""The file that marks a checkout, in which models and trees lie where the workflow puts them."""


@dataclass(frozen=True)
class Task:
    """A question in which every name refers to something.

    Attributes:
        config: the config that defines models, quantifiers and how trees are grown.
        model: the model to ask.
        start: the start string. It is data and never becomes part of a path.
        truncation: the truncation of the tree; if there is an effort, only its horizon counts.
        query: what to ask, over known quantifiers; None if only the tree is wanted.
        effort: what refining and estimating may cost; None to answer on the tree of the truncation.
    """

    config: Config
    model: ModelConfig
    start: str
    truncation: Truncation
    query: Query | None
    effort: Effort | None = None

    @property
    def model_directory(self) -> Path:
        """Where the workflow keeps the model."""
        return Path(paths.model_directory(self.model.name))

    def tree_path(self, folder: str) -> Path:
        """The path of a tree of this model and truncation; each text has a folder of its own."""
        return Path(paths.tree_file(TreeSpec(self.model.name, folder, self.truncation)))


def add_task(command: argparse.ArgumentParser, *, truncated: bool) -> None:
    """Add the arguments that name the model, the start string and the truncation.

    Args:
        command: the parser of the command.
        truncated: whether alpha and k are required.
    """
    command.add_argument("--model", help="its name in the config (default: the first)")
    command.add_argument(
        "--start",
        required=True,
        help="the text that the model continues; write --start=-… if it begins with -",
    )
    command.add_argument(
        "--alpha",
        type=float,
        required=truncated,
        help="select the most probable tokens until together they have this probability",
    )
    command.add_argument(
        "--k", type=int, required=truncated, help="but select at most this many tokens"
    )
    command.add_argument(
        "--length", type=int, default=LENGTH, help="the horizon L in tokens (default: %(default)s)"
    )
    command.add_argument(
        "--config",
        default=DEFAULT_CONFIG,
        type=Path,
        help="the configuration (default: %(default)s)",
    )


def add_effort(command: argparse.ArgumentParser) -> None:
    """Add the arguments that say what refining and estimating may cost."""
    command.add_argument(
        "--width", type=float, default=0.0, help="stop when the interval is this narrow"
    )
    command.add_argument("--passes", type=int, help="ask the model about this many texts")
    command.add_argument(
        "--seconds",
        type=float,
        help=f"take about this long (default: {SECONDS:g}, or no limit with --passes)",
    )
    command.add_argument(
        "--confidence",
        type=float,
        default=0.99,
        help="the confidence of the estimate (default: %(default)s)",
    )
    command.add_argument("--seed", type=int, default=0, help="the seed of the samples (default: 0)")
    command.add_argument(
        "--certain", action="store_true", help="spend all effort on the bounds, with no estimate"
    )


def _effort(arguments: argparse.Namespace) -> Effort | None:
    """The effort that the arguments allow; None if alpha and k name the paper's tree."""
    given = {name: getattr(arguments, name) for name in ("alpha", "k")}
    missing = [name for name, value in given.items() if value is None]
    if not missing:
        return None
    if len(missing) == 1:
        raise ConfigError(
            f"--{missing[0]} is missing: --alpha and --k together name a tree, and without both "
            "the tree is grown where it narrows the answer"
        )
    seconds = arguments.seconds
    if seconds is None and arguments.passes is None:
        seconds = SECONDS
    return Effort(
        width=arguments.width,
        passes=arguments.passes,
        seconds=seconds,
        confidence=arguments.confidence,
        seed=arguments.seed,
        certain=arguments.certain,
    )


@contextlib.contextmanager
def task_asked(arguments: argparse.Namespace) -> Iterator[Task]:
    """Yield the task of the arguments; during the block the project is the current directory.

    Raises:
        ConfigError: the config cannot be read or used, or an argument names nothing in it.
    """
    effort = _effort(arguments) if hasattr(arguments, "certain") else None
    # With an effort the tree grows where it is needed; any alpha and k will do.
    alpha, k = (1.0, 1) if effort is not None else (arguments.alpha, arguments.k)
    truncation = Truncation(alpha, k, arguments.length)
    query = None if arguments.query is None else parse(arguments.query)
    config_path = arguments.config.absolute()
    # The paths in a config are relative to the project, as in a run of the workflow.
    with contextlib.chdir(_project(config_path)):
        config = Config.read(config_path)
        if query is not None:
            query.require(config.quantifiers, truncation.length)
        model = config.models[_known_model(arguments.model, config)]
        yield Task(config, model, _text(arguments.start), truncation, query, effort)


def _project(config: Path) -> Path:
    """The nearest directory above a config that holds the workflow, or else the config's own."""
    if not config.is_file():
        raise ConfigError(
            f"there is no file {config}; run llmchecker where {DEFAULT_CONFIG} is, "
            "or name a configuration by --config"
        )
    holding = (directory for directory in config.parents if (directory / _WORKFLOW).is_file())
    return next(holding, config.parent)


def _known_model(name: str | None, config: Config) -> str:
    if name is None:
        return next(iter(config.models))
    if name not in config.models:
        hint = did_you_mean(name, config.models) or ";"
        known = ", ".join(config.models)
        raise UnknownName(f"--model: no model {name!r} is defined{hint} known are {known}")
    return name


def _text(start: str) -> str:
    """The start string, if it is text."""
    # Arguments that are not UTF-8 reach Python as lone surrogates, which cannot be encoded.
    try:
        start.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"--start: {start!r} is not valid UTF-8") from error
    return start
