"""Programs and invariants as formulas of Z3: what must hold for a set of invariants to be proven.

Every loop is cut at its head (Floyd 1967): what it changes is forgotten, its invariants and the
guard are assumed, its body runs once. From this come the obligations: base (the invariants hold
where the loop is first reached), step (the body preserves them), and the assertions, which must
follow on every path without a loop. Array indices in range and divisors other than zero are
assertions too, so that a proof never rests on what C leaves undefined.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import z3

from llmchecker.errors import UnsupportedProgram
from llmchecker.programs.expressions import (
    BOOL,
    COMPARISONS,
    CONNECTIVES,
    INT,
    INT_MAX,
    Binary,
    Conditional,
    Element,
    Expression,
    Literal,
    Nondet,
    Quantified,
    Semantics,
    Type,
    Unary,
    Variable,
    common_type,
    is_truth,
    promoted,
    type_of,
)
from llmchecker.programs.statements import (
    Assert,
    Assign,
    Assume,
    Block,
    Branch,
    Break,
    Continue,
    Forget,
    Loop,
    Program,
    Statement,
    Stop,
    changed,
)

State = Mapping[str, z3.ExprRef]
"""The value of every variable."""


@dataclass(frozen=True)
class Head:
    """The head of a loop in an arbitrary iteration.

    Attributes:
        reached: true on the paths that go through the loop; where it is true, the loop's
            invariants may be assumed of `state`.
    """

    reached: z3.BoolRef
    state: State


@dataclass(frozen=True)
class Preservation:
    """The invariants of a loop must hold in `state` wherever `path` holds."""

    loop: int
    kind: str
    path: z3.BoolRef
    state: State


@dataclass(frozen=True)
class Goal:
    """`condition` must hold wherever `path` does; `line` is its place in the source, 0 if none."""

    line: int
    path: z3.BoolRef
    condition: z3.BoolRef


@dataclass(frozen=True)
class Obligations:
    """What is to be proven of a program.

    Attributes:
        heads: of every loop, by number; a loop behind a stop is never reached.
        preservations: base and step of every loop.
        goals: the assertions, and that indices and divisors are in range.
    """

    heads: Mapping[int, Head]
    preservations: tuple[Preservation, ...]
    goals: tuple[Goal, ...]


class Encoder:
    """Turns the expressions of a program into terms.

    Args:
        types: of the program's variables.

    Raises:
        UnsupportedProgram: a variable is unsigned and the semantics are mathematical integers:
            unsigned arithmetic is defined by wrapping around (C11 6.2.5).
    """

    def __init__(self, semantics: Semantics, types: Mapping[str, Type]) -> None:
        self._machine = semantics is Semantics.INT32
        self._types = types
        self._made = 0
        self.checks: list[z3.BoolRef] = []
        for name, type_ in types.items():
            self._refuse_unsigned(type_, f"{name!r}")

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
        """What is known of an arbitrary value of a type."""
        if type_ == BOOL and not self._machine:
            return z3.And(term >= 0, term <= 1)
        return z3.BoolVal(True)

    def truth(self, expression: Expression, state: State) -> z3.BoolRef:
        """Whether the value of an expression is other than zero."""
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

    def term(self, expression: Expression, state: State) -> z3.ExprRef:
        """The value of an expression, of the type `type_of` tells."""
        if is_truth(expression):
            return z3.If(self.truth(expression, state), self._number(1), self._number(0))
        match expression:
            case Literal(value=value):
                return self._number(value, type_of(expression, self._types))
            case Variable(name=name):
                return state[name]
            case Element(array=array, index=index):
                return self._element(array, index, state)
            case Nondet(type=type_):
                return self._arbitrary(type_)
            case Unary(operand=operand):
                type_ = promoted(type_of(operand, self._types))
                return -self.converted(operand, type_, state)
            case Conditional(condition=condition, then=then, otherwise=otherwise):
                return self._chosen(condition, then, otherwise, expression, state)
            case Binary(operator=op, left=left, right=right):
                return self._computed(op, left, right, state)
        raise TypeError(expression)

    def converted(self, expression: Expression, to: Type, state: State) -> z3.ExprRef:
        """The value of an expression, converted to an integer type (C11 6.3.1)."""
        if to == BOOL:
            return z3.If(
                self.truth(expression, state), self._number(1, BOOL), self._number(0, BOOL)
            )
        term = self.term(expression, state)
        return self._resized(term, type_of(expression, self._types), to)

    def stored(self, target: Element, value: z3.ExprRef, state: State) -> z3.ExprRef:
        """The array after an element got a value."""
        return z3.Store(state[target.array], self._index(target.array, target.index, state), value)

    def _number(self, value: int, type_: Type = INT) -> z3.ExprRef:
        return z3.BitVecVal(value, type_.bits) if self._machine else z3.IntVal(value)

    def _resized(self, term: z3.ExprRef, from_: Type, to: Type) -> z3.ExprRef:
        if not self._machine or from_.bits == to.bits:
            return term
        if to.bits < from_.bits:
            return z3.Extract(to.bits - 1, 0, term)
        extend = z3.SignExt if from_.signed else z3.ZeroExt
        return extend(to.bits - from_.bits, term)

    def _arbitrary(self, type_: Type) -> z3.ExprRef:
        self._refuse_unsigned(type_, "an unsigned value")
        term = self.fresh("nondet", type_)
        if type_ == BOOL and not self._machine:
            return z3.If(term == 0, z3.IntVal(0), z3.IntVal(1))
        return term

    def _refuse_unsigned(self, type_: Type, what: str) -> None:
        if not self._machine and not type_.signed and type_.element != BOOL:
            raise UnsupportedProgram(
                f"{what} is unsigned: its arithmetic wraps around, which mathematical integers "
                "do not; it is supported over 32-bit integers"
            )

    def _operands(
        self, left: Expression, right: Expression, state: State
    ) -> tuple[z3.ExprRef, z3.ExprRef, Type]:
        type_ = common_type(type_of(left, self._types), type_of(right, self._types))
        return self.converted(left, type_, state), self.converted(right, type_, state), type_

    def _compared(self, op: str, left: Expression, right: Expression, state: State) -> z3.BoolRef:
        a, b, type_ = self._operands(left, right, state)
        if op == "==":
            return a == b
        if op == "!=":
            return a != b
        if self._machine and not type_.signed:
            return {"<": z3.ULT, "<=": z3.ULE, ">": z3.UGT, ">=": z3.UGE}[op](a, b)
        return {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op]

    def _connected(self, op: str, left: Expression, right: Expression, state: State) -> z3.BoolRef:
        first = self.truth(left, state)
        before = len(self.checks)
        second = self.truth(right, state)
        decided = z3.Not(first) if op == "&&" else first
        self.checks[before:] = [z3.Or(decided, check) for check in self.checks[before:]]
        return z3.And(first, second) if op == "&&" else z3.Or(first, second)

    def _chosen(
        self,
        condition: Expression,
        then: Expression,
        otherwise: Expression,
        whole: Expression,
        state: State,
    ) -> z3.ExprRef:
        type_ = type_of(whole, self._types)
        chosen = self.truth(condition, state)
        terms = []
        for branch, where in ((then, chosen), (otherwise, z3.Not(chosen))):
            before = len(self.checks)
            terms.append(self.converted(branch, type_, state))
            self.checks[before:] = [z3.Implies(where, check) for check in self.checks[before:]]
        return z3.If(chosen, *terms)

    def _computed(self, op: str, left: Expression, right: Expression, state: State) -> z3.ExprRef:
        a, b, type_ = self._operands(left, right, state)
        if op == "+":
            return a + b
        if op == "-":
            return a - b
        if op == "*":
            return a * b
        self.checks.append(b != 0)
        if self._machine:
            unsigned, signed = (z3.UDiv, _bvsdiv) if op == "/" else (z3.URem, z3.SRem)
            return (signed if type_.signed else unsigned)(a, b)
        return _quotient(a, b) if op == "/" else a - b * _quotient(a, b)

    def _element(self, array: str, index: Expression, state: State) -> z3.ExprRef:
        return z3.Select(state[array], self._index(array, index, state))

    def _index(self, array: str, index: Expression, state: State) -> z3.ExprRef:
        length = self._types[array].length
        wide = Type(64)
        term = self.converted(index, wide, state)
        if isinstance(length, Literal):
            self.checks.append(z3.And(term >= 0, term < self._number(length.value, wide)))
        else:
            self.checks.append(z3.And(term >= 0, term < state[length.name]))
        if self._machine:
            # Beyond it, two elements would be one below.
            self.checks.append(term <= self._number(INT_MAX, wide))
        return self._resized(term, wide, INT)

    def _quantified(self, expression: Quantified, state: State) -> z3.BoolRef:
        bound = self.fresh(expression.variable, INT)
        before = len(self.checks)
        outer = self._types
        self._types = {**outer, expression.variable: INT}
        body = self.truth(expression.body, {**state, expression.variable: bound})
        self._types = outer
        # A bound variable takes every value; what is out of an array's range is some number.
        del self.checks[before:]
        quantify = z3.ForAll if expression.quantifier == "forall" else z3.Exists
        return quantify([bound], body)


def _bvsdiv(a: z3.BitVecRef, b: z3.BitVecRef) -> z3.BitVecRef:
    return a / b


def _quotient(a: z3.ArithRef, b: z3.ArithRef) -> z3.ArithRef:
    """C's quotient, rounded towards zero (C11 6.5.5); Z3's leaves a remainder of 0 or more."""
    floor = a / b
    return z3.If(z3.And(a < 0, a % b != 0), z3.If(b > 0, floor + 1, floor - 1), floor)


@dataclass(frozen=True)
class _Path:
    """The condition under which a place is reached, and the values there."""

    condition: z3.BoolRef
    state: State


def obligations(program: Program, encoder: Encoder) -> Obligations:
    """What is to be proven of a program, in terms of one encoder.

    Raises:
        UnsupportedProgram: an unsigned value over mathematical integers.
    """
    walk = _Walk(program, encoder)
    state = {name: encoder.fresh(name, type_) for name, type_ in program.types.items()}
    walk.block(program.body, _Path(z3.BoolVal(True), state))
    never = {loop.number: Head(z3.BoolVal(False), state) for loop in program.loops}
    return Obligations(never | walk.heads, tuple(walk.preservations), tuple(walk.goals))


class _Walk:
    """Goes through a program once and collects its obligations."""

    def __init__(self, program: Program, encoder: Encoder) -> None:
        self._types = program.types
        self._encoder = encoder
        self._breaks: list[list[_Path]] = []
        self._continues: list[list[_Path]] = []
        self._line = 0
        self.heads: dict[int, Head] = {}
        self.preservations: list[Preservation] = []
        self.goals: list[Goal] = []

    def block(self, block: Block, path: _Path | None) -> _Path | None:
        """The path at the end of a block; None if the end is not reached."""
        for statement in block:
            if path is None:
                return None
            path = self._statement(statement, path)
        return path

    def _statement(self, statement: Statement, path: _Path) -> _Path | None:
        match statement:
            case Assign():
                return self._assigned(statement, path)
            case Forget(name=name):
                return self._forgotten([name], path)
            case Assume(condition=condition):
                return _assumed(path, self._truth(condition, path))
            case Assert(condition=condition, line=line):
                truth = self._truth(condition, path)
                self.goals.append(Goal(line, path.condition, truth))
                return path
            case Branch(condition=condition, then=then, otherwise=otherwise):
                truth = self._truth(condition, path)
                ends = (
                    self.block(then, _assumed(path, truth)),
                    self.block(otherwise, _assumed(path, z3.Not(truth))),
                )
                return _merged([end for end in ends if end is not None])
            case Loop():
                return self._loop(statement, path)
            case Break():
                self._breaks[-1].append(path)
            case Continue():
                self._continues[-1].append(path)
            case Stop():
                pass
        return None

    def _truth(self, condition: Expression, path: _Path) -> z3.BoolRef:
        truth = self._encoder.truth(condition, path.state)
        self._collect_checks(path)
        return truth

    def _collect_checks(self, path: _Path) -> None:
        self.goals += [Goal(0, path.condition, check) for check in self._encoder.checks]
        self._encoder.checks.clear()

    def _assigned(self, statement: Assign, path: _Path) -> _Path:
        target = statement.target
        name = target.name if isinstance(target, Variable) else target.array
        value = self._encoder.converted(statement.value, self._types[name].element, path.state)
        if isinstance(target, Element):
            value = self._encoder.stored(target, value, path.state)
        self._collect_checks(path)
        return _Path(path.condition, {**path.state, name: value})

    def _forgotten(self, names: list[str], path: _Path) -> _Path:
        new = {name: self._encoder.fresh(name, self._types[name]) for name in names}
        known = [self._encoder.within(term, self._types[name]) for name, term in new.items()]
        return _Path(z3.And(path.condition, *known), {**path.state, **new})

    def _loop(self, loop: Loop, path: _Path) -> _Path | None:
        self.preservations.append(Preservation(loop.number, "base", path.condition, path.state))
        forgotten = self._forgotten(sorted(changed((loop,))), path)
        reached = z3.Bool(f"loop!{loop.number}")
        self.heads[loop.number] = Head(reached, forgotten.state)
        head = _assumed(forgotten, reached)
        guard = self._truth(loop.guard, head)
        self._breaks.append([])
        self._continues.append([])
        end = self.block(loop.body, _assumed(head, guard))
        ends = [*self._continues.pop(), *([end] if end is not None else [])]
        again = _merged(ends)
        if again is not None:
            again = self.block(loop.step, again)
        if again is not None:
            self.preservations.append(
                Preservation(loop.number, "step", again.condition, again.state)
            )
        return _merged([_assumed(head, z3.Not(guard)), *self._breaks.pop()])


def _assumed(path: _Path, condition: z3.BoolRef) -> _Path:
    return _Path(z3.And(path.condition, condition), path.state)


def _merged(paths: list[_Path]) -> _Path | None:
    """The place where several paths meet, of which a run takes one."""
    if not paths:
        return None
    merged = paths[-1]
    for path in reversed(paths[:-1]):
        state = {
            name: value
            if value.eq(merged.state[name])
            else z3.If(path.condition, value, merged.state[name])
            for name, value in path.state.items()
        }
        merged = _Path(z3.Or(path.condition, merged.condition), state)
    return merged
