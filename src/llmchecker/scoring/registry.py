"""The types of quantifiers by name, and how a quantifier is made from its settings.

A new type of this package needs one file in `quantifiers/` and one line in `QUANTIFIERS`. Installed
packages add types by entry points, see `installed`.
"""

import inspect
from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Any

from llmchecker.errors import ConfigError, UnknownName, did_you_mean
from llmchecker.fetching.model_files import model_files
from llmchecker.quantifiers.classifier import Classifier
from llmchecker.quantifiers.gender import Gender
from llmchecker.quantifiers.json_text import JsonText
from llmchecker.quantifiers.length import Length
from llmchecker.quantifiers.pattern import Pattern
from llmchecker.quantifiers.polarity import Polarity
from llmchecker.quantifiers.provable import Provable
from llmchecker.quantifiers.quantifier import Quantifier
from llmchecker.quantifiers.readability import Readability
from llmchecker.quantifiers.similarity import Similarity
from llmchecker.quantifiers.words import Words
from llmchecker.queries.formulas import is_variable_name
from llmchecker.scoring.installed import installed_types, load_type
from llmchecker.scoring.own_class import ANY_ERROR, OwnClass, declared_range, raised

TYPE = "type"
"""The setting that names the type of a quantifier; without it the quantifier's name does."""

QUANTIFIERS: dict[str, type[Quantifier]] = {
    "classifier": Classifier,
    "gender": Gender,
    "json": JsonText,
    "length": Length,
    "pattern": Pattern,
    "polarity": Polarity,
    "provable": Provable,
    "python": OwnClass,
    "readability": Readability,
    "similarity": Similarity,
    "words": Words,
}
"""The types of this package. No installed package replaces one."""


def create(name: str, settings: Mapping[str, Any] | None = None) -> Quantifier:
    """Make the quantifier of that name; None stands for no settings.

    Raises:
        UnknownName: there is no such type.
        ConfigError: a setting is unknown, missing or has a value that cannot be used; or the name
            cannot be a variable.
    """
    _check_name(name)
    settings = {} if settings is None else settings
    if not isinstance(settings, Mapping):
        raise ConfigError(f"quantifier {name!r}: its settings are {settings!r}, not a mapping")
    kind = _type(name, settings)
    settings = {key: value for key, value in settings.items() if key != TYPE}
    known = _keys(kind)
    _check_keys(name, known, settings)
    try:
        return _made(kind, {known[key].name: value for key, value in settings.items()})
    except ConfigError as error:
        raise type(error)(f"quantifier {name!r}: {error}") from error


def files_of(quantifier: Quantifier) -> list[Path]:
    """The files that the scores of a quantifier depend on, but for those of this package.

    They are its settings that are paths, of a directory the files of the model in it, and the file
    of its class if another package defines it.
    """
    paths = [value for value in vars(quantifier).values() if isinstance(value, Path)]
    files = [file for path in paths for file in (model_files(path) if path.is_dir() else [path])]
    if _is_ours(type(quantifier)):
        return files
    return [*files, Path(inspect.getfile(type(quantifier)))]


def modules_without(quantifiers: Iterable[Quantifier]) -> list[str]:
    """The modules of the types that none of the quantifiers has, as paths below the package."""
    used = {type(quantifier) for quantifier in quantifiers}
    unused = {each.__module__ for each in QUANTIFIERS.values() if each not in used | {OwnClass}}
    return sorted(f"{module.partition('.')[2].replace('.', '/')}.py" for module in unused)


def _check_name(name: object) -> None:
    if isinstance(name, bool):
        raise ConfigError(
            f"quantifier {name}: YAML reads the words yes, no, on, off, true and false as truth "
            'values; write such a name in quotes, as in "yes": {type: pattern}'
        )
    if not isinstance(name, str) or not is_variable_name(name):
        raise ConfigError(
            f"quantifier {name!r}: a name consists of letters, digits and _, and means nothing "
            "else in a query or a PRISM file"
        )


def _type(name: str, settings: Mapping[str, Any]) -> type[Quantifier]:
    """The type that settings name, or else the name; of an installed package only if asked for."""
    asked = settings.get(TYPE, name)
    if isinstance(asked, str) and asked in QUANTIFIERS:
        return QUANTIFIERS[asked]
    installed = installed_types()
    if isinstance(asked, str) and asked in installed:
        return load_type(installed[asked])
    known = sorted({*QUANTIFIERS, *installed})
    hint = f"{did_you_mean(str(asked), known) or ';'} known are {', '.join(known)}"
    if TYPE in settings:
        raise UnknownName(f"{TYPE}: there is no type {asked!r}{hint}")
    raise UnknownName(
        f"there is no quantifier {name!r}{hint}; a quantifier with a name of its own says which of "
        f"these it is by the key {TYPE!r}"
    )


def _made(kind: type[Quantifier], settings: Mapping[str, Any]) -> Quantifier:
    if _is_ours(kind):
        return kind(**settings)
    try:
        quantifier = kind(**settings)
    except ConfigError:
        raise
    except ANY_ERROR as error:
        raise ConfigError(f"{kind.__name__} cannot be made; it raised {raised(error)}") from error
    declared_range(quantifier)
    final = getattr(quantifier, "final", ())
    if not isinstance(final, Collection) or not all(type(score) is int for score in final):
        raise ConfigError(f"final of {kind.__name__} is {final!r}, not a set of integers")
    return quantifier


def _is_ours(kind: type[Quantifier]) -> bool:
    return kind in QUANTIFIERS.values()


def _keys(kind: type[Quantifier]) -> dict[str, Field]:
    """The fields of a type by the keys of its settings: `class_` has the key `class`."""
    if not is_dataclass(kind):
        return {}
    return {field.name.rstrip("_"): field for field in fields(kind) if field.init}


def _check_keys(name: str, known: Mapping[str, Field], settings: Mapping[str, Any]) -> None:
    for key in settings:
        if key not in known:
            has = f"it has {', '.join(sorted(known))}" if known else "it has none"
            hint = did_you_mean(str(key), known) or ";"
            raise ConfigError(f"quantifier {name!r} has no setting {key!r}{hint} {has}")
    for key, field in known.items():
        if key not in settings and field.default is MISSING and field.default_factory is MISSING:
            raise ConfigError(f"quantifier {name!r} needs the setting {key!r}")
