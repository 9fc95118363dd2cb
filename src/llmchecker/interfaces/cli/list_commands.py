"""The commands `models`, `starts`, `quantifiers` and `queries`, which print lists.

    llmchecker models
    llmchecker quantifiers --names

They read the names in the configuration without checking its other values, so that they answer at
once. A run of the workflow reports all problems of a configuration.
"""

import argparse
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import Field, fields, is_dataclass
from inspect import getdoc
from pathlib import Path
from types import UnionType
from typing import Any

from llmchecker.config.project import DEFAULT_CONFIG, MODELS_DIRECTORY, find_project
from llmchecker.config.yaml_reader import SHARED_SCHEMA, read_yaml
from llmchecker.errors import ConfigError
from llmchecker.interfaces.cli.output import escape_unencodable, is_terminal
from llmchecker.interfaces.cli.parser import COMMAND_HELP, SubParsers
from llmchecker.models.sources.model_directory import measure_weights
from llmchecker.properties.plugins import find_installed_types, load_type
from llmchecker.properties.reference import (
    PATH_FORMS,
    QUANTIFIER_TYPES,
    QUERY_FORMS,
    QueryForm,
    TypeReference,
)
from llmchecker.utils.exit_status import ExitStatus
from llmchecker.utils.number_format import format_size
from llmchecker.utils.printable_text import escape_unprintable, quote_value

_MAX_SHOWN = 60
"""Maximum number of characters of a start string or of settings in a list."""


def add_models_command(commands: SubParsers) -> None:
    """Add the command `models` to a command line."""
    _add_list_command(commands, "models", _run_models)


def add_starts_command(commands: SubParsers) -> None:
    """Add the command `starts` to a command line."""
    parser = _add_list_command(commands, "starts", _run_starts)
    # For completion, which inserts texts, not names, after --start.
    parser.add_argument("--texts", action="store_true", help="print only texts")


def add_quantifiers_command(commands: SubParsers) -> None:
    """Add the command `quantifiers` to a command line."""
    _add_list_command(commands, "quantifiers", _run_quantifiers)


def add_queries_command(commands: SubParsers) -> None:
    """Add the command `queries` to a command line."""
    parser = commands.add_parser(
        "queries",
        help=COMMAND_HELP["queries"],
        description="Show the forms of queries and formulas, each with an example.",
    )
    parser.set_defaults(run=_run_queries)


def _add_list_command(
    commands: SubParsers, name: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    """Add a command that lists a section of a configuration, and return its parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=COMMAND_HELP[name], description=f"{COMMAND_HELP[name].capitalize()}."
    )
    parser.add_argument(
        "--config",
        default=DEFAULT_CONFIG,
        type=Path,
        help="configuration file (default: %(default)s)",
    )
    parser.add_argument("--names", action="store_true", help="print only names, one per line")
    parser.set_defaults(run=run)
    return parser


def _run_models(arguments: argparse.Namespace) -> int:
    models = _read_section(arguments.config, "models", dict)
    directory = find_project(arguments.config.absolute()) / MODELS_DIRECTORY
    rows = [
        (name, str(entry.get("label", name)), _format_state(entry, directory / name))
        for name, entry in models.items()
    ]
    _print_rows(rows, ("model", "label", "state"), arguments.names)
    return ExitStatus.SUCCESS


def _format_state(entry: Mapping[str, Any], directory: Path) -> str:
    """Return whether a model is fetched, with the size of its weights."""
    # The weights of a server are on another machine.
    if str(entry.get("source", "")).startswith("server:"):
        return "on a server"
    size = measure_weights(directory)
    return "not fetched" if size is None else f"fetched, {format_size(size)}"


def _run_starts(arguments: argparse.Namespace) -> int:
    starts = _read_section(arguments.config, "start_strings", str | list)
    # A chat is no value of --start, and lines separate the texts.
    if arguments.texts:
        texts = (text for text in starts.values() if isinstance(text, str))
        _print_lines(text for text in texts if text.isprintable())
        return ExitStatus.SUCCESS
    rows = [(name, _format_start(start)) for name, start in starts.items()]
    _print_rows(rows, ("start", "text"), arguments.names)
    return ExitStatus.SUCCESS


def _format_start(start: str | list[Any]) -> str:
    """Return a start string on one line; of a chat, its messages as in the file."""
    if isinstance(start, str):
        return _shorten(start)
    return _shorten(", ".join(map(_format_value, start)))


def _run_quantifiers(arguments: argparse.Namespace) -> int:
    # the types need no configuration, which may be absent unless a user names it
    has_config = arguments.config != Path(DEFAULT_CONFIG) or arguments.config.is_file()
    quantifiers = _read_section(arguments.config, "quantifiers", dict) if has_config else {}
    rows = [
        (name, str(entry.get("type", name)), _format_settings(entry))
        for name, entry in quantifiers.items()
    ]
    _print_rows(rows, ("quantifier", "type", "settings"), arguments.names)
    if not arguments.names:
        title = "Types, with their settings:"
        print(f"\n{title}" if rows else title)
        types = []
        for name, reference in (QUANTIFIER_TYPES | _describe_installed_types()).items():
            types.append((f"  {name:<11}", reference.summary))
            if reference.settings:
                types.append(("", ", ".join(reference.settings)))
        _print_rows(types)
    return ExitStatus.SUCCESS


def _describe_installed_types() -> dict[str, TypeReference]:
    """Describe the types of installed packages by their classes.

    Raises:
        ConfigError: a class cannot be imported.
    """
    references = {}
    for name, entry in find_installed_types().items():
        # a built-in type is not replaced
        if name in QUANTIFIER_TYPES:
            continue
        class_ = load_type(entry)
        settings: tuple[Field[Any], ...] = fields(class_) if is_dataclass(class_) else ()
        references[name] = TypeReference(
            (getdoc(class_) or "").partition("\n")[0].rstrip("."),
            tuple(field.name.rstrip("_") for field in settings if field.init),
        )
    return references


def _format_settings(entry: Mapping[str, Any]) -> str:
    return _shorten(_format_value({key: entry[key] for key in entry if key != "type"}))


def _format_value(value: Any) -> str:
    """Return a value of YAML on one line; a mapping without braces."""
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_format_value(item)}" for key, item in value.items())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _run_queries(arguments: argparse.Namespace) -> int:
    _print_forms("Queries:", QUERY_FORMS)
    _print_forms("\nFormulas φ and ψ, over step and quantifiers:", PATH_FORMS)
    return ExitStatus.SUCCESS


def _print_forms(title: str, forms: Sequence[QueryForm]) -> None:
    _print_lines([title])
    rows = [(f"  {form.form:<22}", f"{form.meaning:<31}", form.example) for form in forms]
    _print_rows(rows)


def _read_section(config: Path, key: str, kind: type | UnionType) -> dict[str, Any]:
    """Return a section of a configuration file; empty if it is absent.

    Raises:
        ConfigError: the file is unreadable, or a value has another type than `kind`.
    """
    find_project(config.absolute())  # raises for a missing file, with the fix
    file = read_yaml(config, SHARED_SCHEMA)
    section = file.content.get(key, {})
    if not isinstance(section, dict):
        raise ConfigError(file.add_location(f"{key}: not a mapping; write names and values"))
    for name, value in section.items():
        if not isinstance(value, kind):
            raise ConfigError(
                file.add_location(
                    f"{key}.{name}: {quote_value(value)} is not usable; see "
                    "docs/reference/configuration.md"
                )
            )
    return section


def _print_rows(
    rows: Sequence[tuple[str, ...]], titles: Sequence[str] = (), only_names: bool = False
) -> None:
    """Print rows in columns, with titles on a terminal; or only their first cells."""
    if only_names:
        _print_lines(row[0] for row in rows if row[0].isprintable())
        return
    if rows and is_terminal():
        # Imported here, because a list in a pipe needs no rich.
        from llmchecker.interfaces.cli.terminal import print_table

        print_table(rows, titles)
        return
    rows = [tuple(map(escape_unprintable, row)) for row in rows]
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    _print_lines(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _print_lines(lines: Iterable[str]) -> None:
    escape_unencodable()
    for line in lines:
        print(line)


def _shorten(text: str) -> str:
    """Return a text on one line, cut to `_MAX_SHOWN` characters."""
    line = escape_unprintable(" ".join(text.split()))
    return line if len(line) <= _MAX_SHOWN else f"{line[: _MAX_SHOWN - 1]}…"
