"""Inputs that Z3 finds for branches and assertions that no run reached.

A run is followed with concrete inputs and with terms over these inputs (concolic execution,
Godefroid, Klarlund and Sen 2005). Each decision of its path is a condition on the inputs. To reach
the other side of a decision, Z3 solves the conditions before it and the negated decision. The next
run begins with that solution, and decides only later conditions anew (generational search of SAGE,
Godefroid, Levin and Molnar 2008).
"""

import heapq
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import z3

from loop_invariants.ir.expressions import (
    BOOL,
    Constant,
    Element,
    Expression,
    Identifier,
    Quantified,
    Semantics,
    Type,
)
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
    Stop,
)
from loop_invariants.verification.z3_encoding import Encoder

_MAX_ITERATIONS = 40
"""Maximum number of iterations of all loops together on a path."""

_MAX_DECISIONS = 300
"""Maximum number of decisions on a path."""

_MAX_TRIES = 40
"""Maximum number of queries for the same side of a decision."""

_QUERY_STEPS = 2_000_000
"""Maximum number of Z3 steps of a query: about half a second."""

_INDEX = Type(64)

_Jump = Break | Continue | BreakTo | None


@dataclass(frozen=True)
class _Decision:
    """A decision on a path.

    Attributes:
        key: the place of the decision; None if the other side is of no interest.
        condition: condition on the inputs for the side that was taken.
        is_true: whether this side is the true one.
    """

    key: object
    condition: z3.BoolRef
    is_true: bool


class _PathEnd(Exception):
    """The end of a path: of the run, by a violation, or by a limit."""


@dataclass
class _Path:
    """A path of a run: its inputs, and its decisions.

    Attributes:
        planned_values: values of the first inputs; later inputs are 0.
        inputs: constants of the inputs, in order.
        values: values of the inputs, in order.
        decisions: decisions, in order.
        sides: sides of all decisions that the run took, also of those without inputs.
    """

    planned_values: tuple[int, ...]
    inputs: list[z3.ExprRef] = field(default_factory=list)
    values: list[int] = field(default_factory=list)
    decisions: list[_Decision] = field(default_factory=list)
    sides: set[tuple[object, bool]] = field(default_factory=set)


class _PathEncoder(Encoder):
    """An encoder of the expressions on one path, which follows the run.

    Arrays are dictionaries from concrete indices to terms. An index is fixed to its value.
    """

    def __init__(self, semantics: Semantics, path: _Path) -> None:
        super().__init__(semantics)
        self._path = path

    def draw(self, type_: Type) -> z3.ExprRef:
        """Create the next input, and return its constant."""
        position = len(self._path.values)
        planned = self._path.planned_values
        value = planned[position] if position < len(planned) else 0
        term = self.create_fresh("input", type_)
        self._path.inputs.append(term)
        self._path.values.append(value)
        type_range = self.encode_type_range(term, type_)
        if not z3.is_true(type_range):
            self._path.decisions.append(_Decision(None, type_range, True))
        # A truth value has one bit only as a bit vector.
        return term if type_ != BOOL else self._restrict_to_type(term, type_)

    def evaluate(self, term: z3.ExprRef) -> z3.ExprRef:
        """Return the value of a term on this path."""
        pairs = [
            (constant, _build_value(constant, value))
            for constant, value in zip(self._path.inputs, self._path.values, strict=True)
        ]
        return z3.simplify(z3.substitute(term, *pairs))

    def decide(self, condition: z3.BoolRef, key: object) -> bool:
        """Return the truth of a condition on this path, and record the decision."""
        condition = z3.simplify(condition)
        is_true = z3.is_true(self.evaluate(condition))
        self._path.sides.add((key, is_true))
        # A condition without inputs has only one side.
        if not z3.is_true(condition) and not z3.is_false(condition):
            if len(self._path.decisions) >= _MAX_DECISIONS:
                raise _PathEnd
            taken = condition if is_true else z3.Not(condition)
            self._path.decisions.append(_Decision(key, taken, is_true))
        return is_true

    def fix(self, term: z3.ExprRef, key: object) -> int:
        """Return the value of a term on this path; the other side are all other values."""
        term = z3.simplify(term)
        value = self.evaluate(term)
        # a division by zero has no value
        if not (z3.is_bv_value(value) or z3.is_int_value(value)):
            raise _PathEnd
        if not value.eq(term):
            self._path.decisions.append(_Decision(key, term == value, True))
        return value.as_signed_long() if z3.is_bv(value) else value.as_long()

    def nondet(self, type_: Type) -> z3.ExprRef:
        """Return the next input."""
        return self.draw(type_)

    def connect(self, op: str, left: Expression, right: Expression) -> z3.BoolRef:
        """Decide the left operand, and encode the right one only where it is evaluated."""
        first = self.decide(self.interpret_condition(left), (id(left), op))
        if first is (op == "||"):
            return z3.BoolVal(first)
        return self.interpret_condition(right)

    def choose(
        self, condition: Expression, then: Expression, otherwise: Expression, type_: Type
    ) -> z3.ExprRef:
        """Decide the condition, and encode the chosen operand only."""
        is_true = self.decide(self.interpret_condition(condition), id(condition))
        return self.interpret_as(then if is_true else otherwise, type_)

    def element(self, element: Element) -> z3.ExprRef:
        """Return the term of an array element; an unknown element is an input."""
        position = self.find_position(element)
        elements = self._state[element.array]
        if position not in elements:
            elements[position] = self.draw(element.type)
        return elements[position]

    def find_position(self, element: Element) -> int:
        """Return the concrete index of an element."""
        term = self.interpret_as(element.index, _INDEX)
        length = element.array_type.length
        if isinstance(length, Constant):
            bound = self._encode_number(length.value, _INDEX)
        else:
            bound = self.interpret_as(length, _INDEX)
        is_inside = self.decide(z3.And(term >= 0, term < bound), (id(element), "index"))
        if not is_inside:
            raise _PathEnd
        return self.fix(term, (id(element), "position"))

    def quantify(self, expression: Quantified) -> z3.BoolRef:
        """End the path: a quantifier has no concrete value."""
        raise _PathEnd


def _build_value(constant: z3.ExprRef, value: int) -> z3.ExprRef:
    if z3.is_bv(constant):
        return z3.BitVecVal(value, constant.size())
    return z3.IntVal(value)


class _PathRunner:
    """A runner of one path through a program.

    Its draws are those of `interpreter.machine`, in the same order.
    """

    def __init__(self, program: Program, semantics: Semantics, values: tuple[int, ...]) -> None:
        self.path = _Path(values)
        self._program = program
        self._encoder = _PathEncoder(semantics, self.path)
        self._remaining_iterations = _MAX_ITERATIONS
        self._state: dict[str, object] = {}

    def run(self) -> None:
        """Follow the path to its end."""
        try:
            for name in self._program.types:
                self._havoc(name)
            self._run_block(self._program.body)
        except _PathEnd:
            pass

    def _havoc(self, name: str) -> None:
        type_ = self._program.types[name]
        # Elements of an array are drawn when they are first read.
        self._state[name] = {} if type_.is_array else self._encoder.draw(type_)

    def _decide(self, condition: Expression, key: object) -> bool:
        truth = self._encoder.encode_condition(condition, self._state)
        self._check(key)
        return self._encoder.decide(truth, key)

    def _check(self, key: object) -> None:
        """Decide the divisors and shifts of the last expression."""
        checks = list(self._encoder.checks)
        self._encoder.checks.clear()
        for number, check in enumerate(checks):
            if not self._encoder.decide(check, (key, number)):
                raise _PathEnd

    def _run_block(self, block: Block) -> _Jump:
        for statement in block:
            jump = self._run_statement(statement)
            if jump is not None:
                return jump
        return None

    def _run_statement(self, statement: Statement) -> _Jump:
        key = id(statement)
        match statement:
            case Assign():
                self._assign(statement)
            case Havoc(name=name):
                self._havoc(name)
            # A false condition ends the run, as an assumption, or by a violation.
            case Assume(condition=condition) | Assert(condition=condition):
                if not self._decide(condition, key):
                    raise _PathEnd
            case Branch(condition=condition, then=then, otherwise=otherwise):
                return self._run_block(then if self._decide(condition, key) else otherwise)
            case Loop():
                return self._run_loop(statement)
            case LabelledBlock(label=label, body=body):
                jump = self._run_block(body)
                return None if jump == BreakTo(label) else jump
            case Stop():
                raise _PathEnd
            case Break() | Continue() | BreakTo():
                return statement
        return None

    def _assign(self, statement: Assign) -> None:
        target = statement.target
        if isinstance(target, Identifier):
            value = self._encoder.encode_conversion(statement.value, target.type, self._state)
            self._check(id(statement))
            self._state[target.name] = z3.simplify(value)
            return
        # The state of the encoder is that of its last expression.
        self._encoder.encode_value(Constant(0), self._state)
        position = self._encoder.find_position(target)
        value = self._encoder.encode_conversion(statement.value, target.type, self._state)
        self._check(id(statement))
        self._state[target.array][position] = z3.simplify(value)

    def _run_loop(self, loop: Loop) -> _Jump:
        while self._decide(loop.guard, id(loop)):
            self._remaining_iterations -= 1
            if self._remaining_iterations < 0:
                raise _PathEnd
            jump = self._run_block(loop.body)
            if isinstance(jump, Break):
                return None
            if isinstance(jump, BreakTo):
                return jump
            self._run_block(loop.step)
        return None


def find_path_inputs(
    program: Program, semantics: Semantics, seconds: float
) -> Iterator[tuple[int, ...]]:
    """Yield inputs of runs that reach new sides of decisions.

    Each tuple contains the values of the run's draws, in the order of `interpreter.machine`; later
    draws are 0.

    Args:
        program: the program.
        semantics: semantics of its integers.
        seconds: maximum processor seconds.
    """
    deadline = time.process_time() + seconds
    reached: set[tuple[object, bool]] = set()
    tries: dict[tuple[object, bool], int] = {}
    counter = itertools.count()
    # Sides that no run reached come first, in the order of their discovery.
    pending = [(0, next(counter), (), 0)]
    while pending and time.process_time() < deadline:
        _, _, values, first_decision = heapq.heappop(pending)
        runner = _PathRunner(program, semantics, values)
        runner.run()
        decisions = runner.path.decisions
        # The first run and each run with a new side are worth their states.
        if not values or not runner.path.sides <= reached:
            yield tuple(runner.path.values)
        reached |= runner.path.sides
        for position in range(first_decision, len(decisions)):
            side = (decisions[position].key, not decisions[position].is_true)
            if side[0] is None or tries.get(side, 0) >= _MAX_TRIES:
                continue
            if time.process_time() > deadline:
                return
            tries[side] = tries.get(side, 0) + 1
            solution = _solve(runner.path, position)
            if solution is not None:
                is_known = side in reached
                heapq.heappush(pending, (is_known, next(counter), solution, position + 1))


def _solve(path: _Path, position: int) -> tuple[int, ...] | None:
    """Return inputs that take the other side of a decision; None if Z3 finds none."""
    solver = z3.Solver()
    solver.set("rlimit", _QUERY_STEPS)
    solver.add(*(decision.condition for decision in path.decisions[:position]))
    solver.add(z3.Not(path.decisions[position].condition))
    if solver.check() != z3.sat:
        return None
    model = solver.model()
    # Inputs without a condition keep their values.
    return tuple(
        value if model[constant] is None else _read_value(model[constant])
        for constant, value in zip(path.inputs, path.values, strict=True)
    )


def _read_value(term: z3.ExprRef) -> int:
    return term.as_signed_long() if z3.is_bv(term) else term.as_long()
