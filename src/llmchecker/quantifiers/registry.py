"""The quantifiers of this package by name, and how they are made from their settings.

A new quantifier needs one file beside this one and one line in `QUANTIFIERS`.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from llmchecker.errors import ConfigError, UnknownName, did_you_mean
from llmchecker.quantifiers.gender import Gender
from llmchecker.quantifiers.polarity import Polarity
from llmchecker.quantifiers.provable import Provable
from llmchecker.quantifiers.quantifier import Quantifier
from llmchecker.quantifiers.readability import Readability
from llmchecker.quantifiers.similarity import Similarity
from llmchecker.queries.formulas import is_variable_name

QUANTIFIERS: dict[str, type[Quantifier]] = {
    "gender": Gender,
    "polarity": Polarity,
    "provable": Provable,
    "readability": Readability,
    "similarity": Similarity,
}


def create(name: str, settings: Mapping[str, Any] | None = None) -> Quantifier:
    """Make the quantifier of that name; None stands for no settings.

    Raises:
        UnknownName: no quantifier has that name.
        ConfigError: a setting is unknown, missing or has a value that cannot be used; or the name
            cannot be a variable.
    """
    if name not in QUANTIFIERS:
        raise UnknownName(
            f"there is no quantifier {name!r}{did_you_mean(name, QUANTIFIERS)}; "
            f"known are {', '.join(sorted(QUANTIFIERS))}"
        )
    _check_name(name)
    quantifier = QUANTIFIERS[name]
    settings = {} if settings is None else settings
    _check_keys(name, quantifier, settings)
    try:
        return quantifier(**settings)
    except ConfigError as error:
        raise type(error)(f"quantifier {name!r}: {error}") from error


def files_of(quantifier: Quantifier) -> list[Path]:
    """The files that the scores of a quantifier depend on: those of its settings that are paths."""
    return [value for value in vars(quantifier).values() if isinstance(value, Path)]


def _check_name(name: str) -> None:
    if not is_variable_name(name):
        raise ConfigError(
            f"quantifier {name!r}: a name consists of letters, digits and _, and means nothing "
            "else in a query or a PRISM file"
        )


def _check_keys(name: str, quantifier: type[Quantifier], settings: Mapping[str, Any]) -> None:
    if not isinstance(settings, Mapping):
        raise ConfigError(f"quantifier {name!r}: its settings are {settings!r}, not a mapping")
    known = {field.name: field for field in fields(quantifier) if field.init}
    for key in settings:
        if key not in known:
            has = f"it has {', '.join(sorted(known))}" if known else "it has none"
            raise ConfigError(
                f"quantifier {name!r} has no setting {key!r}{did_you_mean(str(key), known)}; {has}"
            )
    for key, field in known.items():
        if key not in settings and field.default is MISSING and field.default_factory is MISSING:
            raise ConfigError(f"quantifier {name!r} needs the setting {key!r}")
