"""Encoding of a program's expressions as Z3 terms."""

from collections.abc import Mapping

import z3

from loop_invariants.ir.expressions import (
    BITWISE,
    BOOL,
    INT,
    INT_MAX,
    Constant,
    Element,
    Expression,
    Quantified,
    Semantics,
    Type,
    convert_number,
)
from loop_invariants.ir.interpretation import Interpretation

SymbolicState = Mapping[str, z3.ExprRef]
"""The value of every variable, by name."""


class Encoder(Interpretation[z3.ExprRef, z3.BoolRef]):
    """An encoder of expressions as terms.

    The encoder collects in `checks` the conditions under which each expression is defined: indices
    and shifts in range, and divisors other than zero.

    Over mathematical integers, a term of an unsigned type is a number from 0 to the type's maximum.
    It wraps around where C does (C11 6.2.5).

    Args:
        semantics: the semantics of the program's integers.
        as_integers: whether machine integers are wrapping Z3 integers instead of bit vectors.
            Bitwise operators are then uninterpreted functions.

    Attributes:
        checks: the conditions under which the expressions since the last clearing are defined.
        is_exact: whether every term so far is equivalent to C. Otherwise proofs remain valid, but a
            counterexample may be spurious.
    """

    def __init__(self, semantics: Semantics, as_integers: bool = False) -> None:
        self._semantics = semantics
        self._has_bit_vectors = semantics is Semantics.INT32 and not as_integers
        self._has_wrapping_integers = semantics is Semantics.INT32 and as_integers
        self._state: SymbolicState = {}
        self._fresh_count = 0
        self.checks: list[z3.BoolRef] = []
        self.is_exact = True

    def create_fresh(self, name: str, type_: Type) -> z3.ExprRef:
        """Create a fresh constant of a type."""
        self._fresh_count += 1
        name = f"{name}!{self._fresh_count}"
        if type_.is_array:
            index_sort = z3.BitVecSort(INT.bits) if self._has_bit_vectors else z3.IntSort()
            element_sort = z3.BitVecSort(type_.bits) if self._has_bit_vectors else z3.IntSort()
            return z3.Array(name, index_sort, element_sort)
        return z3.BitVec(name, type_.bits) if self._has_bit_vectors else z3.Int(name)

    def encode_type_range(self, term: z3.ExprRef, type_: Type) -> z3.BoolRef:
        """Build the condition that every value of a type satisfies."""
        # The sort of a bit vector has the right range already.
        if type_.is_array or not self._is_bounded(type_):
            return z3.BoolVal(True)
        return z3.And(term >= type_.min_value, term <= type_.max_value)

    def _is_bounded(self, type_: Type) -> bool:
        """Check whether the terms of a type are integers that the type bounds."""
        return not self._has_bit_vectors and (self._has_wrapping_integers or not type_.signed)

    def encode_condition(self, expression: Expression, state: SymbolicState) -> z3.BoolRef:
        """Encode an expression as a Boolean, which is true where its value is not zero."""
        self._state = state
        return self.interpret_condition(expression)

    def encode_conversion(
        self, expression: Expression, to: Type, state: SymbolicState
    ) -> z3.ExprRef:
        """Encode the value of an expression, converted to an integer type (C11 6.3.1)."""
        self._state = state
        return self.interpret_as(expression, to)

    def encode_store(self, target: Element, value: z3.ExprRef, state: SymbolicState) -> z3.ExprRef:
        """Encode the array after a value is stored in an element."""
        self._state = state
        return z3.Store(state[target.array], self._encode_index(target), value)

    def interpret_as(self, expression: Expression, to: Type) -> z3.ExprRef:
        """Encode an expression converted to an integer type; a literal remains a literal."""
        # A conversion to `_Bool` compares with 0 and never truncates (C11 6.3.1.2).
        if to == BOOL:
            return z3.If(
                self.interpret_condition(expression),
                self._encode_number(1, BOOL),
                self._encode_number(0, BOOL),
            )
        # A literal term allows the simplifications for constant shifts and masks below.
        if isinstance(expression, Constant):
            value = convert_number(expression.value, expression.type, to, self._semantics)
            return self._encode_number(value, to)
        return super().interpret_as(expression, to)

    def _constant(self, value: int) -> z3.ExprRef:
        return self._encode_number(value, Constant(value).type)

    def _variable(self, name: str) -> z3.ExprRef:
        return self._state[name]

    def _from_truth(self, truth: z3.BoolRef) -> z3.ExprRef:
        return z3.If(truth, self._encode_number(1), self._encode_number(0))

    def _is_nonzero(self, value: z3.ExprRef, type_: Type) -> z3.BoolRef:
        return value != 0

    def _negate(self, truth: z3.BoolRef) -> z3.BoolRef:
        return z3.Not(truth)

    def _encode_number(self, value: int, type_: Type = INT) -> z3.ExprRef:
        return z3.BitVecVal(value, type_.bits) if self._has_bit_vectors else z3.IntVal(value)

    def _convert(self, term: z3.ExprRef, from_: Type, to: Type) -> z3.ExprRef:
        if self._has_wrapping_integers:
            # A value in the range of both types needs no wrapping, which keeps the term small.
            is_in_range = from_.min_value >= to.min_value and from_.max_value <= to.max_value
            return term if is_in_range else _wrap_around("*", term, to)
        if not self._has_bit_vectors:
            return _convert_integer(term, from_, to)
        if from_.bits == to.bits:
            return term
        if to.bits < from_.bits:
            return z3.Extract(to.bits - 1, 0, term)
        extend = z3.SignExt if from_.signed else z3.ZeroExt
        return extend(to.bits - from_.bits, term)

    def _nondet(self, type_: Type) -> z3.ExprRef:
        return self._restrict_to_type(self.create_fresh("nondet", type_), type_)

    def _restrict_to_type(self, term: z3.ExprRef, type_: Type) -> z3.ExprRef:
        """Restrict an integer term to exactly the values of a type."""
        if not self._is_bounded(type_):
            return term
        # `_Bool` has only the values 0 and 1.
        if type_ == BOOL:
            return z3.If(term == 0, z3.IntVal(0), z3.IntVal(1))
        # Every value of the type remains possible, so other integers may become 0.
        if self._has_wrapping_integers:
            return z3.If(
                z3.And(term >= type_.min_value, term <= type_.max_value), term, z3.IntVal(0)
            )
        return term % (1 << type_.bits)

    def _compare(self, op: str, a: z3.ExprRef, b: z3.ExprRef, type_: Type) -> z3.BoolRef:
        if op == "==":
            return a == b
        if op == "!=":
            return a != b
        # Z3's operators on bit vectors are signed.
        if self._has_bit_vectors and not type_.signed:
            return {"<": z3.ULT, "<=": z3.ULE, ">": z3.UGT, ">=": z3.UGE}[op](a, b)
        return {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op]

    def _connect(self, op: str, left: Expression, right: Expression) -> z3.BoolRef:
        first = self.interpret_condition(left)
        check_count = len(self.checks)
        second = self.interpret_condition(right)
        # The right operand is evaluated only if the left one does not decide (C11 6.5.13, 6.5.14),
        # so it must be defined only then.
        short_circuit = z3.Not(first) if op == "&&" else first
        self.checks[check_count:] = [
            z3.Or(short_circuit, check) for check in self.checks[check_count:]
        ]
        return z3.And(first, second) if op == "&&" else z3.Or(first, second)

    def _choose(
        self, condition: Expression, then: Expression, otherwise: Expression, type_: Type
    ) -> z3.ExprRef:
        truth = self.interpret_condition(condition)
        terms = []
        for branch, guard in ((then, truth), (otherwise, z3.Not(truth))):
            # Only the chosen operand is evaluated (C11 6.5.15).
            check_count = len(self.checks)
            terms.append(self.interpret_as(branch, type_))
            self.checks[check_count:] = [
                z3.Implies(guard, check) for check in self.checks[check_count:]
            ]
        return z3.If(truth, *terms)

    def _apply_binary(
        self, op: str, a: z3.ExprRef, b: z3.ExprRef, type_: Type, right: Expression
    ) -> z3.ExprRef:
        if op in ("/", "%"):
            return self._encode_division(op, a, b, type_, right)
        if op in BITWISE:
            return self._encode_bitwise(op, a, b)
        result = {"+": a + b, "-": a - b, "*": a * b}[op]
        return _wrap_around(op, result, type_) if self._is_bounded(type_) else result

    def _encode_division(
        self, op: str, a: z3.ExprRef, b: z3.ExprRef, type_: Type, right: Expression
    ) -> z3.ExprRef:
        # Division by zero is undefined (C11 6.5.5p5).
        self.checks.append(b != 0)
        is_safe_divisor = isinstance(right, Constant) and right.value not in (0, -1)
        if (
            (self._has_bit_vectors or self._has_wrapping_integers)
            and type_.signed
            and not is_safe_divisor
        ):
            # The minimum divided by -1 exceeds the type and traps (C11 6.5.5p6).
            self.checks.append(z3.Or(a != self._encode_number(type_.min_value, type_), b != -1))
        if self._has_bit_vectors:
            unsigned_operator, signed_operator = (
                (z3.UDiv, _bvsdiv) if op == "/" else (z3.URem, z3.SRem)
            )
            return (signed_operator if type_.signed else unsigned_operator)(a, b)
        # Z3 rounds the quotient of integers differently for negative operands.
        if type_.signed:
            result = _quotient(a, b) if op == "/" else a - b * _quotient(a, b)
        else:
            result = a / b if op == "/" else a % b
        # Undefined divisions get the values of bit vectors, so that both encodings agree.
        if self._has_wrapping_integers and not is_safe_divisor:
            result = z3.If(b == 0, _divide_by_zero(op, a, type_), _wrap_around("*", result, type_))
        return result

    def _apply_unary(self, op: str, term: z3.ExprRef, type_: Type) -> z3.ExprRef:
        if self._has_bit_vectors:
            return -term if op == "-" else ~term
        if op == "~":
            return -term - 1 if type_.signed else type_.max_value - term
        return _wrap_around("-", -term, type_) if self._is_bounded(type_) else -term

    def _encode_bitwise(self, op: str, a: z3.ExprRef, b: z3.ExprRef) -> z3.ExprRef:
        """Encode a bitwise operator."""
        if self._has_bit_vectors:
            return {"&": a & b, "|": a | b, "^": a ^ b}[op]
        # A mask of low bits is a remainder, which integers express exactly.
        for term, mask in ((a, b), (b, a)):
            if op == "&" and z3.is_int_value(mask) and _is_mask(mask.as_long()):
                return term % (mask.as_long() + 1)
        return self._apply_uninterpreted(op, a, b)

    def _apply_uninterpreted(self, name: str, a: z3.ArithRef, b: z3.ArithRef) -> z3.ArithRef:
        """Apply an uninterpreted function of two integers.

        A proof for every function includes the function that C defines.
        """
        self.is_exact = False
        return z3.Function(name, z3.IntSort(), z3.IntSort(), z3.IntSort())(a, b)

    def _apply_shift(
        self, op: str, a: z3.ExprRef, places: z3.ExprRef, type_: Type, of_places: Type
    ) -> z3.ExprRef:
        if self._has_bit_vectors:
            self.checks.append(z3.ULT(places, type_.bits))
            places = self._convert(places, of_places, type_)
            if op == "<<":
                return a << places
            return a >> places if type_.signed else z3.LShR(a, places)
        self.checks.append(z3.And(places >= 0, places < type_.bits))
        # An integer encoding needs a literal shift: only then the factor is a number.
        if not z3.is_int_value(places) or not 0 <= places.as_long() < type_.bits:
            return self._apply_uninterpreted(f"{op}{type_.bits}{type_.signed}", a, places)
        factor = 1 << places.as_long()
        if op == ">>":
            return a / factor
        return _wrap_around("*", a * factor, type_) if self._is_bounded(type_) else a * factor

    def _element(self, element: Element) -> z3.ExprRef:
        value = z3.Select(self._state[element.array], self._encode_index(element))
        return self._restrict_to_type(value, element.type)

    def _encode_index(self, element: Element) -> z3.ExprRef:
        length = element.length
        index_type = Type(64)
        term = self.interpret_as(element.index, index_type)
        # A length is a constant or a variable of the type of the index.
        self.checks.append(z3.And(term >= 0, term < self.interpret_as(length, index_type)))
        if self._has_bit_vectors or self._has_wrapping_integers:
            # Z3's arrays have 32-bit indices: beyond INT_MAX, two elements would coincide.
            self.checks.append(term <= self._encode_number(INT_MAX, index_type))
        return self._convert(term, index_type, INT)

    def _quantify(self, expression: Quantified) -> z3.BoolRef:
        bound_variable = self.create_fresh(expression.variable, INT)
        check_count = len(self.checks)
        state = self._state
        self._state = {**state, expression.variable: bound_variable}
        body = self.interpret_condition(expression.body)
        self._state = state
        # A bound variable takes every value, so its indices leave the range; such an element has an
        # arbitrary value.
        del self.checks[check_count:]
        type_range = self.encode_type_range(bound_variable, INT)
        if expression.quantifier == "forall":
            return z3.ForAll(
                [bound_variable], body if z3.is_true(type_range) else z3.Implies(type_range, body)
            )
        return z3.Exists(
            [bound_variable], body if z3.is_true(type_range) else z3.And(type_range, body)
        )


def _bvsdiv(a: z3.BitVecRef, b: z3.BitVecRef) -> z3.BitVecRef:
    """Divide signed bit vectors; Z3 has no named function for it, unlike `z3.UDiv`."""
    return a / b


def _convert_integer(term: z3.ArithRef, from_: Type, to: Type) -> z3.ArithRef:
    """Convert a mathematical integer from one type to another (see `convert_number`)."""
    size = 1 << to.bits
    if not to.signed:
        # A narrower unsigned value is always in range.
        if not from_.signed and from_.bits <= to.bits:
            return term
        return z3.If(z3.And(term >= 0, term < size), term, term % size)
    # Signed types are unbounded over mathematical integers, so no bits are lost.
    if from_.signed or from_.bits < to.bits:
        return term
    if from_.bits > to.bits:
        term = term % size
    return z3.If(term <= to.max_value, term, term - size)


def _wrap_around(op: str, result: z3.ArithRef, type_: Type) -> z3.ArithRef:
    """Wrap the result of `+`, `-` or `*` around the bounds of a type."""
    size, low, high = 1 << type_.bits, type_.min_value, type_.max_value
    if op == "*":
        is_in_range = z3.And(result >= low, result <= high)
        return z3.If(is_in_range, result, (result - low) % size + low)
    # A sum or difference leaves the range at most once, so no remainder is needed.
    if op == "+" or type_.signed:
        result = z3.If(result > high, result - size, result)
    if op == "-" or type_.signed:
        result = z3.If(result < low, result + size, result)
    return result


def _is_mask(value: int) -> bool:
    """Check whether a number is a mask of low bits, such as 7."""
    return value > 0 and value & (value + 1) == 0


def _quotient(a: z3.ArithRef, b: z3.ArithRef) -> z3.ArithRef:
    """Encode C's quotient, which rounds towards zero (C11 6.5.5).

    Z3's quotient leaves a remainder that is not negative.
    """
    floor = a / b
    return z3.If(z3.And(a < 0, a % b != 0), z3.If(b > 0, floor + 1, floor - 1), floor)


def _divide_by_zero(op: str, a: z3.ArithRef, type_: Type) -> z3.ArithRef:
    """Return the bit vectors' value of `a / 0` or `a % 0`: both encodings agree."""
    if op == "%":
        return a
    return z3.If(a < 0, z3.IntVal(1), z3.IntVal(-1)) if type_.signed else z3.IntVal(type_.max_value)
