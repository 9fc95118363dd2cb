"""Declarations that a jump skips, although code after the jump uses their variable (C11 6.2.4p6).

    switch (n) { case 0: ; int x = 5; break; case 1: y = x; }

The variable has no value then. A verifier may keep the value of an earlier round instead.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from pycparser import c_ast

_SCOPES = (c_ast.Compound, c_ast.For)
_CASES = (c_ast.Case, c_ast.Default)


def find_skipped_declaration(function: c_ast.FuncDef) -> c_ast.Decl | None:
    """Return the first declaration that a jump may skip; None without one.

    The test is conservative: it does not ask whether a run reaches the use without a value.
    """
    positions = _Positions()
    positions.add(function.body)
    return next(positions.iter_skipped(), None)


@dataclass
class _Positions:
    """The places of a function's nodes, numbered in text order.

    Attributes:
        declarations: declarations of variables, each with its place and the end of its scope.
        targets: places of labels and cases, each with the places of their jumps; the jumps to a
            label are found by its name.
        jumps: places of the jumps to each label.
        uses: places of each name.
        count: number of nodes.
    """

    declarations: list[tuple[c_ast.Decl, int, int]] = field(default_factory=list)
    targets: list[tuple[int, int | str]] = field(default_factory=list)
    jumps: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    uses: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    count: int = 0

    def add(self, node: c_ast.Node, switch: int = 0) -> list[tuple[c_ast.Decl, int]]:
        """Add a node and its descendants.

        Args:
            node: the node.
            switch: place of the innermost `switch` around the node.

        Returns:
            The declarations whose scope ends after the node, with their places.
        """
        self.count += 1
        place = self.count
        match node:
            case c_ast.Switch():
                switch = place
            case c_ast.Label(name=name):
                self.targets.append((place, name))
            case c_ast.Goto(name=name):
                self.jumps[name].append(place)
            case c_ast.ID(name=name):
                self.uses[name].append(place)
            case _ if isinstance(node, _CASES):
                self.targets.append((place, switch))
        is_variable = isinstance(node, c_ast.Decl) and not {"static", "extern"} & set(node.storage)
        open_declarations = [(node, place)] if is_variable else []
        for _, child in node.children():
            open_declarations += self.add(child, switch)
        if isinstance(node, _SCOPES):
            self.declarations += [(d, start, self.count) for d, start in open_declarations]
            return []
        return open_declarations

    def iter_skipped(self) -> Iterator[c_ast.Decl]:
        """Yield the declarations that a jump may skip, and whose variable is used after it."""
        backward_labels = {
            label
            for target, label in self.targets
            if any(place > target for place in self.jumps.get(label, ()))
        }
        for declaration, start, end in self.declarations:
            for target, origin in self.targets:
                places = self.jumps.get(origin, ()) if isinstance(origin, str) else (origin,)
                is_entered = start < target <= end
                if not is_entered or all(start < place <= end for place in places):
                    continue
                # After a jump back, earlier code runs too.
                first = start if backward_labels else target
                if any(first < use <= end for use in self.uses[declaration.name]):
                    yield declaration
