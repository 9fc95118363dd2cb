"""What is asked of a program: its assertions, calls that must not be reached, or no overflow."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import StrEnum

from llmchecker.programs.expressions import (
    Binary,
    Cast,
    Constant,
    Element,
    Expression,
    Identifier,
    Nondet,
    Ternary,
    Type,
    Unary,
    children,
    common_type,
    is_open,
    promoted,
    type_of,
    with_children,
)
from llmchecker.programs.statements import (
    Assert,
    Assign,
    Assume,
    Block,
    Branch,
    Break,
    Labelled,
    Loop,
    Program,
    Statement,
)

_LONG = Type(64)


class Property(StrEnum):
    """What must hold in every run of a program."""

    ASSERT = "assert"
    """Every assertion, whatever it is written with; and no value is out of range."""
    REACH = "reach"
    """`reach_error` and its like are never called. What `assert` finds false only ends the run."""
    NO_OVERFLOW = "no-overflow"
    """No signed arithmetic overflows, and nothing is divided by zero. Assertions end runs."""


def overflow_asserted(program: Program) -> Program:
    """The program with an assertion before all that may overflow or divide by zero.

    Signed `+`, `-`, `*`, unary `-`, `<<`, `/` and `%` overflow where their mathematical result is
    no value of their type (C11 6.5p5). Conversions do not. What is not evaluated, behind `&&`, `||`
    and `?:`, is not asserted. The program keeps no other assertions than those of the C language.
    """
    return replace(program, **_Asserting(program).changed())


class _Asserting:
    """Writes the assertions of one program."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._types = dict(program.types)

    def changed(self) -> dict:
        """The parts of the program that change."""
        body = self._block(self._program.body)
        return {"body": body, "types": self._types, "lowered": True, "ranges": False}

    def _block(self, block: Block) -> Block:
        return tuple(new for statement in block for new in self._statement(statement))

    def _statement(self, statement: Statement) -> Iterator[Statement]:
        match statement:
            case Assign(target=target, value=value):
                value, before = self._defined(value, statement.line)
                index = target.index if isinstance(target, Element) else Constant(0)
                place, of_index = self._defined(index, statement.line)
                if isinstance(target, Element):
                    target = replace(target, index=place)
                yield from (*before, *of_index, replace(statement, target=target, value=value))
            case Assume(condition=condition):
                condition, before = self._defined(condition, statement.line)
                yield from (*before, replace(statement, condition=condition))
            case Assert():
                yield statement
            case Branch(condition=condition, then=then, otherwise=otherwise):
                condition, before = self._defined(condition, statement.line)
                yield from before
                blocks = self._block(then), self._block(otherwise)
                yield replace(statement, condition=condition, then=blocks[0], otherwise=blocks[1])
            case Loop():
                yield from self._loop(statement)
            case Labelled(body=body):
                yield replace(statement, body=self._block(body))
            case _:
                yield statement

    def _loop(self, loop: Loop) -> Iterator[Statement]:
        guard, before = self._defined(loop.guard, loop.line)
        body, step = self._block(loop.body), self._block(loop.step)
        if not before:
            yield replace(loop, body=body, step=step)
        elif guard == loop.guard:
            yield from before
            yield replace(loop, body=body, step=(*step, *before))
        else:
            # A guard that draws a value is drawn first, so it moves into the loop.
            test = Branch(guard, (), (Break(),))
            yield replace(loop, guard=Constant(1), body=(*before, test, *body), step=step)

    def _defined(self, expression: Expression, line: int) -> tuple[Expression, Block]:
        """An expression, and what must run and hold before it is evaluated."""
        condition = self._check(expression)
        if condition is None:
            return expression, ()
        drawn: list[Statement] = []
        if is_open(condition):
            # The value that is looked at must be the one that is used.
            expression = self._drawn(expression, drawn)
            condition = self._check(expression)
        return expression, (*drawn, Assert(condition, max(line, 1)))

    def _drawn(self, expression: Expression, drawn: list[Statement]) -> Expression:
        """The expression with a variable for each value that it draws."""
        if isinstance(expression, Nondet):
            name, count = "drawn", 1
            while name in self._types or name in self._program.source:
                count += 1
                name = f"drawn_{count}"
            self._types[name] = expression.type
            drawn.append(Assign(Identifier(name), expression))
            return Identifier(name)
        return with_children(expression, lambda part: self._drawn(part, drawn))

    def _check(self, expression: Expression) -> Expression | None:
        """What must hold so that the expression is defined; None if it always is."""
        match expression:
            case Binary(operator="&&" | "||" as op, left=left, right=right):
                later = self._check(right)
                if later is not None:
                    later = Ternary(left, *((later, _TRUE) if op == "&&" else (_TRUE, later)))
                return _both(self._check(left), later)
            case Ternary(condition=condition, then=then, otherwise=otherwise):
                first, second = self._check(then), self._check(otherwise)
                chosen = None
                if first is not None or second is not None:
                    chosen = Ternary(condition, first or _TRUE, second or _TRUE)
                return _both(self._check(condition), chosen)
        conditions = [self._check(part) for part in children(expression)]
        return _both(*conditions, self._own(expression))

    def _own(self, expression: Expression) -> Expression | None:
        """What must hold of the operands of the outermost operator."""
        match expression:
            case Unary(operator="-", operand=operand):
                type_ = type_of(operand, self._types)
                if type_.signed and type_.bits >= 32 and not isinstance(operand, Constant):
                    return Binary("!=", operand, Constant(type_.least))
            case Binary(operator="<<", left=left, right=right):
                type_ = promoted(type_of(left, self._types))
                if type_.signed:
                    most, least = (
                        Binary(">>", _of(type_, bound), right)
                        for bound in (type_.most, type_.least)
                    )
                    return _both(Binary("<=", left, most), Binary(">=", left, least))
            case Binary(operator="+" | "-" | "*" | "/" | "%" as op, left=left, right=right):
                types = (type_of(side, self._types) for side in (left, right))
                type_ = common_type(*types)
                if op in ("/", "%"):
                    return _divisible(left, right, type_)
                if type_.signed:
                    return _RULES[op](left, right, type_)
        return None


_TRUE = Constant(1)


def _both(*conditions: Expression | None) -> Expression | None:
    """All of the conditions that there are; None if there is none."""
    joined = None
    for condition in conditions:
        if condition is not None and condition != joined:
            joined = condition if joined is None else Binary("&&", joined, condition)
    return joined


def _of(type_: Type, value: int) -> Expression:
    """A constant of a type."""
    return Cast(type_, Constant(value))


def _divisible(left: Expression, right: Expression, type_: Type) -> Expression | None:
    """No division by zero, and not of the least number by -1."""
    if isinstance(right, Constant) and right.value not in (0, -1):
        return None
    least = None
    if type_.signed:
        least = Binary("!=", right, Constant(-1))
        least = Binary("||", Binary("!=", left, Constant(type_.least)), least)
    return _both(Binary("!=", right, Constant(0)), least)


def _sum(left: Expression, right: Expression, type_: Type) -> Expression | None:
    if isinstance(left, Constant):
        left, right = right, left
    if isinstance(right, Constant):
        if right.value >= 0:
            return Binary("<=", left, Constant(type_.most - right.value))
        return Binary(">=", left, Constant(type_.least - right.value))
    if type_.bits < 64:
        return _wide("+", left, right, type_)
    upper = Binary("<=", left, Binary("-", _of(type_, type_.most), right))
    lower = Binary(">=", left, Binary("-", _of(type_, type_.least), right))
    return Ternary(Binary(">=", right, Constant(0)), upper, lower)


def _difference(left: Expression, right: Expression, type_: Type) -> Expression | None:
    if isinstance(right, Constant):
        return _sum(left, Constant(-right.value), type_)
    if type_.bits < 64:
        return _wide("-", left, right, type_)
    lower = Binary(">=", left, Binary("+", _of(type_, type_.least), right))
    upper = Binary("<=", left, Binary("+", _of(type_, type_.most), right))
    return Ternary(Binary(">=", right, Constant(0)), lower, upper)


def _product(left: Expression, right: Expression, type_: Type) -> Expression | None:
    if type_.bits < 64:
        return _wide("*", left, right, type_)
    most, least = _of(type_, type_.most), _of(type_, type_.least)

    def bound(op: str, value: Expression, limit: Expression, by: Expression) -> Expression:
        return Binary(op, value, Binary("/", limit, by))

    # By the signs of both (SEI CERT C, INT32-C).
    above = Ternary(
        Binary(">", right, Constant(0)),
        bound("<=", left, most, right),
        bound(">=", right, least, left),
    )
    nothing = Binary("==", left, Constant(0))
    below = Ternary(
        Binary(">", right, Constant(0)),
        bound(">=", left, least, right),
        Binary("||", nothing, bound(">=", right, most, left)),
    )
    return Ternary(Binary(">", left, Constant(0)), above, below)


def _wide(op: str, left: Expression, right: Expression, type_: Type) -> Expression:
    """The result in 64 bits is a value of a type of fewer."""
    result = Binary(op, Cast(_LONG, left), Cast(_LONG, right))
    least = Binary("<=", Constant(type_.least), result)
    return Binary("&&", least, Binary("<=", result, Constant(type_.most)))


_RULES: dict[str, Callable[[Expression, Expression, Type], Expression | None]] = {
    "+": _sum,
    "-": _difference,
    "*": _product,
}
