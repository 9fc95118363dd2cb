"""Many rounds of a loop at once, where they are alike.

A round is followed from a concrete state, once with the numbers themselves and once with
polynomials over the numbers at its beginning. If every variable then gets its old value and a
polynomial of others that are known, its value after any number of rounds is a polynomial in that
number. Each comparison on the way, and each place where a number could wrap around and that be
noticed, is a polynomial too whose sign must not turn; before the first round in which one does, all
rounds are alike (acceleration, Boigelot 1998). So the state after 4,000,000,000 rounds is exact.

Polynomials are over sequences of whole numbers that never wrap around, and the variables are equal
to them modulo 2 to the width of their type. Only where a value as such matters, as in a comparison,
it is brought into its type's range, and has to stay between the same two multiples of that power.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from llmchecker.programs.closed_forms import (
    NoClosedForm,
    Polynomial,
    names_in,
    over,
    product_of,
    scaled,
    solved,
    sum_of,
    value_of,
)
from llmchecker.programs.evaluation import ConcreteState
from llmchecker.programs.expressions import (
    BOOL,
    COMPARISONS,
    Binary,
    Cast,
    Constant,
    Expression,
    Identifier,
    Nondet,
    Quantified,
    Semantics,
    Ternary,
    Type,
    Unary,
    common_type,
    is_truth,
    promoted,
    type_of,
    wrapped_to,
)
from llmchecker.programs.progressions import Progression, at, delayed, turns
from llmchecker.programs.statements import (
    Assert,
    Assign,
    Assume,
    Block,
    Branch,
    Break,
    Continue,
    Forget,
    Labelled,
    Leave,
    Loop,
    Program,
    Statement,
    changed,
)

MOST_ROUNDS = 2**64
"""The most rounds that are looked ahead."""

_MOST_STATEMENTS = 300
"""The most statements of rounds that are followed; longer ones are rarely alike."""


@dataclass(frozen=True)
class Rounds:
    """Rounds of a loop that are alike.

    Attributes:
        most: so many of them can be passed at once; 0 if no closed form is known.
    """

    most: int
    _after: Mapping[str, tuple[Progression, Type | None]]

    def after(self, count: int) -> dict[str, int]:
        """The variables that the rounds change, after `count` of them, at least 1."""
        found = {}
        for name, (progression, type_) in self._after.items():
            value = at(progression, count)
            found[name] = value if type_ is None else wrapped_to(value, type_)
        return found


NONE = Rounds(0, {})


def alike(
    program: Program,
    semantics: Semantics,
    loop: Loop,
    state: ConcreteState,
    draws: Sequence[int],
    period: int = 1,
) -> Rounds:
    """How often the rounds that begin in a state may be repeated.

    Args:
        loop: a loop of the program.
        state: at its head.
        draws: what the rounds draw, each time they are repeated.
        period: so many rounds of the loop count as one.

    Returns:
        Rounds that take the same way through the loop each time, and come to its head again.
    """
    try:
        return _closed(_Follower(program, semantics, state, draws, loop), period)
    except NoClosedForm:
        return NONE


@dataclass(frozen=True)
class _Value:
    """A value in a round.

    Attributes:
        polynomial: over the variables at the beginning of the round.
        bits: the value is equal to it modulo 2 to this power; None if it is equal to it.
    """

    polynomial: Polynomial
    bits: int | None = None


_Left = Break | Continue | Leave | None


class _Follower:
    """Follows the way that rounds take from a state.

    Attributes:
        values: of the variables that the loop changes.
        kept: polynomials that must not become negative for rounds to go the same way.
        multiples: polynomials whose remainder by a number must stay the same.
    """

    def __init__(
        self,
        program: Program,
        semantics: Semantics,
        state: ConcreteState,
        draws: Sequence[int],
        loop: Loop,
    ) -> None:
        self.types = program.types
        self.loop = loop
        self.state = state
        self._machine = semantics is Semantics.INT32
        self._draws: Iterator[int] = iter(draws)
        self._left = _MOST_STATEMENTS
        self.values: dict[str, _Value] = {}
        for name in sorted(changed((loop,))):
            if self.types[name].array:
                raise NoClosedForm
            self.values[name] = _Value({(name,): 1}, self.width(self.types[name]))
        self.kept: list[Polynomial] = []
        self.multiples: list[tuple[Polynomial, int]] = []

    def width(self, type_: Type) -> int | None:
        """The bits to which numbers of a type are reduced; None if they have no border."""
        return type_.bits if self._machine or not type_.signed else None

    def follow(self, period: int) -> None:
        """Follow some rounds, which must use up what was drawn."""
        for _ in range(period):
            if not self._truth(self.loop.guard) or self._through(self.loop):
                raise NoClosedForm
        if next(self._draws, None) is not None:
            raise NoClosedForm

    def _through(self, loop: Loop) -> _Left:
        """How a round of a loop was left for good; None if it comes to the head again."""
        left = self._block(loop.body)
        if isinstance(left, Break | Leave):
            return left
        return self._block(loop.step)

    def _block(self, block: Block) -> _Left:
        for statement in block:
            left = self._statement(statement)
            if left is not None:
                return left
        return None

    def _statement(self, statement: Statement) -> _Left:
        self._left -= 1
        if self._left < 0:
            raise NoClosedForm
        match statement:
            case Assign(target=Identifier(name=name), value=value):
                self.values[name] = self._as_type(value, self.types[name])
            case Forget(name=name) if not self.types[name].array:
                self.values[name] = self._drawn()
            case Assume(condition=condition) | Assert(condition=condition):
                if not self._truth(condition):
                    raise NoClosedForm
            case Branch(condition=condition, then=then, otherwise=otherwise):
                return self._block(then if self._truth(condition) else otherwise)
            case Labelled(label=label, body=body):
                left = self._block(body)
                return None if left == Leave(label) else left
            case Loop():
                while self._truth(statement.guard):
                    self._left -= 1
                    left = self._through(statement)
                    if left is not None:
                        return None if left == Break() else left
            case Break() | Continue() | Leave():
                return statement
            case _:
                raise NoClosedForm
        return None

    def _drawn(self) -> _Value:
        value = next(self._draws, None)
        if value is None:
            raise NoClosedForm
        return _constant(value)

    def _truth(self, expression: Expression) -> bool:
        """Whether a condition holds, which it must do in the other rounds too if it does here."""
        match expression:
            case Unary(operator="!", operand=operand):
                return not self._truth(operand)
            case Binary(operator="&&", left=left, right=right):
                return self._truth(left) and self._truth(right)
            case Binary(operator="||", left=left, right=right):
                return self._truth(left) or self._truth(right)
            case Binary(operator=op, left=left, right=right) if op in COMPARISONS:
                to = common_type(type_of(left, self.types), type_of(right, self.types))
                return self._compared(op, self._exact(left, to), self._exact(right, to))
        type_ = type_of(expression, self.types)
        return self._compared("!=", self._exact(expression, type_), {})

    def _compared(self, op: str, left: Polynomial, right: Polynomial) -> bool:
        difference = sum_of(left, right, -1)
        here = self._number(difference)
        sign = (here > 0) - (here < 0)
        if op in ("==", "!="):
            if sign == 0:
                self.kept += [difference, scaled(difference, -1)]
            else:
                self.kept.append(sum_of(scaled(difference, sign), {(): -1}))
            return (sign == 0) == (op == "==")
        if op in ("<", ">="):  # negative, or not
            self.kept.append(difference if sign >= 0 else sum_of({(): -1}, difference, -1))
            return (sign < 0) == (op == "<")
        self.kept.append(scaled(difference, -1) if sign <= 0 else sum_of(difference, {(): -1}))
        return (sign > 0) == (op == ">")

    def _number(self, polynomial: Polynomial) -> int:
        """The value of a polynomial here."""
        return value_of(polynomial, self.state)

    def _exact(self, expression: Expression, to: Type) -> Polynomial:
        """A polynomial that is equal to an expression converted to a type."""
        return self._brought(self._as_type(expression, to), to)

    def _brought(self, value: _Value, type_: Type) -> Polynomial:
        """A polynomial that is equal to a value of a type."""
        if value.bits is None:
            return value.polynomial
        if value.bits < type_.bits:
            raise NoClosedForm
        here = self._number(value.polynomial)
        brought = sum_of(value.polynomial, {(): wrapped_to(here, type_) - here})
        self.kept.append(sum_of(brought, {(): -type_.least}))
        self.kept.append(sum_of({(): type_.most}, brought, -1))
        return brought

    def _as_type(self, expression: Expression, to: Type) -> _Value:
        from_ = type_of(expression, self.types)
        return self._converted(self._value(expression), from_, to)

    def _converted(self, value: _Value, from_: Type, to: Type) -> _Value:
        if from_ == to:
            return value
        if to == BOOL:
            return _constant(self._compared("!=", self._brought(value, from_), {}))
        # as in `converted_number`
        bounded = not to.signed or (not from_.signed and from_.bits >= to.bits)
        if self.width(to) is None:
            if bounded:
                value, from_ = _Value(value.polynomial, to.bits), to
            return _Value(self._brought(value, from_))
        if value.bits is not None and value.bits < to.bits:
            value = _Value(self._brought(value, from_))
        return self._wrapped(value, to)

    def _wrapped(self, value: _Value, type_: Type) -> _Value:
        """A result reduced to the range of its type."""
        bits = self.width(type_)
        if bits is None:
            return value
        if set(value.polynomial) <= {()} and value.bits is None:
            return _constant(wrapped_to(value.polynomial.get((), 0), type_))
        return _Value(value.polynomial, bits if value.bits is None else min(bits, value.bits))

    def _value(self, expression: Expression) -> _Value:
        match expression:
            case Constant(value=value):
                return _constant(value)
            case Identifier(name=name):
                return self.values.get(name) or _constant(self.state[name])
            case Nondet():
                return self._drawn()
            case Cast(type=type_, operand=operand):
                return self._as_type(operand, type_)
            case Ternary(condition=condition, then=then, otherwise=otherwise):
                to = type_of(expression, self.types)
                return self._as_type(then if self._truth(condition) else otherwise, to)
            case Unary(operator="-" | "~" as op, operand=operand):
                to = promoted(type_of(operand, self.types))
                value = self._as_type(operand, to)
                start = {(): -1} if op == "~" else {}
                return self._wrapped(_Value(sum_of(start, value.polynomial, -1), value.bits), to)
            case Binary(operator="+" | "-" | "*" | "%" as op, left=left, right=right):
                to = common_type(type_of(left, self.types), type_of(right, self.types))
                a, b = self._as_type(left, to), self._as_type(right, to)
                if op == "%":
                    return self._remainder(self._brought(a, to), self._brought(b, to))
                if op == "*":
                    combined = product_of(a.polynomial, b.polynomial)
                else:
                    combined = sum_of(a.polynomial, b.polynomial, 1 if op == "+" else -1)
                known = [bits for bits in (a.bits, b.bits) if bits is not None]
                return self._wrapped(_Value(combined, min(known, default=None)), to)
        if is_truth(expression) and not isinstance(expression, Quantified):
            return _constant(self._truth(expression))
        raise NoClosedForm

    def _remainder(self, dividend: Polynomial, divisor: Polynomial) -> _Value:
        """A remainder by a constant, where the dividend changes by its multiples."""
        by = abs(divisor.get((), 0))
        if by < 2 or set(divisor) != {()}:
            raise NoClosedForm
        here = self._number(dividend)
        self.kept.append(dividend if here >= 0 else scaled(dividend, -1))
        self.multiples.append((dividend, by))
        return _constant(abs(here) % by * (1 if here >= 0 else -1))


def _closed(follower: _Follower, period: int) -> Rounds:
    """What rounds do, and how often they may be repeated."""
    follower.follow(period)
    after = {name: value.polynomial for name, value in follower.values.items()}
    asked = [*follower.kept, *(polynomial for polynomial, _ in follower.multiples)]
    wanted = names_in([*asked, *after.values()])
    found = solved(after, follower.state, wanted)
    for polynomial, by in follower.multiples:
        if any(step % by for step in over(polynomial, found)[1:]):
            raise NoClosedForm
    most = MOST_ROUNDS
    for polynomial in follower.kept:
        most = min([most, *turns(over(polynomial, found), most)[:1]])
    reached = {}
    for name, polynomial in after.items():
        # A variable that no round reads has the value that the last round gives it.
        progression = found[name] if name in found else delayed(over(polynomial, found))
        type_ = follower.types[name]
        reached[name] = (progression, type_ if follower.width(type_) else None)
    return Rounds(most, reached)


def _constant(value: int) -> _Value:
    return _Value({(): int(value)} if value else {})
