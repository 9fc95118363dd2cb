"""The quantifier of whether a text is JSON, and can still become JSON."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import regex

from llmchecker.errors import ConfigError
from llmchecker.quantifiers.quantifier import PARTS, part_of, require_one_of

if TYPE_CHECKING:
    from jsonschema.protocols import Validator
    from referencing import Resource
    from referencing._core import Resolver  # it is public in name, but not exported

# The grammar of RFC 8259. No part of a text can match in two ways, so nothing that has matched is
# ever given up (+ after a repetition), and the time is linear in the text.
_GRAMMAR = regex.compile(
    r"""
    (?(DEFINE)
      (?P<space>  [\ \t\n\r]*+ )
      (?P<string> " (?: [^"\\\x00-\x1f] | \\ (?: ["\\/bfnrt] | u [0-9a-fA-F]{4} ) )*+ " )
      (?P<number> -?+ (?: 0 | [1-9][0-9]*+ ) (?: \. [0-9]++ )?+ (?: [eE] [+-]?+ [0-9]++ )?+ )
      (?P<array>  \[ (?: (?&space) | (?&value) (?: , (?&value) )*+ ) \] )
      (?P<member> (?&space) (?&string) (?&space) : (?&value) )
      (?P<object> \{ (?: (?&space) | (?&member) (?: , (?&member) )*+ ) \} )
      (?P<value>  (?&space)
                  (?: (?&string) | (?&number) | true | false | null | (?&array) | (?&object) )
                  (?&space) )
    )
    (?&value)
    """,
    regex.VERBOSE,
)


@dataclass(frozen=True)
class JsonText:
    """2 for a JSON text that satisfies a schema, 1 for one that can still become JSON, else 0.

    A text that scores 0 is the beginning of no JSON text, so that it scores 0 for ever, even where
    it ends with half a character that is completed later. Each other
    text is the beginning of a JSON text; of which, the schema is not asked. A text that scores 2
    may score 1 or 0 when more is written.

    JSON is that of RFC 8259: white space may stand around it, but no word and no code fence. The
    schema's draft is the one that its `$schema` names, by default 2020-12. `format` asserts
    nothing, and a `$ref` leads to a place in the schema itself.

    Attributes:
        schema: the JSON Schema; by default every JSON text satisfies it.
        file: the path of a file that holds the schema instead.
        of: `continuation` reads what was generated alone, `text` the start string too.

    Raises:
        ConfigError: the schema is none, a `$ref` leads nowhere, there are a schema and a file, or
            the file cannot be read.
    """

    schema: Mapping[str, Any] | bool = True
    file: Path | None = None
    of: str = "continuation"
    validator: "Validator" = field(init=False, repr=False, compare=False)

    minimum: ClassVar[int | None] = 0
    maximum: ClassVar[int | None] = 2
    final: ClassVar[frozenset[int]] = frozenset({0})

    def __post_init__(self) -> None:
        require_one_of("of", self.of, PARTS)
        key, schema = "schema", self.schema
        if self.file is not None:
            if schema is not True:
                raise ConfigError("there are both a schema and a file; one of them must go")
            key, schema = f"file {str(self.file)!r}", _read(self.file)
            object.__setattr__(self, "file", Path(self.file))
        object.__setattr__(self, "validator", _validator(key, schema))

    def __call__(self, start: str, continuation: str) -> int:
        text = part_of(start, continuation, self.of)
        found = _GRAMMAR.fullmatch(text, partial=True)
        if found is None:
            return 0
        return 1 if found.partial or not self._satisfies(text) else 2

    def _satisfies(self, text: str) -> bool:
        try:
            return self.validator.is_valid(json.loads(text))
        except (RecursionError, ValueError, OverflowError) as error:
            # nested thousands deep, or a number of thousands of digits
            raise ConfigError(f"the JSON text {text!r} cannot be read: {error}") from error


def _read(path: str | Path) -> Any:
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"file is {path!r}, which cannot be read as JSON: {error}") from error


def _validator(key: str, schema: Any) -> "Validator":
    """What says whether a value satisfies a schema, which is checked first.

    Raises:
        ConfigError: as `JsonText` raises it.
    """
    # Imported here: it takes a tenth of a second, and most runs ask for no JSON.
    from jsonschema import Draft202012Validator, SchemaError
    from jsonschema.validators import validator_for
    from referencing import Registry, Resource
    from referencing.jsonschema import DRAFT202012

    if not isinstance(schema, Mapping | bool):
        raise ConfigError(f"{key} is {schema!r}, which is no JSON Schema, but a value")
    named = schema.get("$schema") if isinstance(schema, Mapping) else None
    kind = validator_for(schema, default=Draft202012Validator if named is None else None)
    if kind is None:
        raise ConfigError(f"{key}: $schema is {named!r}, which is no draft of JSON Schema")
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        place = "".join(f"[{step!r}]" for step in error.absolute_path)
        raise ConfigError(f"{key}{place} is no JSON Schema: {error.message}") from error
    registry = Registry()  # it is empty and fetches nothing
    resource = Resource.from_contents(schema, default_specification=DRAFT202012)
    _require_references(key, resource, registry.resolver_with_root(resource))
    return kind(schema, registry=registry)


def _require_references(key: str, resource: "Resource", resolver: "Resolver") -> None:
    """Check that every `$ref` of a schema leads to a place in it.

    Raises:
        ConfigError: one does not.
    """
    from referencing.exceptions import Unresolvable

    if isinstance(resource.contents, Mapping) and "$ref" in resource.contents:
        reference = resource.contents["$ref"]
        try:
            resolver.lookup(reference)
        except Unresolvable as error:
            raise ConfigError(
                f"{key}: the $ref {reference!r} leads to no place in the schema, and nothing is "
                "fetched"
            ) from error
    for part in resource.subresources():
        _require_references(key, part, resolver.in_subresource(part))
