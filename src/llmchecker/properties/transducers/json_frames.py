"""Open arrays and objects of a JSON text: what a schema requires a reader to remember of them.

    text              frames
    [1, {"a": t       array with 1 item, object whose property "a" is read

Once no continuation can satisfy the schema, a frame is only its bracket.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from llmchecker.properties.transducers.json_schemas import Ids, SchemaGraph, SchemaNode


class ArrayFrame(NamedTuple):
    """Open array whose items matter.

    Attributes:
        asked: the nodes of the schema whose verdict matters.
        size: number of items, up to the largest number that matters.
        failed: nodes that it cannot satisfy any more by their own requirements.
    """

    asked: Ids
    size: int
    failed: frozenset[int]


class ObjectFrame(NamedTuple):
    """Open object whose properties matter.

    Attributes:
        asked: the nodes of the schema whose verdict matters.
        key: the property whose value is read, if it is declared.
        seen: required properties so far.
        failed: nodes that it cannot satisfy any more by their own requirements.
        violations: nodes with properties that violate them. A later property of the same name
            replaces the earlier one.
    """

    asked: Ids
    key: str | None
    seen: frozenset[str]
    failed: frozenset[int]
    violations: frozenset[tuple[int, str]]


Frame = ArrayFrame | ObjectFrame | str
"""Open array or object; its bracket if nothing in it matters."""


class FrameRules:
    """Rules of a schema for open arrays and objects.

    Attributes:
        root: the node of the whole text; none for the schema `true`, of which no verdict matters.

    Args:
        graph: the schema.
        judge: function that returns whether a scalar, given as JSON, satisfies a schema; None if
            no text with this number satisfies any.
    """

    def __init__(self, graph: SchemaGraph, judge: Callable[[Any, str], bool | None]) -> None:
        self._graph = graph
        self._judge = judge
        self.root: Ids = () if graph.nodes[0].schema is True else (0,)
        self._find_all = lru_cache(maxsize=None)(graph.find_all)
        # many tokens close the same value, each in another way
        self.judge_scalar = lru_cache(maxsize=4096)(self._judge_scalar)
        self.add_value = lru_cache(maxsize=4096)(self._add_value)

    def satisfies_root(self, satisfied: frozenset[int]) -> bool:
        """Return whether a whole text satisfies the schema, from the nodes that it satisfies."""
        return satisfied.issuperset(self.root)

    def distinguishes_strings(self, outer: Frame | None) -> bool:
        """Return whether the content of a string in a frame matters."""
        return self._graph.distinguishes_strings(self._find_all(self._find_asked(outer)))

    def open_frame(self, outer: Frame | None, bracket: str) -> Frame:
        """Open an array or object in a frame, or as the whole text."""
        asked = self._find_asked(outer)
        failed = frozenset(
            number
            for number, node in self._find_nodes(asked).items()
            if not (node.accepts_arrays if bracket == "[" else node.accepts_objects)
        )
        if bracket == "[":
            return self._simplify(ArrayFrame(asked, 0, failed))
        return self._simplify(ObjectFrame(asked, None, frozenset(), failed, frozenset()))

    def name_property(self, frame: Frame, name: str | None) -> Frame:
        """Add the name of a property to an object; None for a name that no node contains."""
        if not isinstance(frame, ObjectFrame):
            return frame
        nodes = self._find_nodes(frame.asked)
        failed = frame.failed | {
            number
            for number, node in nodes.items()
            if not node.accepts_others and name not in node.properties
        }
        is_required = any(name in node.required for node in nodes.values())
        is_declared = any(name in node.properties for node in nodes.values())
        return self._simplify(
            ObjectFrame(
                frame.asked,
                name if is_declared else None,
                frame.seen | {name} if name is not None and is_required else frame.seen,
                failed,
                # a later value replaces an earlier one
                frozenset(item for item in frame.violations if item[1] != name),
            )
        )

    def _judge_scalar(self, outer: Frame | None, text: str) -> frozenset[int] | None:
        """Return the nodes that a scalar satisfies; None if no text with it satisfies the root."""
        asked = self._find_asked(outer)
        # a number that is too long fails whatever asks
        verdicts = {number: self._judge(self._graph.nodes[number].schema, text) for number in asked}
        is_too_long = not asked and bool(self.root) and self._judge(True, text) is None
        if None in verdicts.values() or is_too_long:
            return None
        return frozenset(number for number, verdict in verdicts.items() if verdict)

    def _add_value(self, frame: Frame, satisfied: frozenset[int]) -> Frame:
        """Add a value that satisfies some nodes to a frame."""
        if isinstance(frame, str):
            return frame
        children = self._find_children(frame)
        failing = {number for number, child in children.items() if child not in satisfied}
        if isinstance(frame, ObjectFrame):
            violations = frame.violations | {(number, frame.key or "") for number in failing}
            return frame._replace(key=None, violations=violations)
        nodes = self._find_nodes(frame.asked)
        size = min(frame.size + 1, max(map(_find_size_limit, nodes.values())))
        too_many = {
            number
            for number, node in nodes.items()
            if node.max_items is not None and size > node.max_items
        }
        return self._simplify(ArrayFrame(frame.asked, size, frame.failed | failing | too_many))

    def close_frame(self, frame: Frame) -> frozenset[int]:
        """Return the nodes that a closed array or object satisfies."""
        if isinstance(frame, str):
            return frozenset()
        nodes = self._find_nodes(frame.asked)
        if isinstance(frame, ArrayFrame):
            lacking = {number for number, node in nodes.items() if frame.size < node.min_items}
        else:
            lacking = {number for number, node in nodes.items() if not node.required <= frame.seen}
            lacking |= {number for number, _ in frame.violations}
        return self._graph.find_satisfied(tuple(nodes), frame.failed | lacking)

    def _find_nodes(self, asked: Ids) -> dict[int, SchemaNode]:
        """Return all nodes that apply to a value, by number."""
        return {number: self._graph.nodes[number] for number in self._find_all(asked)}

    def _simplify(self, frame: ArrayFrame | ObjectFrame) -> Frame:
        """Return the frame, or its bracket if it satisfies none of its nodes for certain."""
        if any(self._graph.is_possible(number, frame.failed) for number in frame.asked):
            return frame
        return "[" if isinstance(frame, ArrayFrame) else "{"

    def _find_asked(self, outer: Frame | None) -> Ids:
        """Return the nodes whose verdict on the next value in a frame matters."""
        if outer is None:
            return self.root
        return tuple(sorted(set(self._find_children(outer).values())))

    def _find_children(self, frame: Frame) -> dict[int, int]:
        """Return the node of the next value for each node of a frame that has one."""
        children: dict[int, int] = {}
        if isinstance(frame, str):
            return children
        for number, node in self._find_nodes(frame.asked).items():
            if number in frame.failed:
                continue
            if isinstance(frame, ObjectFrame):
                child = node.properties.get(frame.key) if frame.key is not None else None
            elif frame.size < len(node.first_items):
                child = node.first_items[frame.size]
            else:
                child = node.items
            if child is not None:
                children[number] = child
        return children


def is_array(frame: Frame) -> bool:
    """Return whether a frame is an open array."""
    return isinstance(frame, ArrayFrame) or frame == "["


def _find_size_limit(node: SchemaNode) -> int:
    """Return the largest number of items that matters to a node."""
    limits = (len(node.first_items), node.min_items, (node.max_items or 0) + 1)
    return int(max(limits))
