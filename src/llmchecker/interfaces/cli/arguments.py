"""Command-line arguments of `check` and `tree`, and their `CheckRequest`."""

import argparse
import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from llmchecker.checking.anytime.budget import AnswerBudget
from llmchecker.checking.anytime.path_formulas import CheckedQuery
from llmchecker.config import paths
from llmchecker.config.config import Config
from llmchecker.config.models import (
    ModelConfig,
    check_has_distributions,
    check_listed_tokens,
    select_decoding,
)
from llmchecker.config.plan import TreeSpec, quantifiers_in
from llmchecker.config.project import DEFAULT_CONFIG, find_project
from llmchecker.errors import ConfigError, UnknownName, did_you_mean
from llmchecker.models.decoding.chat_template import Chat, Start
from llmchecker.models.decoding.settings import GREEDY, SAMPLING_SETTINGS
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.logic.query import Query
from llmchecker.trees.text_tree import Truncation

DEFAULT_LENGTH = 5
"""Default horizon in tokens."""
_DEFAULT_SECONDS = 30.0
"""Default time limit of a query in seconds."""


@dataclass(frozen=True)
class CheckRequest:
    """A validated request of the command line: every name in it is defined.

    Attributes:
        config: the config with models, quantifiers and settings of trees.
        model: the model to check.
        start: the start string, or the messages to answer. They are data and never become part of a
            path.
        truncation: the truncation of the tree; with a budget, only its horizon counts.
        query: the query, over known quantifiers; None for a request of the tree only.
        budget: the budget of refinement and estimation; None to answer on the tree of the
            truncation.
    """

    config: Config
    model: ModelConfig
    start: Start
    truncation: Truncation
    query: Query | None
    budget: AnswerBudget | None = None

    @cached_property
    def checked_query(self) -> CheckedQuery:
        """The query with its quantifiers."""
        names = quantifiers_in(self.query)
        quantifiers = {name: self.config.quantifiers[name] for name in names}
        return CheckedQuery(self.query, quantifiers, self.truncation.length)

    @property
    def formatted_start(self) -> str:
        """The start string in quotes, or each message of a chat, on one line."""
        if isinstance(self.start, str):
            return json.dumps(self.start, ensure_ascii=False)
        messages = (
            (role, json.dumps(text, ensure_ascii=False)) for role, text in self.start.messages
        )
        return ", ".join(f"{role} {text}" for role, text in messages)

    @property
    def model_directory(self) -> Path:
        """The directory of the model in the workflow."""
        return Path(paths.model_directory(self.model.name))

    def tree_path(self, folder: str) -> Path:
        """Return the path of the tree of this model and truncation in a folder."""
        return Path(paths.tree_file(TreeSpec(self.model.name, folder, self.truncation)))


def add_request_arguments(command: argparse.ArgumentParser, *, requires_truncation: bool) -> None:
    """Add the arguments of the model, the start string and the truncation.

    Args:
        command: the parser of the command.
        requires_truncation: whether alpha and k are required.
    """
    command.add_argument(
        "--model", help="name of the model in the configuration (default: the first)"
    )
    group = command.add_mutually_exclusive_group(required=True)
    group.add_argument(
        "--start",
        help="text that the model continues; write --start=-… for a text with a leading -",
    )
    group.add_argument(
        "--user", help="user message that the model answers in a chat, instead of --start"
    )
    command.add_argument("--system", help="system prompt of the chat")
    command.add_argument(
        "--alpha",
        type=float,
        required=requires_truncation,
        help="select the most probable tokens up to this total probability",
    )
    command.add_argument(
        "--k", type=int, required=requires_truncation, help="maximum number of selected tokens"
    )
    command.add_argument(
        "--length",
        type=int,
        default=DEFAULT_LENGTH,
        help="horizon L in tokens (default: %(default)s)",
    )
    _add_decoding_arguments(command)
    command.add_argument(
        "--config",
        default=DEFAULT_CONFIG,
        type=Path,
        help="configuration file (default: %(default)s)",
    )


def _add_decoding_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of the decoding."""
    description = "choice of the next token; replaces the decoding in the configuration"
    group = command.add_argument_group("decoding", description)
    group.add_argument("--temperature", type=float, help="divisor of the logits (default: 1)")
    group.add_argument("--top-k", type=int, help="keep this number of most probable tokens")
    group.add_argument(
        "--top-p", type=float, help="keep the most probable tokens up to this total probability"
    )
    group.add_argument(
        "--min-p", type=float, help="keep tokens with this share of the largest probability"
    )
    group.add_argument("--greedy", action="store_true", help="choose the most probable token")


def _apply_decoding(model: ModelConfig, arguments: argparse.Namespace) -> ModelConfig:
    """Return the model with the decoding of the arguments, or else with its own."""
    settings = {name: getattr(arguments, name, None) for name in SAMPLING_SETTINGS}
    sampling = {name: value for name, value in settings.items() if value is not None}
    if arguments.greedy:
        # `generate` of transformers expresses greedy decoding by this setting.
        sampling["do_sample"] = False
    if not sampling:
        return model
    options = [f"--{GREEDY}" if n == "do_sample" else f"--{n.replace('_', '-')}" for n in sampling]
    return replace(
        model, decoding=select_decoding(", ".join(options), {"decoding": sampling}, model)
    )


def add_budget_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of the budget of refinement and estimation."""
    command.add_argument(
        "--width", type=float, default=0.0, help="stop at this width of the interval"
    )
    command.add_argument("--passes", type=int, help="maximum number of texts that the model reads")
    command.add_argument(
        "--seconds",
        type=float,
        help=f"time limit in seconds (default: {_DEFAULT_SECONDS:g}, or none with --passes)",
    )
    command.add_argument(
        "--confidence",
        type=float,
        default=0.99,
        help="confidence of the estimate (default: %(default)s)",
    )
    command.add_argument("--seed", type=int, default=0, help="seed of the samples (default: 0)")
    command.add_argument(
        "--certain", action="store_true", help="compute only bounds, without an estimate"
    )


def _parse_budget(arguments: argparse.Namespace) -> AnswerBudget | None:
    """Return the budget of the arguments; None if they define the paper's tree."""
    parameters = {name: getattr(arguments, name) for name in ("alpha", "k")}
    missing_names = [name for name, value in parameters.items() if value is None]
    if not missing_names:
        return None
    # The paper's tree is defined by both together.
    if len(missing_names) == 1:
        raise ConfigError(
            f"--{missing_names[0]}: missing; give --alpha and --k, or neither to grow the "
            "tree where it narrows the answer"
        )
    seconds = arguments.seconds
    # An answer may never become as narrow as --width, so a time limit applies by default.
    if seconds is None and arguments.passes is None:
        seconds = _DEFAULT_SECONDS
    return AnswerBudget(
        width=arguments.width,
        passes=arguments.passes,
        seconds=seconds,
        confidence=arguments.confidence,
        seed=arguments.seed,
        certain=arguments.certain,
    )


@contextlib.contextmanager
def parse_request(arguments: argparse.Namespace) -> Iterator[CheckRequest]:
    """Yield the request of the arguments, with the project as current directory.

    Raises:
        ConfigError: the config is unreadable or invalid, or an argument has an undefined name.
    """
    # `tree` has no budget arguments.
    budget = _parse_budget(arguments) if hasattr(arguments, "certain") else None
    # With a budget, refinement selects the states to expand, so any valid alpha and k will do.
    alpha, k = (1.0, 1) if budget is not None else (arguments.alpha, arguments.k)
    truncation = Truncation(alpha, k, arguments.length)
    query = None if arguments.query is None else parse(arguments.query)
    config_path = arguments.config.absolute()
    # Paths in a config are relative to the project, as in a run of the workflow.
    with contextlib.chdir(find_project(config_path)):
        config = Config.read(config_path)
        if query is not None:
            query.check_references(config.quantifiers, truncation.length)
        model = config.models[_check_model_name(arguments.model, config)]
        check_has_distributions("--model", model)
        check_listed_tokens("--k", truncation.k, model)
        model = _apply_decoding(model, arguments)
        yield CheckRequest(config, model, _parse_start(arguments), truncation, query, budget)


def _check_model_name(name: str | None, config: Config) -> str:
    if name is None:
        # Servers that only write texts cannot answer a query, so the default skips them.
        return next(iter(config.distribution_models or config.models))
    if name not in config.models:
        hint = did_you_mean(name, config.models) or ";"
        names = ", ".join(config.models)
        raise UnknownName(f"--model: {name!r} is not defined{hint} known are {names}")
    return name


def _parse_start(arguments: argparse.Namespace) -> Start:
    """Return the start string or the chat of the arguments."""
    arguments_by_name = {name: getattr(arguments, name) for name in ("start", "system", "user")}
    texts = {
        name: _check_text(name, text)
        for name, text in arguments_by_name.items()
        if text is not None
    }
    if "start" not in texts:
        return Chat(tuple(texts.items()))
    # A system prompt is a message, and --start is continued without a chat template.
    if "system" in texts:
        raise ConfigError("--system: it belongs to a chat, not to --start; use --user")
    return texts["start"]


def _check_text(option: str, start: str) -> str:
    """Return the text of an option if it is valid UTF-8."""
    # Python decodes arguments that are not UTF-8 to lone surrogates, which cannot be encoded.
    try:
        start.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"--{option}: {start!r} is not valid UTF-8") from error
    return start
