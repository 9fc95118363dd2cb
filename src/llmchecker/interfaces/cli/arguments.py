"""Command-line arguments of `check`, `compare` and `tree`, and the questions that they ask."""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from llmchecker.config.deployment import DeploymentName, is_address, resolve_deployment
from llmchecker.config.judges import add_judge_notes
from llmchecker.config.models import ModelConfig, check_has_distributions, check_listed_tokens
from llmchecker.config.project import DEFAULT_CONFIG
from llmchecker.config.prompt import parse_prompt
from llmchecker.config.question import (
    DEFAULT_CONFIDENCE,
    DEFAULT_LENGTH,
    DEFAULT_SECONDS,
    DEFAULT_SEED,
    Question,
    TextProcess,
    build_budget,
    name_arguments,
    resolve_query,
)
from llmchecker.config.registry import Registry, open_registry
from llmchecker.errors import ConfigError
from llmchecker.interfaces.cli.assertion_arguments import AskedQuery
from llmchecker.models.decoding.settings import GREEDY, SAMPLING_SETTINGS
from llmchecker.trees.text_tree import Horizon, Truncation

_BUDGET_ARGUMENTS = ("width", "passes", "seconds", "confidence", "seed")

MODEL_HELP = (
    "name in the config, directory (./model), hf:owner/name@commit, pypi:wheel==version or "
    "server's address"
)

_SAMPLING_OPTIONS = ("temperature", "top_k", "top_p", "min_p")
_VERSUS = "versus_"
"""The beginning of the names of arguments of the second side."""


def add_question_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of the model, the start string and the horizon."""
    command.add_argument("--model", help=f"{MODEL_HELP} (default: the first in the config)")
    add_server_arguments(command)
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


def add_server_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of a model that is named by the address of a server."""
    command.add_argument("--tokenizer", help="directory of the tokenizer of a server's model")
    command.add_argument("--api", default="vllm", help="API of a server (default: %(default)s)")


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
    group.add_argument("--versus-model", help="its name, directory or address, as in --model")
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


def add_budget_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of the budget of refinement and estimation."""
    command.add_argument("--width", type=float, help="stop when the interval is this narrow")
    command.add_argument("--passes", type=int, help="ask the model about this many texts")
    command.add_argument(
        "--seconds",
        type=float,
        help=f"time limit in seconds (default: {DEFAULT_SECONDS:g}, or none with --passes)",
    )
    command.add_argument(
        "--confidence",
        type=float,
        help=f"the confidence of the estimate (default: {DEFAULT_CONFIDENCE})",
    )
    command.add_argument(
        "--seed", type=int, help=f"the seed of the samples (default: {DEFAULT_SEED})"
    )
    command.add_argument(
        "--certain", action="store_true", help="compute only bounds, without an estimate"
    )


def parse_process(arguments: argparse.Namespace) -> tuple[Registry, TextProcess]:
    """Parse the model, the prompt and the truncation, and read the registry that they refer to.

    Raises:
        ConfigError: the config is unreadable, or an argument is invalid or has an undefined name.
    """
    truncation = _parse_truncation(arguments)
    prompt_keys = _collect_prompt(arguments, "")
    with name_arguments("--"):
        prompt = parse_prompt(prompt_keys)
    # A model that the command line names needs no config.
    is_default = arguments.model is not None and arguments.config == Path(DEFAULT_CONFIG)
    needs_config = not is_default or arguments.config.is_file()
    registry = open_registry(arguments.config) if needs_config else Registry()
    model = _resolve_model("--model", registry, arguments)
    if isinstance(truncation, Truncation):
        check_listed_tokens("--k", truncation.k, model)
    return registry, TextProcess(model=model, prompt=prompt, truncation=truncation)


def parse_question(arguments: argparse.Namespace, asked: AskedQuery) -> tuple[Registry, Question]:
    """Parse the question of the arguments, and read the registry that it refers to.

    Args:
        arguments: the arguments of the command line.
        asked: the query of the arguments.

    Raises:
        ConfigError: as in `parse_process`, or the query is invalid.
    """
    budget_keys = _collect_budget(arguments)
    registry, process = parse_process(arguments)
    with name_arguments("--"):
        budget = build_budget(**budget_keys)
    quantifiers = {**registry.quantifiers, **asked.create_quantifiers(registry)}
    checked_query = resolve_query(asked.text, process.truncation.length, quantifiers)
    return registry, Question(
        model=process.model,
        prompt=process.prompt,
        truncation=process.truncation,
        checked_query=add_judge_notes(checked_query, process.model),
        budget=budget,
    )


def _parse_truncation(arguments: argparse.Namespace) -> Truncation | Horizon:
    # `compare` has no alpha and k
    alpha, k = getattr(arguments, "alpha", None), getattr(arguments, "k", None)
    with name_arguments("--"):
        if alpha is None and k is None:
            return Horizon(arguments.length)
        # the paper's tree is defined by both together
        if alpha is None or k is None:
            raise ConfigError(
                f"{'alpha' if alpha is None else 'k'}: missing; give --alpha and --k, or neither "
                "to grow the tree where it narrows the answer"
            )
        return Truncation(alpha, k, arguments.length)


def _collect_budget(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `build_budget`."""
    # `tree` has no limits
    given = {
        name: value
        for name in _BUDGET_ARGUMENTS
        if (value := getattr(arguments, name, None)) is not None
    }
    certain = getattr(arguments, "certain", False)
    names = [*given, *(["certain"] if certain else [])]
    if names and isinstance(_parse_truncation(arguments), Truncation):
        raise ConfigError(
            f"{_join_options(names)}: a tree of --alpha and --k has no limits and no samples; "
            "leave out either"
        )
    if certain and (unused := given.keys() & {"confidence", "seed"}):
        raise ConfigError(
            f"--certain: without an estimate, {_join_options(sorted(unused))} has no effect; "
            "leave one of them out"
        )
    return {**given, "certain": certain}


def _join_options(names: Iterable[str]) -> str:
    return ", ".join(f"--{name}" for name in names)


def parse_versus(arguments: argparse.Namespace, registry: Registry, first: Question) -> Question:
    """Parse the second side of a comparison, which has the other values of the first.

    Raises:
        ConfigError: both sides are the same, or an argument is invalid.
    """
    versus = {
        name.removeprefix(_VERSUS): value
        for name, value in vars(arguments).items()
        # argparse gives False to an absent flag
        if name.startswith(_VERSUS) and value is not None and value is not False
    }
    is_greedy, is_sampling = "greedy" in versus, bool(versus.keys() & set(_SAMPLING_OPTIONS))
    if is_greedy and is_sampling:
        raise ConfigError(
            "--versus-greedy: the most probable token needs no other decoding; leave it out"
        )
    # greedy decoding replaces sampling, and sampling replaces greedy decoding
    replaced: dict[str, Any] = {}
    if is_greedy:
        replaced = dict.fromkeys(_SAMPLING_OPTIONS)
    elif is_sampling:
        replaced = {"greedy": False}
    second = vars(arguments) | replaced | versus
    place = "--versus-model" if "model" in versus else "--model"
    model = _resolve_model(place, registry, argparse.Namespace(**second))
    return first.vary(model, _collect_prompt(arguments, _VERSUS), "--versus-")


def name_deployment(name: str, arguments: argparse.Namespace) -> DeploymentName:
    """Return the name of a model, with the other options of a server for an address."""
    if not is_address(name):
        return name
    keys = {"source": name, "api": arguments.api}
    if arguments.tokenizer is not None:
        keys["tokenizer"] = str(Path(arguments.tokenizer).absolute())
    return keys


def _resolve_model(place: str, registry: Registry, arguments: argparse.Namespace) -> ModelConfig:
    """Return the model of the arguments, with their decoding."""
    sampling = {
        name: value
        for name in SAMPLING_SETTINGS
        if (value := getattr(arguments, name, None)) is not None
    }
    options = [f"--{name.replace('_', '-')}" for name in sampling]
    if arguments.greedy:
        # `generate` of transformers expresses greedy decoding by this setting.
        sampling["do_sample"] = False
        options.append(f"--{GREEDY}")
    name = arguments.model
    model = resolve_deployment(
        place,
        None if name is None else name_deployment(name, arguments),
        registry,
        decoding={"decoding": sampling} if sampling else {},
        decoding_place=", ".join(options),
    ).model
    check_has_distributions(place, model)
    return model


def _collect_prompt(arguments: argparse.Namespace, prefix: str) -> dict[str, Any]:
    """Return the keys of `parse_prompt` from arguments whose names begin with a prefix."""
    names = ("start", "user", "system", "messages")
    keys = {name: getattr(arguments, f"{prefix}{name}", None) for name in names}
    if keys["messages"] is not None:
        keys["messages"] = _read_messages(keys["messages"])
    return keys


def _read_messages(path: Path) -> list[Any]:
    """Read the turns of a chat."""
    try:
        messages = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"messages: {path} has no JSON ({error}); fix the file") from error
    if not isinstance(messages, list):
        raise ConfigError(f"messages: {path} has no list; write [{{role: user, content: …}}]")
    return messages
