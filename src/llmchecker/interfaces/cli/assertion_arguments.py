"""Command-line arguments of assertions and quantifiers.

--contains Madrid --at-least 0.95     P>=0.95 [ F contains = 1 ]
"""

import argparse
import json
import logging
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from llmchecker.config.deployment import DeploymentName, resolve_deployment
from llmchecker.config.judges import create_quantifier_or_judge
from llmchecker.config.models import ModelConfig
from llmchecker.config.question import resolve_query
from llmchecker.config.registry import Registry
from llmchecker.config.yaml_reader import parse_yaml
from llmchecker.errors import ConfigError, prefix_errors
from llmchecker.properties.assertions import AT_LEAST, AT_MOST, build_assertion, parse_probability
from llmchecker.properties.property import Property
from llmchecker.properties.quantifiers.interface import Quantifier
from llmchecker.properties.quantifiers.json_validity import read_schema
from llmchecker.properties.registry import LazyQuantifiers, create_quantifier

_TEXT_KINDS = {
    "contains": "the answer contains this text",
    "icontains": "the answer contains this text in upper or lower case",
    "equals": "the answer is this text",
    "starts_with": "the answer begins with this text",
    "ends_with": "the answer ends with this text",
    "matches": "the answer matches this regular expression",
}
"""Assertions about a text, by their kinds; each also with --not-."""
_LIST_KINDS = {
    "contains_any": "the answer contains one of these texts",
    "contains_all": "the answer contains all of these texts",
    "icontains_any": "the answer contains one of these texts in upper or lower case",
    "icontains_all": "the answer contains all of these texts in upper or lower case",
}
"""Assertions about several texts, likewise."""
_NUMBER_KINDS = {
    "max_words": "the answer has at most this many words",
    "min_words": "the answer has at least this many words",
    "max_characters": "the answer has at most this many characters",
    "min_characters": "the answer has at least this many characters",
    "max_sentences": "the answer has at most this many sentences",
    "min_sentences": "the answer has at least this many sentences",
}
_FLAG_KINDS = {
    "json": "the answer is JSON",
    "refuses": "the answer is a refusal, by a heuristic",
    "ends": "the answer ends within the length",
}


_QUANTIFIER = "--quantifier"
_QuantifierSettings = Mapping[str, Mapping[str, Any]]
"""Settings of quantifiers by name."""


def add_assertion_arguments(
    command: argparse.ArgumentParser, *, has_thresholds: bool = True
) -> None:
    """Add the arguments that stand for a query, and those of quantifiers.

    Args:
        command: the parser.
        has_thresholds: whether a threshold may follow; `compare` computes a number for each side.
    """
    group = command.add_argument_group(
        "assertions", "instead of a query; each also as its negation, such as --not-contains"
    )
    for kind, description in _TEXT_KINDS.items():
        _add_pair(group, kind, description, metavar="TEXT")
    for kind, description in _LIST_KINDS.items():
        _add_pair(group, kind, description, metavar="TEXT", nargs="+")
    for kind, description in _NUMBER_KINDS.items():
        group.add_argument(_option(kind), type=int, metavar="N", help=description)
    for kind, description in _FLAG_KINDS.items():
        _add_pair(group, kind, description, action="store_const", const=True)
    group.add_argument(
        "--json-schema", type=Path, metavar="FILE", help="the answer is JSON of this schema"
    )
    if has_thresholds:
        probability = group.add_mutually_exclusive_group()
        probability.add_argument(
            "--at-least", metavar="P", help="with at least this probability (default: compute it)"
        )
        probability.add_argument("--at-most", metavar="P", help="with at most this probability")
    command.add_argument(
        _QUANTIFIER,
        action="append",
        default=[],
        metavar="NAME=SETTINGS",
        help='a quantifier of the query, as in --quantifier "yes={type: pattern, pattern: ^Yes}"',
    )


def parse_property(
    arguments: argparse.Namespace, registry: Registry, length: int | str
) -> Property:
    """Parse the query of the arguments, or the assertion in its place.

    Args:
        arguments: the arguments of the command line.
        registry: the configuration, whose quantifiers the query may name, and whose models judge.
        length: the horizon, as in `resolve_query`.

    Raises:
        ConfigError: as in `_find_query`, or a quantifier is invalid.
        InvalidQuery: the query does not parse, or contains an unknown quantifier.
    """
    text, settings, assertion, options = _find_query(arguments)

    def find_model(name: DeploymentName) -> ModelConfig:
        return resolve_deployment("model", name, registry).model

    own = {}
    for name, entry in settings.items():
        with prefix_errors(options[name]):
            own[name] = create_quantifier_or_judge(name, entry, find_model, registry.expansion)
    configured = registry.quantifiers
    quantifiers = LazyQuantifiers(
        {*configured, *own}, lambda name: own[name] if name in own else configured[name]
    )
    asked = resolve_query(text, length, quantifiers, _create_quantifier)
    if assertion is not None:
        # the assertion stands for a query, which the user can extend
        logging.info("the same as %s", _format_command(arguments.command, text, settings))
    return replace(asked, assertion=assertion)


def _create_quantifier(name: str) -> Quantifier:
    """Create the standard quantifier of a name, whose settings only its option could have."""
    with prefix_errors(f"{_QUANTIFIER} {name}"):
        return create_quantifier(name)


def _find_query(
    arguments: argparse.Namespace,
) -> tuple[str, _QuantifierSettings, Mapping[str, Any] | None, Mapping[str, str]]:
    """Find the query of the arguments, or that of an assertion in its place.

    Returns:
        The query, the settings of the quantifiers that the arguments define, the assertion that
        the query stands for (None for none), and the option that defines each quantifier.

    Raises:
        ConfigError: the arguments have no query or several, or an unusable value.
    """
    values = _collect_assertions(arguments)
    settings: dict[str, Mapping[str, Any]] = {}
    for name, entry in map(_parse_quantifier, getattr(arguments, "quantifier", ())):
        if name in settings:
            raise ConfigError(f"{_QUANTIFIER} {name}: given twice; keep one, or rename the other")
        settings[name] = entry
    places = {name: f"{_QUANTIFIER} {name}" for name in settings}
    query = arguments.query
    probability = getattr(arguments, AT_LEAST, None), getattr(arguments, AT_MOST, None)
    if not values:
        if probability != (None, None):
            raise ConfigError("--at-least, --at-most: no assertion; add one such as --contains")
        if query is None:
            raise ConfigError(
                f"{arguments.command}: no query; write one, or an assertion such as --contains"
            )
        return query, settings, None, places
    given = ["the query"] * (query is not None) + [_option(kind) for kind in values]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)}: several queries; keep one")
    ((kind, value),) = values.items()
    option = "--json-schema" if getattr(arguments, "json_schema", None) else _option(kind)
    assertion = build_assertion(kind, value, option)
    at_least, at_most = probability
    key, number = (AT_MOST, at_most) if at_least is None else (AT_LEAST, at_least)
    threshold = None if number is None else parse_probability(_option(key), number)
    text = assertion.format_query(threshold, at_most=key == AT_MOST)
    # a quantifier of the command line with the same name would change the assertion
    if clash := assertion.properties.keys() & settings.keys():
        raise ConfigError(f"{_QUANTIFIER} {min(clash)}: {option} uses this name; rename it")
    entry = {kind: value, **({} if threshold is None else {key: f"{threshold:f}"})}
    settings |= assertion.properties
    places |= dict.fromkeys(assertion.properties, option)
    return text, settings, entry, places


def _format_command(command: str, query: str, settings: _QuantifierSettings) -> str:
    """Format a query and its quantifiers as arguments of a command of `llmchecker`."""
    options = [
        f"{_QUANTIFIER} {shlex.quote(f'{name}={json.dumps(entry)}')}"
        for name, entry in settings.items()
    ]
    return " ".join(["llmchecker", command, shlex.quote(query), *options])


def _option(kind: str) -> str:
    # --json of `check` is the format of its output
    name = kind.replace("json", "is_json")
    return f"--{name.replace('_', '-')}"


def _add_pair(group: Any, kind: str, description: str, **options: Any) -> None:
    """Add an assertion and its negation, which the help leaves out."""
    for name, text in ((kind, description), (f"not_{kind}", argparse.SUPPRESS)):
        # two texts are one assertion of another kind
        if f"{kind}_all" in _LIST_KINDS:
            several = f"write {_option(name)}-all {{values}}, or {_option(name)}-any"
            group.add_argument(_option(name), help=text, repeat_fix=several, **options)
        else:
            group.add_argument(_option(name), help=text, **options)


def _collect_assertions(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the values of all given assertions by kind."""
    kinds = [*_TEXT_KINDS, *_LIST_KINDS, *_NUMBER_KINDS, *_FLAG_KINDS]
    names = [name for kind in kinds for name in (kind, f"not_{kind}")]
    values = {}
    for name in names:
        # argparse derives the attribute from the option
        attribute = _option(name).removeprefix("--").replace("-", "_")
        if (value := getattr(arguments, attribute, None)) is not None:
            values[name] = value
    schema = getattr(arguments, "json_schema", None)
    if schema is not None:
        values["json"] = read_schema("--json-schema", schema)
    return values


def _parse_quantifier(text: str) -> tuple[str, Mapping[str, Any]]:
    """Parse `name={type: …}`, or `name` for a type without settings."""
    name, separator, settings_text = text.partition("=")
    source = f"{_QUANTIFIER} {name}"
    settings = parse_yaml(settings_text, source).content if separator else {}
    if not isinstance(settings, dict):
        raise ConfigError(f"{source}: {settings_text!r} has no settings; write {{type: …}}")
    return name.strip(), settings
