"""Closed forms of the iterations of a loop: how many of them are identical.

An iteration is executed from a concrete state, with numbers and with polynomials over the initial
numbers. If a variable gets its old value plus a polynomial of solved variables, its later values
are a polynomial in the number of iterations. Each comparison, and each point where a wrapped number
has an effect, is also a polynomial, whose sign must stay the same. All iterations before the first
change of sign are identical (acceleration, Boigelot 1998). The state after 4,000,000,000 iterations
is therefore exact.

Polynomials are over integer sequences that never wrap around. Variables are equal to them modulo 2
to the power of the type's width. For a comparison, the value is reduced to the range of its type.
It must then stay between the same two multiples of that power.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from loop_invariants.interpreter.evaluator import ConcreteState
from loop_invariants.interpreter.integer_sequences import (
    PolynomialSequence,
    delay,
    evaluate_at,
    sign_changes,
)
from loop_invariants.interpreter.recurrences import (
    NoClosedForm,
    compose,
    product_of,
    solve,
)
from loop_invariants.ir.expressions import (
    BOOL,
    Element,
    Expression,
    Identifier,
    Quantified,
    Semantics,
    Type,
    wrap,
)
from loop_invariants.ir.interpretation import Interpretation
from loop_invariants.ir.polynomials import Polynomial, evaluate, find_variables, scale, sum_of
from loop_invariants.ir.statements import (
    Assert,
    Assign,
    Assume,
    Block,
    Branch,
    Break,
    BreakTo,
    Continue,
    Havoc,
    LabelledBlock,
    Loop,
    Program,
    Statement,
    find_modified_variables,
)

MAX_ROUNDS = 2**64
"""Maximum number of iterations to look ahead."""

_MAX_STATEMENTS = 300
"""Maximum number of statements of a period; longer ones rarely repeat."""


@dataclass(frozen=True)
class _AcceleratedRounds:
    """Identical iterations of a loop.

    Attributes:
        max_count: maximum number of repetitions; 0 without a closed form.
    """

    max_count: int
    _closed_forms: Mapping[str, tuple[PolynomialSequence, Type | None]]

    def compute_values(self, count: int) -> dict[str, int]:
        """Return the changed variables after `count` repetitions, at least 1."""
        values = {}
        for name, (progression, type_) in self._closed_forms.items():
            value = evaluate_at(progression, count)
            values[name] = value if type_ is None else wrap(value, type_)
        return values


_NO_ACCELERATION = _AcceleratedRounds(0, {})


def count_identical_iterations(
    program: Program,
    semantics: Semantics,
    loop: Loop,
    state: ConcreteState,
    draws: Sequence[int],
    period: int = 1,
) -> _AcceleratedRounds:
    """Count how often the iterations that begin in a state can be repeated.

    Args:
        program: the program.
        semantics: semantics of its integers.
        loop: a loop of the program.
        state: state at the head of the loop.
        draws: nondeterministic values of one repetition.
        period: number of iterations of the loop that form one repetition.

    Returns:
        Iterations that follow the same path each time and reach the head of the loop again.
    """
    try:
        return _solve_rounds(_PolynomialExecutor(program, semantics, state, draws, loop), period)
    except NoClosedForm:
        return _NO_ACCELERATION


@dataclass(frozen=True)
class _Value:
    """A symbolic value in an iteration.

    Attributes:
        polynomial: polynomial over the variables at the beginning of the iteration.
        bits: the value equals the polynomial modulo 2 to this power; None if they are equal.
    """

    polynomial: Polynomial[str]
    bits: int | None = None


_Jump = Break | Continue | BreakTo | None


class _PolynomialExecutor(Interpretation[_Value, bool]):
    """A symbolic executor of the path that iterations take from a state.

    Attributes:
        values: symbolic values of the variables that the loop changes.
        sign_conditions: polynomials that must not become negative on the same path.
        divisibility_conditions: polynomials whose remainder by a number must stay the same.
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
        self._is_wrapping = semantics is Semantics.INT32
        self._draws: Iterator[int] = iter(draws)
        self._remaining_statements = _MAX_STATEMENTS
        self.values: dict[str, _Value] = {}
        for name in sorted(find_modified_variables((loop,))):
            # Arrays have no polynomial, so a loop that writes one is not accelerated.
            if self.types[name].is_array:
                raise NoClosedForm
            self.values[name] = _Value({(name,): 1}, self.width(self.types[name]))
        self.sign_conditions: list[Polynomial[str]] = []
        self.divisibility_conditions: list[tuple[Polynomial[str], int]] = []

    def width(self, type_: Type) -> int | None:
        """Return the number of bits of a type's range; None if the type is unbounded."""
        return type_.bits if self._is_wrapping or not type_.signed else None

    def execute(self, period: int) -> None:
        """Execute `period` iterations, which must use all nondeterministic values."""
        for _ in range(period):
            # An iteration that leaves the loop cannot be repeated.
            if not self.interpret_condition(self.loop.guard) or self._execute_round(self.loop):
                raise NoClosedForm
        # Unused values belong to another path.
        if next(self._draws, None) is not None:
            raise NoClosedForm

    def _execute_round(self, loop: Loop) -> _Jump:
        """Execute an iteration; return the jump out of the loop, or None at its head."""
        jump = self._execute_block(loop.body)
        if isinstance(jump, Break | BreakTo):
            return jump
        # `continue` also executes the step.
        return self._execute_block(loop.step)

    def _execute_block(self, block: Block) -> _Jump:
        for statement in block:
            jump = self._execute_statement(statement)
            if jump is not None:
                return jump
        return None

    def _execute_statement(self, statement: Statement) -> _Jump:
        self._remaining_statements -= 1
        if self._remaining_statements < 0:
            raise NoClosedForm
        match statement:
            case Assign(target=Identifier(name=name, type=type_), value=value):
                self.values[name] = self.interpret_as(value, type_)
            case Havoc(name=name) if not self.types[name].is_array:
                self.values[name] = self._nondet(self.types[name])
            case Assume(condition=condition) | Assert(condition=condition):
                # The concrete run ends here, so no iteration follows.
                if not self.interpret_condition(condition):
                    raise NoClosedForm
            case Branch(condition=condition, then=then, otherwise=otherwise):
                return self._execute_block(
                    then if self.interpret_condition(condition) else otherwise
                )
            case LabelledBlock(label=label, body=body):
                jump = self._execute_block(body)
                return None if jump == BreakTo(label) else jump
            case Loop():
                while self.interpret_condition(statement.guard):
                    self._remaining_statements -= 1
                    jump = self._execute_round(statement)
                    if jump is not None:
                        # An inner loop catches its own `break`.
                        return None if jump == Break() else jump
            case Break() | Continue() | BreakTo():
                return statement
            case _:
                raise NoClosedForm
        return None

    def _nondet(self, type_: Type) -> _Value:
        value = next(self._draws, None)
        if value is None:
            raise NoClosedForm
        return _build_constant(value)

    def _quantify(self, expression: Quantified) -> bool:
        raise NoClosedForm

    def _negate(self, truth: bool) -> bool:
        return not truth

    def _connect(self, op: str, left: Expression, right: Expression) -> bool:
        return (
            self.interpret_condition(right)
            if self.interpret_condition(left) == (op == "&&")
            else op == "||"
        )

    def _is_nonzero(self, value: _Value, type_: Type) -> bool:
        return self._compare_polynomials("!=", self._reduce_to_range(value, type_), {})

    def _compare(self, op: str, a: _Value, b: _Value, type_: Type) -> bool:
        sides = (self._reduce_to_range(value, type_) for value in (a, b))
        return self._compare_polynomials(op, *sides)

    def _compare_polynomials(self, op: str, left: Polynomial[str], right: Polynomial[str]) -> bool:
        difference = sum_of(left, right, -1)
        initial_value = self._evaluate_polynomial(difference)
        sign = (initial_value > 0) - (initial_value < 0)
        if op in ("==", "!="):
            # Equality holds on if the difference is neither positive nor negative.
            if sign == 0:
                self.sign_conditions += [difference, scale(difference, -1)]
            # Inequality holds on if the difference keeps its sign, at a distance of at least 1.
            else:
                self.sign_conditions.append(sum_of(scale(difference, sign), {(): -1}))
            return (sign == 0) == (op == "==")
        if op in ("<", ">="):  # These two only distinguish a negative difference from any other.
            self.sign_conditions.append(
                difference if sign >= 0 else sum_of({(): -1}, difference, -1)
            )
            return (sign < 0) == (op == "<")
        # `>` and `<=` only distinguish a positive difference from any other.
        self.sign_conditions.append(
            scale(difference, -1) if sign <= 0 else sum_of(difference, {(): -1})
        )
        return (sign > 0) == (op == ">")

    def _evaluate_polynomial(self, polynomial: Polynomial[str]) -> int:
        """Evaluate a polynomial in the initial state."""
        return evaluate(polynomial, self.state)

    def _reduce_to_range(self, value: _Value, type_: Type) -> Polynomial[str]:
        """Return a polynomial equal to a value of a type, not only modulo a power of 2."""
        if value.bits is None:
            return value.polynomial
        # The upper bits of the value are unknown.
        if value.bits < type_.bits:
            raise NoClosedForm
        initial_value = self._evaluate_polynomial(value.polynomial)
        # The multiple of the power is that of the initial state; conditions keep it fixed.
        reduced_polynomial = sum_of(
            value.polynomial, {(): wrap(initial_value, type_) - initial_value}
        )
        self.sign_conditions.append(sum_of(reduced_polynomial, {(): -type_.min_value}))
        self.sign_conditions.append(sum_of({(): type_.max_value}, reduced_polynomial, -1))
        return reduced_polynomial

    def _convert(self, value: _Value, from_: Type, to: Type) -> _Value:
        if from_ == to:
            return value
        if to == BOOL:
            difference = self._reduce_to_range(value, from_)
            return _build_constant(self._compare_polynomials("!=", difference, {}))
        # As in `convert_number`.
        has_range = not to.signed or (not from_.signed and from_.bits >= to.bits)
        if self.width(to) is None:
            # A wrapped value has a bounded range here, so it must be reduced first.
            if has_range:
                value, from_ = _Value(value.polynomial, to.bits), to
            return _Value(self._reduce_to_range(value, from_))
        # The target is wider than the known bits.
        if value.bits is not None and value.bits < to.bits:
            value = _Value(self._reduce_to_range(value, from_))
        return self._wrap(value, to)

    def _wrap(self, value: _Value, type_: Type) -> _Value:
        """Reduce a result to the range of its type."""
        bits = self.width(type_)
        if bits is None:
            return value
        # A constant can be wrapped at once.
        if set(value.polynomial) <= {()} and value.bits is None:
            return _build_constant(wrap(value.polynomial.get((), 0), type_))
        return _Value(value.polynomial, bits if value.bits is None else min(bits, value.bits))

    def _constant(self, value: int) -> _Value:
        return _build_constant(value)

    def _from_truth(self, truth: bool) -> _Value:
        return _build_constant(truth)

    def _variable(self, name: str) -> _Value:
        return self.values.get(name) or _build_constant(self.state[name])

    def _element(self, element: Element) -> _Value:
        raise NoClosedForm

    def _apply_shift(
        self, op: str, value: _Value, places: _Value, type_: Type, of_places: Type
    ) -> _Value:
        raise NoClosedForm

    def _choose(
        self, condition: Expression, then: Expression, otherwise: Expression, type_: Type
    ) -> _Value:
        return self.interpret_as(then if self.interpret_condition(condition) else otherwise, type_)

    def _apply_unary(self, op: str, value: _Value, type_: Type) -> _Value:
        # `~x` is `-1 - x` in two's complement.
        start = _build_constant(-1 if op == "~" else 0).polynomial
        return self._wrap(_Value(sum_of(start, value.polynomial, -1), value.bits), type_)

    def _apply_binary(
        self, op: str, a: _Value, b: _Value, type_: Type, right: Expression
    ) -> _Value:
        if op == "%":
            return self._compute_remainder(
                self._reduce_to_range(a, type_), self._reduce_to_range(b, type_)
            )
        if op not in ("+", "-", "*"):
            raise NoClosedForm
        if op == "*":
            polynomial = product_of(a.polynomial, b.polynomial)
        else:
            polynomial = sum_of(a.polynomial, b.polynomial, 1 if op == "+" else -1)
        widths = [bits for bits in (a.bits, b.bits) if bits is not None]
        return self._wrap(_Value(polynomial, min(widths, default=None)), type_)

    def _compute_remainder(self, dividend: Polynomial[str], divisor: Polynomial[str]) -> _Value:
        """Compute a remainder by a constant that stays the same in all iterations."""
        modulus = abs(divisor.get((), 0))
        # A remainder by a variable has no closed form.
        if modulus < 2 or set(divisor) != {()}:
            raise NoClosedForm
        initial_value = self._evaluate_polynomial(dividend)
        # C's remainder has the sign of the dividend, so that sign must stay.
        self.sign_conditions.append(dividend if initial_value >= 0 else scale(dividend, -1))
        self.divisibility_conditions.append((dividend, modulus))
        return _build_constant(abs(initial_value) % modulus * (1 if initial_value >= 0 else -1))


def _solve_rounds(executor: _PolynomialExecutor, period: int) -> _AcceleratedRounds:
    """Solve the recurrences of an iteration; find the maximum repetitions."""
    executor.execute(period)
    updates = {name: value.polynomial for name, value in executor.values.items()}
    conditions = [
        *executor.sign_conditions,
        *(polynomial for polynomial, _ in executor.divisibility_conditions),
    ]
    variables = find_variables([*conditions, *updates.values()])
    solutions = solve(updates, executor.state, variables)
    # The remainder stays the same only if each difference is a multiple of the divisor.
    for polynomial, modulus in executor.divisibility_conditions:
        if any(difference % modulus for difference in compose(polynomial, solutions)[1:]):
            raise NoClosedForm
    # The first change of sign of any condition ends the identical iterations.
    max_count = MAX_ROUNDS
    for polynomial in executor.sign_conditions:
        max_count = min([max_count, *sign_changes(compose(polynomial, solutions), max_count)[:1]])
    closed_forms = {}
    for name, polynomial in updates.items():
        # A variable that no iteration reads has the value that the last iteration assigned.
        progression = (
            solutions[name] if name in solutions else delay(compose(polynomial, solutions))
        )
        type_ = executor.types[name]
        closed_forms[name] = (progression, type_ if executor.width(type_) else None)
    return _AcceleratedRounds(max_count, closed_forms)


def _build_constant(value: int) -> _Value:
    return _Value({(): int(value)} if value else {})
