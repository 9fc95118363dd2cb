"""Expressions evaluated in concrete states, over machine or mathematical integers."""

from collections.abc import Callable, Mapping

from llmchecker.programs.expressions import (
    SHIFTS,
    Binary,
    Cast,
    Constant,
    Element,
    Expression,
    Identifier,
    Nondet,
    Quantified,
    Semantics,
    Ternary,
    Type,
    Unary,
    common_type,
    converted_number,
    is_truth,
    promoted,
    type_of,
    walk,
    wrapped_to,
)

ConcreteState = dict[str, object]
"""The value of every variable: an int, or a dict from index to int for an array."""


def copied(state: ConcreteState) -> ConcreteState:
    """A state that stays as it is when the other one changes."""
    return {name: dict(v) if isinstance(v, dict) else v for name, v in state.items()}


Evaluation = Callable[[ConcreteState], int]
"""An expression made ready: a function from a state to its value."""

_LARGEST_BITS = 4096
"""The longest mathematical integer that is computed: a loop may square a number again and again."""

_WINDOW = 3
"""A quantifier is tried with the values from -3 to 2, and with the known indices of its arrays."""


class Undetermined(Exception):
    """No value is known: the tried values do not decide a quantifier, or a number is too long."""


class Violation(Exception):
    """An assertion that does not hold, or an index, a divisor or a shift out of range."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


class Evaluator:
    """Evaluates expressions in concrete states.

    Args:
        types: the types of the program's variables.
        draw: returns a value of a type, wherever the program leaves one open.
    """

    def __init__(
        self, semantics: Semantics, types: Mapping[str, Type], draw: Callable[[Type], int]
    ) -> None:
        self._semantics = semantics
        self._machine = semantics is Semantics.INT32
        self._types = types
        self._draw = draw

    def value(self, expression: Expression) -> Evaluation:
        """A function from a state to the value of an expression.

        The function raises Undetermined where the value is not decided.
        """
        match expression:
            case Constant(value=value):
                return lambda state: value
            case Identifier(name=name):
                return lambda state: state[name]
            case Element(array=array, index=index):
                return self._element(array, index)
            case Nondet(type=type_):
                return lambda state: self._draw(type_)
            case Quantified():
                return self._quantified(expression)
            case Ternary(condition=condition, then=then, otherwise=otherwise):
                to = type_of(expression, self._types)
                test, a, b = (
                    self.value(condition),
                    self.as_type(then, to),
                    self.as_type(otherwise, to),
                )
                return lambda state: a(state) if test(state) else b(state)
            case Unary(operator="!", operand=operand):
                test = self.value(operand)
                return lambda state: int(not test(state))
            case Unary(operator=op, operand=operand):
                to = promoted(type_of(operand, self._types))
                inner, function = self.as_type(operand, to), _UNARY[op]
                return lambda state: self.wrapped(function(inner(state)), to)
            case Cast(type=type_, operand=operand):
                return self.as_type(operand, type_)
            case Binary(operator="&&", left=left, right=right):
                a, b = self.value(left), self.value(right)
                return lambda state: int(bool(a(state)) and bool(b(state)))
            case Binary(operator="||", left=left, right=right):
                a, b = self.value(left), self.value(right)
                return lambda state: int(bool(a(state)) or bool(b(state)))
            case Binary(operator=op, left=left, right=right) if op in SHIFTS:
                return self._shifted(op, left, right)
            case Binary(operator=op, left=left, right=right):
                return self._computed(op, left, right, is_truth(expression))
        raise TypeError(expression)

    def as_type(self, expression: Expression, to: Type) -> Evaluation:
        """A function from a state to the value of an expression converted to an integer type."""
        value = self.value(expression)
        from_ = type_of(expression, self._types)
        if from_ == to or (from_.signed and to.signed and not self._machine):
            return value
        return lambda state: converted_number(value(state), from_, to, self._semantics)

    def wrapped(self, value: int, type_: Type) -> int:
        """A result reduced to the range of its type; a mathematical integer stays as it is."""
        if self._machine or not type_.signed:
            return wrapped_to(value, type_)
        if value.bit_length() > _LARGEST_BITS:
            raise Undetermined
        return value

    def index(self, array: str, index: Expression) -> Evaluation:
        """A function from a state to an index that is in the array's range."""
        value = self.value(index)
        length = self.value(self._types[array].length)

        def checked(state: ConcreteState) -> int:
            at = value(state)
            if not 0 <= at < length(state):
                raise Violation(0)
            return at

        return checked

    def _element(self, array: str, index: Expression) -> Evaluation:
        at = self.index(array, index)
        element = self._types[array].element

        def read(state: ConcreteState) -> int:
            place = at(state)
            values = state[array]
            # An element is drawn when it is first read, since arrays may be long.
            if place not in values:
                values[place] = self._draw(element)
            return values[place]

        return read

    def _computed(self, op: str, left: Expression, right: Expression, truth: bool) -> Evaluation:
        to = common_type(type_of(left, self._types), type_of(right, self._types))
        a, b = self.as_type(left, to), self.as_type(right, to)
        function = _FUNCTIONS[op]
        if truth:
            return lambda state: int(function(a(state), b(state)))
        if op in ("/", "%") and self._machine and to.signed:
            return self._divided(function, a, b, to)
        return lambda state: self.wrapped(function(a(state), b(state)), to)

    def _shifted(self, op: str, left: Expression, right: Expression) -> Evaluation:
        """A shift, by less than the width of what is shifted (C11 6.5.7)."""
        to = promoted(type_of(left, self._types))
        a, by = self.as_type(left, to), self.value(right)

        def shift(state: ConcreteState) -> int:
            value, places = a(state), by(state)
            if not 0 <= places < to.bits:
                raise Violation(0)
            return self.wrapped(value << places if op == "<<" else value >> places, to)

        return shift

    def _divided(
        self, function: Callable[[int, int], int], a: Evaluation, b: Evaluation, to: Type
    ) -> Evaluation:
        """A quotient or remainder of machine integers, which traps if the quotient is too large.

        That happens only when the least number is divided by -1 (C11 6.5.5p6).
        """
        least = -(1 << to.bits - 1)

        def divide(state: ConcreteState) -> int:
            dividend, divisor = a(state), b(state)
            if dividend == least and divisor == -1:
                raise Violation(0)
            return self.wrapped(function(dividend, divisor), to)

        return divide

    def _quantified(self, expression: Quantified) -> Evaluation:
        """A quantifier's value where one tried value decides it; else it raises Undetermined."""
        body = self.value(expression.body)
        universal = expression.quantifier == "forall"
        arrays = [node.array for node in walk(expression.body) if isinstance(node, Element)]

        def decide(state: ConcreteState) -> int:
            known = {index for array in arrays for index in state[array]}
            for value in sorted(known | set(range(-_WINDOW, _WINDOW))):
                try:
                    holds = body({**state, expression.variable: value})
                except Violation:
                    # Out of an array's range the body says nothing that a run could show.
                    continue
                if bool(holds) != universal:
                    return int(not universal)
            raise Undetermined

        return decide


def _quotient(a: int, b: int) -> int:
    """C's quotient, rounded towards zero; Python's `//` rounds down."""
    if b == 0:
        raise Violation(0)
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


_UNARY: dict[str, Callable[[int], int]] = {"-": lambda a: -a, "~": lambda a: ~a}

_FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _quotient,
    "%": lambda a, b: a - b * _quotient(a, b),
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}
