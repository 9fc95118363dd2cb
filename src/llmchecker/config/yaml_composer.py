r"""Nodes of a YAML document with their lines, from the events of libyaml.

PyYAML's own composer is recursive in C, so that deep nesting ends the process. libyaml reads YAML
1.1: where YAML 1.2 differs, in line ends and in JSON's escapes of halves of characters, the text is
rejected or rewritten first.
"""

import re
from typing import Any, NoReturn

import yaml

from llmchecker.errors import ConfigError

TAG_PREFIX = "tag:yaml.org,2002:"
"""The prefix of the tags of the specification, such as `!!str`."""

_OTHER_CHARACTER = re.compile(
    "[^\t\n\r -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)
"""A character that no YAML text contains, or that ends a line in YAML 1.1 alone."""
_LINE_ENDS = "\x85\u2028\u2029"
_ESCAPED_PAIR = re.compile(
    r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
)
r"""The escapes of both halves of a character, as in `"\ud83d\ude42"`."""
_JOINED_PAIR = re.compile(r"\\U00[01][0-9a-f]{5}")

_QUOTE = "put the text in quotes"
_ALIGN = "align it, or put the whole text in quotes"
_SINGLE_QUOTES = "a backslash without an escape; write the text in single quotes"
_TAB = "a tab indents the line; indent it with spaces"
_ADVICE = {
    "mapping values are not allowed": f"a colon and a space in a text; {_QUOTE}",
    "block sequence entries are not allowed": f"- and a space after a key; {_QUOTE}",
    "found unknown escape character": _SINGLE_QUOTES,
    "did not find expected hexdecimal number": _SINGLE_QUOTES,
    "found invalid Unicode character": (
        "an escape such as \\ud83d is half a character; write the whole character"
    ),
    "found unexpected end of stream": "the text of line {line} has no closing quote; add it",
    "found unexpected document indicator": "the text of line {line} has no closing quote; add it",
    "found a tab character": _TAB,
    "found character that cannot start any token": f"a text begins with {{character}}; {_QUOTE}",
    "did not find expected key": f"expected a key as in line {{line}}; {_ALIGN}",
    "did not find expected '-' indicator": f"expected - as in line {{line}}; {_ALIGN}",
    "did not find expected ',' or ']'": (
        "expected , or ] after the [ of line {line}; add it, or use quotes"
    ),
    "did not find expected ',' or '}'": (
        "expected , or }} after the {{ of line {line}; add it, or use quotes"
    ),
    "could not find expected ':'": (
        "the text of line {line} is no key; add a colon and a space, or indent it"
    ),
    "did not find expected node content": (
        f"expected a value, not {{character}}; add it, or {_QUOTE}"
    ),
    "did not find expected alphabetic or numeric": f"& and * begin names; {_QUOTE}",
    "did not find expected tag URI": f"! begins a tag; {_QUOTE}",
    "did not find expected comment or line break": (
        "a text after | or >; begin it on the next line, or use quotes"
    ),
    "found unexpected ':'": f"a colon in a text between brackets; {_QUOTE}",
    "did not find expected <document start>": "a text after the end of a value; use quotes",
}
"""What to write by the problem that libyaml reports."""


class YamlError(ConfigError):
    """An error in a text of YAML.

    Attributes:
        line: its line, from 1.
    """

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(problem)
        self.line = line


def find_line(node: yaml.Node) -> int:
    """Return the line in which a node begins, from 1."""
    return node.start_mark.line + 1


def compose_document(text: str, max_depth: int) -> yaml.Node | None:
    """Return the root node of a text's only document; None for a text without one.

    Tags of nodes are whole, such as `tag:yaml.org,2002:str`, and empty where the text has none.

    Args:
        text: the text.
        max_depth: maximum number of nested lists and mappings.

    Raises:
        YamlError: the text is no YAML, or has several documents.
    """
    if match := _OTHER_CHARACTER.search(text):
        _raise_character_error(text, match.start())
    text, joined_count = _ESCAPED_PAIR.subn(_join_pair, text)
    # a block scalar ends with a line feed, also at the end of the file
    composer = _Composer(text.removesuffix("\n") + "\n", max_depth, joined_count > 0)
    try:
        for event in yaml.parse(composer.text, Loader=yaml.CSafeLoader):
            composer.add(event)
    except yaml.MarkedYAMLError as error:
        _raise_libyaml_error(composer.text, error)
    return composer.root


class _Composer:
    """A composer of nodes from events.

    Attributes:
        text: the text of the events.
        root: the node of the document so far; None without one.
    """

    def __init__(self, text: str, max_depth: int, has_joined_pairs: bool) -> None:
        self.text = text
        self.root: yaml.Node | None = None
        self._max_depth = max_depth
        self._has_joined_pairs = has_joined_pairs
        self._anchors: dict[str, yaml.Node] = {}
        # the collections around the next node, with their nodes so far
        self._open: list[tuple[yaml.Node, list[yaml.Node]]] = []

    # events are of type Any, since PyYAML's types allow events without a position

    def add(self, event: Any) -> None:
        """Add an event of a document."""
        line = event.start_mark.line + 1
        if isinstance(event, yaml.DocumentStartEvent) and self.root is not None:
            raise YamlError(line, "another document begins; keep one")
        if isinstance(event, yaml.CollectionEndEvent):
            collection, parts = self._open.pop()
            is_mapping = isinstance(collection, yaml.MappingNode)
            collection.value = (
                list(zip(parts[::2], parts[1::2], strict=True)) if is_mapping else parts
            )
        elif isinstance(event, yaml.NodeEvent):
            node = self._find_node(event, line)
            if self._open:
                self._open[-1][1].append(node)
            else:
                self.root = node
            if isinstance(event, yaml.CollectionStartEvent):
                self._open.append((node, []))
                if len(self._open) > self._max_depth:
                    raise YamlError(
                        line, f"more than {self._max_depth} nested levels; flatten them"
                    )

    def _find_node(self, event: Any, line: int) -> yaml.Node:
        """Return the node that begins with an event, or to which an alias points."""
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise YamlError(
                    line, f"*{event.anchor} is an unknown alias; define it, or {_QUOTE}"
                )
            target = self._anchors[event.anchor]
            if any(target is each for each, _ in self._open):
                raise YamlError(find_line(target), "this value contains itself; remove the alias")
            return target
        node: yaml.Node
        tag, marks = event.tag or "", (event.start_mark, event.end_mark)
        if isinstance(event, yaml.ScalarEvent):
            self._check_scalar(event, line)
            node = yaml.ScalarNode(tag, event.value, *marks, event.style)
        else:
            is_mapping = isinstance(event, yaml.MappingStartEvent)
            node = (yaml.MappingNode if is_mapping else yaml.SequenceNode)(tag, [], *marks)
        if event.anchor:
            self._check_anchor(event, line)
            self._anchors[event.anchor] = node
        return node

    def _check_anchor(self, event: Any, line: int) -> None:
        """Check that an anchor ends where YAML 1.2 ends it: libyaml ends `&a:b` at the colon."""
        end = self.text.index("&" + event.anchor, event.start_mark.index) + len(event.anchor) + 1
        if self.text[end] not in " \t\r\n,]}":
            raise YamlError(
                line, "not YAML: an anchor's name has letters, digits, - and _; rename it"
            )

    def _check_scalar(self, event: Any, line: int) -> None:
        """Check that libyaml's value is that of the text in YAML 1.2."""
        # between brackets libyaml takes `?x` for a key
        position = event.start_mark.index
        if event.value and not event.style and self.text[position - 1] == "?":
            raise YamlError(line, f"not YAML: a text begins with ?; {_QUOTE}")
        if self._has_joined_pairs and event.style != '"' and _JOINED_PAIR.search(event.value):
            raise YamlError(line, "an escape outside of double quotes; write the whole character")


def _join_pair(match: re.Match[str]) -> str:
    halves = bytes.fromhex(match[2] + match[3]).decode("utf-16-be")
    return f"{match[1]}\\U{ord(halves):08x}"


def _raise_character_error(text: str, position: int) -> NoReturn:
    line = len(re.findall(r"\r\n?|\n", text[:position])) + 1
    character = text[position]
    code = f"{ord(character):04X}"
    if character in _LINE_ENDS:
        raise YamlError(line, f'U+{code} ends a line in YAML 1.1; remove it, or write "\\u{code}"')
    raise YamlError(line, f"U+{code} is not a YAML character; remove it")


def _raise_libyaml_error(text: str, error: yaml.MarkedYAMLError) -> NoReturn:
    mark = error.problem_mark
    assert mark is not None
    begun = error.context_mark or mark
    character = text[mark.index : mark.index + 1].strip(" \n") or "the end"
    advices = (each for problem, each in _ADVICE.items() if problem in str(error.problem))
    advice = next(advices, f"{error.problem}; {_QUOTE}")
    reason = _TAB if character == "\t" else advice
    reason = reason.format(line=begun.line + 1, character=character)
    # the end of the text is in its last line
    line = min(mark.line, text.rstrip("\n").count("\n")) + 1
    raise YamlError(line, f"not YAML: {reason}") from error
