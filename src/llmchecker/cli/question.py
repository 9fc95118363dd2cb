"""What is asked: arguments and a config become a `Task`."""

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
"""The horizon unless another is given."""
SECONDS = 30.0
"""What a question takes unless something else is given."""

_WORKFLOW = "Snakefile"
"""The file that marks a checkout, in which results stand where the workflow has them."""


@dataclass(frozen=True)
class Task:
    """A question in which every name refers to something.

    Attributes:
        config: where models, quantifiers and the growth of trees are set.
        model: the model to ask.
        start: the text to go on from; data, of which no path is ever made.
        truncation: of the tree; where there is an effort, only its horizon counts.
        query: what to ask, over known quantifiers; None where only the tree is asked for.
        effort: what refining and estimating may cost; None for the tree of the truncation.
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
        """Where a tree of this model and this truncation is kept, in a folder named by its text."""
        return Path(paths.tree_file(TreeSpec(self.model.name, folder, self.truncation)))


def add_task(command: argparse.ArgumentParser, *, truncated: bool) -> None:
    """Add the arguments that say what is asked about.

    Args:
        truncated: whether alpha and k must be given.
    """
    command.add_argument("--model", help="its name in the config (default: the first)")
    command.add_argument(
        "--start", required=True, help="the text to go on from; one that begins with -: --start=-…"
    )
    command.add_argument(
        "--alpha",
        type=float,
        required=truncated,
        help="select tokens until they hold this probability",
    )
    command.add_argument("--k", type=int, required=truncated, help="select at most so many tokens")
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
        "--width", type=float, default=0.0, help="stop when the interval is so narrow"
    )
    command.add_argument("--passes", type=int, help="ask the model about so many texts")
    command.add_argument(
        "--seconds", type=float, help=f"take about so long (default: {SECONDS:g}, without --passes)"
    )
    command.add_argument(
        "--confidence", type=float, default=0.99, help="of the estimate (default: %(default)s)"
    )
    command.add_argument("--seed", type=int, default=0, help="of the samples (default: 0)")
    command.add_argument(
        "--certain", action="store_true", help="do not estimate: all effort narrows the bounds"
    )


def _effort(arguments: argparse.Namespace) -> Effort | None:
    """The effort that is asked for; None for the paper's tree, which alpha and k determine."""
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
    """Yield what the arguments ask, while the project is the current directory.

    Raises:
        ConfigError: the config cannot be read or used, or an argument means nothing in it.
    """
    effort = _effort(arguments) if hasattr(arguments, "certain") else None
    alpha, k = (1.0, 1) if effort is not None else (arguments.alpha, arguments.k)
    truncation = Truncation(alpha, k, arguments.length)
    query = None if arguments.query is None else parse(arguments.query)
    config_path = arguments.config.absolute()
    # the paths in a config are relative to the project, as in a run of the workflow
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
    """The start string; bytes that are no text reach Python as lone surrogates."""
    try:
        start.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"--start: {start!r} is not valid UTF-8") from error
    return start
