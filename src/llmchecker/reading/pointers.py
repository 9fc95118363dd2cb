"""Expressions with pointers whose target is known where the text is read.

Such a pointer is another name for a variable, a structure or an array, and a place in that array
that may move. What it points to is a variable of the program, so two pointers to one target see
each other's changes. Memory that is allocated is a variable of its own, of which there is always
enough, as SV-COMP has it. Refused are pointers to pointers and functions, and targets that a run
decides.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

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
    Unary,
    type_of,
)
from llmchecker.programs.statements import Assign
from llmchecker.reading.binding import (
    LEADS,
    LONG,
    NOTHING,
    NULL,
    START,
    UNKNOWN,
    BindingReader,
    Place,
    is_null,
)
from llmchecker.reading.c_expressions import called
from llmchecker.reading.effects import INCREMENTS
from llmchecker.reading.scopes import Pointer, Structure, Variable
from llmchecker.translating.evaluations import Evaluated


class PointerReader(BindingReader):
    """Reads expressions in which pointers stand for what they point to.

    Attributes:
        pointing: reads the call of a function that returns a pointer; it is set before anything is
            read.
    """

    pointing: Callable[[c_ast.FuncCall], Pointer]

    def look_through(self, unit: c_ast.FileAST) -> None:
        """See which functions of a file return pointers, too."""
        super().look_through(unit)
        defined = [part.decl for part in unit.ext if isinstance(part, c_ast.FuncDef)]
        self._returning = {d.name for d in defined if isinstance(d.type.type, c_ast.PtrDecl)}

    def passed(
        self, arguments: Sequence[c_ast.Node], parameters: Sequence[c_ast.Decl]
    ) -> list[Expression | Place]:
        """The values of a call's arguments, which C evaluates in any order; places of pointers."""
        places: dict[int, Place] = {}
        done = []
        for number, (argument, parameter) in enumerate(zip(arguments, parameters, strict=True)):
            if is_pointer(parameter.type) and (self.points(argument) or is_null(argument)):
                places[number], evaluated = self._located(argument)
            elif is_pointer(parameter.type):
                places[number], evaluated = UNKNOWN, self.evaluated(argument)
            else:
                evaluated = self.evaluated(argument)
            done.append(evaluated)
        values = self.in_any_order(arguments, done)
        return [places.get(number, value) for number, value in enumerate(values)]

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
            case c_ast.FuncCall():
                return called(node) in self._returning
        return False

    def truth_of(self, node: c_ast.Node) -> c_ast.Node:
        """A condition: a pointer is true if it is not null."""
        if not self.points(node):
            return super().truth_of(node)
        return c_ast.BinaryOp("!=", node, c_ast.Constant("int", "0", node.coord), node.coord)

    # What is read otherwise where pointers are.

    def _variable(self, node: c_ast.ID, bound: frozenset[str]) -> Expression:
        if self._pointer(node) is not None:
            raise self.unsupported(node, f"the pointer {node.name!r} as a value")
        return super()._variable(node, bound)

    def _element(self, node: c_ast.ArrayRef, bound: frozenset[str]) -> Expression:
        meaning = self._names.meaning(node.name.name) if isinstance(node.name, c_ast.ID) else None
        if isinstance(meaning, Variable) or not self.points(node.name):
            return super()._element(node, bound)
        place, done = self._located(node.name)
        if bound:
            if done.before:
                raise self.unsupported(node, "a change inside a quantifier")
            index = self.read(node.subscript, bound)
        else:
            both = (done, self.evaluated(node.subscript))
            index = self.in_any_order((node.name, node.subscript), both)[1]
        self._led(node, place)
        return self._at(node, replace(place, offset=self._moved(place.offset, index)))

    def _member(self, node: c_ast.StructRef, bound: frozenset[str]) -> Identifier | Element:
        pointed = node.name if node.type == "->" else None
        if node.type == "." and isinstance(node.name, c_ast.UnaryOp) and node.name.op == "*":
            pointed = node.name.expr
        if node.type == "." and isinstance(node.name, c_ast.ArrayRef):
            # Both `p[i].f` and `s[i].f` are `(*(p + i)).f` (C11 6.5.2.1p2).
            parts = (node.name.name, node.name.subscript, node.coord)
            pointed = c_ast.BinaryOp("+", *parts) if self.points(parts[0]) else None
        if pointed is None or not self.points(pointed):
            return super()._member(node, bound)
        if bound:
            raise self.unsupported(node, "a pointer inside a quantifier")
        place = self._led(node, self._place(pointed))
        if not isinstance(place.target, Structure):
            raise self.unsupported(node, f"the field {node.field.name!r} of what is no structure")
        if not place.target.array and place.offset != START:
            raise self.unsupported(node, "what lies behind a pointer to no array")
        return self._part(node, place.target, place.offset)

    def _unary(self, node: c_ast.UnaryOp, bound: frozenset[str]) -> Expression:
        if node.op == "*" and self.points(node.expr):
            return self._at(node, self._led(node, self._place(node.expr)))
        if node.op == "!" and self.points(node.expr):
            null = c_ast.Constant("int", "0", node.coord)
            return self._binary(c_ast.BinaryOp("==", node.expr, null, node.coord), bound)
        return super()._unary(node, bound)

    def _size(self, node: c_ast.UnaryOp) -> Expression:
        of_type = isinstance(node.expr, c_ast.Typename)
        if of_type and isinstance(node.expr.type, c_ast.PtrDecl):
            return Cast(Type(64, False), Constant(8))
        return super()._size(node)

    def _sized(self, node: c_ast.UnaryOp) -> Type:
        if self._pointer(node.expr) is not None:
            return LONG
        return super()._sized(node)

    def _binary(self, node: c_ast.BinaryOp, bound: frozenset[str]) -> Expression:
        sides = (node.left, node.right)
        pointing = [side for side in sides if self.points(side)]
        if node.op in ("==", "!=") and len(pointing) == 1 and any(map(is_null, sides)):
            # What a pointer is bound to has an address.
            state = self._held(self._place(pointing[0])).state
            known = isinstance(state, Constant)
            return Constant(int(node.op == "!=")) if known else Binary(node.op, state, NULL)
        if len(pointing) < 2 or (node.op not in COMPARISONS and node.op != "-"):
            return super()._binary(node, bound)
        located = [self._located(side) for side in sides]
        self.in_any_order(sides, [done for _, done in located])
        left, right = (place for place, _ in located)
        if node.op in ("==", "!="):
            same = self._same(node, left, right)
            return same if node.op == "==" else Unary("!", same)
        self._led(node, left)
        self._led(node, right)
        if left.target != right.target:
            raise self.unsupported(node, "an operator on pointers to different targets")
        return Binary(node.op, self._long(left.offset), self._long(right.offset))

    def _same(self, node: c_ast.BinaryOp, left: Place, right: Place) -> Expression:
        """Whether two pointers are equal."""
        self._held(left)
        self._held(right)
        if left.target is None or right.target is None:
            raise self.unsupported(node, "a pointer whose target is not known here")
        if left.target == right.target:
            together = Binary("==", self._long(left.offset), self._long(right.offset))
            if left.state == right.state == LEADS:
                return together
            null = Binary("==", left.state, NULL)
            return Binary("&&", Binary("==", left.state, right.state), Binary("||", null, together))
        if self._in_array(left.target) or self._in_array(right.target):
            # The end of one may be where the other begins (C11 6.5.9p6).
            raise self.unsupported(node, "an operator on pointers to different targets")
        return Binary("&&", Binary("==", left.state, NULL), Binary("==", right.state, NULL))

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
            # Whatever it takes to tell the place: another operand must not change any of it.
            return Binary("+", places[0].offset, places[0].state)

        done = self._collected(offset)
        return places[0], done

    def _place(self, node: c_ast.Node) -> Place:
        match node:
            case _ if is_null(node):
                return NOTHING
            case c_ast.ID(name=name):
                if self._is_array(node):
                    return Place(self._names.meaning(name), START)
                pointer = self._pointer(node)
                if pointer is not None:
                    return self._place_of(node, pointer)
            case c_ast.FuncCall() if self.points(node):
                return self._place_of(node, self.pointing(node))
            case c_ast.UnaryOp(op="&", expr=inner):
                return self._address(node, inner)
            case c_ast.UnaryOp(op=op, expr=c_ast.ID() as inner) if op in INCREMENTS:
                return self._stepped(node, inner)
            case c_ast.Cast(to_type=type_, expr=inner) if isinstance(type_.type, c_ast.PtrDecl):
                if isinstance(type_.type.type, c_ast.PtrDecl | c_ast.ArrayDecl | c_ast.FuncDecl):
                    raise self.unsupported(node, "a pointer to what is no integer or structure")
                return self._viewed(node, self._kind(type_.type), self._place(inner))
            case c_ast.BinaryOp(op="+" | "-", left=left, right=right):
                if not self.points(left):
                    left, right = right, left
                place, done = self._located(left)
                step = self.in_any_order((left, right), (done, self.evaluated(right)))[1]
                self._led(node, place)
                return replace(place, offset=self._moved(place.offset, step, node.op))
            case c_ast.Assignment(lvalue=left) if self._pointer(left) is not None:
                return self._reassigned(node, self._pointer(left))
        raise self.unsupported(node, "a pointer whose target is not known here")

    def _address(self, node: c_ast.Node, inner: c_ast.Node) -> Place:
        if isinstance(inner, c_ast.UnaryOp) and inner.op == "*" and self.points(inner.expr):
            return self._led(node, self._place(inner.expr))
        if isinstance(inner, c_ast.ID):
            meaning = self._names.meaning(inner.name)
            if isinstance(meaning, Structure) and not meaning.array:
                return Place(meaning, START)
        if isinstance(inner, c_ast.ArrayRef) and self.points(inner.name):
            # `&p[i]` is `p + i` (C11 6.5.3.2p3).
            parts = (inner.name, inner.subscript, node.coord)
            return self._place(c_ast.BinaryOp("+", *parts))
        match self.read(inner):
            case Identifier(name=name):
                return Place(Variable(name), START)
            case Element(array=array, index=index) if self._is_element(inner):
                return Place(Variable(array), index)
        raise self.unsupported(node, "the address of what is no variable")

    def _moved(self, offset: Expression, step: Expression, operator: str = "+") -> Expression:
        """The index that lies so many elements behind another, or before it."""
        if operator == "+" and offset == START:
            return step
        if step == START:
            return offset
        # In 64 bits: one of 32 bits would wrap around, and an unsigned one would not be negative.
        return Binary(operator, self._long(offset), self._long(step))

    def _long(self, value: Expression) -> Expression:
        return value if type_of(value, self._names.types) == LONG else Cast(LONG, value)

    def _at(self, node: c_ast.Node, place: Place) -> Expression:
        """What lies at a place."""
        if isinstance(place.target, Variable):
            value: Expression | None = None
            if self._names.types[place.target.name].array:
                value = Element(place.target.name, place.offset)
            elif place.offset == START:
                value = Identifier(place.target.name)
            if value is not None:
                return value if place.view is None else Cast(place.view, value)
        raise self.unsupported(node, "what lies behind a pointer to no array")

    def _stepped(self, node: c_ast.UnaryOp, inner: c_ast.ID) -> Place:
        """`p++` and its like: the place before or after the step."""
        pointer = self._pointer(inner)
        if pointer is None or not isinstance(pointer.offset, Identifier):
            raise self.unsupported(node, "a step of what is no pointer into an array")
        place = self._led(node, self._place_of(node, pointer))
        offset = pointer.offset
        self.add((Assign(offset, Binary(node.op.strip("p")[0], offset, Constant(1))),))
        if node.op in ("++", "--"):
            return place
        before = Binary("-" if "+" in node.op else "+", offset, Constant(1))
        return replace(place, offset=before)

    def _reassigned(self, node: c_ast.Assignment, pointer: Pointer) -> Place:
        name = node.lvalue.name
        if node.op == "=":
            return self._bound(node.rvalue, pointer, self._changes[name] > 1)
        if node.op not in ("+=", "-=") or not isinstance(pointer.offset, Identifier):
            raise self.unsupported(node, f"the operator {node.op} on a pointer")
        place = self._led(node, self._place_of(node, pointer))
        both = (Evaluated((), pointer.offset), self.evaluated(node.rvalue))
        step = self.in_any_order((node.lvalue, node.rvalue), both)[1]
        self.add((Assign(pointer.offset, self._moved(pointer.offset, step, node.op[0])),))
        return place

    def _is_array(self, node: c_ast.Node) -> bool:
        meaning = self._names.meaning(node.name) if isinstance(node, c_ast.ID) else None
        return isinstance(meaning, Variable | Structure) and self._in_array(meaning)

    def _is_element(self, node: c_ast.Node) -> bool:
        """Whether what lies beside an element in the program's array does so in C."""
        match node:
            case c_ast.ArrayRef(name=c_ast.ID() | c_ast.StructRef()):
                return True
            case c_ast.UnaryOp(op="*"):
                return True
        return False


def is_pointer(node: c_ast.Node) -> bool:
    """Whether a parameter's type is a pointer, which it is for an array too."""
    return isinstance(node, c_ast.PtrDecl | c_ast.ArrayDecl)
