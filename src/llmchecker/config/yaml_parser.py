r"""A parser of YAML 1.2.2, which turns a text into nodes with their lines.

The functions follow the productions of the specification (https://yaml.org/spec/1.2.2), whose
indentation n is that of the collection around a node, and -1 for a document. Two rules are wider,
as those of js-yaml and PyYAML, which leaves no second meaning: further lines of quotes and brackets
need no indentation, and a comment may follow a quote, a bracket or a comma at once.

    user: Answer: yes or no?    error: a colon and a space in a text need quotes
    pattern: "\d+"              error: a pattern belongs into single quotes
"""

import re
import sys
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import unquote

from llmchecker.config.yaml_cursor import YamlCursor
from llmchecker.config.yaml_folding import fold_block, fold_quoted
from llmchecker.config.yaml_nodes import MappingNode, Node, ScalarNode, SequenceNode, YamlError

TAG_PREFIX = "tag:yaml.org,2002:"
"""The prefix of the tags of the specification, such as `!!str`."""

_DIRECTIVE = re.compile(
    r"%([^ \t\n]+)((?:[ \t]+[^ \t\n#][^ \t\n]*)*)[ \t]*(?:[ \t]#[^\n]*)?(?=\n|\Z)"
)
_NUMBER = re.compile(r"[0-9]+\.[0-9]+")
"""The number of a version of YAML."""
_HANDLE = re.compile(r"!(?:[0-9A-Za-z-]*!)?")
_TAG = re.compile(
    r"!<(?P<verbatim>[^ \t\n<>]+)>"
    r"|(?P<handle>!(?:[0-9A-Za-z-]*!)?)(?P<suffix>(?:%[0-9A-Fa-f]{2}|[-\w#;/?:@&=+$.~*'()])*)",
    re.ASCII,
)
_NAME = re.compile(r"[^ \t\n,\[\]{}]+")
"""The name of an anchor."""
_BLOCK_HEADER = re.compile(
    r"[|>](?:([1-9])([-+]?)|([-+]?)([1-9]?))(?:[ \t]+#[^\n]*|[ \t]*)(?=\n|\Z)"
)
_BLOCK_LINE = re.compile(
    r"(?:(?:[^ \t\n:#]|:(?=[^ \t\n])|(?<=[^ \t\n])#)+|[ \t]+(?=[^ \t\n#:]|:[^ \t\n]))*"
)
"""The part of a line that a text without quotes takes."""
_FLOW_LINE = re.compile(
    r"(?:(?:[^ \t\n:#,\[\]{}]|:(?=[^ \t\n,\[\]{}])|(?<=[^ \t\n])#)+"
    r"|[ \t]+(?=[^ \t\n#:,\[\]{}]|:[^ \t\n,\[\]{}]))*"
)
"""The same between brackets."""
_SINGLE_PART = re.compile(r"(?:[^'\n]|'')*")
_DOUBLE_PART = re.compile(r'(?:[^"\\\n]|\\[^\n])*')
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_ESCAPES = {
    **{each: each for each in ' "/\\'},
    **dict(zip("0abt\tnvfre", "\0\a\b\t\t\n\v\f\r\x1b", strict=True)),
    **{"N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029"},
}
"""The characters of escapes in double quotes."""
_INDICATORS = frozenset(",[]{}#&*!|>'\"%@`")
"""Characters with which no text without quotes begins."""


@dataclass(frozen=True)
class _Properties:
    """Tag and anchor of a node, before the node itself."""

    line: int
    tag: str = ""
    anchor: str = ""


def parse_documents(text: str, max_depth: int) -> Iterator[tuple[int, Node]]:
    """Yield the line and the root of each document of a text.

    Args:
        text: the text.
        max_depth: maximum number of nested lists and mappings.

    Raises:
        YamlError: the text is no YAML.
    """
    return _Parser(text, max_depth).iter_documents()


class _Parser(YamlCursor):
    """A recursive descent over a text.

    The position is at the next character. After a block node it is at the end of a line.
    """

    def __init__(self, text: str, max_depth: int) -> None:
        super().__init__(text)
        self._max_depth, self._depth = max_depth, 0
        self._tags: dict[str, str] = {}
        # the indentation of the innermost collection that ends at a position
        self._closed: dict[int, int] = {}
        # an anchor has its line until its node is complete
        self._anchors: dict[str, Node | int] = {}

    # Documents

    def iter_documents(self) -> Iterator[tuple[int, Node]]:
        is_bare_allowed = True
        while True:
            self._tags = {"!": "!", "!!": TAG_PREFIX}
            directives = self._read_directives() if is_bare_allowed else 0
            self._skip_lines()
            marker = self._find_marker(self._position)
            is_explicit = marker == "---"
            if directives and not is_explicit:
                self._raise_error("not YAML: expected --- after the lines with %; add it")
            if marker:
                self._position += len(marker)
            elif self._is_at_end:
                return
            elif not is_bare_allowed:
                self._raise_end_error()
            if is_explicit or not marker:
                line = self._line
                yield line, self._parse_document(is_explicit=is_explicit)
                # a further document begins with `---`, or after `...`
                is_bare_allowed = False
            else:
                self._end_line()
                is_bare_allowed = True

    def _read_directives(self) -> int:
        """Read the lines with `%` before a document, and return their number."""
        names: list[str] = []
        self._skip_lines()
        while self._peek() == "%" and self._column == 0:
            match = _DIRECTIVE.match(self._text, self._position)
            if match is None:
                self._raise_error("not YAML: a line begins with %; put the text in quotes")
            name, arguments = match[1], match[2].split()
            if name == "YAML" and (
                len(arguments) != 1 or name in names or not _NUMBER.fullmatch(arguments[0])
            ):
                self._raise_error("not YAML: expected one %YAML 1.2; remove the line")
            if name == "TAG":
                if len(arguments) != 2 or not _HANDLE.fullmatch(arguments[0]):
                    self._raise_error("not YAML: expected a line such as %TAG !a! tag:a,2000:")
                self._tags[arguments[0]] = arguments[1]
            names.append(name)
            self._position = match.end()
            self._skip_lines()
        return len(names)

    def _parse_document(self, *, is_explicit: bool) -> Node:
        self._anchors = {}
        if is_explicit:
            # a block collection begins on a line of its own
            node = self._parse_block_node(-1, has_collections=False)
        else:
            # the first line of a bare document is fresh
            self._position -= self._column
            node = self._parse_block_node(-1, is_fresh=True)
        self._skip_lines()
        if not self._is_at_end and not self._is_at_marker:
            self._raise_end_error()
        return node

    # Block style

    def _parse_block_node(
        self,
        parent: int,
        *,
        has_collections: bool = True,
        has_list_at_parent: bool = False,
        is_fresh: bool = False,
    ) -> Node:
        """Parse a node in block style, after its indicator or at the beginning of a line.

        Args:
            parent: the indentation of the collection around it.
            has_collections: whether a block collection may begin on this line.
            has_list_at_parent: whether a list may have the indentation of `parent`.
            is_fresh: whether the position is at the beginning of a line.
        """
        properties: _Properties | None = None
        line, has_tab = self._line, False
        if not is_fresh:
            spaces = self._skip_spaces()
            has_collections = has_collections and "\t" not in spaces
        while True:
            if is_fresh or self._is_at_line_end:
                if not self._find_indented(parent, has_list_at_parent=has_list_at_parent):
                    return self._add(ScalarNode(line, ""), properties)
                has_collections, is_fresh = True, False
                has_tab = "\t" in self._text[self._position - self._column : self._position]
            start, column = self._position, self._column
            if self._is_indicator("-?:"):
                self._check_collection(has_collections=has_collections, has_tab=has_tab)
                if self._peek() == "-":
                    return self._parse_block_list(column, properties)
                return self._parse_block_mapping(column, properties)
            own = self._parse_properties() if self._peek() in "&!" else None
            if own is not None:
                if self._is_at_line_end:
                    # properties on a line of their own are those of the node below
                    properties = self._merge(properties, own)
                    continue
                if self._is_indicator("-?"):
                    self._raise_error("not YAML: a list or ? after & or !; begin a new line")
            if self._peek() in ("|", ">"):
                return self._add(self._parse_block_scalar(parent), self._merge(properties, own))
            if own is not None and self._is_indicator(":"):
                key: Node = ScalarNode(own.line, "")
            else:
                key = self._parse_inline(parent)
            end = self._position
            self._skip_spaces()
            if not self._is_indicator(":"):
                self._position = end
                self._end_line()
                return self._add(key, self._merge(properties, own))
            if "\n" in self._text[start : self._position]:
                self._raise_error(
                    "not YAML: a key of several lines; align it with the keys before, or put the "
                    "text in quotes"
                )
            self._check_collection(has_collections=has_collections, has_tab=has_tab)
            return self._parse_block_mapping(column, properties, self._add(key, own))

    def _check_collection(self, *, has_collections: bool, has_tab: bool) -> None:
        """Check that a block collection may begin at the position."""
        if has_tab:
            self._raise_tab_error()
        if not has_collections:
            if self._peek() == ":":
                self._raise_error("not YAML: a colon and a space in a text; put the text in quotes")
            self._raise_error(
                f"not YAML: {self._peek()} and a space after a key; begin a new line, or put the "
                "text in quotes"
            )

    def _find_indented(self, parent: int, *, has_list_at_parent: bool) -> bool:
        """Move to the content of a node on a further line; return False if it is empty."""
        self._skip_lines()
        if self._is_at_end or self._is_at_marker:
            return False
        indent = self._indent
        if indent > parent:
            return True
        if self._column > indent:
            self._raise_tab_error()
        return has_list_at_parent and indent == parent and self._is_indicator("-")

    def _parse_block_list(self, column: int, properties: _Properties | None) -> Node:
        node = SequenceNode(self._line)
        self._enter()
        is_entry = True
        while is_entry:
            self._position += 1
            node.items.append(self._parse_block_node(column))
            self._skip_lines()
            is_entry = self._is_entry(column) and self._is_indicator("-")
        return self._close(node, properties, column)

    def _parse_block_mapping(
        self, column: int, properties: _Properties | None, key: Node | None = None
    ) -> Node:
        """Parse a mapping, at its first entry, or at the colon after its first key."""
        node = MappingNode(self._line if key is None else key.line)
        self._enter()
        is_entry = True
        while is_entry:
            is_explicit = key is None and self._is_indicator("?")
            if is_explicit:
                self._position += 1
                key = self._parse_block_node(column, has_list_at_parent=True)
                self._skip_lines()
            elif key is None:
                key = self._parse_block_key()
            assert key is not None
            value: Node = ScalarNode(key.line, "")
            # the value of an explicit key is on a line of its own, or is left out
            if not is_explicit or (self._is_entry(column) and self._is_indicator(":")):
                self._position += 1
                value = self._parse_block_node(
                    column, has_collections=is_explicit, has_list_at_parent=True
                )
                self._skip_lines()
            node.pairs.append((key, value))
            key, is_entry = None, self._is_entry(column)
        return self._close(node, properties, column)

    def _parse_block_key(self) -> Node:
        """Parse a key on one line, up to its colon."""
        start = self._position
        own = self._parse_properties() if self._peek() in "&!" else None
        if self._is_indicator(":"):
            return self._add(ScalarNode(self._line, ""), own)
        if self._is_indicator("-"):
            self._raise_error("not YAML: - among keys; indent it, or put the text in quotes")
        key = self._parse_inline(-1, is_key=True)
        self._skip_spaces()
        if not self._is_indicator(":") or "\n" in self._text[start : self._position]:
            self._position = start
            self._raise_error(
                "not YAML: expected a key with a colon and a space; indent a text that goes on"
            )
        return self._add(key, own)

    def _is_entry(self, column: int) -> bool:
        """Return whether a further entry of a block collection begins at the position."""
        is_indented = self._column == self._indent == column
        return is_indented and not self._is_at_end and not self._is_at_marker

    def _close(self, node: Node, properties: _Properties | None, column: int) -> Node:
        """Check the line after a block collection, and complete its node."""
        self._depth -= 1
        if not self._is_at_end and self._column > column:
            if self._column > self._indent:
                self._raise_tab_error()
            before = self._closed.get(self._position, column)
            self._raise_error(
                f"not YAML: indented by {self._column} spaces, the lines before by {before}; "
                "align it, or use quotes"
            )
        self._closed.setdefault(self._position, column)
        return self._add(node, properties)

    def _parse_block_scalar(self, parent: int) -> ScalarNode:
        line, style = self._line, self._peek()
        header = _BLOCK_HEADER.match(self._text, self._position)
        if header is None:
            self._raise_error(
                f"not YAML: a text after {style}; begin it on the next line, or use quotes"
            )
        digit, chomping = header[1] or header[4], header[2] or header[3] or ""
        self._position = min(header.end() + 1, len(self._text))
        indent = max(parent, 0) + int(digit) if digit else self._find_block_indent(parent)
        lines: list[str] = []
        while not self._is_at_end:
            end = self._find_line_end()
            content = self._text[self._position : end]
            is_blank = not content.strip(" ")
            if not is_blank and (
                len(content) - len(content.lstrip(" ")) < indent
                or self._find_marker(self._position)
            ):
                break
            lines.append(content[indent:])
            self._position = min(end + 1, len(self._text))
        last = len(lines)
        while last and not lines[last - 1]:
            last -= 1
        texts, blank_count = lines[:last], len(lines) - last
        text = "\n".join(texts) if style == "|" else fold_block(texts)
        breaks = {"-": 0, "": min(last, 1), "+": blank_count + min(last, 1)}[chomping]
        # the position is at the beginning of a line, as after the end of the line before
        return ScalarNode(line, text + "\n" * breaks, style)

    def _find_block_indent(self, parent: int) -> int:
        """Find the indentation of a block scalar: that of its first line with a text."""
        position, blank_indent = self._position, 0
        while position < len(self._text):
            length = self._count_spaces(position)
            end = position + length
            if self._text[end : end + 1] not in ("\n", ""):
                if length <= parent:
                    if self._text[end] == "\t":
                        self._raise_tab_error(position)
                    break
                if blank_indent > length:
                    self._raise_error(
                        "not YAML: the blank lines before have more spaces; remove them", position
                    )
                return length
            blank_indent = max(blank_indent, length)
            position = end + 1
        return max(blank_indent, parent + 1)

    # Flow style

    def _parse_inline(self, parent: int, *, is_flow: bool = False, is_key: bool = False) -> Node:
        """Parse an alias, a text or a bracket.

        Args:
            parent: as in `_parse_block_node`.
            is_flow: whether it is between brackets.
            is_key: whether it is a key of a block mapping, on one line.
        """
        character = self._peek()
        if character == "*":
            return self._parse_alias()
        if character in ("'", '"'):
            return self._parse_quoted(character)
        if character in ("[", "{"):
            return self._parse_flow_collection()
        return self._parse_plain(parent, is_flow=is_flow, is_key=is_key)

    def _parse_flow_collection(self) -> Node:
        start, bracket = self._position, self._peek()
        closing = "]" if bracket == "[" else "}"
        node: SequenceNode | MappingNode
        node = SequenceNode(self._line) if bracket == "[" else MappingNode(self._line)
        self._enter()
        self._position += 1
        while True:
            self._skip_flow_space(start, closing)
            if self._peek() == closing:
                break
            if self._peek() == ",":
                self._raise_flow_error("an entry", start)
            pair, entry = self._parse_flow_entry(start, closing, is_list=bracket == "[")
            if isinstance(node, SequenceNode):
                node.items.append(entry if pair is None else MappingNode(entry.line, [pair]))
            else:
                node.pairs.append(pair or (entry, ScalarNode(entry.line, "")))
            self._skip_flow_space(start, closing)
            if self._peek() == ",":
                self._position += 1
            elif self._peek() != closing:
                self._raise_flow_error(f", or {closing}", start)
        self._position += 1
        self._depth -= 1
        return node

    def _parse_flow_entry(
        self, start: int, closing: str, *, is_list: bool
    ) -> tuple[tuple[Node, Node] | None, Node]:
        """Parse an entry between brackets; return its pair, or None for a single node."""
        begun, line = self._position, self._line
        is_explicit = self._is_flow_indicator("?")
        if is_explicit:
            self._position += 1
            self._skip_flow_space(start, closing)
        key = self._parse_flow_node(start, closing)
        is_json = self._text[self._position - 1] in "\"']}" and not (
            isinstance(key, ScalarNode) and not key.style
        )
        end = self._position
        self._skip_flow_space(start, closing)
        is_pair = self._is_flow_indicator(":") or (self._peek() == ":" and is_json)
        if not is_pair:
            self._position = end
            return ((key, ScalarNode(line, "")) if is_explicit else None), key
        # a key of a pair in a list is on one line
        if is_list and not is_explicit and "\n" in self._text[begun : self._position]:
            self._raise_flow_error(f", or {closing}", start)
        self._position += 1
        self._skip_flow_space(start, closing)
        return (key, self._parse_flow_node(start, closing)), key

    def _parse_flow_node(self, start: int, closing: str) -> Node:
        """Parse a node between brackets, which may be empty."""
        own = None
        if self._peek() in "&!":
            own = self._parse_properties(is_flow=True)
            self._skip_flow_space(start, closing)
        if self._peek() in (",", "]", "}") or self._is_flow_indicator(":"):
            return self._add(ScalarNode(self._line, ""), own)
        return self._add(self._parse_inline(-1, is_flow=True), own)

    def _skip_flow_space(self, start: int, closing: str) -> None:
        """Skip spaces, lines and comments between brackets."""
        while True:
            self._skip_spaces()
            if self._peek() == "#":
                self._position = self._find_line_end()
            if self._peek() != "\n":
                break
            self._position += 1
        if self._is_at_end or self._is_at_marker:
            self._raise_flow_error(f", or {closing}", start)

    def _raise_flow_error(self, expected: str, start: int) -> NoReturn:
        line = bisect_right(self._line_starts, start)
        self._raise_error(
            f"not YAML: expected {expected} after the {self._text[start]} of line {line}; "
            "add it, or use quotes"
        )

    def _parse_alias(self) -> Node:
        match = _NAME.match(self._text, self._position + 1)
        name = "" if match is None else match[0]
        node = self._anchors.get(name)
        if node is None:
            self._raise_error(f"*{name} is an unknown alias; define it, or put the text in quotes")
        if isinstance(node, int):
            raise YamlError(node, "this value contains itself; remove the alias")
        self._position += 1 + len(name)
        return node

    def _parse_quoted(self, quote: str) -> Node:
        start, line = self._position, self._line
        part_pattern = _SINGLE_PART if quote == "'" else _DOUBLE_PART
        self._position += 1
        parts: list[str] = []
        while True:
            match = part_pattern.match(self._text, self._position)
            assert match is not None
            parts.append(match[0])
            self._position = match.end()
            rest = self._text[self._position : self._position + 2]
            if rest[:1] == quote:
                self._position += 1
                break
            # a backslash joins two lines
            if rest == "\\\n":
                parts[-1] += "\\\n"
                self._position += 1
            if self._is_at_end or self._find_marker(self._position + 1):
                self._raise_error(f"not YAML: the text has no closing {quote}; add it", start)
            self._position += 1
        text = fold_quoted(parts)
        if quote == "'":
            return ScalarNode(line, text.replace("''", "'"), quote)
        return ScalarNode(
            line, _ESCAPE.sub(lambda found: self._unescape(found, start), text), quote
        )

    def _unescape(self, match: re.Match[str], start: int) -> str:
        digits = match[1] or match[2] or match[3]
        is_known = match[4] in _ESCAPES if digits is None else int(digits, 16) <= sys.maxunicode
        if not is_known:
            self._raise_error(
                f"not YAML: {match[0]} is no escape; write the text in single quotes",
                self._text.find(match[0], start),
            )
        return _ESCAPES[match[4]] if digits is None else chr(int(digits, 16))

    def _parse_plain(self, parent: int, *, is_flow: bool, is_key: bool) -> ScalarNode:
        line, character = self._line, self._peek()
        pattern = _FLOW_LINE if is_flow else _BLOCK_LINE
        following = self._text[self._position + 1 : self._position + 2]
        is_mark = character in "-?:" and following in ("", *" \t\n", *(",[]{}" if is_flow else ""))
        if character in _INDICATORS or is_mark:
            self._raise_error(f"not YAML: a text begins with {character}; put the text in quotes")
        parts = [self._read_plain_line(pattern)]
        while not is_key:
            end, breaks = self._position, 0
            self._skip_spaces()
            while self._peek() == "\n":
                breaks += 1
                self._position += 1
                self._skip_spaces()
            is_over = breaks == 0 or self._is_at_end or self._peek() == "#" or self._is_at_marker
            if is_over or (not is_flow and self._indent <= parent):
                self._position = end
                break
            part = self._read_plain_line(pattern)
            if not part:
                self._position = end
                break
            parts.append(" " if breaks == 1 else "\n" * (breaks - 1))
            parts.append(part)
        return ScalarNode(line, "".join(parts))

    def _read_plain_line(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._position)
        assert match is not None
        self._position = match.end()
        return match[0]

    # Properties of nodes

    def _parse_properties(self, *, is_flow: bool = False) -> _Properties:
        """Parse tag and anchor, and the spaces after them."""
        found = _Properties(self._line)
        while self._peek() in ("&", "!"):
            one = self._parse_anchor() if self._peek() == "&" else self._parse_tag()
            ends = " \t\n" + (",[]{}" if is_flow else "")
            if not self._is_at_end and self._peek() not in ends:
                self._raise_error(
                    f"not YAML: {self._peek()} in a tag or anchor; put the text in quotes"
                )
            found = self._merge(found, one) or found
            self._skip_spaces()
        return found

    def _parse_anchor(self) -> _Properties:
        match = _NAME.match(self._text, self._position + 1)
        if match is None:
            self._raise_error("not YAML: & without a name; put the text in quotes")
        self._position = match.end()
        self._anchors[match[0]] = self._line
        return _Properties(self._line, anchor=match[0])

    def _parse_tag(self) -> _Properties:
        match = _TAG.match(self._text, self._position)
        if match is None:
            self._raise_error("not YAML: ! without a tag; put the text in quotes")
        if match["verbatim"] is not None:
            tag = match["verbatim"]
        else:
            handle, suffix = match["handle"], match["suffix"]
            if handle not in self._tags:
                self._raise_error(
                    f"the tag {match[0]} is not supported; remove it, or put the text in quotes"
                )
            if handle != "!" and not suffix:
                self._raise_error(f"not YAML: {handle} without a tag; put the text in quotes")
            tag = self._tags[handle] + unquote(suffix)
        self._position = match.end()
        return _Properties(self._line, tag=tag)

    def _merge(self, outer: _Properties | None, own: _Properties | None) -> _Properties | None:
        """Return the tag and the anchor of both."""
        if outer is None or own is None:
            return outer or own
        if (outer.tag and own.tag) or (outer.anchor and own.anchor):
            self._raise_error("not YAML: two tags or two anchors of one value; remove one")
        return _Properties(outer.line, outer.tag or own.tag, outer.anchor or own.anchor)

    def _add(self, node: Node, properties: _Properties | None) -> Node:
        """Give a complete node its tag and anchor."""
        if properties is None:
            return node
        # only the node of an alias has them already
        if node.tag or node.anchor:
            self._raise_error("not YAML: a tag or an anchor of an alias; remove it")
        node.line, node.tag, node.anchor = properties.line, properties.tag, properties.anchor
        if properties.anchor:
            self._anchors[properties.anchor] = node
        return node

    # Errors

    def _end_line(self) -> None:
        """Check that only a comment follows on the line."""
        previous = self._text[self._position - 1 : self._position]
        spaces = self._skip_spaces()
        if self._peek() == "#" and (spaces or previous in ("]", "}", "'", '"')):
            self._position = self._find_line_end()
        if not self._is_at_end and self._peek() != "\n":
            if self._peek() == ":":
                self._raise_error("not YAML: a colon without a space after it; write a space")
            inner = {"'": " and write '' for ' in it", '"': ' and write \\" for " in it'}
            self._raise_error(
                f"not YAML: a text after {previous}; put the whole text in quotes"
                f"{inner.get(previous, '')}"
            )

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > self._max_depth:
            self._raise_error(f"more than {self._max_depth} nested levels; flatten them")

    def _raise_end_error(self) -> NoReturn:
        self._raise_error("not YAML: a text after the end of a value; indent it, or use quotes")

    def _raise_tab_error(self, position: int | None = None) -> NoReturn:
        self._raise_error("not YAML: a tab indents the line; indent it with spaces", position)
