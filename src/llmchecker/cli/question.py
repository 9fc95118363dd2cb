"""Questions on the command line: arguments and a config become a `Task`."""

import argparse
import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from llmchecker.config import paths
from llmchecker.config.checks import TreeSpec
from llmchecker.config.configuration import Config
from llmchecker.config.models import (
    ModelConfig,
    decoding_of,
    require_tells,
    require_told,
)
from llmchecker.deciding.effort import Effort
from llmchecker.deployed.chat import Chat, Start
from llmchecker.deployed.decoding import GREEDY, SAMPLING
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
        start: the start string, or the messages to answer. They are data and never become part of a
            path.
        truncation: the truncation of the tree; if there is an effort, only its horizon counts.
        query: what to ask, over known quantifiers; None if only the tree is wanted.
        effort: what refining and estimating may cost; None to answer on the tree of the truncation.
    """

    config: Config
    model: ModelConfig
    start: Start
    truncation: Truncation
    query: Query | None
    effort: Effort | None = None

    @property
    def start_shown(self) -> str:
        """The start string in quotes, or each message of a chat, in one line."""
        if isinstance(self.start, str):
            return json.dumps(self.start, ensure_ascii=False)
        said = ((role, json.dumps(text, ensure_ascii=False)) for role, text in self.start.messages)
        return ", ".join(f"{role} {text}" for role, text in said)

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
    asked = command.add_mutually_exclusive_group(required=True)
    asked.add_argument(
        "--start", help="the text that the model continues; write --start=-… if it begins with -"
    )
    asked.add_argument(
        "--user", help="instead of a text, what a user says, which the model answers as in a chat"
    )
    command.add_argument("--system", help="the system prompt of the chat")
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
    _add_decoding(command)
    command.add_argument(
        "--config",
        default=DEFAULT_CONFIG,
        type=Path,
        help="the configuration (default: %(default)s)",
    )


def _add_decoding(command: argparse.ArgumentParser) -> None:
    """Add the arguments that say how next tokens are chosen."""
    about = "how tokens are chosen; any of these replaces the decoding that the config names"
    group = command.add_argument_group("decoding", about)
    group.add_argument("--temperature", type=float, help="divide logits by this (default: 1)")
    group.add_argument("--top-k", type=int, help="leave only so many of the most probable tokens")
    group.add_argument(
        "--top-p", type=float, help="leave the most probable tokens that hold this together"
    )
    group.add_argument(
        "--min-p", type=float, help="leave tokens with this share of the largest probability"
    )
    group.add_argument("--greedy", action="store_true", help="the most probable token follows")


def _decoded(model: ModelConfig, arguments: argparse.Namespace) -> ModelConfig:
    """The model with the decoding that the arguments name, or else its own."""
    settings = {name: getattr(arguments, name, None) for name in SAMPLING}
    named = {name: value for name, value in settings.items() if value is not None}
    if arguments.greedy:
        named["do_sample"] = False
    if not named:
        return model
    options = [f"--{GREEDY}" if n == "do_sample" else f"--{n.replace('_', '-')}" for n in named]
    return replace(model, decoding=decoding_of(", ".join(options), {"decoding": named}, model))


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
        require_tells("--model", model)
        require_told("--k", truncation.k, model)
        model = _decoded(model, arguments)
        yield Task(config, model, _start(arguments), truncation, query, effort)


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
        return next(iter(config.tellers or config.models))
    if name not in config.models:
        hint = did_you_mean(name, config.models) or ";"
        known = ", ".join(config.models)
        raise UnknownName(f"--model: no model {name!r} is defined{hint} known are {known}")
    return name


def _start(arguments: argparse.Namespace) -> Start:
    """The start string or the chat that the arguments name."""
    given = {name: getattr(arguments, name) for name in ("start", "system", "user")}
    texts = {name: _text(name, text) for name, text in given.items() if text is not None}
    if "start" not in texts:
        return Chat(tuple(texts.items()))
    if "system" in texts:
        raise ConfigError("--system is for a chat: it goes with --user, not with --start")
    return texts["start"]


def _text(option: str, start: str) -> str:
    """What an option names, if it is text."""
    # Arguments that are not UTF-8 reach Python as lone surrogates, which cannot be encoded.
    try:
        start.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"--{option}: {start!r} is not valid UTF-8") from error
    return start
