"""Pointers of C whose target is known where the text is read.

Such a pointer is another name for a variable, a structure or an array, and a place in that array
that may move. It is bound to its target where it is declared or first assigned, and never to
another one. What it points to is a variable of the program, so two pointers to one target see each
other's changes. Memory that is allocated is a variable of its own, of which there is always enough,
as SV-COMP has it. Refused are pointers to pointers and functions, and targets that a run decides.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pycparser import c_ast

from llmchecker.programs.expressions import (
    COMPARISONS,
    Binary,
    Cast,
    Constant,
    Element,
    Expression,
    Identifier,
    Type,
    type_of,
)
from llmchecker.programs.statements import Assign, Block
from llmchecker.reading.effects import INCREMENTS, Evaluated
from llmchecker.reading.memory import AllocationReader
from llmchecker.reading.scopes import Pointer, Structure, Target, Variable
from llmchecker.translating.syntax import nodes_in

_LONG = Type(64)
_START = Constant(0)


@dataclass(frozen=True)
class Place:
    """What an expression points to.

    Attributes:
        target: the variable, array or structure.
        offset: the index in an array; 0 for another target.
    """

    target: Target
    offset: Expression


class PointerReader(AllocationReader):
    """Reads expressions in which pointers stand for what they point to."""

    def look_through(self, unit: c_ast.FileAST) -> None:
        """See how often a file changes each name, and which functions it defines."""
        super().look_through(unit)
        changed = [node.lvalue for node in nodes_in(unit, (c_ast.Assignment,))]
        changed += [n.expr for n in nodes_in(unit, (c_ast.UnaryOp,)) if n.op in INCREMENTS]
        self._changes = Counter(n.name for n in changed if isinstance(n, c_ast.ID))

    def declared_pointer(self, node: c_ast.Decl) -> Block:
        """The statements for a new pointer, which is bound to its target here or later."""
        pointer = self._new_pointer(node.type)
        block: Block = ()
        if node.init is not None:
            moves = self._changes[node.name] > 0
            read = lambda: self._bound(node.init, pointer, node.name, moves).offset  # noqa: E731
            block = self._collected(read).before
        if self._names.in_innermost_scope(node.name):
            raise self.unsupported(node, f"a second {node.name!r} in one scope")
        self._names.give(node.name, pointer)
        return block

    def passed(
        self, arguments: Sequence[c_ast.Node], parameters: Sequence[c_ast.Decl]
    ) -> list[Expression | Place]:
        """The values of a call's arguments, which C evaluates in any order; places of pointers."""
        places: dict[int, Place] = {}
        done = []
        for number, (argument, parameter) in enumerate(zip(arguments, parameters, strict=True)):
            if is_pointer(parameter.type):
                places[number], evaluated = self._located(argument)
            else:
                evaluated = self.evaluated(argument)
            done.append(evaluated)
        values = self.in_any_order(arguments, done)
        return [places.get(number, value) for number, value in enumerate(values)]

    def parameter(self, node: c_ast.Decl, place: Place, argument: c_ast.Node) -> Block:
        """Give a parameter its meaning: what the argument points to."""
        pointer = self._new_pointer(node.type)
        moves = self._changes[node.name] > 0
        block = self._collected(
            lambda: self._tied(argument, pointer, place, node.name, moves).offset
        )
        self._names.give(node.name, pointer)
        return block.before

    def free(self, node: c_ast.Node) -> None:
        """Read that memory is freed: the text below must not lead to it any more.

        That is more than C asks where only one branch frees it, and enough unless a loop comes back
        to what stands above.
        """
        pointer = self._pointer(node)
        around = pointer and pointer.target and self._names.allocated.get(_root(pointer.target))
        if around is None or self._place(node).offset != _START:
            raise self.unsupported(node, "freeing what is not the beginning of allocated memory")
        if around != tuple(self._names.around):
            raise self.unsupported(node, "memory that is freed in another loop than allocated")
        self._names.freed.add(_root(pointer.target))

    def points(self, node: c_ast.Node) -> bool:
        """Whether an expression is a pointer, or the name of an array."""
        match node:
            case c_ast.ID():
                return self._pointer(node) is not None or self._is_array(node)
            case c_ast.UnaryOp(op="&"):
                return True
            case c_ast.UnaryOp(op=op, expr=inner) if op in INCREMENTS:
                return self.points(inner)
            case c_ast.Cast(to_type=type_, expr=inner):
                return isinstance(type_.type, c_ast.PtrDecl) and self.points(inner)
            case c_ast.BinaryOp(op="+", left=left, right=right):
                return self.points(left) or self.points(right)
            case c_ast.BinaryOp(op="-", left=left, right=right):
                return self.points(left) and not self.points(right)
            case c_ast.Assignment(lvalue=left):
                return self._pointer(left) is not None
        return False

    # What is read otherwise where pointers are.

    def _variable(self, node: c_ast.ID, bound: frozenset[str]) -> Expression:
        if self._pointer(node) is not None:
            raise self.unsupported(node, f"the pointer {node.name!r} as a value")
        return super()._variable(node, bound)

    def _element(self, node: c_ast.ArrayRef, bound: frozenset[str]) -> Expression:
        if self._is_array(node.name) or not self.points(node.name):
            return super()._element(node, bound)
        place, done = self._located(node.name)
        if bound:
            if done.before:
                raise self.unsupported(node, "a change inside a quantifier")
            index = self.read(node.subscript, bound)
        else:
            both = (done, self.evaluated(node.subscript))
            index = self.in_any_order((node.name, node.subscript), both)[1]
        return self._at(node, Place(place.target, self._moved(place.offset, index)))

    def _field(self, node: c_ast.StructRef, bound: frozenset[str]) -> Expression:
        pointed = node.name if node.type == "->" else None
        if node.type == "." and isinstance(node.name, c_ast.UnaryOp) and node.name.op == "*":
            pointed = node.name.expr
        if pointed is None or not self.points(pointed):
            return super()._field(node, bound)
        target = self._place(pointed).target
        if not isinstance(target, Structure) or node.field.name not in target.variables:
            raise self.unsupported(node, f"the field {node.field.name!r} of what is no structure")
        return Identifier(target.variables[node.field.name])

    def _unary(self, node: c_ast.UnaryOp, bound: frozenset[str]) -> Expression:
        if node.op == "*" and self.points(node.expr):
            return self._at(node, self._place(node.expr))
        if node.op == "!" and self.points(node.expr):
            self._place(node.expr)
            return Constant(0)
        return super()._unary(node, bound)

    def _binary(self, node: c_ast.BinaryOp, bound: frozenset[str]) -> Expression:
        sides = (node.left, node.right)
        pointing = [side for side in sides if self.points(side)]
        if node.op in ("==", "!=") and len(pointing) == 1 and any(map(_is_null, sides)):
            self._place(pointing[0])
            # What a pointer is bound to has an address.
            return Constant(int(node.op == "!="))
        if len(pointing) < 2 or (node.op not in COMPARISONS and node.op != "-"):
            return super()._binary(node, bound)
        located = [self._located(side) for side in sides]
        left, right = self.in_any_order(sides, [done for _, done in located])
        if located[0][0].target != located[1][0].target:
            raise self.unsupported(node, "an operator on pointers to different targets")
        return Binary(node.op, self._long(left), self._long(right))

    def _assigned(self, node: c_ast.Assignment, used: bool) -> Expression:
        pointer = self._pointer(node.lvalue)
        if pointer is None:
            return super()._assigned(node, used)
        if used:
            raise self.unsupported(node, "a pointer as a value")
        return self._reassigned(node, pointer).offset

    def _incremented(self, node: c_ast.UnaryOp, used: bool) -> Expression:
        if self._pointer(node.expr) is None:
            return super()._incremented(node, used)
        if used:
            raise self.unsupported(node, "a pointer as a value")
        return self._place(node).offset

    # Where pointers point to.

    def _located(self, node: c_ast.Node) -> tuple[Place, Evaluated]:
        """The place that an expression points to, and what its evaluation does."""
        places: list[Place] = []

        def offset() -> Expression:
            places.append(self._place(node))
            return places[0].offset

        done = self._collected(offset)
        return places[0], done

    def _place(self, node: c_ast.Node) -> Place:
        match node:
            case c_ast.ID(name=name):
                meaning = self._names.meaning(name)
                if isinstance(meaning, Pointer) and meaning.target is not None:
                    if _root(meaning.target) in self._names.freed:
                        raise self.unsupported(node, f"the pointer {name!r} to what was freed")
                    self._refuse_unbound(node, meaning)
                    return Place(meaning.target, meaning.offset)
                if self._is_array(node):
                    return Place(meaning, _START)
            case c_ast.UnaryOp(op="&", expr=inner):
                return self._address(node, inner)
            case c_ast.UnaryOp(op=op, expr=c_ast.ID() as inner) if op in INCREMENTS:
                return self._stepped(node, inner)
            case c_ast.Cast(to_type=type_, expr=inner) if isinstance(type_.type, c_ast.PtrDecl):
                place = self._place(inner)
                self._refuse_unlike(node, self._new_pointer(type_.type), place)
                return place
            case c_ast.BinaryOp(op="+" | "-", left=left, right=right):
                if not self.points(left):
                    left, right = right, left
                place, done = self._located(left)
                step = self.in_any_order((left, right), (done, self.evaluated(right)))[1]
                return Place(place.target, self._moved(place.offset, step, node.op))
            case c_ast.Assignment(lvalue=left) if self._pointer(left) is not None:
                return self._reassigned(node, self._pointer(left))
        raise self.unsupported(node, "a pointer whose target is not known here")

    def _address(self, node: c_ast.Node, inner: c_ast.Node) -> Place:
        if isinstance(inner, c_ast.UnaryOp) and inner.op == "*" and self.points(inner.expr):
            return self._place(inner.expr)
        if isinstance(inner, c_ast.ID):
            meaning = self._names.meaning(inner.name)
            if isinstance(meaning, Structure):
                return Place(meaning, _START)
        match self.read(inner):
            case Identifier(name=name):
                return Place(Variable(name), _START)
            case Element(array=array, index=index):
                return Place(Variable(array), index)
        raise self.unsupported(node, "the address of what is no variable")

    def _moved(self, offset: Expression, step: Expression, operator: str = "+") -> Expression:
        """The index that lies so many elements behind another, or before it."""
        if operator == "+" and offset == _START:
            return step
        if step == _START:
            return offset
        # In 64 bits: one of 32 bits would wrap around, and an unsigned one would not be negative.
        return Binary(operator, self._long(offset), self._long(step))

    def _long(self, value: Expression) -> Expression:
        return value if type_of(value, self._names.types) == _LONG else Cast(_LONG, value)

    def _at(self, node: c_ast.Node, place: Place) -> Expression:
        """What lies at a place."""
        if isinstance(place.target, Variable):
            if self._names.types[place.target.name].array:
                return Element(place.target.name, place.offset)
            if place.offset == _START:
                return Identifier(place.target.name)
        raise self.unsupported(node, "what lies behind a pointer to no array")

    def _stepped(self, node: c_ast.UnaryOp, inner: c_ast.ID) -> Place:
        """`p++` and its like: the place before or after the step."""
        pointer = self._pointer(inner)
        if pointer is None or not isinstance(pointer.offset, Identifier):
            raise self.unsupported(node, "a step of what is no pointer into an array")
        self._refuse_unbound(node, pointer)
        offset = pointer.offset
        self.add((Assign(offset, Binary(node.op.strip("p")[0], offset, Constant(1))),))
        if node.op in ("++", "--"):
            return Place(pointer.target, offset)
        return Place(pointer.target, Binary("-" if "+" in node.op else "+", offset, Constant(1)))

    def _reassigned(self, node: c_ast.Assignment, pointer: Pointer) -> Place:
        name = node.lvalue.name
        if node.op == "=":
            return self._bound(node.rvalue, pointer, name, self._changes[name] > 1)
        if node.op not in ("+=", "-=") or not isinstance(pointer.offset, Identifier):
            raise self.unsupported(node, f"the operator {node.op} on a pointer")
        self._refuse_unbound(node, pointer)
        both = (Evaluated((), pointer.offset), self.evaluated(node.rvalue))
        step = self.in_any_order((node.lvalue, node.rvalue), both)[1]
        self.add((Assign(pointer.offset, self._moved(pointer.offset, step, node.op[0])),))
        return Place(pointer.target, pointer.offset)

    # How pointers get their targets.

    def _new_pointer(self, node: c_ast.Node) -> Pointer:
        if isinstance(node.type, c_ast.PtrDecl | c_ast.ArrayDecl | c_ast.FuncDecl):
            raise self.unsupported(node, "a pointer to what is no integer or structure")
        return Pointer(self.kind_named(node.type), tuple(self._names.around))

    def _bound(self, node: c_ast.Node, pointer: Pointer, name: str, moves: bool) -> Place:
        """Bind a pointer to what an expression points to."""
        target = self.allocated(node, pointer.kind, name)
        if target is not None:
            if tuple(self._names.around) != pointer.around or pointer.target is not None:
                raise self.unsupported(node, f"a second target for the pointer {name!r}")
            self._names.allocated[_root(target)] = pointer.around
            return self._tied(node, pointer, Place(target, _START), name, moves)
        if not self.points(node):
            raise self.unsupported(node, "a pointer whose target is not known here")
        return self._tied(node, pointer, self._place(node), name, moves)

    def _tied(
        self, node: c_ast.Node, pointer: Pointer, place: Place, name: str, moves: bool
    ) -> Place:
        self._refuse_unlike(node, pointer, place)
        around = self._names.allocated.get(_root(place.target), ())
        if around != pointer.around[: len(around)]:
            # Each round allocates a target of its own, and this pointer may outlive the round.
            raise self.unsupported(node, "a pointer from outside of a loop to what it allocates")
        if pointer.target not in (None, place.target):
            raise self.unsupported(node, f"a second target for the pointer {name!r}")
        if self._names.outlives(pointer, place.target):
            raise self.unsupported(node, f"the pointer {name!r} to what ends before it")
        array = isinstance(place.target, Variable) and self._names.types[place.target.name].array
        if pointer.target is None and array and (moves or place.offset != _START):
            pointer.offset = Identifier(self._names.made(_LONG, f"{name}_place"))
        if pointer.target is None or not self._is_certain(pointer):
            pointer.certain = self._names.within
        pointer.target = place.target
        self._names.renamed = True
        if isinstance(pointer.offset, Identifier):
            self.add((Assign(pointer.offset, place.offset),))
        elif place.offset != _START:
            raise self.unsupported(node, "a pointer behind a variable")
        return Place(pointer.target, pointer.offset)

    def _is_certain(self, pointer: Pointer) -> bool:
        """Whether every run that comes here has given the pointer its target."""
        return pointer.certain == self._names.within[: len(pointer.certain)]

    def _refuse_unbound(self, node: c_ast.Node, pointer: Pointer) -> None:
        """Refuse a pointer that some runs have not given a target yet."""
        if not self._is_certain(pointer):
            raise self.unsupported(node, "a pointer that may have no target here")

    def _refuse_unlike(self, node: c_ast.Node, pointer: Pointer, place: Place) -> None:
        """Refuse a pointer to another type than its target has."""
        if isinstance(place.target, Structure):
            kind = place.target.fields
        else:
            kind = self._names.types[place.target.name].element
        if kind != pointer.kind:
            raise self.unsupported(node, "a pointer to another type than its target has")

    def _pointer(self, node: c_ast.Node) -> Pointer | None:
        meaning = self._names.meaning(node.name) if isinstance(node, c_ast.ID) else None
        return meaning if isinstance(meaning, Pointer) else None

    def _is_array(self, node: c_ast.Node) -> bool:
        meaning = self._names.meaning(node.name) if isinstance(node, c_ast.ID) else None
        return isinstance(meaning, Variable) and self._names.types[meaning.name].array


def is_pointer(node: c_ast.Node) -> bool:
    """Whether a parameter's type is a pointer, which it is for an array too."""
    return isinstance(node, c_ast.PtrDecl | c_ast.ArrayDecl)


def _root(target: Target) -> str:
    """A variable of the program that belongs to one target alone."""
    return target.name if isinstance(target, Variable) else next(iter(target.variables.values()))


def _is_null(node: c_ast.Node) -> bool:
    match node:
        case c_ast.Constant(type="int", value="0"):
            return True
        case c_ast.Cast(to_type=type_, expr=inner) if isinstance(type_.type, c_ast.PtrDecl):
            return _is_null(inner)
    return False
