"""Evaluator of expressions in concrete states, by the semantics of integers."""

from collections.abc import Callable
from typing import Any

from loop_invariants.ir.expressions import (
    OPERATIONS,
    Element,
    Expression,
    Quantified,
    Semantics,
    Type,
    convert_number,
    iter_subexpressions,
    wrap,
)
from loop_invariants.ir.interpretation import Interpretation

ConcreteState = dict[str, Any]
"""Value of every variable: an int, or a dict from index to int for an array."""


def copy_state(state: ConcreteState) -> ConcreteState:
    """Copy a state, so that changes of the original have no effect on the copy."""
    return {name: dict(v) if isinstance(v, dict) else v for name, v in state.items()}


CompiledExpression = Callable[[ConcreteState], int]
"""A compiled expression: a function from a state to its value."""

_MAX_BITS = 4096
"""Maximum bits of a mathematical integer: a loop may square a number repeatedly."""

_QUANTIFIER_WINDOW = 3
"""Bound of the values tried for a quantifier, next to known indices: -3 to 2."""


class Undetermined(Exception):
    """No known value: a quantifier is undecided, or a number is too long."""


class Violation(Exception):
    """A failed assertion, or an index, a divisor or a shift out of range."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


class Evaluator(Interpretation[CompiledExpression, CompiledExpression]):
    """A compiler from expressions to functions of concrete states.

    A compiled expression raises Undetermined where the value is not decided.

    Args:
        semantics: semantics of the integers.
        draw: returns a nondeterministic value of a type.
    """

    def __init__(self, semantics: Semantics, draw: Callable[[Type], int]) -> None:
        self._semantics = semantics
        self._is_wrapping = semantics is Semantics.INT32
        self._draw = draw

    def _constant(self, value: int) -> CompiledExpression:
        return lambda state: value

    def _variable(self, name: str) -> CompiledExpression:
        return lambda state: state[name]

    def _nondet(self, type_: Type) -> CompiledExpression:
        return lambda state: self._draw(type_)

    def _convert(self, value: CompiledExpression, from_: Type, to: Type) -> CompiledExpression:
        # Signed mathematical integers are unbounded, so no conversion changes them.
        if from_ == to or (from_.signed and to.signed and not self._is_wrapping):
            return value
        return lambda state: convert_number(value(state), from_, to, self._semantics)

    def _apply_unary(self, op: str, value: CompiledExpression, type_: Type) -> CompiledExpression:
        function = _UNARY_FUNCTIONS[op]
        return lambda state: self._wrap(function(value(state)), type_)

    def _choose(
        self, condition: Expression, then: Expression, otherwise: Expression, type_: Type
    ) -> CompiledExpression:
        test, a, b = (
            self.interpret_condition(condition),
            self.interpret_as(then, type_),
            self.interpret_as(otherwise, type_),
        )
        return lambda state: a(state) if test(state) else b(state)

    def _from_truth(self, truth: CompiledExpression) -> CompiledExpression:
        return truth

    def _is_nonzero(self, value: CompiledExpression, type_: Type) -> CompiledExpression:
        return value

    def _negate(self, truth: CompiledExpression) -> CompiledExpression:
        return lambda state: int(not truth(state))

    def _connect(self, op: str, left: Expression, right: Expression) -> CompiledExpression:
        a, b = self.interpret_condition(left), self.interpret_condition(right)
        if op == "&&":
            return lambda state: int(bool(a(state)) and bool(b(state)))
        return lambda state: int(bool(a(state)) or bool(b(state)))

    def _compare(
        self, op: str, a: CompiledExpression, b: CompiledExpression, type_: Type
    ) -> CompiledExpression:
        function = OPERATIONS[op]
        return lambda state: int(function(a(state), b(state)))

    def _wrap(self, value: int, type_: Type) -> int:
        """Reduce a result to the range of its type, if it has one."""
        if self._is_wrapping or not type_.signed:
            return wrap(value, type_)
        # Longer numbers would slow down every further operation.
        if value.bit_length() > _MAX_BITS:
            raise Undetermined
        return value

    def compile_index(self, element: Element) -> CompiledExpression:
        """Compile the index of an element, with a check of the array's range."""
        value = self.interpret(element.index)
        length = self.interpret(element.length)

        def evaluate(state: ConcreteState) -> int:
            position = value(state)
            if not 0 <= position < length(state):
                raise Violation(0)
            return position

        return evaluate

    def _element(self, element: Element) -> CompiledExpression:
        compute_index = self.compile_index(element)

        def read(state: ConcreteState) -> int:
            index_value = compute_index(state)
            values: dict[int, int] = state[element.array]
            # An element is drawn when it is first read, since arrays may be long.
            if index_value not in values:
                values[index_value] = self._draw(element.type)
            return values[index_value]

        return read

    def _apply_binary(
        self, op: str, a: CompiledExpression, b: CompiledExpression, type_: Type, right: Expression
    ) -> CompiledExpression:
        function = OPERATIONS[op]
        if op in ("/", "%"):
            return self._compile_division(function, a, b, type_)
        return lambda state: self._wrap(function(a(state), b(state)), type_)

    def _apply_shift(
        self,
        op: str,
        value: CompiledExpression,
        places: CompiledExpression,
        type_: Type,
        of_places: Type,
    ) -> CompiledExpression:

        def shift(state: ConcreteState) -> int:
            number, distance = value(state), places(state)
            if not 0 <= distance < type_.bits:
                raise Violation(0)
            return self._wrap(number << distance if op == "<<" else number >> distance, type_)

        return shift

    def _compile_division(
        self,
        function: Callable[[int, int], int],
        a: CompiledExpression,
        b: CompiledExpression,
        result_type: Type,
    ) -> CompiledExpression:
        """Compile a division or remainder, which traps for a divisor of 0 and on overflow.

        It overflows only when the smallest number is divided by -1 (C11 6.5.5p6).
        """
        can_overflow = self._is_wrapping and result_type.signed

        def divide(state: ConcreteState) -> int:
            dividend, divisor = a(state), b(state)
            is_overflow = divisor == -1 and dividend == result_type.min_value
            if divisor == 0 or (can_overflow and is_overflow):
                raise Violation(0)
            return self._wrap(function(dividend, divisor), result_type)

        return divide

    def _quantify(self, expression: Quantified) -> CompiledExpression:
        body = self.interpret_condition(expression.body)
        is_universal = expression.quantifier == "forall"
        arrays = [
            node.array for node in iter_subexpressions(expression.body) if isinstance(node, Element)
        ]

        def decide(state: ConcreteState) -> int:
            # Elements that a run has never read have no value yet.
            indices = {index for array in arrays for index in state[array]}
            for value in sorted(indices | set(range(-_QUANTIFIER_WINDOW, _QUANTIFIER_WINDOW))):
                try:
                    truth = body({**state, expression.variable: value})
                except Violation:
                    # Outside an array's range the body is undefined, so the run shows nothing.
                    continue
                # A counterexample decides `forall`, and a witness decides `exists`.
                if bool(truth) != is_universal:
                    return int(not is_universal)
            raise Undetermined

        return decide


_UNARY_FUNCTIONS: dict[str, Callable[[int], int]] = {"-": lambda a: -a, "~": lambda a: ~a}
