"""How pointers of C get what they point to.

A pointer is bound to its target where it is declared or first assigned, and never to another one.
Some runs may use it where it is null, or before it has its target: such a pointer has a variable of
its own, its state, which tells what it is. Only reading tells which pointers these are, so reading
begins again with each of them.
"""

from collections import Counter
from dataclasses import dataclass, replace

from pycparser import c_ast

from llmchecker.programs.expressions import (
    INT,
    Binary,
    Constant,
    Expression,
    Identifier,
    Type,
)
from llmchecker.programs.statements import Assert, Assign, Block, Branch, Statement
from llmchecker.reading.effects import INCREMENTS
from llmchecker.reading.memory import AllocationReader
from llmchecker.reading.scopes import Fields, Pointer, Structure, Target, root_of
from llmchecker.translating.syntax import is_void, nodes_in

LONG = Type(64)
START = Constant(0)

LEADS, NULL, NOWHERE = Constant(1), Constant(0), Constant(-1)
"""The states of a pointer: it leads to its target, is null, or has not been given any value."""


@dataclass(frozen=True)
class Place:
    """What an expression points to.

    Attributes:
        target: the variable, array or structure; None for a null pointer.
        offset: the index in an array; 0 for another target.
        state: whether it points there: one of the states, or a variable that has it.
        view: the type as which the target is read, where it is not its own.
    """

    target: Target | None
    offset: Expression
    state: Expression = LEADS
    view: Type | None = None


NOTHING = Place(None, START, NULL)
"""A null pointer."""

UNKNOWN = Place(None, START, NOWHERE)
"""A number that is taken for a pointer, which leads nowhere that C says."""


class PerhapsNull(Exception):
    """Some run may use a pointer that is null or has no target yet.

    Attributes:
        name: the pointer's name.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class BindingReader(AllocationReader):
    """Gives pointers their targets.

    Attributes:
        nullable: the names of the pointers that have a state.
    """

    nullable: frozenset[str] = frozenset()

    def look_through(self, unit: c_ast.FileAST) -> None:
        """See how often a file changes each name, to other than null, and what it defines."""
        super().look_through(unit)
        given = [n for n in nodes_in(unit, (c_ast.Assignment,)) if not is_null(n.rvalue)]
        changed = [node.lvalue for node in given]
        changed += [n.expr for n in nodes_in(unit, (c_ast.UnaryOp,)) if n.op in INCREMENTS]
        self._changes = Counter(n.name for n in changed if isinstance(n, c_ast.ID))

    def points(self, node: c_ast.Node) -> bool:
        """Whether an expression is a pointer, or the name of an array."""
        raise NotImplementedError

    def _place(self, node: c_ast.Node) -> Place:
        raise NotImplementedError

    def declared_pointer(self, node: c_ast.Decl, outside: bool = False) -> Block:
        """The statements for a new pointer, which is bound to its target here or later.

        Args:
            outside: whether it stands outside of functions, so that it is null at first.
        """
        if self._names.in_innermost_scope(node.name):
            raise self.unsupported(node, f"a second {node.name!r} in one scope")
        null = outside and (node.init is None or is_null(node.init))
        # A function may return before it gives such a pointer its target.
        pointer = self._new_pointer(node.type, node.name, with_state=null)
        self._names.give(node.name, pointer)
        if node.init is None:
            return self._begun(pointer, NULL if outside else NOWHERE)
        if outside and any(nodes_in(node.init, (c_ast.FuncCall, c_ast.Assignment))):
            raise self.unsupported(node, "a first value that is no constant")
        moves = self._changes[node.name] > 0
        return self._collected(lambda: self._bound(node.init, pointer, moves).offset).before

    def result(self, node: c_ast.PtrDecl, function: str) -> tuple[Pointer, Block]:
        """A pointer for what a function returns, and the statements for it."""
        name = f"{function}_result"
        pointer = self._new_pointer(node, name)
        # No name of the text has a space.
        self._names.give(self._names.fresh(f"{name} "), pointer)
        return pointer, self._begun(pointer, NOWHERE)

    def returned(self, node: c_ast.Node, pointer: Pointer) -> Block:
        """The statements that make a pointer what a function returns."""
        return self._collected(lambda: self._bound(node, pointer, moves=True).offset).before

    def parameter(self, node: c_ast.Decl, place: Place, argument: c_ast.Node) -> Block:
        """Give a parameter its meaning: what the argument points to."""
        pointer = self._new_pointer(node.type, node.name)
        self._names.give(node.name, pointer)
        if place == UNKNOWN:
            return self._begun(pointer, NOWHERE)
        moves = self._changes[node.name] > 0
        return self._collected(lambda: self._tied(argument, pointer, place, moves).offset).before

    def free(self, node: c_ast.Node) -> None:
        """Read that memory is freed: no pointer leads to it any more.

        A loop that comes back to what stands above must allocate it anew.
        """
        if is_null(node):
            return
        pointer = self._pointer(node)
        around = pointer and pointer.target and self._names.allocated.get(root_of(pointer.target))
        if around is None:
            raise self.unsupported(node, "freeing what is not the beginning of allocated memory")
        if around != tuple(self._names.around):
            raise self.unsupported(node, "memory that is freed in another loop than allocated")
        place = self._held(self._place(node), line=0)
        self._names.freed.add(root_of(place.target))
        lost = tuple(
            _where(other.state, (Assign(other.state, NOWHERE),))
            for other in self._names.pointers_to(place.target)
            if other.state is not None
        )
        begins = () if place.offset == START else (Assert(Binary("==", place.offset, START), 0),)
        self.add((_where(place.state, (*begins, *lost)),))

    # What must be so for C to define what a pointer means.

    def _led(self, node: c_ast.Node, place: Place) -> Place:
        """A place that is used: it must be there."""
        if place.target is None:
            raise self.unsupported(node, "a pointer whose target is not known here")
        if place.state != LEADS:
            self.add((Assert(Binary("==", place.state, LEADS), 0),))
        return place

    def _held(self, place: Place, line: int | None = None) -> Place:
        """A place whose pointer is looked at or copied: it must have been given a value.

        gcc's programs compare and copy whatever stands there, so that alone is told of no run.
        """
        if not isinstance(place.state, Constant):
            self.add((Assert(Binary("!=", place.state, NOWHERE), line),))
        return place

    def _place_of(self, node: c_ast.Node, pointer: Pointer) -> Place:
        """Where a pointer points to."""
        if pointer.state is not None:
            if pointer.within != self._names.within[: len(pointer.within)]:
                raise self.unsupported(node, "a pointer whose declaration is passed over")
            place = Place(pointer.target, pointer.offset, pointer.state)
        elif self._is_certain(pointer):
            place = Place(pointer.target, pointer.offset)
        else:
            raise PerhapsNull(pointer.name)
        return self._viewed(node, pointer.kind, place)

    def _is_certain(self, pointer: Pointer) -> bool:
        """Whether every run that comes here has given the pointer its target, and kept it."""
        if pointer.target is None or root_of(pointer.target) in self._names.freed:
            return False
        return pointer.certain == self._names.within[: len(pointer.certain)]

    def _viewed(self, node: c_ast.Node, kind: Type | Fields | None, place: Place) -> Place:
        """A place as a pointer to some type sees it.

        What is an integer may be read as one of the other sign too (C11 6.5p7).
        """
        if place.target is None or kind is None:
            return place
        if isinstance(place.target, Structure):
            own = place.target.fields
        else:
            own = self._names.types[place.target.name].element
        if kind == own:
            return replace(place, view=None)
        if isinstance(kind, Type) and isinstance(own, Type) and kind.bits == own.bits > 1:
            return replace(place, view=kind)
        raise self.unsupported(node, "a pointer to another type than its target has")

    # How pointers get their targets.

    def _new_pointer(self, node: c_ast.Node, name: str, with_state: bool = False) -> Pointer:
        if isinstance(node.type, c_ast.PtrDecl | c_ast.ArrayDecl | c_ast.FuncDecl):
            raise self.unsupported(node, "a pointer to what is no integer or structure")
        state = None
        if with_state or name in self.nullable:
            state = Identifier(self._names.made(INT, f"{name}_state"))
        around, within = tuple(self._names.around), self._names.within
        return Pointer(name, self._kind(node), around, within, state)

    def _kind(self, node: c_ast.Node) -> Type | Fields | None:
        """The type of what a type of pointers points to; None for `void`."""
        return None if is_void(node.type) else self.kind_named(node.type)

    def _begun(self, pointer: Pointer, state: Constant) -> Block:
        return () if pointer.state is None else (Assign(pointer.state, state),)

    def _bound(self, node: c_ast.Node, pointer: Pointer, moves: bool) -> Place:
        """Bind a pointer to what an expression points to."""
        target = self.allocated(node, pointer.kind, pointer.name)
        if target is not None:
            if tuple(self._names.around) != pointer.around or pointer.target is not None:
                raise self.unsupported(node, f"a second target for the pointer {pointer.name!r}")
            self._names.allocated[root_of(target)] = pointer.around
            return self._tied(node, pointer, Place(target, START), moves)
        if isinstance(node, c_ast.TernaryOp):
            return self._either_bound(node, pointer, moves)
        if not is_null(node) and not self.points(node):
            raise self.unsupported(node, "a pointer whose target is not known here")
        return self._tied(node, pointer, self._place(node), moves)

    def _either_bound(self, node: c_ast.TernaryOp, pointer: Pointer, moves: bool) -> Place:
        condition = self.read(self.truth_of(node.cond))
        blocks = []
        for side in (node.iftrue, node.iffalse):
            with self._names.perhaps():
                bound = self._collected(lambda s=side: self._bound(s, pointer, moves).offset)
            blocks.append(bound.before)
        self.add((Branch(condition, *blocks),))
        return self._place_of(node, pointer)

    def _tied(self, node: c_ast.Node, pointer: Pointer, place: Place, moves: bool) -> Place:
        """Bind a pointer to a place."""
        if place.state != LEADS and pointer.state is None:
            raise PerhapsNull(pointer.name)
        self._held(place)
        if place.target is not None:
            self._aim(node, pointer, place, moves)
        elif place.state != NULL:
            raise self.unsupported(node, "a pointer whose target is not known here")
        self._names.renamed = True
        if pointer.state is not None:
            self.add((Assign(pointer.state, place.state),))
        if isinstance(pointer.offset, Identifier):
            self.add((Assign(pointer.offset, place.offset),))
        elif place.offset != START:
            raise self.unsupported(node, "a pointer behind a variable")
        return Place(pointer.target, pointer.offset, pointer.state or LEADS, place.view)

    def _aim(self, node: c_ast.Node, pointer: Pointer, place: Place, moves: bool) -> None:
        """Make what a place is in a pointer's target, or refuse it."""
        self._viewed(node, pointer.kind, place)
        around = self._names.allocated.get(root_of(place.target), ())
        if around != pointer.around[: len(around)]:
            # Each round allocates a target of its own, and this pointer may outlive the round.
            raise self.unsupported(node, "a pointer from outside of a loop to what it allocates")
        if pointer.target not in (None, place.target):
            raise self.unsupported(node, f"a second target for the pointer {pointer.name!r}")
        if self._names.outlives(pointer, place.target):
            raise self.unsupported(node, f"the pointer {pointer.name!r} to what ends before it")
        if (
            pointer.target is None
            and self._in_array(place.target)
            and (moves or place.offset != START)
        ):
            pointer.offset = Identifier(self._names.made(LONG, f"{pointer.name}_place"))
        if not self._is_certain(pointer):
            pointer.certain = self._names.within
        pointer.target = place.target

    def _in_array(self, target: Target) -> bool:
        """Whether a target is an array, in which a place may move."""
        if isinstance(target, Structure):
            return target.array
        return self._names.types[target.name].array

    def _pointer(self, node: c_ast.Node) -> Pointer | None:
        meaning = self._names.meaning(node.name) if isinstance(node, c_ast.ID) else None
        return meaning if isinstance(meaning, Pointer) else None


def _where(state: Expression, block: Block) -> Statement:
    """What happens only if a pointer leads to its target."""
    return Branch(Binary("==", state, LEADS), block, ())


def is_null(node: c_ast.Node) -> bool:
    """Whether an expression is a null pointer constant (C11 6.3.2.3p3)."""
    match node:
        case c_ast.Constant(type="int", value="0"):
            return True
        case c_ast.Cast(to_type=type_, expr=inner) if isinstance(type_.type, c_ast.PtrDecl):
            return is_null(inner)
    return False
