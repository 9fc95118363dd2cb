"""A strict YAML reader, which rejects ambiguous files and records lines.

PyYAML parses the file, and this module rejects ambiguous content. Of a duplicate key, PyYAML would
silently drop a value. YAML 1.1 and 1.2 differ in numbers such as `1:30` and `010`, and in words
such as `no`. They must be plain decimal numbers, true or false, or texts in quotes. Aliases
may repeat a value, but a file with too many repeated values or a recursive alias is rejected.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import yaml

from llmchecker.errors import ConfigError

_MAX_BYTES = 1_000_000
"""Maximum size of a file in bytes."""
_MAX_VALUES = 100_000
"""Maximum number of values of a file, including values that aliases repeat."""
_MAX_DEPTH = 40
"""Maximum depth of nested lists and keys."""
_MAX_DIGITS = 300
"""Maximum number of characters of a number."""

_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")

_CORE_SCHEMA = {
    "null": re.compile(r"(null|Null|NULL|~|)"),
    "bool": re.compile(r"(true|True|TRUE|false|False|FALSE)"),
    "int": re.compile(r"[-+]?(0|[1-9][0-9]*)"),
    "float": re.compile(
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
    ),
}
"""Plain scalars of YAML 1.2's core schema, without non-decimal integers."""
_TAG_PREFIX = "tag:yaml.org,2002:"
_MERGE_TAG = _TAG_PREFIX + "merge"
_PLAIN_TYPES = {*_CORE_SCHEMA, "str", "timestamp", "value", "merge"}
"""Types that PyYAML resolves plain scalars to."""


@dataclass(frozen=True)
class YamlFile:
    """The content of a YAML file.

    Attributes:
        path: the path of the file.
        content: its keys and values, as plain data.
        lines: the line of each value, from 1, by its key in messages, such as
            `experiments[0].alpha`.
    """

    path: Path
    content: dict[str, Any]
    lines: Mapping[str, int]

    def add_location(self, message: str) -> str:
        """Prefix a message about a key with the file and the line of the key.

        Args:
            message: a message that begins with the key and a colon.
        """
        match = re.match(r"(.*?): unknown key '([^']*)'", message)
        key = message.partition(": ")[0]
        # The message about an unknown key begins with its section.
        if match:
            key = f"{match[1]}.{match[2]}".removeprefix("config.")
        # A missing key has no line; the nearest section around it has.
        while key and key not in self.lines:
            key = re.sub(r"(^|\.|\[)[^.\[]*$", "", key)
        line = f", line {self.lines[key]}" if key else ""
        return f"{self.path}{line}: {message}"


def read_yaml(path: str | Path) -> YamlFile:
    """Read a YAML file with keys and values.

    Raises:
        ConfigError: the file is unreadable, is not YAML in UTF-8, or is ambiguous; the message
            contains the line.
    """
    path = Path(path)
    text = _read_text(path)
    try:
        _check_depth(path, text)
        node = yaml.compose(text, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        _raise_error(path, mark.line + 1 if mark else 1, f"not YAML: {error.problem}")
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        _raise_error(
            path, line, f"U+{ord(text[error.position]):04X} is not a YAML character; remove it"
        )
    if node is None:
        raise ConfigError(f"{path}: the file is empty; write keys and values")
    if not isinstance(node, yaml.MappingNode):
        _raise_error(path, _line_number(node), "the file is not a mapping; write keys and values")
    reader = _YamlConverter(path)
    content = reader.convert(node, "")
    return YamlFile(path, content, reader.lines)


class _YamlConverter:
    """A converter of YAML nodes to plain data, which records their lines."""

    def __init__(self, path: Path) -> None:
        self.lines: dict[str, int] = {}
        self._path = path
        self._value_count = 0
        self._open_nodes: list[yaml.Node] = []

    def convert(self, node: yaml.Node, key: str) -> Any:
        """Convert the node of a key to plain data."""
        self._value_count += 1
        # Nested aliases can repeat values exponentially.
        if self._value_count > _MAX_VALUES:
            self._raise_error(
                node, f"with its aliases the file has over {_MAX_VALUES} values; use fewer aliases"
            )
        # An alias to an outer node would lead to infinite recursion.
        if any(node is open_node for open_node in self._open_nodes):
            self._raise_error(node, "this value contains itself; remove the alias")
        # For a value of a mapping, the line of its key is already recorded.
        self.lines.setdefault(key, _line_number(node))
        if isinstance(node, yaml.ScalarNode):
            return self._convert_scalar(node)
        self._open_nodes.append(node)
        try:
            if isinstance(node, yaml.SequenceNode):
                self._check_tag(node, "seq")
                return [
                    self.convert(item, f"{key}[{index}]") for index, item in enumerate(node.value)
                ]
            self._check_tag(node, "map")
            return self._convert_mapping(node, key)
        finally:
            self._open_nodes.pop()

    def _convert_mapping(self, node: yaml.MappingNode, key: str) -> dict[str, Any]:
        defaults: dict[str, Any] = {}
        mapping: dict[str, Any] = {}
        line_numbers: dict[str, int] = {}
        for name_node, value_node in node.value:
            if name_node.tag == _MERGE_TAG:
                # Of several merged mappings, the first one overrides the later ones.
                for merge_mapping in self._iter_merged(value_node, key):
                    defaults = merge_mapping | defaults
                continue
            name = self._convert_key(name_node)
            # PyYAML would silently drop the first value.
            if name in line_numbers:
                self._raise_error(
                    name_node,
                    f"the key {name!r} is also in line {line_numbers[name]}; remove one",
                )
            line_numbers[name] = _line_number(name_node)
            path = f"{key}.{name}".removeprefix(".")
            self.lines[path] = _line_number(name_node)
            mapping[name] = self.convert(value_node, path)
        # Own keys override merged ones, at any position in the mapping.
        return defaults | mapping

    def _iter_merged(self, node: yaml.Node, key: str) -> Iterator[dict[str, Any]]:
        """Yield the mappings that `<<` refers to."""
        for mapping_node in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if not isinstance(mapping_node, yaml.MappingNode):
                self._raise_error(node, "<< must name keys and values")
            yield self.convert(mapping_node, key)

    def _convert_key(self, node: yaml.Node) -> str:
        name = self._convert_scalar(node) if isinstance(node, yaml.ScalarNode) else None
        if not isinstance(name, str):
            key_text = (node.value or "null") if isinstance(node, yaml.ScalarNode) else "a list"
            self._raise_error(
                node,
                f"a key is {key_text}, not a text; put it in quotes",
            )
        return name

    def _convert_scalar(self, node: yaml.ScalarNode) -> str | int | float | bool | None:
        text = node.value
        # Only plain scalars depend on the version of YAML; quoted ones are texts.
        if node.style is None and node.tag.removeprefix(_TAG_PREFIX) in _PLAIN_TYPES:
            self._check_unambiguous(node)
        elif node.tag != _TAG_PREFIX + "str":
            self._raise_tag_error(node)
        # PyYAML decodes escapes such as "\ud800", which cannot be encoded later.
        if surrogate := re.search(r"[\ud800-\udfff]", text):
            self._raise_error(
                node,
                f"U+{ord(surrogate[0]):04X} is half a character; write the whole character",
            )
        kind = node.tag.removeprefix(_TAG_PREFIX)
        # An integer of more than 308 digits does not fit into a float.
        if kind in ("int", "float") and len(text) > _MAX_DIGITS:
            self._raise_error(
                node,
                f"the number has {len(text)} digits, more than {_MAX_DIGITS}; shorten it",
            )
        match kind:
            case "null":
                return None
            case "bool":
                return text.lower() == "true"
            case "int":
                return int(text)
            # Python's `float` accepts inf and nan, but not with a leading dot.
            case "float":
                return float(re.sub(r"\.(inf|nan)", r"\1", text, flags=re.IGNORECASE))
        return text

    def _check_unambiguous(self, node: yaml.ScalarNode) -> None:
        """Check that YAML 1.1, as in PyYAML, and 1.2 agree on a plain scalar."""
        yaml11_type = node.tag.removeprefix(_TAG_PREFIX)
        core_type = next(
            (kind for kind, form in _CORE_SCHEMA.items() if form.fullmatch(node.value)), "str"
        )
        if yaml11_type != core_type:
            self._raise_error(
                node,
                f"{node.value} is ambiguous in YAML; write a decimal number, true, false, or a "
                "text in quotes",
            )

    def _check_tag(self, node: yaml.Node, kind: str) -> None:
        if node.tag != _TAG_PREFIX + kind:
            self._raise_tag_error(node)

    def _raise_tag_error(self, node: yaml.Node) -> NoReturn:
        tag = node.tag.replace(_TAG_PREFIX, "!!")
        self._raise_error(node, f"the tag {tag} is not supported; remove it")

    def _raise_error(self, node: yaml.Node, reason: str) -> NoReturn:
        _raise_error(self._path, _line_number(node), reason)


def _read_text(path: Path) -> str:
    """Read the text of a file of at most `_MAX_BYTES`."""
    try:
        with path.open("rb") as file:
            # One more byte than allowed is enough to detect a file that is too large.
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    if len(content) > _MAX_BYTES:
        raise ConfigError(f"{path}: larger than the maximum of {_MAX_BYTES} bytes; shorten it")
    # Zero bytes at the beginning reveal UTF-16 and UTF-32 without a byte order mark.
    if content.startswith(_UTF16_MARKS) or b"\0" in content[:4]:
        raise ConfigError(f"{path}: encoded in UTF-16 or UTF-32; save it in UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        invalid_byte = content[error.start]
        _raise_error(
            path, line, f"the byte 0x{invalid_byte:02X} is not UTF-8; save the file in UTF-8"
        )


def _check_depth(path: Path, text: str) -> None:
    """Check the depth of nesting before any recursion over it."""
    depth = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _MAX_DEPTH:
            line = event.start_mark.line + 1
            _raise_error(path, line, f"more than {_MAX_DEPTH} nested levels; flatten them")


def _line_number(node: yaml.Node) -> int:
    return node.start_mark.line + 1


def _raise_error(path: Path, line: int, reason: str) -> NoReturn:
    raise ConfigError(f"{path}, line {line}: {reason}")
