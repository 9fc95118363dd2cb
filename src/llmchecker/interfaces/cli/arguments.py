"""Command-line arguments of `check`, `compare` and `tree`."""

import argparse
import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from llmchecker.checking.anytime.budget import AnswerBudget
from llmchecker.checking.anytime.path_formulas import CheckedQuery
from llmchecker.checking.formatting import format_start
from llmchecker.config import paths
from llmchecker.config.config import Config
from llmchecker.config.models import (
    ModelConfig,
    check_has_distributions,
    check_listed_tokens,
    select_decoding,
)
from llmchecker.config.plan import TreeSpec
from llmchecker.config.project import DEFAULT_CONFIG, find_project
from llmchecker.errors import ConfigError, UnknownName, did_you_mean
from llmchecker.interfaces.cli.assertion_arguments import parse_asked_query
from llmchecker.models.decoding.chat_template import Chat, Start
from llmchecker.models.decoding.settings import GREEDY, SAMPLING_SETTINGS
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.logic.query import Query
from llmchecker.properties.quantifiers.interface import Quantifier
from llmchecker.properties.registry import find_quantifiers
from llmchecker.trees.text_tree import Truncation

_DEFAULT_LENGTH = 5
"""Default horizon in tokens."""
_DEFAULT_SECONDS = 30.0
"""Default time limit of a query in seconds."""
_DEFAULT_CONFIDENCE = 0.99
_BUDGET_ARGUMENTS = ("width", "passes", "seconds", "confidence", "seed")

_SAMPLING_OPTIONS = ("temperature", "top_k", "top_p", "min_p")
_VERSUS = "versus_"
"""The beginning of the names of arguments of the second side."""

_GIVEN_MODEL = "given"
"""Name of a model that the command line names by its directory or address."""


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
        quantifiers: the quantifiers of the query by name: of the command line, of the config, or
            standard ones.
        directory: the directory of a model that the command line names; None for a model of the
            config.
    """

    config: Config
    model: ModelConfig
    start: Start
    truncation: Truncation
    query: Query | None
    budget: AnswerBudget | None = None
    quantifiers: Mapping[str, Quantifier] = field(default_factory=dict)
    directory: Path | None = None

    @cached_property
    def checked_query(self) -> CheckedQuery:
        """The query with its quantifiers."""
        return CheckedQuery(self.query, self.quantifiers, self.truncation.length)

    @property
    def formatted_start(self) -> str:
        """The start string in quotes, or each message of a chat, on one line."""
        return format_start(self.start)

    @property
    def model_directory(self) -> Path:
        """The directory of the model, given or in the workflow."""
        return self.directory or Path(paths.model_directory(self.model.name))

    def tree_path(self, folder: str) -> Path:
        """Return the path of the tree of this model and truncation in a folder."""
        return Path(paths.tree_file(TreeSpec(self.model.name, folder, self.truncation)))


def add_request_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of the model, the start string and the horizon."""
    command.add_argument(
        "--model",
        help="name in the config (default: the first), directory (./model), or server's address",
    )
    command.add_argument("--tokenizer", help="directory of the tokenizer of a server's model")
    command.add_argument("--api", default="vllm", help="API of a server (default: %(default)s)")
    group = command.add_mutually_exclusive_group(required=True)
    group.add_argument(
        "--start",
        help="text that the model continues; write --start=-… for a text with a leading -",
    )
    group.add_argument(
        "--user", help="user message that the model answers in a chat, instead of --start"
    )
    group.add_argument(
        "--messages",
        type=Path,
        help="JSON file with several turns: a list of {role: …, content: …}",
    )
    command.add_argument("--system", help="system prompt of the chat")
    command.add_argument(
        "--length",
        type=int,
        default=_DEFAULT_LENGTH,
        help="horizon L in tokens (default: %(default)s)",
    )
    _add_decoding_arguments(command)
    command.add_argument(
        "--config",
        default=DEFAULT_CONFIG,
        type=Path,
        help="configuration file (default: %(default)s)",
    )


def add_truncation_arguments(command: argparse.ArgumentParser, *, required: bool) -> None:
    """Add the arguments alpha and k of the paper's tree."""
    command.add_argument(
        "--alpha",
        type=float,
        required=required,
        help="select the most probable tokens until together they have this probability",
    )
    command.add_argument(
        "--k", type=int, required=required, help="but select at most this many tokens"
    )


def add_versus_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments by which the second side of a comparison differs."""
    description = "how the second side differs; the other values are those of the first side"
    group = command.add_argument_group("second side", description)
    group.add_argument("--versus-model", help="its name in the config")
    group.add_argument("--versus-start", help="the text that the model continues")
    group.add_argument("--versus-user", help="what a user says")
    group.add_argument("--versus-system", help="the system prompt of the chat")
    _add_decoding_options(group, "--versus-")


def _add_decoding_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of the decoding."""
    description = "how tokens are chosen; any of these replaces the decoding that the config names"
    _add_decoding_options(command.add_argument_group("decoding", description), "--")


def _add_decoding_options(group: argparse._ArgumentGroup, prefix: str) -> None:
    """Add the options of the decoding of one side, whose names begin with a prefix."""
    group.add_argument(f"{prefix}temperature", type=float, help="divide logits by this")
    group.add_argument(
        f"{prefix}top-k", type=int, help="leave only so many of the most probable tokens"
    )
    group.add_argument(
        f"{prefix}top-p", type=float, help="leave the most probable tokens that hold this together"
    )
    group.add_argument(
        f"{prefix}min-p", type=float, help="leave tokens with this share of the largest probability"
    )
    group.add_argument(
        f"{prefix}greedy", action="store_true", help="the most probable token follows"
    )


def select_versus(arguments: argparse.Namespace) -> argparse.Namespace:
    """Return the arguments of the second side of a comparison.

    Raises:
        ConfigError: no argument of the second side is given, or two contradict each other.
    """
    versus = {
        name.removeprefix(_VERSUS): value
        for name, value in vars(arguments).items()
        # argparse gives False to an absent flag
        if name.startswith(_VERSUS) and value is not None and value is not False
    }
    if not versus:
        raise ConfigError(
            "compare: both sides are the same; add an option such as --versus-model or "
            "--versus-start"
        )
    if "start" in versus and versus.keys() & {"user", "system"}:
        raise ConfigError(
            "--versus-start: a text is no chat; leave out --versus-user and --versus-system"
        )
    if "system" in versus and "user" not in versus and arguments.user is None:
        raise ConfigError("--versus-system: it belongs to a chat; add --versus-user")
    if versus.get("greedy") and versus.keys() & set(_SAMPLING_OPTIONS):
        raise ConfigError(
            "--versus-greedy: the most probable token needs no other decoding; leave it out"
        )
    replaced = {}
    # a text replaces a chat, and a chat replaces a text
    if "start" in versus:
        replaced = {"user": None, "system": None}
    elif "user" in versus:
        replaced = {"start": None}
    # greedy decoding replaces sampling, and sampling replaces greedy decoding
    if versus.get("greedy"):
        replaced |= dict.fromkeys(_SAMPLING_OPTIONS)
    elif versus.keys() & set(_SAMPLING_OPTIONS):
        replaced |= {"greedy": False}
    return argparse.Namespace(**(vars(arguments) | replaced | versus))


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
    command.add_argument("--width", type=float, help="stop when the interval is this narrow")
    command.add_argument("--passes", type=int, help="ask the model about this many texts")
    command.add_argument(
        "--seconds",
        type=float,
        help=f"time limit in seconds (default: {_DEFAULT_SECONDS:g}, or none with --passes)",
    )
    command.add_argument(
        "--confidence",
        type=float,
        help=f"the confidence of the estimate (default: {_DEFAULT_CONFIDENCE})",
    )
    command.add_argument("--seed", type=int, help="the seed of the samples (default: 0)")
    command.add_argument(
        "--certain", action="store_true", help="compute only bounds, without an estimate"
    )


def _parse_budget(arguments: argparse.Namespace) -> AnswerBudget | None:
    """Return the budget of the arguments; None if they define the paper's tree."""
    given = {
        name: getattr(arguments, name)
        for name in _BUDGET_ARGUMENTS
        if getattr(arguments, name) is not None
    }
    # `compare` has no alpha and k
    parameters = {name: getattr(arguments, name, None) for name in ("alpha", "k")}
    missing_names = [name for name, value in parameters.items() if value is None]
    if not missing_names:
        _check_no_budget([*given, *(["certain"] if arguments.certain else [])])
        return None
    # The paper's tree is defined by both together.
    if len(missing_names) == 1:
        raise ConfigError(
            f"--{missing_names[0]}: missing; give --alpha and --k, or neither to grow the "
            "tree where it narrows the answer"
        )
    if arguments.certain and (unused := given.keys() & {"confidence", "seed"}):
        raise ConfigError(
            f"--certain: without an estimate, {_join_options(sorted(unused))} has no effect; "
            "leave one of them out"
        )
    # An answer may never become as narrow as --width, so a time limit applies by default.
    if not given.keys() & {"seconds", "passes"}:
        given["seconds"] = _DEFAULT_SECONDS
    return AnswerBudget(**({"confidence": _DEFAULT_CONFIDENCE} | given), certain=arguments.certain)


def _check_no_budget(names: list[str]) -> None:
    """Check that no limit is given for a tree that alpha and k define."""
    if names:
        raise ConfigError(
            f"{_join_options(names)}: a tree of --alpha and --k has no limits and no samples; "
            "leave out either"
        )


def _join_options(names: Iterable[str]) -> str:
    return ", ".join(f"--{name}" for name in names)


@contextlib.contextmanager
def parse_request(arguments: argparse.Namespace) -> Iterator[CheckRequest]:
    """Yield the request of the arguments, with the project as current directory.

    Raises:
        ConfigError: the config is unreadable or invalid, or an argument has an undefined name.
    """
    # `tree` has no budget arguments.
    budget = _parse_budget(arguments) if hasattr(arguments, "certain") else None
    # with a budget, refinement selects the states to expand, so any valid alpha and k will do.
    alpha, k = (1.0, 1) if budget is not None else (arguments.alpha, arguments.k)
    truncation = Truncation(alpha, k, arguments.length)
    asked = parse_asked_query(arguments)
    query = None if asked is None else parse(asked.text)
    given = {} if asked is None else asked.quantifiers
    # Before the directory changes, because paths of arguments are relative to the current one.
    start = _parse_start(arguments)
    model_keys, directory = _parse_model(arguments)
    config_path = arguments.config.absolute()
    # A model that the command line names needs no config.
    has_config = model_keys is None or config_path.is_file()
    # Paths in a config are relative to the project, as in a run of the workflow.
    project = find_project(config_path) if has_config else Path.cwd()
    with contextlib.chdir(project):
        changes = {} if model_keys is None else {"models": {_GIVEN_MODEL: model_keys}}
        config = Config.read(config_path, changes=changes) if has_config else Config.parse(changes)
        quantifiers = {}
        if query is not None:
            defined = {**config.quantifiers, **given}
            quantifiers = find_quantifiers(query, truncation.length, defined)
        name = arguments.model if model_keys is None else _GIVEN_MODEL
        model = config.models[_check_model_name(name, config)]
        check_has_distributions("--model", model)
        check_listed_tokens("--k", truncation.k, model)
        model = _apply_decoding(model, arguments)
        yield CheckRequest(config, model, start, truncation, query, budget, quantifiers, directory)


def _parse_model(arguments: argparse.Namespace) -> tuple[dict[str, Any] | None, Path | None]:
    """Parse a model that is not in the config.

    Returns:
        The keys of the model, or None for a name of the config; and its directory, or None for a
        server.
    """
    name = arguments.model
    if name is None:
        return None, None
    if name.startswith(("http://", "https://")):
        # A server returns tokens without their texts.
        if arguments.tokenizer is None:
            raise ConfigError(
                "--model: a server has no tokenizer; add --tokenizer with its directory"
            )
        tokenizer = f"path:{Path(arguments.tokenizer).absolute()}"
        keys = {"source": f"server:{name}", "api": arguments.api, "tokenizer": tokenizer}
        return {"label": name, **keys}, None
    directory = Path(name).absolute()
    # A name is looked up in the config, even if a directory has the same name.
    if os.sep not in name or not directory.is_dir():
        return None, None
    return {"label": directory.name, "source": f"path:{directory}"}, directory


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
    if arguments.messages is not None:
        return _read_messages(arguments.messages, arguments.system)
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


def _read_messages(path: Path, system: str | None) -> Chat:
    """Read the turns of a chat."""
    try:
        messages = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"--messages: {path} has no JSON ({error}); fix the file") from error
    if not isinstance(messages, list):
        raise ConfigError(f"--messages: {path} has no list; write [{{role: user, content: …}}]")
    try:
        return Chat.from_messages([{"system": system}] * (system is not None) + messages)
    except ConfigError as error:
        raise ConfigError(f"--messages: {path}: {error}") from error


def _check_text(option: str, start: str) -> str:
    """Return the text of an option if it is valid UTF-8."""
    # Python decodes arguments that are not UTF-8 to lone surrogates, which cannot be encoded.
    try:
        start.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"--{option}: {start!r} is not valid UTF-8") from error
    return start
