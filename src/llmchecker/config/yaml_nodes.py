"""The nodes of a YAML document, and errors with their line."""

from dataclasses import dataclass, field

from llmchecker.errors import ConfigError


class YamlError(ConfigError):
    """An error in a text of YAML.

    Attributes:
        line: its line, from 1.
    """

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(problem)
        self.line = line


@dataclass(eq=False)
class Node:
    """A node of a document.

    Attributes:
        line: the line in which it begins, from 1.
        tag: its whole tag, such as `tag:yaml.org,2002:str`; empty without one.
        anchor: the name of its anchor; empty without one.
    """

    line: int
    tag: str = field(default="", kw_only=True)
    anchor: str = field(default="", kw_only=True)


@dataclass(eq=False)
class ScalarNode(Node):
    """A scalar.

    Attributes:
        value: its text.
        style: `|`, `>`, `'` or `"`; empty without quotes.
    """

    value: str
    style: str = ""


@dataclass(eq=False)
class SequenceNode(Node):
    """A list.

    Attributes:
        items: its nodes.
    """

    items: list[Node] = field(default_factory=list)


@dataclass(eq=False)
class MappingNode(Node):
    """A mapping.

    Attributes:
        pairs: keys and values in the order of the text, of which keys may be equal.
    """

    pairs: list[tuple[Node, Node]] = field(default_factory=list)
