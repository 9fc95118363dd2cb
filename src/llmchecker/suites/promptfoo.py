"""Conversion of promptfoo configurations to suites.

Prompts, variables, tests and deterministic assertions are converted. Everything else is listed with
its line. A configuration is data: no script, template or provider of it runs.
"""

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from llmchecker.config.yaml_reader import YamlFile, read_yaml
from llmchecker.errors import ConfigError

_MAX_BYTES = 1_000_000
"""Maximum size of a file with prompts."""
_MAX_CASES = 10_000
"""Maximum number of combinations of prompts, tests and variables."""

_DIRECT_KINDS = {
    name: name.replace("-", "_")
    for name in (
        *("contains", "icontains", "contains-any", "contains-all", "icontains-any"),
        *("icontains-all", "starts-with"),
    )
} | {"regex": "matches", "is-json": "json", "equals": "equals"}
"""Assertions with the same meaning in a suite, by promptfoo's types."""
_LIST_KINDS = ("contains-any", "contains-all", "icontains-any", "icontains-all")
_TEST_KEYS = ("description", "vars", "assert", "metadata")
"""Keys of a test that are converted or have no effect on verdicts."""
_CONFIG_KEYS = (
    *("description", "tags", "prompts", "providers", "targets", "tests", "defaultTest"),
    *("outputPath", "evaluateOptions", "sharing", "commandLineOptions"),
)
"""Keys of a configuration that are converted or have no effect on verdicts."""
_VARIABLE = re.compile(r"\{\{-?\s*([A-Za-z_]\w*)\s*-?\}\}")
_TEMPLATE = re.compile(r"\{\{|\{%|\{#")


@dataclass(frozen=True)
class Conversion:
    """A converted configuration.

    Attributes:
        suite: the content of the suite file.
        omissions: the parts that were not converted, each with its line.
    """

    suite: Mapping[str, Any]
    omissions: tuple[str, ...]


class _NotConverted(Exception):
    """A part of a configuration without a counterpart."""


@dataclass
class _Converter:
    """A converter of one configuration.

    Attributes:
        file: the configuration.
        probability: probability of every assertion.
        omissions: the parts that were not converted.
        properties: the quantifiers of the suite, by name.
    """

    file: YamlFile
    probability: Decimal
    omissions: list[str] = field(default_factory=list)
    properties: dict[str, Any] = field(default_factory=dict)

    def omit(self, key: str, reason: str) -> None:
        """List a part that was not converted."""
        while key and key not in self.file.lines:
            key = re.sub(r"(^|\.|\[)[^.\[]*$", "", key)
        omission = f"line {self.file.lines.get(key, 1)}: {reason}"
        # defaults are converted with every test
        if omission not in self.omissions:
            self.omissions.append(omission)


def convert_promptfoo(
    path: str | Path, probability: Decimal, model: str | None = None
) -> Conversion:
    """Convert a promptfoo configuration.

    Args:
        path: the file, such as promptfooconfig.yaml.
        probability: the probability that every assertion must have at least.
        model: the model of the suite; None for a placeholder.

    Raises:
        ConfigError: the file is unreadable, or nothing of it can be converted.
    """
    file = read_yaml(path)
    converter = _Converter(file, probability)
    content = file.content
    for key in content:
        if key not in _CONFIG_KEYS:
            converter.omit(key, f"{key} has no counterpart")
    prompts = list(_iter_prompts(converter, content.get("prompts", [])))
    cases = list(_iter_cases(converter, content, prompts))
    if not cases:
        raise ConfigError(f"{path}: no test with an assertion could be converted; write the suite")
    suite: dict[str, Any] = {"model": model or "./model"}
    suite |= _convert_provider(converter, content)
    if converter.properties:
        suite["properties"] = converter.properties
    return Conversion(suite | {"cases": cases}, tuple(converter.omissions))


def _iter_prompts(converter: _Converter, prompts: Any) -> Iterator[str]:
    """Yield the texts of all prompts."""
    entries = prompts if isinstance(prompts, list) else [prompts]
    for index, entry in enumerate(entries):
        key = f"prompts[{index}]" if isinstance(prompts, list) else "prompts"
        if isinstance(entry, Mapping):
            entry = entry.get("raw", entry.get("id"))
        if not isinstance(entry, str):
            converter.omit(key, "the prompt is no text")
        elif entry.startswith("file://") or re.fullmatch(r"[\w./-]+\.(txt|md|json)", entry):
            yield from _read_prompts(converter, key, entry.removeprefix("file://"))
        else:
            yield entry


def _read_prompts(converter: _Converter, key: str, name: str) -> Iterator[str]:
    """Yield the prompts of a text file, which `---` separates, or a chat in JSON."""
    path = converter.file.path.parent / name
    # other files are programs, or patterns of several files
    if path.suffix not in (".txt", ".md", ".json"):
        converter.omit(key, f"prompts in {name} are not read; copy them into the suite")
        return
    try:
        if path.stat().st_size > _MAX_BYTES:
            converter.omit(key, f"{name} is larger than {_MAX_BYTES:,} bytes")
            return
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        converter.omit(key, f"{name} cannot be read: {error}")
        return
    parts = re.split(r"(?m)^---$", text) if path.suffix == ".txt" else [text]
    yield from (part.strip() for part in parts if part.strip())


def _iter_cases(
    converter: _Converter, content: Mapping[str, Any], prompts: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield an entry of the suite for each prompt, test and combination of variables."""
    default = content.get("defaultTest", {})
    if not isinstance(default, Mapping):
        converter.omit("defaultTest", "a default test in a file is not read")
        default = {}
    _omit_keys(converter, "defaultTest", default)
    tests = content.get("tests", [])
    if isinstance(tests, str):
        yield from _iter_table_cases(converter, tests, default, prompts)
        return
    names: set[str] = set()
    for index, test in enumerate(tests if isinstance(tests, list) else []):
        key = f"tests[{index}]"
        if not isinstance(test, Mapping):
            converter.omit(key, "a test in a file is not read; only tests: file.csv is")
            continue
        _omit_keys(converter, key, test)
        combinations = list(_iter_variables(converter, key, default, test))
        for variables, prompt in itertools.product(combinations, prompts):
            if len(names) >= _MAX_CASES:
                raise ConfigError(f"{key}: over {_MAX_CASES:,} cases; use a table of prompts")
            try:
                entry = _render_prompt(prompt, variables)
            except _NotConverted as error:
                converter.omit(key, str(error))
                continue
            require = _convert_assertions(converter, key, default, test, variables)
            if not require:
                converter.omit(key, "the test has no assertion that could be converted")
                continue
            name = str(test.get("description") or f"test {index + 1}")
            yield {"name": _make_unique(name, names), **entry, "require": require}


def _iter_table_cases(
    converter: _Converter, tests: str, default: Mapping[str, Any], prompts: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield an entry for each prompt with the rows of a CSV file."""
    name = tests.removeprefix("file://")
    if not name.endswith(".csv"):
        converter.omit("tests", f"tests in {name} are not read; only .csv is")
        return
    path = converter.file.path.parent / name
    try:
        with path.open(encoding="utf-8-sig") as file:
            header = file.readline()
    except (OSError, UnicodeDecodeError) as error:
        converter.omit("tests", f"{name} cannot be read: {error}")
        return
    if "__expected" in header:
        converter.omit("tests", f"the columns __expected of {name}; write them as `require`")
    names: set[str] = set()
    # a column in braces is what a suite inserts
    row = _Columns()
    require = _convert_assertions(converter, "tests", default, {}, row)
    if not require:
        converter.omit("tests", "defaultTest has no assertion that could be converted")
        return
    for prompt in prompts:
        try:
            entry = _render_prompt(prompt, row)
        except _NotConverted as error:
            converter.omit("prompts", str(error))
            continue
        yield {"name": _make_unique(name, names), **entry, "prompts": name, "require": require}


class _Columns(dict[str, Any]):
    """Variables whose values are columns of a table."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> str:
        return f"{{{name}}}"


def _omit_keys(converter: _Converter, key: str, test: Mapping[str, Any]) -> None:
    for name in test:
        if name not in _TEST_KEYS:
            converter.omit(f"{key}.{name}", f"{name} of a test has no counterpart")


def _iter_variables(
    converter: _Converter, key: str, default: Mapping[str, Any], test: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield the combinations of variables: a list means each of its values."""
    variables: dict[str, Any] = {}
    for source, place in ((default, "defaultTest"), (test, key)):
        values = source.get("vars", {})
        if not isinstance(values, Mapping):
            converter.omit(f"{place}.vars", "variables in a file are not read")
            continue
        variables |= values
    choices = [value if isinstance(value, list) else [value] for value in variables.values()]
    for combination in itertools.product(*choices):
        yield dict(zip(variables, combination, strict=True))


def _render(text: str, variables: Mapping[str, Any]) -> str:
    """Insert variables into a text.

    Raises:
        _NotConverted: a variable is unknown or no text, or the template is a program.
    """

    def insert(match: re.Match[str]) -> str:
        if match[1] not in variables:
            raise _NotConverted(f"the variable {match[1]} has no value")
        value = variables[match[1]]
        # the value of such a variable is the content of a file
        if isinstance(value, str) and value.startswith("file://"):
            raise _NotConverted(f"the variable {match[1]} is a file")
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    rest = _VARIABLE.sub("", text)
    if _TEMPLATE.search(rest):
        raise _NotConverted("the template has more than names in {{ }}")
    return _VARIABLE.sub(insert, text)


def _render_value(value: Any, variables: Mapping[str, Any]) -> Any:
    """Insert variables into all texts of a value."""
    if isinstance(value, str):
        return _render(value, variables)
    if isinstance(value, list):
        return [_render_value(item, variables) for item in value]
    if isinstance(value, Mapping):
        return {key: _render_value(item, variables) for key, item in value.items()}
    return value


def _render_prompt(prompt: str, variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return `user` with a text, or `messages` for a chat in JSON."""
    try:
        messages = json.loads(prompt)
    except (ValueError, RecursionError):
        return {"user": _render(prompt, variables)}
    if not isinstance(messages, list):
        return {"user": _render(prompt, variables)}
    try:
        turns = [{m["role"]: _render(m["content"], variables)} for m in messages]
    except (KeyError, TypeError) as error:
        raise _NotConverted("the prompt is JSON, but no chat of texts") from error
    return {"messages": turns}


def _convert_assertions(
    converter: _Converter,
    key: str,
    default: Mapping[str, Any],
    test: Mapping[str, Any],
    variables: Mapping[str, Any],
) -> list[Any]:
    """Convert the assertions of a test and of the default test."""
    require: list[Any] = []
    for source, place in ((test, key), (default, "defaultTest")):
        assertions = source.get("assert", [])
        for index, assertion in enumerate(assertions if isinstance(assertions, list) else []):
            where = f"{place}.assert[{index}]"
            try:
                converted = _convert_assertion(converter, assertion, variables)
            except _NotConverted as error:
                converter.omit(where, str(error))
                continue
            # promptfoo counts equal assertions twice; their verdicts are equal
            if converted not in require:
                require.append(converted)
    return require


def _convert_assertion(
    converter: _Converter, assertion: Any, variables: Mapping[str, Any]
) -> dict[str, Any] | str:
    """Convert an assertion to an assertion of a suite, or to a query."""
    if not isinstance(assertion, Mapping) or not isinstance(assertion.get("type"), str):
        raise _NotConverted("the assertion has no type")
    full_type = assertion["type"]
    kind = full_type.removeprefix("not-")
    is_negated = kind != full_type
    # assertions of the transformed output are about another text
    for name in ("transform", "contextTransform"):
        if name in assertion:
            raise _NotConverted(f"{full_type} with {name} has no counterpart")
    value = _render_value(assertion.get("value"), variables)
    if isinstance(value, str) and value.startswith("file://"):
        raise _NotConverted(f"{full_type} with a file; write its content into `value`")
    if kind == "word-count":
        return _convert_word_count(converter, value, is_negated)
    if kind == "classifier":
        converted = _convert_classifier(converter, assertion, value)
        name = "classifier"
    elif kind == "equals" and isinstance(value, Mapping | list):
        # an object is compared as JSON
        name, converted = "json", {"const": value}
    elif kind in _DIRECT_KINDS:
        name, converted = _DIRECT_KINDS[kind], value
    else:
        raise _NotConverted(f"{full_type} has no counterpart")
    if kind in _LIST_KINDS and isinstance(value, str):
        converted = [part.strip() for part in value.split(",")]
    if kind == "is-json" and value is None:
        converted = True
    if isinstance(converted, int | float) and not isinstance(converted, bool):
        converted = str(converted)
    if converted in (None, "", []):
        raise _NotConverted(f"{full_type} has no value")
    # the probability stays a number of the file, exactly as given
    probability = float(converter.probability)
    return {f"{'not_' if is_negated else ''}{name}": converted, "at_least": probability}


def _convert_word_count(converter: _Converter, value: Any, is_negated: bool) -> str:
    """Convert a number of words between spaces, or a range of it, to a query."""
    try:
        if isinstance(value, Mapping):
            limits = {name: int(value[name]) for name in ("min", "max") if name in value}
        else:
            limits = {"min": int(value), "max": int(value)}
    except (TypeError, ValueError) as error:
        raise _NotConverted("word-count has no number") from error
    if not limits:
        raise _NotConverted("word-count has no number")
    converter.properties["spaced_words"] = {"type": "pattern", "pattern": r"\S+", "match": "count"}
    comparisons = {"min": ">=", "max": "<="}
    atoms = [f"spaced_words {comparisons[name]} {number}" for name, number in limits.items()]
    condition = " & ".join(atoms)
    condition = f"!({condition})" if is_negated else f"({condition})"
    return f"P>={converter.probability:f} [ F (G {condition}) ]"


def _convert_classifier(
    converter: _Converter, assertion: Mapping[str, Any], value: Any
) -> dict[str, Any]:
    """Convert a classifier, whose model must be put into a directory."""
    match = re.fullmatch(
        r"huggingface:text-classification:([\w./-]+)", str(assertion.get("provider"))
    )
    if match is None or not isinstance(value, str):
        raise _NotConverted("classifier without a label, or of another provider")
    threshold = assertion.get("threshold", 1)
    if not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
        raise _NotConverted("classifier with a threshold that is no probability")
    directory = f"models/{match[1].replace('/', '_')}"
    converter.omit("", f"{match[1]}: put the files of this classifier into {directory}")
    return {"directory": directory, "label": value, "percent": round(100 * threshold)}


def _convert_provider(converter: _Converter, content: Mapping[str, Any]) -> dict[str, Any]:
    """Convert temperature, top_p and max_tokens of the first provider with these."""
    key = "targets" if "targets" in content else "providers"
    providers = content.get(key, [])
    entries = providers if isinstance(providers, list) else [providers]
    converted: dict[str, Any] = {}
    if entries:
        converter.omit(key, "name the model by `model`; providers are not converted")
    settings = next(
        (e["config"] for e in entries if isinstance(e, Mapping) and _is_mapping(e.get("config"))),
        {},
    )
    temperature, top_p, tokens = (settings.get(n) for n in ("temperature", "top_p", "max_tokens"))
    # temperature 0 means the most probable token
    if temperature == 0:
        converted["decoding"] = "greedy"
    elif decoding := {
        name: number
        for name, number in (("temperature", temperature), ("top_p", top_p))
        if isinstance(number, int | float) and not isinstance(number, bool)
    }:
        converted["decoding"] = decoding
    if isinstance(tokens, int) and 1 <= tokens <= 10_000:
        converted["length"] = tokens
    return converted


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _make_unique(name: str, names: set[str]) -> str:
    """Return a name that no earlier case has, and remember it."""
    unique, number = name[:190], 1
    while unique in names:
        number += 1
        unique = f"{name[:190]}, {number}"
    names.add(unique)
    return unique
