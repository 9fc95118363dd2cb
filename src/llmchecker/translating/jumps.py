"""Jumps in the shapes that structured programs compile to: out of a block, or back to a loop.

A label in a block and the jumps to it make an interval of the block's items. Jumps from before the
label leave a block that ends where the label stands; jumps from behind it repeat a loop that begins
there. Intervals are widened until one holds the other or they are apart. A jump into a loop or a
block has no such shape; `gotos` rewrites it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pycparser import c_ast

from llmchecker.programs.expressions import Constant, Expression, Unary, negation
from llmchecker.programs.statements import (
    Assert,
    Assign,
    Assume,
    Block,
    Branch,
    Labelled,
    Leave,
    Statement,
    Stop,
    statements,
)
from llmchecker.translating.syntax import nodes_in


@dataclass(frozen=True)
class Interval:
    """Items of a block that a label and the jumps to it hold together.

    Attributes:
        start: the first item.
        end: the item behind the last one.
        label: the label's name.
        back: whether the jumps go back to the first item, not forward behind the last.
    """

    start: int
    end: int
    label: str
    back: bool


@dataclass(frozen=True)
class Items:
    """The items of a block, without their labels.

    Attributes:
        nodes: the items.
        intervals: the intervals of the labels that jumps use; of two, one holds the other or they
            are apart. An interval comes before those that it holds.
    """

    nodes: tuple[c_ast.Node, ...]
    intervals: tuple[Interval, ...]


class Irreducible(Exception):
    """Jumps have no shape that loops and blocks have."""

    def __init__(self, node: c_ast.Node, what: str) -> None:
        super().__init__(what)
        self.node, self.what = node, what


def shaped(items: Sequence[c_ast.Node]) -> Items:
    """Find the shape of the jumps to the labels of a block.

    Raises:
        Irreducible: there is none.
    """
    nodes: list[c_ast.Node] = []
    labels: dict[str, int] = {}
    for item in items:
        while isinstance(item, c_ast.Label):
            labels[item.name] = len(nodes)
            item = item.stmt
        nodes.append(item)
    jumps = [
        (jump.name, place)
        for place, node in enumerate(nodes)
        for jump in nodes_in(node, (c_ast.Goto,))
        if jump.name in labels
    ]
    intervals = []
    for label, at in labels.items():
        before = [place for name, place in jumps if name == label and place < at]
        behind = [place for name, place in jumps if name == label and place >= at]
        if before:
            skipped = nodes[min(before) + 1 : at]
            declared = [node for node in skipped if isinstance(node, c_ast.Decl | c_ast.DeclList)]
            if declared:
                raise Irreducible(declared[0], "a goto over a declaration")
            intervals.append(Interval(min(before), at, label, back=False))
        if behind:
            intervals.append(Interval(at, max(behind) + 1, label, back=True))
    return Items(tuple(nodes), _nested(intervals, nodes))


def _nested(intervals: list[Interval], nodes: Sequence[c_ast.Node]) -> tuple[Interval, ...]:
    """The same intervals, widened until each two of them are nested or apart."""
    changed = True
    while changed:
        changed = False
        for one in range(len(intervals)):
            for other in range(len(intervals)):
                a, b = intervals[one], intervals[other]
                if not a.start < b.start < a.end < b.end:
                    continue
                changed = True
                if not b.back:
                    intervals[other] = replace(b, start=a.start)
                elif a.back:
                    intervals[one] = replace(a, end=b.end)
                else:
                    raise Irreducible(nodes[b.start], "a goto into a loop of gotos")
    # Of two equal intervals, the one that jumps leave forward must hold the loop.
    return tuple(sorted(intervals, key=lambda i: (i.start, -i.end, i.back)))


def stamped(block: Block, line: int) -> Block:
    """The block with a line for its own statements that have none."""
    lined = (Assign, Assume, Branch)
    return tuple(
        replace(s, line=line) if isinstance(s, lined) and s.line == 0 else s for s in block
    )


def decided(condition: Expression, then: Block, otherwise: Block) -> Statement:
    """A branch; one that only fails or stops is the assertion or assumption that it amounts to."""
    match then, otherwise:
        case (Assert(condition=Constant(value=0), line=line), Stop(), *_), ():
            return Assert(_denied(condition), line)
        case (), (Assert(condition=Constant(value=0), line=line), Stop(), *_):
            return Assert(condition, line)
        case (Stop(), *_), ():
            return Assume(_denied(condition))
        case (), (Stop(), *_):
            return Assume(condition)
    return Branch(condition, then, otherwise)


def labelled(label: str, block: Block) -> Block:
    """A block that may be left by its label; the block alone where it is only left at its end."""
    block = _to_the_end(label, block)
    left = any(s == Leave(label) for s in statements(block))
    return (Labelled(label, block),) if left else block


def _to_the_end(label: str, block: Block) -> Block:
    """The block without the jumps to its end that stand at its end."""
    if not block:
        return block
    *first, last = block
    match last:
        case Leave(label=name) if name == label:
            return _to_the_end(label, tuple(first))
        case Branch(condition=condition, then=then, otherwise=otherwise):
            ends = _to_the_end(label, then), _to_the_end(label, otherwise)
            return (*first, Branch(condition, *ends))
        case Labelled(label=name, body=body):
            return (*first, Labelled(name, _to_the_end(label, body)))
    return block


def _denied(condition: Expression) -> Expression:
    """A condition that is true exactly where the given one is 0."""
    return condition.operand if _is_not(condition) else negation(condition)


def _is_not(condition: Expression) -> bool:
    return isinstance(condition, Unary) and condition.operator == "!"
