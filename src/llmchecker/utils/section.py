"""The base class of sections of keys, their validation, and common types of keys.

A section is the one description of its keys: files, the command line and Python read it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, core_schema

from llmchecker.errors import ConfigError, did_you_mean, explain_absence
from llmchecker.utils.number_format import format_count
from llmchecker.utils.printable_text import quote_value

_TYPES = {
    **{"bool_type": "boolean", "string_type": "string", "tuple_type": "array"},
    **{"int_type": "integer", "float_type": "number", "finite_number": "number"},
    **{"dict_type": "object", "model_type": "object"},
}
"""Names of types in messages, by the type of pydantic's error."""


_SectionT = TypeVar("_SectionT", bound="Section")


class Section(BaseModel):
    """A section of a configuration: keys with limits, defaults and descriptions.

    The descriptions are the docstrings of the fields. A value keeps the number type of its file:
    `60` is not converted to `60.0`.
    """

    file_noun: ClassVar[str] = "config"
    """The name of a whole file of these keys in messages."""
    refused_keys: ClassVar[Mapping[str, str]] = {}
    """What to write instead of each key that belongs elsewhere or has a new name.

    A key may be one of a base class, which then has its default."""
    unread_keys: ClassVar[tuple[str, ...]] = ()
    """Known keys of the same mapping that another section reads."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, value: Any) -> Any:
        fields = cls.model_fields.items()
        known_keys = [*(field.alias or name for name, field in fields), *cls.unread_keys]
        known_keys = [key for key in known_keys if key not in cls.refused_keys]
        # pydantic's own error has no suggestion for a misspelt key.
        for key in value if isinstance(value, dict) else ():
            if key in cls.refused_keys:
                raise PydanticCustomError(
                    "refused_key", "{problem}", {"key": key, "problem": cls.refused_keys[key]}
                )
            if key not in known_keys:
                if (reason := explain_absence(str(key))) is not None:
                    raise build_error(f"unknown key {key!r}: {reason}")
                hint = did_you_mean(str(key), known_keys) or ";"
                raise build_error(
                    f"unknown key {key!r}{hint} known keys are {', '.join(known_keys)}"
                )
        if cls.unread_keys and isinstance(value, dict):
            return {key: item for key, item in value.items() if key not in cls.unread_keys}
        return value

    @field_validator("*", mode="wrap")
    @classmethod
    def _keep_integer(cls, value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        value = _unwrap(value)
        number = handler(value)
        # Validation of a float would turn 60 into 60.0.
        return value if type(value) is int else number

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        reference = handler(schema)
        entry = handler.resolve_ref_schema(reference)
        for key in cls.refused_keys:
            entry.get("properties", {}).pop(key, None)
        return reference

    @property
    def explicit_keys(self) -> dict[str, Any]:
        """The keys of the configuration file, without defaults."""
        return self.model_dump(by_alias=True, exclude_unset=True)


class OneKeySection(Section):
    """A section with exactly one of its keys."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    @model_validator(mode="after")
    def _check_one(self) -> "OneKeySection":
        # each key has a default and may be absent
        if len(self.explicit_keys) != 1:
            *names, last = type(self).model_fields
            raise build_error(
                f"{self.explicit_keys} must have one key; keep {', '.join(names)} or {last}"
            )
        return self


def _unwrap(value: Any) -> Any:
    """Return a number of numpy, which Python code may give, as one of Python."""
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else value


def parse_section(
    section: type[_SectionT], raw: Mapping[str, Any], place: str | None = None
) -> _SectionT:
    """Validate the keys of a section, and add the defaults.

    Args:
        section: the section.
        raw: its keys.
        place: the key or the option with these keys, for messages; None for a whole file, and
            empty where the caller adds it.

    Raises:
        ConfigError: a key is invalid; of several problems, the first by its path.
    """
    try:
        return section.model_validate(raw)
    except ValidationError as error:
        problems = map(_format_problem, error.errors(include_url=False))
        path, text = min(problems, key=lambda found: list(map(str, found[0])))
        steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in path]
        key = "".join(steps).removeprefix(".")
        names = [key or section.file_noun] if place is None else filter(None, (place, key))
        # pydantic's error quotes whole sections, which may contain a server's secret key by mistake
        raise ConfigError(": ".join([*names, text])) from None


def collect_changes(section: type[Section], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that differ from the defaults of the keys of a section."""
    defaults = {name: field.default for name, field in section.model_fields.items()}
    return {name: value for name, value in values.items() if value != defaults[name]}


def build_error(text: str) -> PydanticCustomError:
    """Build the error of a validator with a complete message."""
    return PydanticCustomError("problem", "{text}", {"text": text})


def _format_problem(error: ErrorDetails) -> tuple[tuple[int | str, ...], str]:
    """Return the path of the key in an error of pydantic, and a message."""
    path, value, context = error["loc"], error["input"], error.get("ctx", {})
    if path[-1:] == ("[key]",):  # the name of an entry, such as that of a model
        path = path[:-2]
    value_text = quote_value(value)
    match error["type"]:
        case "missing":
            # pydantic reports a missing key at the path of the key itself.
            return path[:-1], f"the key {path[-1]!r} is missing"
        case "greater_than_equal":
            text = (
                f"{value_text} is too small; it must be at least {_convert_number(context['ge'])}"
            )
        case "greater_than":
            text = f"{value_text} is too small; it must be above {_convert_number(context['gt'])}"
        case "less_than_equal":
            text = f"{value_text} is too large; it must be at most {_convert_number(context['le'])}"
        case "string_too_long":
            length = format_count(len(value), "character")
            text = f"{value[:20]!r}… has {length}; it must have at most {context['max_length']}"
        case "too_short" | "string_too_short":
            text = f"{value_text} is too short; it must have at least {context['min_length']}"
        case "string_pattern_mismatch":
            text = f"{value_text} does not match {context['pattern']}"
        case "literal_error" | "enum":
            choices = re.findall("'([^']*)'", context["expected"])
            text = f"{value_text} is not one of {', '.join(choices)}"
        # pydantic's own messages contain Python's names of types, such as tuple.
        case kind if kind in _TYPES:
            text = f"{value_text} is not of type {_TYPES[kind]}"
        # The error belongs to the section; the message names the key in it.
        case "refused_key":
            path, text = (*path, context["key"]), error["msg"]
        # Validators of this package raise errors with complete messages.
        case _:
            text = error["msg"]
    return path, text


def _convert_number(limit: float) -> float:
    # pydantic returns limits as floats, also for integers.
    return int(limit) if limit == int(limit) else limit


class _NotNull:
    """An annotation that rejects null for an optional key."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        schema = handler(source)
        # The type is nullable only because the key may be absent.
        return schema["schema"] if schema["type"] == "nullable" else schema


@dataclass(frozen=True, eq=False)
class Either:
    """An annotation of the union of a type of plain values and a section, a list or a number.

    Attributes:
        is_plain: returns whether a value is plain, and needs no further validation.
        other: the Python types of any other value before its validation.
        problem: what any further value is, for messages.
        json_types: the keywords of the JSON schema that name both types.
    """

    is_plain: Callable[[Any], bool]
    other: type | tuple[type, ...]
    problem: str
    json_types: Mapping[str, Any]

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        inner_schema = handler.generate_schema(source.__args__[1])
        return core_schema.no_info_wrap_validator_function(
            self._validate,
            inner_schema,
            serialization=core_schema.wrap_serializer_function_ser_schema(
                lambda value, dump: dump(value) if isinstance(value, Section | tuple) else value,
                schema=inner_schema,
            ),
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        entry = handler(schema)
        handler.resolve_ref_schema(entry).update(self.json_types)
        return entry

    def _validate(self, value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        if self.is_plain(value):
            return value
        if isinstance(value, bool) or not isinstance(value, self.other):
            raise build_error(f"{quote_value(value)} {self.problem}")
        return handler(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


TEXT_OR_SECTION = Either(
    _is_text, dict, "is not of type string or object", {"type": ["string", "object"]}
)
TEXT_OR_LIST = Either(
    # the list of a section is a tuple when its keys are parsed again
    _is_text,
    (list, tuple),
    "is not of type string or array",
    {"type": ["string", "array"]},
)
FALSE_OR_SECTION = Either(
    lambda value: value is False,
    dict,
    "is neither of type object nor false",
    {"type": ["object", "boolean"], "not": {"const": True}},
)


_END_LENGTH = 1000
"""The horizon of the length `end` without a number."""
_NO_LENGTH = "is no length; write a number of tokens, end or end:400"
_END = re.compile(r"end(?::([1-9][0-9]{0,3}|10000))?")


def parse_end(length: "str | int") -> tuple[int, bool]:
    """Return the horizon of a valid `EndOrLength`, and whether it is about whole texts."""
    if not isinstance(length, str):
        return length, False
    match = _END.fullmatch(length)
    assert match is not None
    return int(match[1] or _END_LENGTH), True


_END_OR_LENGTH = Either(
    lambda value: isinstance(value, str) and _END.fullmatch(value) is not None,
    int,
    _NO_LENGTH,
    {},
)


_Value = TypeVar("_Value")


def _check_not_empty(values: tuple[_Value, ...]) -> tuple[_Value, ...]:
    # `min_length` would also report a list whose entries are invalid themselves.
    if not values:
        raise build_error("[] is too short; add at least 1 entry")
    return values


def _check_unique(values: tuple[_Value, ...]) -> tuple[_Value, ...]:
    for position, value in enumerate(values):
        if value in values[:position]:
            raise build_error(f"{quote_value(str(value))} occurs twice; remove one")
    return values


OptionalKey = Annotated[_Value | None, _NotNull()]
"""An optional key, which rejects null."""

# Only the list is converted; its entries remain strict.
Items = Annotated[tuple[_Value, ...], Field(strict=False)]
"""A list."""

NonEmpty = Annotated[
    Items[_Value], Field(json_schema_extra={"minItems": 1}), AfterValidator(_check_not_empty)
]
"""A non-empty list."""

Distinct = Annotated[
    NonEmpty[_Value], Field(json_schema_extra={"uniqueItems": True}), AfterValidator(_check_unique)
]
"""A non-empty list of unique entries."""

Name = Annotated[str, Field(max_length=100, pattern="^[a-z0-9][a-z0-9.-]*$")]
"""A name that becomes part of file names."""

Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]

Length = Annotated[
    int, Field(ge=1, le=10_000, description="The horizon: the largest number of generated tokens.")
]
CONFIDENCE_RANGE = (0.001, 0.999999999)
"""The valid confidences.

Nearer to 0 or 1, shares of the error probability would be rounded away.
"""
EndOrLength = Annotated[str | Length, _END_OR_LENGTH]
"""A length, or `end` or `end:400` for whole answers."""

Confidence = Annotated[float, Field(ge=CONFIDENCE_RANGE[0], le=CONFIDENCE_RANGE[1])]
# a seed is half of a 128-bit key; the sample number is the other half
Seed = Annotated[int, Field(ge=0, le=2**64 - 1)]
