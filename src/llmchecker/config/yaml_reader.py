"""A strict reader of YAML 1.2, which rejects ambiguous files and records lines.

`yaml_composer` makes nodes of the file, and this module makes data of them. A `ScalarSchema` has
the types of scalars, by default those of YAML 1.2's core schema. Of a duplicate key, a value would
be lost without a word, so that it is rejected. Aliases may repeat a value, but a file with too many
repeated values is rejected.
"""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import yaml

from llmchecker.config.yaml_composer import TAG_PREFIX, YamlError, compose_document, find_line
from llmchecker.errors import ConfigError, LLMCheckerError
from llmchecker.utils.text_files import read_text

MAX_YAML_BYTES = 5_000_000
"""Maximum size of a file in bytes."""
_MAX_VALUES = 300_000
"""Maximum number of values of a file, including values that aliases repeat."""
_MAX_DEPTH = 40
"""Maximum depth of nested lists and keys."""
_MAX_DIGITS = 300
"""Maximum number of characters of a number."""

_VERSION = re.compile(r"^%YAML[ \t]+(\S+)", re.MULTILINE)
_DECIMAL_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_MERGE_TAG = TAG_PREFIX + "merge"
_RESOLVER = yaml.resolver.Resolver()
"""The types of plain scalars in YAML 1.1, as in PyYAML."""


def parse_integer(text: str) -> int:
    """Parse an integer, such as `-12`, `0x1F` or `1_000`."""
    digits = text.replace("_", "")
    return int(digits, 0) if re.match(r"[-+]?0[box]", digits) else int(digits)


def parse_float(text: str) -> float:
    """Parse a number with a point or an exponent, `.inf` or `.nan`."""
    # Python's `float` accepts inf and nan, but not with a leading dot.
    return float(re.sub(r"\.(inf|nan)", r"\1", text.replace("_", ""), flags=re.IGNORECASE))


@dataclass(frozen=True)
class ScalarType:
    """A type of scalars.

    Attributes:
        form: the form of its plain scalars.
        parse: the function that returns the value of such a scalar.
    """

    form: re.Pattern[str]
    parse: Callable[[str], Any]


@dataclass(frozen=True)
class ScalarSchema:
    """The types of scalars that are no texts.

    Attributes:
        types: the types by name, such as `int`; the first one with the form of a plain scalar is
            its type.
        has_tags: whether a tag, such as `!!int`, gives a scalar its type.
        is_shared: whether other programs read the files as YAML 1.1. Scalars such as `no` and `010`
            have other values there; they are rejected, and so are keys that are no texts.
    """

    types: Mapping[str, ScalarType]
    has_tags: bool = False
    is_shared: bool = False

    def find_type(self, text: str) -> str:
        """Return the name of a plain scalar's type; `str` for a text."""
        matches = (name for name, each in self.types.items() if each.form.fullmatch(text))
        return next(matches, "str")


CORE_SCHEMA = ScalarSchema(
    {
        "null": ScalarType(re.compile(r"null|Null|NULL|~|"), lambda _: None),
        "bool": ScalarType(
            re.compile(r"true|True|TRUE|false|False|FALSE"), lambda text: text.lower() == "true"
        ),
        "int": ScalarType(re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"), parse_integer),
        "float": ScalarType(
            re.compile(
                r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
                r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
            ),
            parse_float,
        ),
    }
)
"""The core schema of YAML 1.2."""
SHARED_SCHEMA = replace(CORE_SCHEMA, is_shared=True)
"""The core schema, for files that Snakemake reads too."""


@dataclass(frozen=True)
class YamlDocument:
    """The content of a YAML document.

    Attributes:
        content: its value, as plain data; None for an empty document.
        texts: the same, but each scalar is the text that the document contains. The number 1.50 is
            the text `1.50`, and a value that is left out is the empty text.
        lines: the line of each value, from 1, by its key in messages, such as
            `experiments[0].alpha`. The value itself has the empty key, if the document is not
            empty.
    """

    content: Any
    texts: Any
    lines: Mapping[str, int]


@dataclass(frozen=True)
class YamlFile(YamlDocument):
    """A YAML file with keys and values.

    Attributes:
        path: the path of the file.
    """

    content: dict[str, Any]
    texts: dict[str, Any]
    path: Path

    def add_location(self, message: str) -> str:
        """Prefix a message about a key with the file and the line of the key.

        Args:
            message: a message that begins with the key and a colon.
        """
        match = re.match(r"(.*?): unknown key '([^']*)'", message)
        key = message.partition(": ")[0]
        # The message about an unknown key begins with its section, or with the noun of the file.
        if match:
            key = re.sub(r"^(config|suite)\.", "", f"{match[1]}.{match[2]}")
        line = f", line {self.find_line(key)}" if find_nearest_key(self.lines, key) else ""
        return f"{self.path}{line}: {message}"

    def find_line(self, key: str) -> int:
        """Return the line of a key, or of the nearest section around it with one."""
        return self.lines[find_nearest_key(self.lines, key)]


def find_nearest_key(lines: Mapping[str, int], key: str) -> str:
    """Return a key with a line, or the nearest section around it with one; empty without one.

    A missing key has no line.
    """
    while key and key not in lines:
        key = re.sub(r"(^|\.|\[)[^.\[]*$", "", key)
    return key


@contextlib.contextmanager
def locate_keys(files: Sequence[YamlFile]) -> Iterator[None]:
    """Prefix errors of the package that begin with a key with its last file, and the line there."""
    try:
        yield
    except LLMCheckerError as error:
        message = str(error)
        located = [file.add_location(message) for file in reversed(files)]
        # a file without the key has no line; the last file is the fallback
        has_line = (each for each in located if ", line " in each[: -len(message)])
        raise type(error)(next(has_line, located[0])) from error


def read_yaml(path: str | Path, schema: ScalarSchema = CORE_SCHEMA) -> YamlFile:
    """Read a YAML file with keys and values.

    Args:
        path: the file.
        schema: the types of its scalars.

    Raises:
        ConfigError: the file is unreadable, is not YAML in UTF-8, or is ambiguous; the message
            contains the line.
    """
    path = Path(path)
    document = parse_yaml(read_text(path, max_bytes=MAX_YAML_BYTES), path, schema)
    if not document.lines:
        raise ConfigError(f"{path}: the file is empty; write keys and values")
    if not isinstance(document.content, dict):
        line = document.lines[""]
        _raise_error(path, line, "the file is not a mapping; write keys and values")
    return YamlFile(document.content, document.texts, document.lines, path)


def parse_yaml(text: str, source: str | Path, schema: ScalarSchema = CORE_SCHEMA) -> YamlDocument:
    """Parse a text with one YAML document.

    Args:
        text: the text.
        source: its file or another origin, with which messages begin.
        schema: the types of its scalars.

    Raises:
        ConfigError: the text is not YAML, or is ambiguous; the message contains the line.
    """
    # In other versions, values such as `no` have other meanings.
    if (version := _VERSION.search(text)) and version[1] != "1.2":
        line = text.count("\n", 0, version.start()) + 1
        _raise_error(source, line, f"the file is YAML {version[1]}; remove the line")
    try:
        node = compose_document(text, _MAX_DEPTH)
    except YamlError as error:
        _raise_error(source, error.line, str(error))
    if node is None:
        return YamlDocument(None, None, {})
    converter = _Converter(source, schema)
    content, texts = converter.convert(node, "")
    return YamlDocument(content, texts, converter.lines)


class _Converter:
    """A converter of nodes to plain data and texts, which records their lines.

    Attributes:
        lines: the line of each value by its key.
    """

    def __init__(self, source: str | Path, schema: ScalarSchema) -> None:
        self.lines: dict[str, int] = {}
        self._source = source
        self._schema = schema
        self._value_count = 0
        self._depth = 0

    def convert(self, node: yaml.Node, key: str) -> tuple[Any, Any]:
        """Return the value of a key as plain data, and the same with scalars as texts."""
        # For a value of a mapping, the line of its key is already recorded.
        self.lines.setdefault(key, find_line(node))
        with self._enter(node):
            if isinstance(node, yaml.ScalarNode):
                return self._parse_scalar(node)
            self._check_tag(node, {"map" if isinstance(node, yaml.MappingNode) else "seq"})
            if isinstance(node, yaml.MappingNode):
                values: dict[str, Any] = {}
                texts: dict[str, Any] = {}
                for name, (line, value_node) in self._list_values(node).items():
                    path = f"{key}.{name}" if key else name
                    self.lines[path] = line
                    values[name], texts[name] = self.convert(value_node, path)
                return values, texts
            assert isinstance(node, yaml.SequenceNode)
            items = [self.convert(item, f"{key}[{index}]") for index, item in enumerate(node.value)]
            return [value for value, _ in items], [text for _, text in items]

    @contextlib.contextmanager
    def _enter(self, node: yaml.Node) -> Iterator[None]:
        """Limit the number of values and levels."""
        self._value_count += 1
        # Nested aliases can repeat values exponentially.
        if self._value_count > _MAX_VALUES:
            self._raise_error(
                node, f"with its aliases the file has over {_MAX_VALUES} values; use fewer aliases"
            )
        # aliases nest values deeper than the text does
        if self._depth > _MAX_DEPTH:
            self._raise_error(node, f"more than {_MAX_DEPTH} nested levels; flatten them")
        self._depth += 1
        yield
        self._depth -= 1

    def _list_values(self, node: yaml.MappingNode) -> dict[str, tuple[int, yaml.Node]]:
        """Return the line and the value of each key of a mapping, and of those that it merges."""
        pairs = [
            (None if _is_merge_key(name) else self._convert_key(name), name, value)
            for name, value in node.value
        ]
        own: dict[str, tuple[int, yaml.Node]] = {}
        for name, name_node, value in pairs:
            if name is None:
                continue
            # A dictionary would silently drop the first value.
            if name in own:
                self._raise_error(
                    name_node, f"the key {name!r} is also in line {own[name][0]}; remove one"
                )
            own[name] = find_line(name_node), value
        values: dict[str, tuple[int, yaml.Node]] = {}
        for name, _, value in pairs:
            if name is not None:
                values.setdefault(name, own[name])
                continue
            # Own keys override merged ones, and the first merged mapping the later ones.
            for merged in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                if not isinstance(merged, yaml.MappingNode):
                    self._raise_error(value, "<< must name keys and values")
                with self._enter(merged):
                    for merged_name, entry in self._list_values(merged).items():
                        values.setdefault(merged_name, own.get(merged_name, entry))
        return values

    def _convert_key(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            kind = "mapping" if isinstance(node, yaml.MappingNode) else "list"
            self._raise_error(node, f"a key is a {kind}, not a text; put it in quotes")
        value, text = self._parse_scalar(node)
        # Snakemake keeps a key that is a number; a key that is left out is a mistake.
        if value is None or (self._schema.is_shared and not isinstance(value, str)):
            self._raise_error(node, f"a key is {text or 'null'}, not a text; put it in quotes")
        return text

    def _parse_scalar(self, node: yaml.ScalarNode) -> tuple[Any, str]:
        """Return a scalar as plain data and as text."""
        text: str = node.value
        kind = self._find_type(node, text)
        # An integer of more than 308 digits does not fit into a float.
        if kind in ("int", "float") and len(text) > _MAX_DIGITS:
            self._raise_error(
                node, f"the number has {len(text)} digits, more than {_MAX_DIGITS}; shorten it"
            )
        return (text if kind == "str" else self._schema.types[kind].parse(text)), text

    def _find_type(self, node: yaml.ScalarNode, text: str) -> str:
        """Return the name of a scalar's type."""
        types = self._schema.types
        if node.tag:
            self._check_tag(node, {"str", *(types if self._schema.has_tags else ())})
            kind = node.tag.removeprefix(TAG_PREFIX)
            if kind != "str" and not types[kind].form.fullmatch(text):
                self._raise_error(node, f"{text!r} is not of the type !!{kind}; remove the tag")
            return kind
        # Quotes and blocks are texts.
        if node.style:
            return "str"
        kind = self._schema.find_type(text)
        if self._schema.is_shared:
            self._check_unambiguous(node, text, kind)
        return kind

    def _check_unambiguous(self, node: yaml.ScalarNode, text: str, kind: str) -> None:
        """Check that YAML 1.1 and 1.2 agree on a plain scalar."""
        yaml11_tag = _RESOLVER.resolve(  # type: ignore[no-untyped-call]  # of PyYAML
            yaml.ScalarNode, text, (True, False)
        )
        is_decimal = kind != "int" or _DECIMAL_INTEGER.fullmatch(text)
        if yaml11_tag not in (TAG_PREFIX + kind, _MERGE_TAG) or not is_decimal:
            self._raise_error(
                node,
                f"{text} is ambiguous in YAML; write a decimal number, true, false, or a "
                "text in quotes",
            )

    def _check_tag(self, node: yaml.Node, kinds: Set[str]) -> None:
        if node.tag and node.tag.removeprefix(TAG_PREFIX) not in kinds:
            tag = node.tag.replace(TAG_PREFIX, "!!")
            self._raise_error(
                node, f"the tag {tag} is not supported; remove it, or put the text in quotes"
            )

    def _raise_error(self, node: yaml.Node, reason: str) -> NoReturn:
        _raise_error(self._source, find_line(node), reason)


def _is_merge_key(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.value == "<<" and not node.style + node.tag


def _raise_error(source: str | Path, line: int, reason: str) -> NoReturn:
    raise ConfigError(f"{source}, line {line}: {reason}")
