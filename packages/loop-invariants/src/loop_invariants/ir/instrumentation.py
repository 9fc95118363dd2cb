"""Properties of programs, and assertions against overflow and division by zero."""

from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum

from loop_invariants.ir.expressions import (
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
    has_nondet,
    with_children,
)
from loop_invariants.ir.statements import (
    Assert,
    Assign,
    Assume,
    Block,
    Branch,
    Break,
    LabelledBlock,
    Loop,
    Program,
    Statement,
)


class Property(StrEnum):
    """A property that must hold in every run of a program."""

    ASSERT = "assert"
    """Every assertion holds, however it is written, and no value is out of range."""
    REACH = "reach"
    """`reach_error` and similar functions are never called; assertions end runs."""
    NO_OVERFLOW = "no-overflow"
    """No signed overflow and no division by zero occurs; assertions end runs."""


def add_overflow_assertions(program: Program) -> Program:
    """Insert assertions before operations that may overflow or divide by zero.

    Signed `+`, `-`, `*`, unary `-`, `<<`, `/` and `%` overflow where the mathematical result is not
    a value of the type (C11 6.5p5). Conversions do not overflow. Operands that `&&`, `||` and `?:`
    skip are not checked. Of the other assertions, only the rules of C remain.
    """
    return _OverflowInstrumenter(program).instrument()


class _OverflowInstrumenter:
    """An instrumenter for one program."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._types = dict(program.types)

    def instrument(self) -> Program:
        """Return the program with its assertions."""
        body = self._instrument_block(self._program.body)
        return replace(
            self._program,
            body=body,
            types=self._types,
            is_lowered=True,
            has_range_checks=False,
            needs_assertion=False,
        )

    def _instrument_block(self, block: Block) -> Block:
        return tuple(
            instrumented
            for statement in block
            for instrumented in self._instrument_statement(statement)
        )

    def _instrument_statement(self, statement: Statement) -> Iterator[Statement]:
        match statement:
            case Assign(target=target, value=value):
                value, checks = self._instrument_expression(value, statement.line)
                # An index is evaluated too; the literal 0 needs no condition.
                index = target.index if isinstance(target, Element) else Constant(0)
                index_value, index_checks = self._instrument_expression(index, statement.line)
                if isinstance(target, Element):
                    target = replace(target, index=index_value)
                yield from (*checks, *index_checks, replace(statement, target=target, value=value))
            case Assume(condition=condition):
                condition, checks = self._instrument_expression(condition, statement.line)
                yield from (*checks, replace(statement, condition=condition))
            case Assert():
                # The remaining assertions are rules of C, which need no instrumentation.
                yield statement
            case Branch(condition=condition, then=then, otherwise=otherwise):
                condition, checks = self._instrument_expression(condition, statement.line)
                yield from checks
                blocks = self._instrument_block(then), self._instrument_block(otherwise)
                yield replace(statement, condition=condition, then=blocks[0], otherwise=blocks[1])
            case Loop():
                yield from self._instrument_loop(statement)
            case LabelledBlock(body=body):
                yield replace(statement, body=self._instrument_block(body))
            case _:
                yield statement

    def _instrument_loop(self, loop: Loop) -> Iterator[Statement]:
        guard, checks = self._instrument_expression(loop.guard, loop.line)
        body, step = self._instrument_block(loop.body), self._instrument_block(loop.step)
        if not checks:
            # The guard is evaluated before the first iteration and after each step.
            yield replace(loop, body=body, step=step)
        elif guard == loop.guard:
            yield from checks
            yield replace(loop, body=body, step=(*step, *checks))
        else:
            # A guard that draws a value draws it in a statement, so the guard moves into the loop.
            guard_branch = Branch(guard, (), (Break(),))
            yield replace(loop, guard=Constant(1), body=(*checks, guard_branch, *body), step=step)

    def _instrument_expression(self, expression: Expression, line: int) -> tuple[Expression, Block]:
        """Return an expression, and the statements to execute before its evaluation."""
        condition = self._build_condition(expression)
        havocs: list[Statement] = []
        if condition is not None and has_nondet(condition):
            # The value that is checked must be the value that is used.
            expression = self._hoist_nondet(expression, havocs)
            condition = self._build_condition(expression)
        checks = () if condition is None else (Assert(condition, max(line, 1)),)
        return expression, (*havocs, *checks)

    def _hoist_nondet(self, expression: Expression, assignments: list[Statement]) -> Expression:
        """Assign each nondeterministic value of an expression to a new variable."""
        if isinstance(expression, Nondet):
            name, count = "drawn", 1
            # A name from the source would capture a variable of the program.
            while name in self._types or name in self._program.source:
                count += 1
                name = f"drawn_{count}"
            self._types[name] = expression.type
            variable = Identifier(name, expression.type)
            assignments.append(Assign(variable, expression))
            return variable
        return with_children(expression, lambda part: self._hoist_nondet(part, assignments))

    def _build_condition(self, expression: Expression) -> Expression | None:
        """Build the condition for an expression to be defined; None if it always is."""
        match expression:
            # The right operand is evaluated only for one value of the left.
            case Binary(operator="&&", left=left, right=right):
                return self._build_condition(Ternary(left, right, _TRUE))
            case Binary(operator="||", left=left, right=right):
                return self._build_condition(Ternary(left, _TRUE, right))
            case Ternary(condition=condition, then=then, otherwise=otherwise):
                then_condition, else_condition = (
                    self._build_condition(then),
                    self._build_condition(otherwise),
                )
                choice_condition = None
                if then_condition is not None or else_condition is not None:
                    choice_condition = Ternary(
                        condition, then_condition or _TRUE, else_condition or _TRUE
                    )
                return _conjoin(self._build_condition(condition), choice_condition)
        conditions = [self._build_condition(child) for child in children(expression)]
        return _conjoin(*conditions, self._build_operator_condition(expression))

    def _build_operator_condition(self, expression: Expression) -> Expression | None:
        """Build the condition on the operands of the outermost operator."""
        match expression:
            case Unary(operator="-", operand=operand):
                type_ = operand.type
                # Narrower types are promoted to int, and a negated literal cannot overflow.
                if type_.signed and type_.bits >= 32 and not isinstance(operand, Constant):
                    return Binary("!=", operand, Constant(type_.min_value))
            case Binary(operator="<<", left=left, right=right):
                type_ = expression.type
                # The operand is compared with shifted bounds, since the shift itself could
                # overflow.
                if type_.signed:
                    maximum, minimum = (
                        Binary(">>", _build_constant(type_, bound), right)
                        for bound in (type_.max_value, type_.min_value)
                    )
                    return _conjoin(Binary("<=", left, maximum), Binary(">=", left, minimum))
            case Binary(operator="+" | "-" | "*" | "/" | "%" as op, left=left, right=right):
                type_ = expression.type
                if op in ("/", "%"):
                    return _build_division_condition(left, right, type_)
                if type_.signed:
                    return _build_range_condition(op, left, right, type_)
        return None


_TRUE = Constant(1)


def _conjoin(*conditions: Expression | None) -> Expression | None:
    """Conjoin all conditions that are not None; return None if all are None."""
    conjunction = None
    for condition in conditions:
        # Both operands of an operator may need the same condition.
        if condition is not None and condition != conjunction:
            conjunction = condition if conjunction is None else Binary("&&", conjunction, condition)
    return conjunction


def _build_constant(type_: Type, value: int) -> Expression:
    """Build a constant of a type."""
    # C reads the smallest number of 64 bits as the negation of a number that does not fit.
    return Constant(value) if type_.bits < 64 else Cast(type_, Constant(value))


def _build_division_condition(
    left: Expression, right: Expression, type_: Type
) -> Expression | None:
    """Build the condition: no division by zero, nor of the smallest number by -1."""
    if isinstance(right, Constant) and right.value not in (0, -1):
        return None
    overflow_condition = None
    if type_.signed:
        overflow_condition = Binary("!=", right, Constant(-1))
        overflow_condition = Binary(
            "||", Binary("!=", left, Constant(type_.min_value)), overflow_condition
        )
    return _conjoin(Binary("!=", right, Constant(0)), overflow_condition)


def _build_range_condition(op: str, left: Expression, right: Expression, type_: Type) -> Expression:
    """Build the condition that the exact result of `+`, `-` or `*` is a value of the type."""
    if op == "+" and isinstance(left, Constant):
        left, right = right, left
    # Only one side needs a comparison where the other is a constant.
    if op in ("+", "-") and isinstance(right, Constant):
        step = right.value if op == "+" else -right.value
        if step >= 0:
            return Binary("<=", left, Constant(type_.max_value - step))
        return Binary(">=", left, Constant(type_.min_value - step))
    # In twice as many bits the result is exact.
    wide_type = Type(2 * type_.bits)
    result = Binary(op, Cast(wide_type, left), Cast(wide_type, right))
    lower_bound = Binary("<=", _build_constant(type_, type_.min_value), result)
    upper_bound = Binary("<=", result, _build_constant(type_, type_.max_value))
    return Binary("&&", lower_bound, upper_bound)
