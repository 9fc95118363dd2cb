"""Jumps without a shape of loops and blocks, rewritten so that they have one.

A jump to a label of the same block that begins a loop in its middle becomes a jump to the head of
one loop around the block, where a variable tells which label to go on from. A jump into a
statement becomes a jump to just before it, and a variable that leads into it (Erosa and Hendren
1994). The syntax tree that is given stays as it is.
"""

import copy
from collections.abc import Callable, Sequence

from pycparser import c_ast

from llmchecker.translating.syntax import LOOPS, nodes_in

_ENTERED = (c_ast.Compound, c_ast.If, c_ast.Label, *LOOPS)
"""Statements that a jump can be led into."""


def labels_of(items: Sequence[c_ast.Node]) -> list[str]:
    """The labels that stand in a block itself, not in its statements."""
    found = []
    for item in items:
        while isinstance(item, c_ast.Label):
            found.append(item.name)
            item = item.stmt
    return found


class JumpRewriter:
    """Rewrites the jumps of one file.

    Args:
        fresh: makes a name that nothing in the file has, from one that is wished for.
    """

    def __init__(self, fresh: Callable[[str], str]) -> None:
        self._fresh = fresh
        self._names = 0
        self._done: dict[int, list[c_ast.Node]] = {}
        self._originals: list[c_ast.Node] = []  # kept, so that no other node gets their identity

    def _name(self, wished: str) -> str:
        self._names += 1
        return self._fresh(f"{wished}_{self._names}")

    def entered(self, items: Sequence[c_ast.Node]) -> list[c_ast.Node]:
        """The items of a block, in which no jump of the block leads into one of its statements.

        Items are rewritten once: a function's body is read again for each call.
        """
        targets = self._inner_targets(items)
        if not targets:
            return list(items)
        key = id(items[0])
        if key not in self._done:
            block = copy.deepcopy(list(items))
            kept = [node for node in nodes_in(c_ast.Compound(block), (c_ast.Decl,)) if node.storage]
            if kept:
                return list(items)  # a `static` variable is known by its place in the tree
            for name in targets:
                block = self._led_into(block, name)
            self._done[key] = block
            self._originals.append(items[0])
        return self._done[key]

    def dispatched(self, items: Sequence[c_ast.Node]) -> list[c_ast.Node] | None:
        """The items, with all jumps back led through one loop; None if that cannot be written."""
        key = -id(items[0])
        if key in self._done:
            return self._done[key]
        first = next((i for i, item in enumerate(items) if isinstance(item, c_ast.Label)), None)
        nodes = [*items]
        if first is None or any(isinstance(node, c_ast.Decl) for node in nodes[first:]):
            return None
        if any(node.storage for node in nodes_in(c_ast.Compound(nodes[first:]), (c_ast.Decl,))):
            return None
        # What stands before the first label is run once, unless it jumps: then it belongs inside.
        jumps = [i for i in range(first) if any(nodes_in(nodes[i], (c_ast.Goto,)))]
        start = min(jumps, default=first)
        if any(isinstance(node, c_ast.Decl) for node in nodes[start:]):
            return None
        block = copy.deepcopy(nodes[start:])
        places = {name: n for n, item in enumerate(block) for name in labels_of([item])}
        numbers = {name: count for count, name in enumerate(places, 1)}
        place, again = self._name("place"), self._name("again")
        coord = items[first].coord
        for at, item in enumerate(block):
            for jump in list(nodes_in(item, (c_ast.Goto,))):
                if places.get(jump.name, at + 1) <= at:
                    _replace(block, at, jump, _set_and_go(place, numbers[jump.name], again))
        tests = [
            c_ast.If(_equal(place, number), c_ast.Goto(name, coord), None, coord)
            for name, number in numbers.items()
        ]
        head = c_ast.Label(again, c_ast.EmptyStatement(coord), coord)
        self._done[key] = [*nodes[:start], _declared(place, coord), head, *tests, *block]
        self._originals.append(items[0])
        return self._done[key]

    def _inner_targets(self, items: Sequence[c_ast.Node]) -> list[str]:
        """Labels inside a statement of the block to which another of its parts jumps."""
        found = []
        for item in items:
            own = set(labels_of([item]))
            for label in nodes_in(item, (c_ast.Label,)):
                if label.name in own:
                    continue
                outside = [
                    jump
                    for other in items
                    for jump in nodes_in(other, (c_ast.Goto,))
                    if jump.name == label.name and not _sees(item, jump, label)
                ]
                if outside:
                    found.append(label.name)
        return found

    def _led_into(self, block: list[c_ast.Node], name: str) -> list[c_ast.Node]:
        """The block, in which jumps to a label inside a statement go through its beginning."""
        at = next(
            i for i, item in enumerate(block)
            if any(label.name == name for label in nodes_in(item, (c_ast.Label,)))
        )  # fmt: skip
        flag, before = self._name("enter"), self._name("before")
        coord = block[at].coord
        label = next(n for n in nodes_in(block[at], (c_ast.Label,)) if n.name == name)
        jumps = [
            (place, jump)
            for place, item in enumerate(block)
            for jump in nodes_in(item, (c_ast.Goto,))
            if jump.name == name and not (place == at and _sees(item, jump, label))
        ]
        entered = _enter(block[at], label, flag)
        if entered is None:
            return block  # these jumps are refused where they are read
        block[at] = entered
        for place, jump in jumps:
            _replace(block, place, jump, _set_and_go(flag, 1, before))
        label.stmt = c_ast.Compound([_assign(flag, 0), *_listed(label.stmt)], coord)
        block[at] = c_ast.Label(before, block[at], coord)
        return [_declared(flag, coord), *block]


def _replace(block: list[c_ast.Node], at: int, old: c_ast.Node, new: c_ast.Node) -> None:
    """Put a node in the place of another one, in an item of a block."""
    if block[at] is old:
        block[at] = new
        return
    for parent in nodes_in(block[at], (c_ast.Node,)):
        for name, child in parent.children():
            if child is old:
                attribute, bracket, index = name.partition("[")
                if bracket:
                    getattr(parent, attribute)[int(index.rstrip("]"))] = new
                else:
                    setattr(parent, attribute, new)
                return


def _sees(item: c_ast.Node, jump: c_ast.Node, label: c_ast.Label) -> bool:
    """Whether a jump stands in the block of a label, or in a statement of that block.

    If another block inside the item holds both, the jump is led when that block is read.
    """
    blocks = [_block_of(item, label), *nodes_in(item, (c_ast.Compound,))]
    return any(
        block is not None
        and _holds(block, label)
        and any(node is jump for node in nodes_in(block, (c_ast.Goto,)))
        for block in blocks
    )


def _block_of(item: c_ast.Node, label: c_ast.Label) -> c_ast.Node | None:
    """The innermost statement with a block of its own that holds a label."""
    found = None
    for node in nodes_in(item, (c_ast.Compound, c_ast.If, *LOOPS)):
        parts = [part for _, part in node.children()]
        if any(inner is label for part in parts for inner in nodes_in(part, (c_ast.Label,))):
            found = node
    return found


def _enter(node: c_ast.Node, label: c_ast.Label, flag: str) -> c_ast.Node | None:
    """A statement that goes to a label in it if a variable is not 0; None if it cannot be led."""
    if node is label:
        return node
    if not isinstance(node, _ENTERED) or not _holds(node, label):
        return None
    test = c_ast.If(
        c_ast.ID(flag, node.coord), c_ast.Goto(label.name, node.coord), None, node.coord
    )
    match node:
        case c_ast.Label():
            return None if (inner := _enter(node.stmt, label, flag)) is None else _with(node, inner)
        case c_ast.Compound():
            node.block_items = [test, *node.block_items]
            return node
        case c_ast.If() if node.iffalse is not None and _holds(node.iffalse, label):
            node.cond = c_ast.BinaryOp("&&", _not(flag, node), node.cond, node.coord)
            node.iffalse = c_ast.Compound([test, *_listed(node.iffalse)], node.coord)
            return node
        case c_ast.If():
            node.cond = c_ast.BinaryOp("||", c_ast.ID(flag, node.coord), node.cond, node.coord)
            node.iftrue = c_ast.Compound([test, *_listed(node.iftrue)], node.coord)
            return node
        case c_ast.While():
            node.cond = c_ast.BinaryOp("||", c_ast.ID(flag, node.coord), node.cond, node.coord)
            node.stmt = c_ast.Compound([test, *_listed(node.stmt)], node.coord)
            return node
        case c_ast.DoWhile():
            node.stmt = c_ast.Compound([test, *_listed(node.stmt)], node.coord)
            return node
        case c_ast.For() if not isinstance(node.init, c_ast.DeclList):
            first = node.init
            if node.cond is not None:
                node.cond = c_ast.BinaryOp("||", c_ast.ID(flag, node.coord), node.cond, node.coord)
            node.stmt = c_ast.Compound([test, *_listed(node.stmt)], node.coord)
            node.init = None
            if first is None:
                return node
            begin = c_ast.If(_not(flag, node), first, None, node.coord)
            return c_ast.Compound([begin, node], node.coord)
    return None


def _with(node: c_ast.Label, inner: c_ast.Node) -> c_ast.Label:
    node.stmt = inner
    return node


def _holds(node: c_ast.Node, label: c_ast.Label) -> bool:
    return any(inner is label for inner in nodes_in(node, (c_ast.Label,)))


def _listed(node: c_ast.Node) -> list[c_ast.Node]:
    """The statements of a branch or a body."""
    return list(node.block_items or ()) if isinstance(node, c_ast.Compound) else [node]


def _not(flag: str, node: c_ast.Node) -> c_ast.Node:
    return c_ast.UnaryOp("!", c_ast.ID(flag, node.coord), node.coord)


def _equal(name: str, number: int) -> c_ast.Node:
    return c_ast.BinaryOp("==", c_ast.ID(name), c_ast.Constant("int", str(number)))


def _assign(name: str, number: int) -> c_ast.Node:
    return c_ast.Assignment("=", c_ast.ID(name), c_ast.Constant("int", str(number)))


def _set_and_go(name: str, number: int, label: str) -> c_ast.Node:
    return c_ast.Compound([_assign(name, number), c_ast.Goto(label)])


def _declared(name: str, coord: object) -> c_ast.Node:
    type_ = c_ast.TypeDecl(name, [], None, c_ast.IdentifierType(["int"], coord), coord)
    zero = c_ast.Constant("int", "0", coord)
    return c_ast.Decl(name, [], [], [], [], type_, zero, None, coord)
