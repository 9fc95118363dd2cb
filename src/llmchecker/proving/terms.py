"""Expressions of a program as terms of Z3."""

from collections.abc import Mapping

import z3

from llmchecker.programs.expressions import (
    BITWISE,
    BOOL,
    COMPARISONS,
    CONNECTIVES,
    INT,
    INT_MAX,
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
)

SymbolicState = Mapping[str, z3.ExprRef]
"""The value of every variable."""


class Encoder:
    """Turns the expressions of a program into terms.

    It collects in `checks` what must hold for each expression to be defined: indices and shifts in
    range and divisors other than zero.

    Over mathematical integers, a term of an unsigned type is a number from 0 to the type's largest:
    what wraps around in C (C11 6.2.5) does so in the term.

    Args:
        semantics: what the integers of the program are.
        types: the types of the program's variables.
        numbers: whether machine integers are numbers too, which wrap around where C's do, instead
            of bit vectors. Operators on bits are then any function of their operands.

    Attributes:
        checks: what must hold for the expressions since the last time to be defined.
        exact: whether every term so far means what C does. Else what is proven is right still,
            but a counterexample may be none.
    """

    def __init__(
        self, semantics: Semantics, types: Mapping[str, Type], numbers: bool = False
    ) -> None:
        self._semantics = semantics
        self._machine = semantics is Semantics.INT32 and not numbers
        self._wrapping = semantics is Semantics.INT32 and numbers
        self._types = types
        self._made = 0
        self.checks: list[z3.BoolRef] = []
        self.exact = True

    def fresh(self, name: str, type_: Type) -> z3.ExprRef:
        """A new unknown of that type."""
        self._made += 1
        name = f"{name}!{self._made}"
        if type_.array:
            index = z3.BitVecSort(INT.bits) if self._machine else z3.IntSort()
            element = z3.BitVecSort(type_.bits) if self._machine else z3.IntSort()
            return z3.Array(name, index, element)
        return z3.BitVec(name, type_.bits) if self._machine else z3.Int(name)

    def within(self, term: z3.ExprRef, type_: Type) -> z3.BoolRef:
        """The condition that every value of a type satisfies."""
        if type_.array or not self._bounded(type_):
            return z3.BoolVal(True)
        return z3.And(term >= type_.least, term <= type_.most)

    def _bounded(self, type_: Type) -> bool:
        """Whether the terms of a type are numbers that the type bounds."""
        return not self._machine and (self._wrapping or not type_.signed)

    def truth(self, expression: Expression, state: SymbolicState) -> z3.BoolRef:
        """A term that is true where the value of an expression is not zero."""
        match expression:
            case Binary(operator=op, left=left, right=right) if op in COMPARISONS:
                return self._compared(op, left, right, state)
            case Binary(operator=op, left=left, right=right) if op in CONNECTIVES:
                return self._connected(op, left, right, state)
            case Unary(operator="!", operand=operand):
                return z3.Not(self.truth(operand, state))
            case Quantified():
                return self._quantified(expression, state)
        return self.term(expression, state) != 0

    def term(self, expression: Expression, state: SymbolicState) -> z3.ExprRef:
        """The value of an expression, in the type that `type_of` returns."""
        if is_truth(expression):
            return z3.If(self.truth(expression, state), self._number(1), self._number(0))
        match expression:
            case Constant(value=value):
                return self._number(value, type_of(expression, self._types))
            case Identifier(name=name):
                return state[name]
            case Element(array=array, index=index):
                return self._element(array, index, state)
            case Nondet(type=type_):
                return self._arbitrary(type_)
            case Unary(operator=op, operand=operand):
                type_ = promoted(type_of(operand, self._types))
                return self._negative(op, self.converted(operand, type_, state), type_)
            case Cast(type=type_, operand=operand):
                return self.converted(operand, type_, state)
            case Ternary(condition=condition, then=then, otherwise=otherwise):
                return self._chosen(condition, then, otherwise, expression, state)
            case Binary(operator=op, left=left, right=right) if op in SHIFTS:
                return self._shifted(op, left, right, state)
            case Binary(operator=op, left=left, right=right):
                return self._computed(op, left, right, state)
        raise TypeError(expression)

    def converted(self, expression: Expression, to: Type, state: SymbolicState) -> z3.ExprRef:
        """The value of an expression, converted to an integer type (C11 6.3.1)."""
        if to == BOOL:
            return z3.If(
                self.truth(expression, state), self._number(1, BOOL), self._number(0, BOOL)
            )
        from_ = type_of(expression, self._types)
        if isinstance(expression, Constant):
            value = converted_number(expression.value, from_, to, self._semantics)
            return self._number(value, to)
        return self._resized(self.term(expression, state), from_, to)

    def stored(self, target: Element, value: z3.ExprRef, state: SymbolicState) -> z3.ExprRef:
        """The array after the value was written to an element."""
        return z3.Store(state[target.array], self._index(target.array, target.index, state), value)

    def _number(self, value: int, type_: Type = INT) -> z3.ExprRef:
        return z3.BitVecVal(value, type_.bits) if self._machine else z3.IntVal(value)

    def _resized(self, term: z3.ExprRef, from_: Type, to: Type) -> z3.ExprRef:
        if self._wrapping:
            inside = from_.least >= to.least and from_.most <= to.most
            return term if inside else _around("*", term, to)
        if not self._machine:
            return _fitted(term, from_, to)
        if from_.bits == to.bits:
            return term
        if to.bits < from_.bits:
            return z3.Extract(to.bits - 1, 0, term)
        extend = z3.SignExt if from_.signed else z3.ZeroExt
        return extend(to.bits - from_.bits, term)

    def _arbitrary(self, type_: Type) -> z3.ExprRef:
        return self._ranged(self.fresh("nondet", type_), type_)

    def _ranged(self, term: z3.ExprRef, type_: Type) -> z3.ExprRef:
        """A term that takes each value of a type, and no other, as an unknown term varies."""
        if not self._bounded(type_):
            return term
        if type_ == BOOL:
            return z3.If(term == 0, z3.IntVal(0), z3.IntVal(1))
        if self._wrapping:
            return z3.If(z3.And(term >= type_.least, term <= type_.most), term, z3.IntVal(0))
        return term % (1 << type_.bits)

    def _operands(
        self, left: Expression, right: Expression, state: SymbolicState
    ) -> tuple[z3.ExprRef, z3.ExprRef, Type]:
        type_ = common_type(type_of(left, self._types), type_of(right, self._types))
        return self.converted(left, type_, state), self.converted(right, type_, state), type_

    def _compared(
        self, op: str, left: Expression, right: Expression, state: SymbolicState
    ) -> z3.BoolRef:
        a, b, type_ = self._operands(left, right, state)
        if op == "==":
            return a == b
        if op == "!=":
            return a != b
        if self._machine and not type_.signed:
            return {"<": z3.ULT, "<=": z3.ULE, ">": z3.UGT, ">=": z3.UGE}[op](a, b)
        return {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op]

    def _connected(
        self, op: str, left: Expression, right: Expression, state: SymbolicState
    ) -> z3.BoolRef:
        first = self.truth(left, state)
        before = len(self.checks)
        second = self.truth(right, state)
        # The right operand is evaluated only if the left one does not decide (C11 6.5.13, 6.5.14),
        # so only then must it be defined.
        decided = z3.Not(first) if op == "&&" else first
        self.checks[before:] = [z3.Or(decided, check) for check in self.checks[before:]]
        return z3.And(first, second) if op == "&&" else z3.Or(first, second)

    def _chosen(
        self,
        condition: Expression,
        then: Expression,
        otherwise: Expression,
        whole: Expression,
        state: SymbolicState,
    ) -> z3.ExprRef:
        type_ = type_of(whole, self._types)
        chosen = self.truth(condition, state)
        terms = []
        for branch, where in ((then, chosen), (otherwise, z3.Not(chosen))):
            before = len(self.checks)
            terms.append(self.converted(branch, type_, state))
            self.checks[before:] = [z3.Implies(where, check) for check in self.checks[before:]]
        return z3.If(chosen, *terms)

    def _computed(
        self, op: str, left: Expression, right: Expression, state: SymbolicState
    ) -> z3.ExprRef:
        a, b, type_ = self._operands(left, right, state)
        if op in ("/", "%"):
            return self._divided(op, a, b, type_, right)
        if op in BITWISE:
            return self._combined(op, a, b)
        result = {"+": a + b, "-": a - b, "*": a * b}[op]
        return _around(op, result, type_) if self._bounded(type_) else result

    def _divided(
        self, op: str, a: z3.ExprRef, b: z3.ExprRef, type_: Type, right: Expression
    ) -> z3.ExprRef:
        self.checks.append(b != 0)
        plain = isinstance(right, Constant) and right.value not in (0, -1)
        if (self._machine or self._wrapping) and type_.signed and not plain:
            # The least number divided by -1 is too large for its type and traps (C11 6.5.5p6).
            self.checks.append(z3.Or(a != self._number(type_.least, type_), b != -1))
        if self._machine:
            unsigned, signed = (z3.UDiv, _bvsdiv) if op == "/" else (z3.URem, z3.SRem)
            return (signed if type_.signed else unsigned)(a, b)
        if type_.signed:
            result = _quotient(a, b) if op == "/" else a - b * _quotient(a, b)
        else:
            result = a / b if op == "/" else a % b
        if self._wrapping and not plain:
            result = z3.If(b == 0, _by_zero(op, a, type_), _around("*", result, type_))
        return result

    def _negative(self, op: str, term: z3.ExprRef, type_: Type) -> z3.ExprRef:
        """`-` or `~` of a term of a promoted type."""
        if self._machine:
            return -term if op == "-" else ~term
        if op == "~":
            return -term - 1 if type_.signed else type_.most - term
        return _around("-", -term, type_) if self._bounded(type_) else -term

    def _combined(self, op: str, a: z3.ExprRef, b: z3.ExprRef) -> z3.ExprRef:
        """Bits of two terms combined."""
        if self._machine:
            return {"&": a & b, "|": a | b, "^": a ^ b}[op]
        for term, mask in ((a, b), (b, a)):
            if op == "&" and z3.is_int_value(mask) and _is_mask(mask.as_long()):
                return term % (mask.as_long() + 1)
        return self._some(op, a, b)

    def _some(self, name: str, a: z3.ArithRef, b: z3.ArithRef) -> z3.ArithRef:
        """Some function of two integers.

        What is proven for every function is proven for the one that C means.
        """
        self.exact = False
        return z3.Function(name, z3.IntSort(), z3.IntSort(), z3.IntSort())(a, b)

    def _shifted(
        self, op: str, left: Expression, right: Expression, state: SymbolicState
    ) -> z3.ExprRef:
        type_, of_places = (promoted(type_of(side, self._types)) for side in (left, right))
        a = self.converted(left, type_, state)
        places = self.converted(right, of_places, state)
        if self._machine:
            self.checks.append(z3.ULT(places, type_.bits))
            places = self._resized(places, of_places, type_)
            if op == "<<":
                return a << places
            return a >> places if type_.signed else z3.LShR(a, places)
        self.checks.append(z3.And(places >= 0, places < type_.bits))
        if not z3.is_int_value(places) or not 0 <= places.as_long() < type_.bits:
            return self._some(f"{op}{type_.bits}{type_.signed}", a, places)
        factor = 1 << places.as_long()
        if op == ">>":
            return a / factor
        return _around("*", a * factor, type_) if self._bounded(type_) else a * factor

    def _element(self, array: str, index: Expression, state: SymbolicState) -> z3.ExprRef:
        element = z3.Select(state[array], self._index(array, index, state))
        return self._ranged(element, self._types[array].element)

    def _index(self, array: str, index: Expression, state: SymbolicState) -> z3.ExprRef:
        length = self._types[array].length
        wide = Type(64)
        term = self.converted(index, wide, state)
        if isinstance(length, Constant):
            self.checks.append(z3.And(term >= 0, term < self._number(length.value, wide)))
        else:
            self.checks.append(z3.And(term >= 0, term < state[length.name]))
        if self._machine or self._wrapping:
            # Arrays have indices of 32 bits in Z3: beyond INT_MAX, two elements would become one.
            self.checks.append(term <= self._number(INT_MAX, wide))
        return self._resized(term, wide, INT)

    def _quantified(self, expression: Quantified, state: SymbolicState) -> z3.BoolRef:
        bound = self.fresh(expression.variable, INT)
        before = len(self.checks)
        outer = self._types
        self._types = {**outer, expression.variable: INT}
        body = self.truth(expression.body, {**state, expression.variable: bound})
        self._types = outer
        # A bound variable takes every value, so indices leave the range; an element there is some
        # number.
        del self.checks[before:]
        known = self.within(bound, INT)
        if expression.quantifier == "forall":
            return z3.ForAll([bound], body if z3.is_true(known) else z3.Implies(known, body))
        return z3.Exists([bound], body if z3.is_true(known) else z3.And(known, body))


def _bvsdiv(a: z3.BitVecRef, b: z3.BitVecRef) -> z3.BitVecRef:
    """The signed quotient, which Z3 has as an operator only; `z3.UDiv` is the unsigned one."""
    return a / b


def _fitted(term: z3.ArithRef, from_: Type, to: Type) -> z3.ArithRef:
    """A mathematical integer of one type as one of another (see `converted_number`)."""
    size = 1 << to.bits
    if not to.signed:
        if not from_.signed and from_.bits <= to.bits:
            return term
        return z3.If(z3.And(term >= 0, term < size), term, term % size)
    if from_.signed or from_.bits < to.bits:
        return term
    if from_.bits > to.bits:
        term = term % size
    return z3.If(term <= to.most, term, term - size)


def _around(op: str, result: z3.ArithRef, type_: Type) -> z3.ArithRef:
    """The result of `+`, `-` or `*` on numbers of a type with bounds, wrapped around."""
    size, least, most = 1 << type_.bits, type_.least, type_.most
    if op == "*":
        inside = z3.And(result >= least, result <= most)
        return z3.If(inside, result, (result - least) % size + least)
    if op == "+" or type_.signed:
        result = z3.If(result > most, result - size, result)
    if op == "-" or type_.signed:
        result = z3.If(result < least, result + size, result)
    return result


def _is_mask(value: int) -> bool:
    """Whether the binary digits of a number are ones alone."""
    return value > 0 and value & (value + 1) == 0


def _quotient(a: z3.ArithRef, b: z3.ArithRef) -> z3.ArithRef:
    """C's quotient, rounded towards zero (C11 6.5.5).

    Z3 rounds so that the remainder is not negative.
    """
    floor = a / b
    return z3.If(z3.And(a < 0, a % b != 0), z3.If(b > 0, floor + 1, floor - 1), floor)


def _by_zero(op: str, a: z3.ArithRef, type_: Type) -> z3.ArithRef:
    """What bit vectors have for `a / 0` and `a % 0`, so that both encodings mean the same."""
    if op == "%":
        return a
    return z3.If(a < 0, z3.IntVal(1), z3.IntVal(-1)) if type_.signed else z3.IntVal(type_.most)
