"""Goto elimination: unstructured jumps become loops, blocks and branches.

A jump to a label of the same block may enter a loop in its middle. It becomes a jump to the head of
one loop around the block, and a variable selects the label to continue from. A jump into a
statement becomes a jump to its beginning, and a variable selects the way into it (Erosa and Hendren
1994). The given syntax tree is not changed.
"""

import copy
from collections.abc import Callable, Sequence

from pycparser import c_ast

from loop_invariants.frontend.syntax_tree import LOOP_NODES, iter_nodes

_ENTERABLE_NODES = (c_ast.Compound, c_ast.If, c_ast.Label, *LOOP_NODES)
"""Statements that a jump can enter through their beginning."""


def _find_labels(items: Sequence[c_ast.Node]) -> list[str]:
    """Return the labels of a block itself, not of nested statements."""
    labels = []
    for item in items:
        while isinstance(item, c_ast.Label):
            labels.append(item.name)
            item = item.stmt
    return labels


class JumpRewriter:
    """A rewriter for the jumps of one file.

    Args:
        build_fresh_name: builds an unused name similar to the given one.
    """

    def __init__(self, build_fresh_name: Callable[[str], str]) -> None:
        self._build_fresh_name = build_fresh_name
        self._name_count = 0
        self._rewritten_blocks: dict[int, list[c_ast.Node]] = {}
        self._originals: list[c_ast.Node] = []  # kept alive, so that no other node gets the same id

    def _create_name(self, stem: str) -> str:
        self._name_count += 1
        return self._build_fresh_name(f"{stem}_{self._name_count}")

    def eliminate_inward_jumps(self, items: Sequence[c_ast.Node]) -> list[c_ast.Node]:
        """Rewrite the jumps of a block that enter one of its statements.

        Items are rewritten once: a function's body is read again for each call.
        """
        targets = self._find_inner_targets(items)
        if not targets:
            return list(items)
        key = id(items[0])
        if key not in self._rewritten_blocks:
            # The given tree must not change.
            block = copy.deepcopy(list(items))
            static_declarations = [
                node for node in iter_nodes(c_ast.Compound(block), (c_ast.Decl,)) if node.storage
            ]
            if static_declarations:
                return list(items)  # a `static` variable is identified by its node in the tree
            for name in targets:
                block = self._eliminate_jumps_to(block, name)
            self._rewritten_blocks[key] = block
            self._originals.append(items[0])
        return self._rewritten_blocks[key]

    def merge_backward_jumps(self, items: Sequence[c_ast.Node]) -> list[c_ast.Node] | None:
        """Route all backward jumps through one loop; return None if impossible."""
        # The negative key separates this result from that of the other rewriting.
        key = -id(items[0])
        if key in self._rewritten_blocks:
            return self._rewritten_blocks[key]
        first = next((i for i, item in enumerate(items) if isinstance(item, c_ast.Label)), None)
        nodes = [*items]
        # The jumps from the head of the loop would skip the declaration.
        if first is None or any(isinstance(node, c_ast.Decl) for node in nodes[first:]):
            return None
        if any(node.storage for node in iter_nodes(c_ast.Compound(nodes[first:]), (c_ast.Decl,))):
            return None
        # Items before the first label run once, but items with jumps belong to the loop.
        jumps = [i for i in range(first) if any(iter_nodes(nodes[i], (c_ast.Goto,)))]
        start = min(jumps, default=first)
        if any(isinstance(node, c_ast.Decl) for node in nodes[start:]):
            return None
        block = copy.deepcopy(nodes[start:])
        label_positions = {name: n for n, item in enumerate(block) for name in _find_labels([item])}
        numbers = {name: count for count, name in enumerate(label_positions, 1)}
        target_variable, restart_label = self._create_name("place"), self._create_name("again")
        coord = items[first].coord
        for index, item in enumerate(block):
            for jump in list(iter_nodes(item, (c_ast.Goto,))):
                # Only a jump to its own item or an earlier one goes back.
                if label_positions.get(jump.name, index + 1) <= index:
                    _replace(
                        block,
                        index,
                        jump,
                        _build_jump(target_variable, numbers[jump.name], restart_label),
                    )
        tests = [
            c_ast.If(_build_equal(target_variable, number), c_ast.Goto(name, coord), None, coord)
            for name, number in numbers.items()
        ]
        restart_statement = c_ast.Label(restart_label, c_ast.EmptyStatement(coord), coord)
        self._rewritten_blocks[key] = [
            *nodes[:start],
            _build_flag_declaration(target_variable, coord),
            restart_statement,
            *tests,
            *block,
        ]
        self._originals.append(items[0])
        return self._rewritten_blocks[key]

    def _find_inner_targets(self, items: Sequence[c_ast.Node]) -> list[str]:
        """Return labels inside a statement that another part of the block jumps to."""
        targets = []
        for item in items:
            item_labels = set(_find_labels([item]))
            for label in iter_nodes(item, (c_ast.Label,)):
                if label.name in item_labels:
                    continue
                outside_jumps = [
                    jump
                    for statement in items
                    for jump in iter_nodes(statement, (c_ast.Goto,))
                    if jump.name == label.name and not _is_jump_inside(item, jump, label)
                ]
                if outside_jumps:
                    targets.append(label.name)
        return targets

    def _eliminate_jumps_to(self, block: list[c_ast.Node], name: str) -> list[c_ast.Node]:
        """Route the jumps into a statement through the statement's beginning."""
        label_index = next(
            i for i, item in enumerate(block)
            if any(label.name == name for label in iter_nodes(item, (c_ast.Label,)))
        )  # fmt: skip
        flag, entry_label = self._create_name("enter"), self._create_name("before")
        coord = block[label_index].coord
        label = next(n for n in iter_nodes(block[label_index], (c_ast.Label,)) if n.name == name)
        jumps = [
            (index, jump)
            for index, item in enumerate(block)
            for jump in iter_nodes(item, (c_ast.Goto,))
            if jump.name == name
            and not (index == label_index and _is_jump_inside(item, jump, label))
        ]
        entry_statement = _add_entry(block[label_index], label, flag)
        if entry_statement is None:
            return block  # the reader of jumps rejects these
        block[label_index] = entry_statement
        for index, jump in jumps:
            _replace(block, index, jump, _build_jump(flag, 1, entry_label))
        # The variable is reset at the label, so that later entries are ordinary.
        label.stmt = c_ast.Compound(
            [_build_assignment(flag, 0), *_list_statements(label.stmt)], coord
        )
        block[label_index] = c_ast.Label(entry_label, block[label_index], coord)
        return [_build_flag_declaration(flag, coord), *block]


def _replace(block: list[c_ast.Node], item_index: int, old: c_ast.Node, new: c_ast.Node) -> None:
    """Replace a node in an item of a block."""
    if block[item_index] is old:
        block[item_index] = new
        return
    for parent in iter_nodes(block[item_index], (c_ast.Node,)):
        for name, child in parent.children():
            if child is old:
                # pycparser names a child in a list as `attribute[index]`.
                attribute, bracket, index = name.partition("[")
                if bracket:
                    getattr(parent, attribute)[int(index.rstrip("]"))] = new
                else:
                    setattr(parent, attribute, new)
                return


def _is_jump_inside(item: c_ast.Node, jump: c_ast.Node, label: c_ast.Label) -> bool:
    """Check that a jump is in the block of a label, or in a statement of that block.

    If another block inside the item contains both, the jump is rewritten with that block.
    """
    blocks = [_find_enclosing_block(item, label), *iter_nodes(item, (c_ast.Compound,))]
    return any(
        block is not None
        and _has_label(block, label)
        and any(node is jump for node in iter_nodes(block, (c_ast.Goto,)))
        for block in blocks
    )


def _find_enclosing_block(item: c_ast.Node, label: c_ast.Label) -> c_ast.Node | None:
    """Return the innermost statement with its own block that contains a label."""
    block = None
    for node in iter_nodes(item, (c_ast.Compound, c_ast.If, *LOOP_NODES)):
        child_nodes = [child for _, child in node.children()]
        if any(
            inner is label for child in child_nodes for inner in iter_nodes(child, (c_ast.Label,))
        ):
            block = node
    return block


def _add_entry(node: c_ast.Node, label: c_ast.Label, flag: str) -> c_ast.Node | None:
    """Add an entry to a label, used if a variable is not 0; None if impossible."""
    if node is label:
        return node
    if not isinstance(node, _ENTERABLE_NODES) or not _has_label(node, label):
        return None
    entry_test = c_ast.If(
        c_ast.ID(flag, node.coord), c_ast.Goto(label.name, node.coord), None, node.coord
    )
    match node:
        case c_ast.Label():
            return (
                None
                if (entry_statement := _add_entry(node.stmt, label, flag)) is None
                else _set_statement(node, entry_statement)
            )
        case c_ast.Compound():
            node.block_items = [entry_test, *node.block_items]
            return node
        case c_ast.If() if node.iffalse is not None and _has_label(node.iffalse, label):
            # The condition must be false for an entry into the second branch.
            node.cond = c_ast.BinaryOp("&&", _build_not(flag, node), node.cond, node.coord)
            node.iffalse = c_ast.Compound([entry_test, *_list_statements(node.iffalse)], node.coord)
            return node
        case c_ast.If():
            # The condition must be true for an entry into the first branch.
            node.cond = c_ast.BinaryOp("||", c_ast.ID(flag, node.coord), node.cond, node.coord)
            node.iftrue = c_ast.Compound([entry_test, *_list_statements(node.iftrue)], node.coord)
            return node
        case c_ast.While():
            node.cond = c_ast.BinaryOp("||", c_ast.ID(flag, node.coord), node.cond, node.coord)
            node.stmt = c_ast.Compound([entry_test, *_list_statements(node.stmt)], node.coord)
            return node
        case c_ast.DoWhile():
            # The body comes first, so the condition needs no change.
            node.stmt = c_ast.Compound([entry_test, *_list_statements(node.stmt)], node.coord)
            return node
        case c_ast.For() if not isinstance(node.init, c_ast.DeclList):
            # An entry skips the initialization.
            initialization = node.init
            if node.cond is not None:
                node.cond = c_ast.BinaryOp("||", c_ast.ID(flag, node.coord), node.cond, node.coord)
            node.stmt = c_ast.Compound([entry_test, *_list_statements(node.stmt)], node.coord)
            node.init = None
            if initialization is None:
                return node
            guarded_initialization = c_ast.If(
                _build_not(flag, node), initialization, None, node.coord
            )
            return c_ast.Compound([guarded_initialization, node], node.coord)
    return None


def _set_statement(node: c_ast.Label, inner: c_ast.Node) -> c_ast.Label:
    node.stmt = inner
    return node


def _has_label(node: c_ast.Node, label: c_ast.Label) -> bool:
    return any(descendant is label for descendant in iter_nodes(node, (c_ast.Label,)))


def _list_statements(node: c_ast.Node) -> list[c_ast.Node]:
    """Return the statements of a branch or a body."""
    return list(node.block_items or ()) if isinstance(node, c_ast.Compound) else [node]


def _build_not(flag: str, node: c_ast.Node) -> c_ast.Node:
    return c_ast.UnaryOp("!", c_ast.ID(flag, node.coord), node.coord)


def _build_equal(name: str, number: int) -> c_ast.Node:
    return c_ast.BinaryOp("==", c_ast.ID(name), c_ast.Constant("int", str(number)))


def _build_assignment(name: str, number: int) -> c_ast.Node:
    return c_ast.Assignment("=", c_ast.ID(name), c_ast.Constant("int", str(number)))


def _build_jump(name: str, number: int, label: str) -> c_ast.Node:
    return c_ast.Compound([_build_assignment(name, number), c_ast.Goto(label)])


def _build_flag_declaration(name: str, coord: object) -> c_ast.Node:
    type_ = c_ast.TypeDecl(name, [], None, c_ast.IdentifierType(["int"], coord), coord)
    zero = c_ast.Constant("int", "0", coord)
    return c_ast.Decl(name, [], [], [], [], type_, zero, None, coord)
