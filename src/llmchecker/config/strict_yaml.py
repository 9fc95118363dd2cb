"""YAML files, read so that each has one meaning, with the line of every value.

PyYAML parses; this module refuses what its parser lets pass. A key that stands twice would lose one
of its values without a word. A number such as `1:30` or `010` and a word such as `no` are read
differently by YAML 1.1 and 1.2, so they must be written plainly or in quotes. Aliases may repeat a
value, but a file that grows beyond bounds by them, or contains itself, is refused.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import yaml

from llmchecker.errors import ConfigError

MOST_BYTES = 1_000_000
"""The largest file that is read."""
MOST_VALUES = 100_000
"""The most values that a file may hold, those that aliases repeat included."""
DEEPEST = 40
"""How deep lists and keys may be nested."""
MOST_DIGITS = 300
"""The most digits that a number may have."""

_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")

_CORE = {
    "null": re.compile(r"(null|Null|NULL|~|)"),
    "bool": re.compile(r"(true|True|TRUE|false|False|FALSE)"),
    "int": re.compile(r"[-+]?(0|[1-9][0-9]*)"),
    "float": re.compile(
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
    ),
}
"""What plain scalars are in YAML 1.2, but for integers that are not decimal."""
_TAG = "tag:yaml.org,2002:"
_MERGE = _TAG + "merge"
_PLAIN = {*_CORE, "str", "timestamp", "value", "merge"}
"""What PyYAML takes plain scalars for."""


@dataclass(frozen=True)
class YamlFile:
    """What a YAML file holds.

    Attributes:
        path: of the file.
        content: its keys and values, as plain data.
        lines: where each value stands, counted from 1, by its key as messages write it, such as
            `experiments[0].alpha`.
    """

    path: Path
    content: dict[str, Any]
    lines: Mapping[str, int]

    def located(self, message: str) -> str:
        """A message about a key with the file and the line of that key before it.

        Args:
            message: begins with the key, followed by a colon, as those of a configuration do.
        """
        unknown = re.match(r"(.*?): unknown key '([^']*)'", message)
        key = message.partition(": ")[0]
        if unknown:
            key = f"{unknown[1]}.{unknown[2]}".removeprefix("config.")
        while key and key not in self.lines:
            key = re.sub(r"(^|\.|\[)[^.\[]*$", "", key)
        line = f", line {self.lines[key]}" if key else ""
        return f"{self.path}{line}: {message}"


def read_strictly(path: str | Path) -> YamlFile:
    """Read a YAML file that holds keys and values.

    Raises:
        ConfigError: the file cannot be read, is not YAML in UTF-8, or does not have one meaning;
            the message names the line.
    """
    path = Path(path)
    text = _text(path)
    try:
        _check_depth(path, text)
        node = yaml.compose(text, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        _refuse(path, mark.line + 1 if mark else 1, f"this is not YAML: {error.problem}")
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        _refuse(
            path, line, f"YAML has no character U+{ord(text[error.position]):04X}; leave it out"
        )
    if node is None:
        raise ConfigError(f"{path} is empty; it must hold keys and values")
    if not isinstance(node, yaml.MappingNode):
        _refuse(path, _line(node), "the file must hold keys and values")
    reader = _Reader(path)
    content = reader.value(node, "")
    return YamlFile(path, content, reader.lines)


class _Reader:
    """Turns nodes of YAML into plain data, and notes the line of each."""

    def __init__(self, path: Path) -> None:
        self.lines: dict[str, int] = {}
        self._path = path
        self._values = 0
        self._within: list[yaml.Node] = []

    def value(self, node: yaml.Node, key: str) -> Any:
        """The plain data of a node that stands at a key."""
        self._values += 1
        if self._values > MOST_VALUES:
            self._refuse(node, f"with its aliases the file has over {MOST_VALUES} values")
        if any(node is outer for outer in self._within):
            self._refuse(node, "this value contains itself, by an alias")
        self.lines.setdefault(key, _line(node))
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        self._within.append(node)
        try:
            if isinstance(node, yaml.SequenceNode):
                self._demand_plain(node, "seq")
                return [
                    self.value(item, f"{key}[{place}]") for place, item in enumerate(node.value)
                ]
            self._demand_plain(node, "map")
            return self._mapping(node, key)
        finally:
            self._within.pop()

    def _mapping(self, node: yaml.MappingNode, key: str) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        stood: dict[str, int] = {}
        for name_node, value_node in node.value:
            if name_node.tag == _MERGE:
                for part in self._merged(value_node, key):
                    merged = part | merged
                continue
            name = self._name(name_node)
            if name in stood:
                self._refuse(
                    name_node,
                    f"the key {name!r} stands here again; it is in line {stood[name]} too",
                )
            stood[name] = _line(name_node)
            place = f"{key}.{name}".removeprefix(".")
            self.lines[place] = _line(name_node)
            own[name] = self.value(value_node, place)
        return merged | own

    def _merged(self, node: yaml.Node, key: str) -> Iterator[dict[str, Any]]:
        """The mappings that `<<` names."""
        for part in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if not isinstance(part, yaml.MappingNode):
                self._refuse(node, "<< must name keys and values")
            yield self.value(part, key)

    def _name(self, node: yaml.Node) -> str:
        name = self._scalar(node) if isinstance(node, yaml.ScalarNode) else None
        if not isinstance(name, str):
            shown = node.value if isinstance(node, yaml.ScalarNode) else "a list"
            self._refuse(
                node,
                f"a key must be a text, and {shown} is none; put it in quotes if it is a name",
            )
        return name

    def _scalar(self, node: yaml.ScalarNode) -> str | int | float | bool | None:
        text = node.value
        if node.style is None and node.tag.removeprefix(_TAG) in _PLAIN:
            self._demand_one_meaning(node)
        elif node.tag != _TAG + "str":
            self._refuse_tag(node)
        if surrogate := re.search(r"[\ud800-\udfff]", text):
            self._refuse(
                node,
                f"U+{ord(surrogate[0]):04X} is half a character; write the whole one",
            )
        kind = node.tag.removeprefix(_TAG)
        if kind in ("int", "float") and len(text) > MOST_DIGITS:
            self._refuse(
                node,
                f"the number has {len(text)} digits; the longest that is read has {MOST_DIGITS}",
            )
        match kind:
            case "null":
                return None
            case "bool":
                return text.lower() == "true"
            case "int":
                return int(text)
            case "float":
                return float(re.sub(r"\.(inf|nan)", r"\1", text, flags=re.IGNORECASE))
        return text

    def _demand_one_meaning(self, node: yaml.ScalarNode) -> None:
        """Refuse a plain scalar that YAML 1.1, by which PyYAML goes, and 1.2 read differently."""
        meant = node.tag.removeprefix(_TAG)
        other = next((kind for kind, form in _CORE.items() if form.fullmatch(node.value)), "str")
        if meant != other:
            self._refuse(
                node,
                f"{node.value} has several meanings in YAML; write a plain decimal number or true "
                "or false, and put it in quotes if it is a text",
            )

    def _demand_plain(self, node: yaml.Node, kind: str) -> None:
        if node.tag != _TAG + kind:
            self._refuse_tag(node)

    def _refuse_tag(self, node: yaml.Node) -> NoReturn:
        shown = node.tag.replace(_TAG, "!!")
        self._refuse(node, f"the tag {shown} is not read; leave it out")

    def _refuse(self, node: yaml.Node, reason: str) -> NoReturn:
        _refuse(self._path, _line(node), reason)


def _text(path: Path) -> str:
    """The text of a file of at most `MOST_BYTES`."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    if len(content) > MOST_BYTES:
        raise ConfigError(f"{path} is larger than {MOST_BYTES} bytes, the most that is read")
    if content.startswith(_UTF16_MARKS) or b"\0" in content[:4]:
        raise ConfigError(f"{path} is in UTF-16 or UTF-32; save it in UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        wrong = content[error.start]
        _refuse(path, line, f"the byte 0x{wrong:02X} is not UTF-8; save the file in UTF-8")


def _check_depth(path: Path, text: str) -> None:
    """Refuse deep nesting before anything recurs over it."""
    depth = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            line = event.start_mark.line + 1
            _refuse(path, line, f"this is nested over {DEEPEST} deep; a configuration is not")


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1


def _refuse(path: Path, line: int, reason: str) -> NoReturn:
    raise ConfigError(f"{path}, line {line}: {reason}")
