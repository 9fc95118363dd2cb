"""The keys of a suite file, and its reading.

A suite file is strict YAML. Where a key takes a text, a number is the text that the file contains:
`equals: 3.10` is about `3.10`. `cases` gives the keys their meaning.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    Field,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    model_validator,
)

from llmchecker.checking.budget import DEFAULT_CONFIDENCE, DEFAULT_SEED, Budget
from llmchecker.config.question import DEFAULT_LENGTH, HorizonKeys
from llmchecker.config.registry_keys import (
    NAME_OR_DECODING,
    DecodingKeys,
    MessageKeys,
    OutputKeys,
    QuantifierEntry,
)
from llmchecker.config.yaml_reader import MAX_YAML_BYTES, YamlFile, read_yaml
from llmchecker.errors import ConfigError
from llmchecker.properties.assertions import check_quotes, is_assertion, select_texts
from llmchecker.properties.repeats import MAX_REPEATS
from llmchecker.suites.matrix import Systems, Texts
from llmchecker.suites.templates import list_columns
from llmchecker.utils.printable_text import quote_value
from llmchecker.utils.section import (
    TEXT_OR_SECTION,
    Confidence,
    EndOrLength,
    Length,
    NonEmpty,
    OneKeySection,
    OptionalKey,
    Section,
    Seed,
    Sha256,
    build_error,
    parse_section,
)

_CaseName = Annotated[str, Field(min_length=1, max_length=200)]


def _skip_columns(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    """Validate a decoding but for texts with columns, which are validated with each row."""
    if not isinstance(value, dict) or not list_columns(value):
        return handler(value)
    known = DecodingKeys.model_fields
    handler({k: v for k, v in value.items() if k not in known or not list_columns(v)})
    return value


_DecodingEntry = OptionalKey[
    Annotated[str | DecodingKeys, NAME_OR_DECODING, WrapValidator(_skip_columns)]
]


_ModelEntry = Annotated[str | dict[str, Any], TEXT_OR_SECTION]
"""A name, or the keys of a model, which have the types of a configuration."""


_KEYS_OF_OTHERS = {
    "assert": "a key of promptfoo; write require",
    "prompt": "a case has no such key; write user for a message, or start for a text to continue",
    "vars": "a key of promptfoo; write prompts",
}
"""What to write instead of keys of cases in other tools."""


def _list_models(value: Any) -> tuple[str | dict[str, Any], ...]:
    """Return one or several models as a tuple."""
    models = tuple(value) if isinstance(value, list) else (value,)
    for model in models:
        if not isinstance(model, str | dict):
            raise build_error(f"{quote_value(model)} is not of type string, object or array")
    if not models:
        raise build_error("[] is too short; add at least 1 entry")
    return models


_SUITE_KEYS = {
    **dict.fromkeys(("confidence", "seed"), "a key of the whole suite; write it at the top level"),
    "width": "a case ends when its requirement is decided; leave it out",
    "certain": "verdicts have a confidence; write it in the suite as `confidence`",
}


_LIMITS = Budget.model_fields.keys() - _SUITE_KEYS.keys()
"""Keys of the budget of a suite."""


class BudgetKeys(Budget):
    """The budget of each case, and that of the whole run."""

    refused_keys: ClassVar[Mapping[str, str]] = _SUITE_KEYS


class _CaseBudgetKeys(Budget):
    """The budget of a case."""

    refused_keys: ClassVar[Mapping[str, str]] = _SUITE_KEYS | dict.fromkeys(
        ("tokens", "dollars"), "a limit of the whole run; write it in the budget of the suite"
    )


class PromptKeys(Section):
    """A table of prompts: a source, or all combinations of texts."""

    source: OptionalKey[str] = None
    """path:file or hf:owner/name@commit."""
    forms: OptionalKey[dict[str, NonEmpty[str]]] = None
    """Instead of a source, the texts of each column, as in `{city: [Rome, Oslo], greeting: [Hi,
    Hello]}`: each combination is a row."""
    file: OptionalKey[str] = None
    """For hf, the file inside the data set: .csv, .jsonl or .parquet."""
    sha256: OptionalKey[Sha256] = None
    """Checksum of the file."""
    rows: OptionalKey[int] = Field(default=None, ge=1, le=1_000_000)
    """The required number of rows."""


class _ChatKeys(MessageKeys):
    """A message of a chat, with one key; the last one is the user's, or the result of a tool."""

    tool: OptionalKey[str] = None
    """The result of the tool that the answer before it calls, in a case with `tools`."""
    chat: OptionalKey[str] = None
    """Messages of a column, as in `{input}`: a list of a data set, or one text."""


class _ToolResultKeys(Section):
    """The result of a tool, which follows an answer whose only call is one of this tool."""

    name: str
    """The name of the tool, which `tools` describes."""
    content: str
    """The result. `{answer 1}` inserts the model's first answer, as in a message."""


class SimulatedUserKeys(Section):
    """A model that writes the message of the user."""

    model: _ModelEntry
    """A model, as that of the suite."""
    system: str
    """Its system prompt, which describes the user."""
    decoding: _DecodingEntry = None
    """Its decoding, by default that of the model."""
    length: Length = DEFAULT_LENGTH
    """The largest number of tokens of a message."""


class TurnKeys(OneKeySection):
    """A turn of a conversation, with one key."""

    user: OptionalKey[str] = None
    """A message of the user. `{answer 1}` inserts the model's first answer, which must be an
    earlier one."""
    tool: OptionalKey[_ToolResultKeys] = None
    """The result of a tool. An answer without a call of the tool ends the conversation."""
    simulated_user: OptionalKey[SimulatedUserKeys] = None
    """A message of the user that another model writes."""

    @property
    def text(self) -> str | None:
        """The text of the turn; None if a model writes it."""
        return self.user if self.tool is None else self.tool.content


_Tools = NonEmpty[dict[str, Any]]


class AverageKeys(Section):
    """A number over the rows of a table, and any requirement of it."""

    of: str
    """What is averaged: `P=? [ … ]`, or a quantifier, for its scores."""
    at_least: OptionalKey[int | float | str] = None
    """The least number that is required."""
    at_most: OptionalKey[int | float | str] = None
    """Instead, the largest number."""
    about: Literal["rows", "population"] = "rows"
    """Whether the mean is that of these rows, or of the population from which the rows were drawn
    independently."""
    clusters: OptionalKey[str] = None
    """For a population, a column: rows with the same value were drawn together, as the questions
    about one text. Each value counts the same."""
    all_of: OptionalKey[int] = Field(default=None, ge=2, le=MAX_REPEATS)
    """A number k: the probability that all of k answers count (pass^k) takes the place of that of
    one."""
    any_of: OptionalKey[int] = Field(default=None, ge=2, le=MAX_REPEATS)
    """A number k: likewise, that any of k answers counts (pass@k)."""
    rows_with: OptionalKey[str] = None
    """A comparison, such as `>= 0.9`: the share of the rows whose probability meets it takes the
    place of the mean."""
    truth: OptionalKey[str] = None
    """A file that `judge-check --json` wrote: the share of answers that people would call good, if
    the judge errs on them as on the labelled texts, takes the place of that of good grades."""

    @model_validator(mode="after")
    def _check_together(self) -> "AverageKeys":
        for names in (("at_least", "at_most"), ("all_of", "any_of", "rows_with", "truth")):
            if len(given := [name for name in names if name in self.explicit_keys]) > 1:
                raise build_error(f"{' and '.join(given)} exclude each other; keep one")
        if self.clusters is not None and self.about == "rows":
            raise build_error("clusters: they are those of a population; add about: population")
        return self


class CaseKeys(Section):
    """Prompts, and the requirements for each of them."""

    refused_keys: ClassVar[Mapping[str, str]] = _KEYS_OF_OTHERS | dict.fromkeys(
        ("model", "system", *OutputKeys.model_fields),
        "it belongs to the whole suite; write it there, or another suite",
    )

    name: OptionalKey[_CaseName] = None
    """The name in all outputs; by default its number."""
    user: OptionalKey[Texts] = None
    """The message of a user, or several forms of it: a list, or a mapping by name. With `prompts`
    it may contain columns, as in `Is {city} a city?`."""
    start: OptionalKey[Texts] = None
    """Instead of a message, a text to continue, or several; with `prompts` it may contain
    columns."""
    messages: OptionalKey[NonEmpty[_ChatKeys]] = None
    """Instead of one message, several, which no model answers but the last. `"{input}"` are those
    of a column."""
    turns: OptionalKey[NonEmpty[TurnKeys]] = None
    """Instead of one message, a conversation: the model answers each of these turns."""
    prompts: OptionalKey[Annotated[str | PromptKeys, TEXT_OR_SECTION]] = None
    """A table with a row for each prompt: a .csv, .jsonl or .parquet file, or the keys below.
    Without user and start, a column of that name contains the prompts."""
    columns: OptionalKey[dict[str, Any]] = None
    """For an application, values that it gets besides the messages, by name: `{user id: u1}`. Those
    of its columns that the table of prompts has need no key."""
    require: Any = None
    """Requirements: a list, or a mapping by name. A requirement is a query with a threshold, or an
    assertion."""
    average: OptionalKey[dict[_CaseName, Annotated[str | AverageKeys, TEXT_OR_SECTION]]] = None
    """Numbers over the rows by name: the mean of a probability, such as `mean P=? [ F correct > 0 ]
    >= 0.7`, that of the scores of a quantifier with a range, such as `mean polarity >= 10`, the
    probability of the worst row, such as `worst P=? [ F leaks > 0 ] <= 0.01`, or the keys below."""
    by: OptionalKey[str] = None
    """A column. Averages are also reported for each of its values."""
    tools: OptionalKey[_Tools] = None
    """As at the top level, for these prompts."""
    length: OptionalKey[EndOrLength] = None
    """As at the top level, for these prompts."""
    budget: OptionalKey[_CaseBudgetKeys] = None
    """As at the top level, for these prompts."""

    @model_validator(mode="before")
    @classmethod
    def _read_chat(cls, value: Any) -> Any:
        if isinstance(value, dict) and isinstance(value.get("messages"), str):
            return {**value, "messages": [{"chat": value["messages"]}]}
        return value


class VersusKeys(OutputKeys):
    """The model, system prompt and decoding to compare with, by default those of the suite."""

    model: OptionalKey[_ModelEntry] = None
    """A model, by default that of the suite."""
    system: OptionalKey[str] = None
    """A system prompt, by default that of the suite."""
    decoding: _DecodingEntry = None
    """A decoding, by default that of the suite."""
    require: OptionalKey[dict[str, str]] = None
    """Requirements by the name of an average or of a requirement: `difference >= -0.02`."""


class SuiteKeys(HorizonKeys, OutputKeys):
    """All keys of a suite file."""

    file_noun: ClassVar[str] = "suite"

    model: Annotated[
        Any,
        AfterValidator(_list_models),
        WithJsonSchema(
            {"type": ["string", "object", "array"], "items": {"type": ["string", "object"]}}
        ),
    ] = ()
    """A name of the configuration, a path, a source such as `hf:owner/name@commit`, the keys of a
    model of a configuration, or a list of these. It may be left out where `--model` is given."""
    config: OptionalKey[str] = None
    """The configuration with models and quantifiers; by default `config.yaml` in the folder of the
    suite or above it."""
    system: OptionalKey[Systems] = None
    """The system prompt of all chats, or several: a list, or a mapping by name. Each model answers
    with each of them."""
    tools: OptionalKey[_Tools] = None
    """Functions that the model may call in all chats, as chat templates take them: `{type:
    function, function: {name: …, description: …, parameters: …}}`."""
    decoding: _DecodingEntry = None
    """The decoding, as in a configuration."""
    confidence: Confidence = DEFAULT_CONFIDENCE
    """The confidence of all verdicts of the suite together."""
    budget: BudgetKeys = BudgetKeys()
    """The budget of each case. Decided cases leave the rest of theirs to the others."""
    seed: Seed = DEFAULT_SEED
    """The seed of the samples."""
    properties: OptionalKey[dict[str, QuantifierEntry]] = None
    """Quantifiers by name, as in a configuration. Texts may contain columns of the prompts."""
    cases: NonEmpty[CaseKeys]
    """Prompts and their requirements."""
    versus: OptionalKey[VersusKeys] = None
    """The deployment to compare with."""

    @property
    def has_tables(self) -> bool:
        """Whether an entry has a table of prompts, so that the texts of the suite are templates."""
        return any(entry.prompts is not None for entry in self.cases)


class RunKeys(Budget):
    """Keys of a suite that the command line may replace."""

    refused_keys: ClassVar[Mapping[str, str]] = {
        key: _SUITE_KEYS[key] for key in ("width", "certain")
    }

    length: OptionalKey[EndOrLength] = None
    """The horizon in tokens of all cases; `end` or `end:400` asks about whole answers."""


def replace_keys(keys: SuiteKeys, changes: RunKeys) -> SuiteKeys:
    """Return the keys of a suite, some of which a command replaces, also in each case."""
    replaced = changes.explicit_keys
    limits = {name: replaced.pop(name) for name in _LIMITS if name in replaced}
    if limits:
        replaced["budget"] = BudgetKeys(**keys.budget.explicit_keys | limits)
    # a case may have keys of its own
    in_cases = {name: replaced[name] for name in ("length", "budget") if name in replaced}
    cases = tuple(
        case.model_copy(update={n: v for n, v in in_cases.items() if n in case.model_fields_set})
        for case in keys.cases
    )
    return keys.model_copy(update={**replaced, "cases": cases})


def read_suite_file(path: str | Path) -> tuple[YamlFile, SuiteKeys]:
    """Read a suite file and validate each of its keys.

    Raises:
        ConfigError: the file is unreadable or ambiguous, or a key is invalid; the message contains
            the line.
    """
    # a table is read a hundred times faster than YAML
    if Path(path).is_file() and Path(path).stat().st_size > MAX_YAML_BYTES:
        raise ConfigError(
            f"{path}: larger than the maximum of {MAX_YAML_BYTES:,} bytes; move the rows to a "
            "table, and name it by `prompts`"
        )
    file = read_yaml(path)
    if {"prompts", "tests"} <= file.content.keys() and "cases" not in file.content:
        raise ConfigError(
            f"{file.path}: a configuration of promptfoo; convert it by llmchecker init --from "
            f"{file.path.name}"
        )
    return file, _parse_suite_keys(file, file.content)


def _parse_suite_keys(file: YamlFile, content: Mapping[str, Any]) -> SuiteKeys:
    """Validate the keys of a suite file; errors contain its path and the line."""
    schema = _build_schema()
    try:
        content = _select_texts("", schema, content, file.texts)
        return parse_section(SuiteKeys, content)
    except ConfigError as error:
        raise ConfigError(file.add_location(str(error))) from error


@cache
def _build_schema() -> dict[str, Any]:
    return SuiteKeys.model_json_schema()


def _select_texts(key: str, schema: Any, value: Any, texts: Any) -> Any:
    """Return a value in which scalars are texts where the JSON schema takes a text.

    Args:
        key: the key of the value.
        schema: the JSON schema of the key.
        value: the value as plain data, in which 3.10 is a number.
        texts: the value with each scalar as text.

    Raises:
        ConfigError: a template is without quotes, so that YAML reads a mapping.
    """
    if key.endswith(".require") and key.startswith("cases["):
        return _select_requirement_texts(key, value, texts)
    schema = schema if isinstance(schema, Mapping) else {}
    reference = schema.get("$ref", "").removeprefix("#/$defs/")
    definition = _build_schema()["$defs"][reference] if reference else schema
    types = definition.get("type", [])
    types = [types] if isinstance(types, str) else types
    if isinstance(value, dict):
        if types and "object" not in types:
            check_quotes(key, value, texts)
        names = definition.get("properties", {})
        others = definition.get("additionalProperties")
        return {
            name: _select_texts(
                f"{key}.{name}" if key else name, names.get(name, others), item, texts[name]
            )
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [
            _select_texts(f"{key}[{index}]", definition.get("items"), item, text)
            for index, (item, text) in enumerate(zip(value, texts, strict=True))
        ]
    # null is a value that is missing, and no text
    return texts if "string" in types and value is not None else value


def _select_requirement_texts(key: str, value: Any, texts: Any) -> Any:
    """Return requirements in which texts are as the file contains them.

    Raises:
        ConfigError: as in `_select_texts`.
    """
    if isinstance(value, list):
        return [
            _select_requirement_texts(f"{key}[{index}]", item, text)
            for index, (item, text) in enumerate(zip(value, texts, strict=True))
        ]
    if not isinstance(value, dict):
        return value
    if is_assertion(value):
        return select_texts(key, value, texts)
    return {
        name: select_texts(f"{key}.{name}", item, texts[name]) if isinstance(item, dict) else item
        for name, item in value.items()
    }
