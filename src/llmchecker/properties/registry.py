"""Registry of quantifier types, and construction of quantifiers from settings.

A new type of this package needs one file in `quantifiers/` and one line in `_CLASS_PATHS`.
Installed packages add types by entry points, see `plugins`. A module is imported when its type is
first used.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from llmchecker.errors import ConfigError, MissingTool, UnknownName, did_you_mean
from llmchecker.models.sources.model_directory import find_model_files
from llmchecker.properties.custom_class import (
    FOREIGN_ERRORS,
    format_foreign_error,
    read_declared_range,
)
from llmchecker.properties.logic.ast import STEP, is_variable_name
from llmchecker.properties.logic.query import Query
from llmchecker.properties.plugins import find_installed_types, load_type
from llmchecker.properties.quantifiers.interface import Quantifier
from llmchecker.utils.optional_packages import explain_missing_packages
from llmchecker.utils.plugins import QUANTIFIERS, find_missing_plugin
from llmchecker.utils.printable_text import quote_value

TYPE_KEY = "type"
"""Key of the setting for the type; its default is the quantifier's name."""

_CLASS_PATHS = {
    "calls": "llmchecker.properties.quantifiers.tool_calls:ToolCalls",
    "classifier": "llmchecker.properties.quantifiers.classifier:Classifier",
    "field": "llmchecker.properties.quantifiers.json_field:JsonField",
    "gender": "llmchecker.properties.quantifiers.gender:Gender",
    "judge": "llmchecker.properties.quantifiers.judge:Judge",
    "json": "llmchecker.properties.quantifiers.json_validity:JsonText",
    "language": "llmchecker.properties.quantifiers.language:Language",
    "length": "llmchecker.properties.quantifiers.length:Length",
    "pattern": "llmchecker.properties.quantifiers.pattern:Pattern",
    "polarity": "llmchecker.properties.quantifiers.polarity:Polarity",
    "python": "llmchecker.properties.custom_class:OwnClass",
    "readability": "llmchecker.properties.quantifiers.readability:Readability",
    "refuses": "llmchecker.properties.quantifiers.refusal:Refusal",
    "similarity": "llmchecker.properties.quantifiers.similarity:Similarity",
    "words": "llmchecker.properties.quantifiers.word_count:Words",
}

BUILTIN_TYPES = {name: EntryPoint(name, place, QUANTIFIERS) for name, place in _CLASS_PATHS.items()}
"""Types of this package by name; no installed package replaces them."""


def create_quantifier(name: str, settings: Mapping[str, Any] | None = None) -> Quantifier:
    """Create the quantifier of a name from its settings.

    Args:
        name: str, name of the quantifier in queries.
        settings: values by key; None for no settings.

    Raises:
        UnknownName: no such type exists.
        ConfigError: a setting is unknown, missing or has an unusable value, or the name cannot be a
            variable.
    """
    settings = {} if settings is None else settings
    entry = find_type(name, settings)
    # a built-in type imports its module only here, since modules may need large libraries
    quantifier_type: type[Quantifier] = (
        entry.load() if entry.name in BUILTIN_TYPES else load_type(entry)
    )
    settings = {key: value for key, value in settings.items() if key != TYPE_KEY}
    # a foreign class need not be a dataclass; then it has no settings
    setting_fields: dict[str, Field[Any]] = (
        {field.name.rstrip("_"): field for field in fields(quantifier_type) if field.init}
        if is_dataclass(quantifier_type)
        else {}
    )
    _check_keys(name, setting_fields, settings)
    try:
        return _instantiate(
            quantifier_type, {setting_fields[key].name: value for key, value in settings.items()}
        )
    except ConfigError as error:
        # keeps the subclass, such as UnknownName, and adds the quantifier's name
        raise type(error)(f"quantifier {name!r}: {error}") from error


class LazyQuantifiers(Mapping[str, Quantifier]):
    """Quantifiers by name, each created on access.

    Args:
        names: their names.
        create: creates the quantifier of a name.
    """

    def __init__(self, names: Collection[str], create: Callable[[str], Quantifier]) -> None:
        self._names = names
        self._create = create

    def __getitem__(self, name: str) -> Quantifier:
        if name not in self._names:
            raise KeyError(name)
        return self._create(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def find_quantifiers(
    query: Query,
    length: int,
    defined: Mapping[str, Quantifier],
    create: Callable[[str], Quantifier] = create_quantifier,
    others: Collection[str] = (),
) -> dict[str, Quantifier]:
    """Find the quantifiers of a query by name: the defined ones, and standard ones.

    A standard quantifier is a type without required settings, such as `gender`. A query may name it
    without a definition.

    Args:
        query: the query.
        length: the horizon in tokens.
        defined: the quantifiers of the caller or the configuration, by name.
        create: creates a standard quantifier.
        others: names of further variables, which are no quantifiers.

    Raises:
        InvalidQuery: the query contains an unknown name.
        ConfigError: a quantifier without a definition has required settings.
    """
    known = {*BUILTIN_TYPES, *defined, *others}
    # entry points are read only if a name is neither defined nor built in
    if not query.variables - {STEP} <= known:
        known |= find_installed_types().keys()
    query.check_references(known, length)
    # `step` is a variable of the query language, not a quantifier.
    names = sorted(query.variables - {STEP, *others})
    return {name: defined[name] if name in defined else create(name) for name in names}


def find_quantifier_files(quantifier: Quantifier) -> list[Path]:
    """Return the files that a quantifier's scores depend on, outside this package.

    These are its fields that are paths or tuples of paths. A directory counts with the files of the
    model in it. A class outside this package counts with the file that defines it.
    """
    values = (v if isinstance(v, tuple) else (v,) for v in vars(quantifier).values())
    paths = [value for group in values for value in group if isinstance(value, Path)]
    files = [
        file for path in paths for file in (find_model_files(path) if path.is_dir() else [path])
    ]
    if _is_builtin(type(quantifier)):
        return files
    return [*files, Path(inspect.getfile(type(quantifier)))]


def list_quantifier_files(quantifier: Quantifier) -> dict[str, Path]:
    """List the files of a quantifier by their numbers, which do not depend on the folder."""
    files = enumerate(find_quantifier_files(quantifier))
    return {str(number): path for number, path in files}


def find_quantifier_modules(quantifiers: Iterable[Quantifier]) -> list[str]:
    """Return the sorted names of the modules that define the types."""
    return sorted({type(quantifier).__module__ for quantifier in quantifiers})


def name_class(type_name: str) -> str:
    """Return the public name of a type's class, such as `llmchecker.Gender`."""
    if type_name in BUILTIN_TYPES:
        return f"llmchecker.{BUILTIN_TYPES[type_name].attr}"
    entry = find_installed_types()[type_name]
    return f"{entry.module}.{entry.attr}"


def check_name(name: object) -> None:
    """Check that a query and a PRISM file can name a quantifier.

    Raises:
        ConfigError: they cannot.
    """
    # YAML 1.1 reads an unquoted `yes` or `no` as a bool
    if isinstance(name, bool):
        raise ConfigError(
            f"quantifier {name}: YAML reads yes, no, on, off, true and false as truth values; "
            'write such a name in quotes, as in "yes": {type: pattern}'
        )
    if not isinstance(name, str) or not is_variable_name(name):
        raise ConfigError(
            f"quantifier {name!r}: not letters, digits and _, or a reserved word of queries "
            "or PRISM; rename it"
        )


def find_type(name: object, settings: object) -> EntryPoint:
    """Find the type in a quantifier's settings, or else that of its name, without importing it.

    Entry points of installed packages are read only if the type is not built in.

    Raises:
        UnknownName: no such type exists.
        ConfigError: the name cannot be a variable, or the settings are not a mapping.
        MissingTool: the package of the type is not installed.
    """
    check_name(name)
    if not isinstance(settings, Mapping):
        raise ConfigError(
            f"quantifier {name!r}: settings {quote_value(settings)} are not a mapping"
        )
    type_name = settings.get(TYPE_KEY, name)
    if isinstance(type_name, str) and type_name in BUILTIN_TYPES:
        return BUILTIN_TYPES[type_name]
    installed_types = find_installed_types()
    if isinstance(type_name, str) and type_name in installed_types:
        return installed_types[type_name]
    if (message := find_missing_plugin(QUANTIFIERS, str(type_name))) is not None:
        raise MissingTool(message)
    type_names = sorted({*BUILTIN_TYPES, *installed_types})
    hint = f"{did_you_mean(str(type_name), type_names) or ';'} known are {', '.join(type_names)}"
    if TYPE_KEY in settings:
        raise UnknownName(f"{TYPE_KEY}: {quote_value(type_name)} is unknown{hint}")
    raise UnknownName(
        f"quantifier {name!r}: unknown{hint}; a quantifier with another name needs the "
        f"key {TYPE_KEY!r}"
    )


def _instantiate(quantifier_type: type[Quantifier], settings: Mapping[str, Any]) -> Quantifier:
    # errors of this package's types are ConfigErrors already
    if _is_builtin(quantifier_type):
        with explain_missing_packages():
            return quantifier_type(**settings)
    try:
        quantifier = quantifier_type(**settings)
    # a foreign class may raise this package's errors with its own message
    except (ConfigError, MissingTool):
        raise
    except FOREIGN_ERRORS as error:
        raise ConfigError(
            f"{quantifier_type.__name__}: creating it raised {format_foreign_error(error)}"
        ) from error
    # a foreign class may violate the protocol, on which bounds rely
    read_declared_range(quantifier)
    final_scores = getattr(quantifier, "final", ())
    if not isinstance(final_scores, Collection) or not all(
        type(score) is int for score in final_scores
    ):
        raise ConfigError(
            f"{quantifier_type.__name__}: final is {final_scores!r}, not a set of integers"
        )
    return quantifier


def _is_builtin(quantifier_type: type[Quantifier]) -> bool:
    return quantifier_type.__module__.partition(".")[0] == __package__.partition(".")[0]


def _check_keys(
    name: str, setting_fields: Mapping[str, Field[Any]], settings: Mapping[str, Any]
) -> None:
    for key in settings:
        if key not in setting_fields:
            known_keys = (
                f"it has {', '.join(sorted(setting_fields))}" if setting_fields else "it has none"
            )
            hint = did_you_mean(str(key), setting_fields) or ";"
            raise ConfigError(f"quantifier {name!r}: unknown setting {key!r}{hint} {known_keys}")
    for key, field in setting_fields.items():
        if key not in settings and field.default is MISSING and field.default_factory is MISSING:
            raise ConfigError(f"quantifier {name!r}: the setting {key!r} is missing; add it")
