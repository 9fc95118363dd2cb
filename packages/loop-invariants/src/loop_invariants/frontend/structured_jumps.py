"""Structured jumps: out of a block, or back to the beginning of a loop.

A label of a block and the jumps to it form an interval of the block's items. Jumps from before the
label leave a block that ends at the label. Jumps from after the label repeat a loop that begins
there. Intervals are widened until each two are nested or disjoint. A jump into a loop or a block
has no such shape and is refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pycparser import c_ast

from loop_invariants.frontend.syntax_tree import iter_nodes
from loop_invariants.ir.expressions import Constant, Expression, Unary, negate
from loop_invariants.ir.statements import (
    Assert,
    Assign,
    Assume,
    Block,
    Branch,
    BreakTo,
    LabelledBlock,
    Statement,
    Stop,
    iter_statements,
)


@dataclass(frozen=True)
class Interval:
    """Items of a block between a label and the jumps to it.

    Attributes:
        start: index of the first item.
        end: index after the last item.
        label: name of the label.
        is_backward: whether the jumps go back to the first item, not forward past the last.
    """

    start: int
    end: int
    label: str
    is_backward: bool


@dataclass(frozen=True)
class _BlockShape:
    """The items of a block, without their labels.

    Attributes:
        nodes: items of the block.
        intervals: intervals of all labels with jumps; each two are nested or disjoint. An interval
            precedes the intervals inside it.
    """

    nodes: tuple[c_ast.Node, ...]
    intervals: tuple[Interval, ...]


class Irreducible(Exception):
    """Jumps that loops and blocks cannot express."""

    def __init__(self, node: c_ast.Node, construct: str) -> None:
        super().__init__(construct)
        self.node, self.construct = node, construct


def find_shape(items: Sequence[c_ast.Node]) -> _BlockShape:
    """Find the intervals of the jumps to the labels of a block.

    Raises:
        Irreducible: loops and blocks cannot express the jumps.
    """
    nodes: list[c_ast.Node] = []
    labels: dict[str, int] = {}
    for item in items:
        # A statement may have several labels.
        while isinstance(item, c_ast.Label):
            labels[item.name] = len(nodes)
            item = item.stmt
        nodes.append(item)
    jumps = [
        (jump.name, index)
        for index, node in enumerate(nodes)
        for jump in iter_nodes(node, (c_ast.Goto,))
        if jump.name in labels
    ]
    intervals = []
    for label, label_index in labels.items():
        forward_jumps = [index for name, index in jumps if name == label and index < label_index]
        backward_jumps = [index for name, index in jumps if name == label and index >= label_index]
        if forward_jumps:
            # The jump would skip the initialization of a variable.
            skipped_nodes = nodes[min(forward_jumps) + 1 : label_index]
            declarations = [
                node for node in skipped_nodes if isinstance(node, c_ast.Decl | c_ast.DeclList)
            ]
            if declarations:
                raise Irreducible(declarations[0], "a goto over a declaration")
            intervals.append(Interval(min(forward_jumps), label_index, label, is_backward=False))
        if backward_jumps:
            intervals.append(
                Interval(label_index, max(backward_jumps) + 1, label, is_backward=True)
            )
    return _BlockShape(tuple(nodes), _nest_intervals(intervals, nodes))


def _nest_intervals(intervals: list[Interval], nodes: Sequence[c_ast.Node]) -> tuple[Interval, ...]:
    """Widen intervals until each two are nested or disjoint."""
    has_changed = True
    while has_changed:
        has_changed = False
        for first in range(len(intervals)):
            for second in range(len(intervals)):
                a, b = intervals[first], intervals[second]
                if not a.start < b.start < a.end < b.end:
                    continue
                has_changed = True
                # A forward block may begin earlier without an effect.
                if not b.is_backward:
                    intervals[second] = replace(b, start=a.start)
                # A loop may end later: its extra items leave it at the end of its body.
                elif a.is_backward:
                    intervals[first] = replace(a, end=b.end)
                # A jump enters the loop in its middle.
                else:
                    raise Irreducible(nodes[b.start], "a goto into a loop of gotos")
    # Of two equal intervals, the forward block must contain the loop.
    return tuple(sorted(intervals, key=lambda i: (i.start, -i.end, i.is_backward)))


def set_lines(block: Block, line: int) -> Block:
    """Set the line of the block's direct statements that have none."""
    statement_types = (Assign, Assume, Branch)
    return tuple(
        replace(s, line=line) if isinstance(s, statement_types) and s.line == 0 else s
        for s in block
    )


def build_branch(condition: Expression, then: Block, otherwise: Block) -> Statement:
    """Build a branch, or the assertion or assumption that it is equivalent to."""
    match then, otherwise:
        case (Assert(condition=Constant(value=0), line=line), Stop(), *_), ():
            return Assert(_negate_condition(condition), line)
        case (), (Assert(condition=Constant(value=0), line=line), Stop(), *_):
            return Assert(condition, line)
        case (Stop(), *_), ():
            return Assume(_negate_condition(condition))
        case (), (Stop(), *_):
            return Assume(condition)
    return Branch(condition, then, otherwise)


def build_labelled_block(label: str, block: Block) -> Block:
    """Build a labelled block; return the block alone if no jump uses the label."""
    block = _drop_trailing_jumps(label, block)
    is_target = any(s == BreakTo(label) for s in iter_statements(block))
    return (LabelledBlock(label, block),) if is_target else block


def _drop_trailing_jumps(label: str, block: Block) -> Block:
    """Remove the jumps to a block's end that are at its end."""
    if not block:
        return block
    *statements, last_statement = block
    match last_statement:
        case BreakTo(label=name) if name == label:
            return _drop_trailing_jumps(label, tuple(statements))
        case Branch(condition=condition, then=then, otherwise=otherwise):
            branches = _drop_trailing_jumps(label, then), _drop_trailing_jumps(label, otherwise)
            return (*statements, Branch(condition, *branches))
        case LabelledBlock(label=name, body=body):
            return (*statements, LabelledBlock(name, _drop_trailing_jumps(label, body)))
    return block


def _negate_condition(condition: Expression) -> Expression:
    """Negate a condition, which may be any integer."""
    # Only the truth matters here, so `!x` is undone even for an integer x.
    match condition:
        case Unary(operator="!", operand=operand):
            return operand
    return negate(condition)
