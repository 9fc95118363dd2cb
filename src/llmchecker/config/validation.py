"""Checking a configuration against the schema, and filling in what it leaves out.

The schema is `config.schema.yaml` beside this module. It says which keys there are and which values
each may have. It cannot say whether a name refers to something, such as a model that an experiment
names; `configuration` checks that.
"""

import hashlib
import json
import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmchecker.config.strict_yaml import read_strictly
from llmchecker.errors import ConfigError, LLMCheckerError, did_you_mean

if TYPE_CHECKING:
    from jsonschema import ValidationError

SCHEMA = Path(__file__).with_name("config.schema.yaml")
"""The schema's file."""


@cache
def _schema() -> dict[str, Any]:
    """The JSON schema of a configuration."""
    return read_strictly(SCHEMA).content


def validate(raw: Mapping[str, Any]) -> None:
    """Check a configuration against the schema.

    Raises:
        ConfigError: the first violation, by its key.
    """
    # Imported here because it is slow and needed once in a run, while every job that takes a part
    # of a configuration imports this module.
    import jsonschema

    usual = jsonschema.Draft202012Validator
    types = usual.TYPE_CHECKER.redefine_many({"integer": _is_integer, "number": _is_number})
    violations = jsonschema.validators.extend(usual, type_checker=types)(_schema()).iter_errors(raw)
    first = min(violations, key=lambda violation: list(map(str, violation.path)), default=None)
    if first is not None:
        raise ConfigError(f"{_key(first.absolute_path)}: {_explanation(first)}")


def with_defaults(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration, which must be valid, with the schema's defaults for all absent keys."""
    return _filled(raw, _schema(), _schema())


def sha256_of_config(filled: Mapping[str, Any]) -> str:
    """The sha256 of a configuration with all defaults, as JSON with sorted keys.

    Comments, the order of keys, and writing a default out do not change it.
    """
    # whoever writes a configuration takes 1 and 1.0 for the same number
    alike = json.loads(json.dumps(filled), parse_int=float)
    return hashlib.sha256(json.dumps(alike, sort_keys=True).encode()).hexdigest()


@contextmanager
def at_key(key: str) -> Iterator[None]:
    """Name the key in whatever error the block raises."""
    try:
        yield
    except LLMCheckerError as error:
        raise type(error)(f"{key}: {error}") from error


def _is_integer(_: object, value: object) -> bool:
    """Refuse 3.0, which JSON Schema takes for an integer: it would give another path than 3."""
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(_: object, value: object) -> bool:
    """Refuse .nan and .inf, which YAML has and JSON has not."""
    return _is_integer(_, value) or (isinstance(value, float) and math.isfinite(value))


def _explanation(violation: "ValidationError") -> str:
    schema, value = violation.schema, violation.instance
    shown = _shortened(repr(value))
    match violation.validator:
        case "additionalProperties":
            known = schema.get("properties", {})
            unknown = next(key for key in value if key not in known)
            hint = did_you_mean(str(unknown), known) or ";"
            return f"unknown key {unknown!r}{hint} known keys are {', '.join(known)}"
        case "required":
            missing = [key for key in violation.validator_value if key not in value]
            return f"the key {missing[0]!r} is missing"
        case "minimum":
            return f"{shown} is too small; it must be at least {violation.validator_value}"
        case "exclusiveMinimum":
            return f"{shown} is too small; it must be above {violation.validator_value}"
        case "maximum":
            return f"{shown} is too large; it must be at most {violation.validator_value}"
        case "maxLength":
            most = violation.validator_value
            return f"{value[:20]!r}… has {len(value)} characters; it must have at most {most}"
        case "minItems" | "minProperties":
            return f"{shown} is too short; it must have at least {violation.validator_value}"
        case "uniqueItems":
            again = next(item for place, item in enumerate(value) if item in value[:place])
            return f"{_shortened(repr(again))} stands twice; each may stand once"
        case "pattern":
            return f"{shown} does not match {violation.validator_value}"
        case "enum":
            return f"{shown} is not one of {', '.join(violation.validator_value)}"
        case "type":
            types = violation.validator_value
            named = types if isinstance(types, str) else " or ".join(types)
            return f"{shown} is not of type {named}"
        case _:
            return violation.message.replace(repr(value), shown)


def _shortened(text: str) -> str:
    """A text as far as a message of one line has room for it."""
    return text if len(text) <= 100 else f"{text[:99]}…"


def _key(path: Collection[str | int]) -> str:
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in path]
    return "".join(steps).removeprefix(".") or "config"


def _filled(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    """The value with the defaults of its schema for all absent keys, at every depth."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    if isinstance(value, Mapping):
        known = schema.get("properties", {})
        defaults = {key: entry["default"] for key, entry in known.items() if "default" in entry}
        others = schema.get("additionalProperties")
        others = others if isinstance(others, Mapping) else {}
        return {
            key: _filled(item, known.get(key, others), root)
            for key, item in (defaults | dict(value)).items()
        }
    if isinstance(value, list):
        return [_filled(item, schema.get("items", {}), root) for item in value]
    return value
