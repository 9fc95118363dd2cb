"""A machine that runs the code of a C text on symbolic inputs, path by path.

The code is a list of operations on a stack. A condition that depends on inputs forks the state.
Z3 decides which paths are feasible, so that an exploration without a violation that reaches the
end of every path covers all runs.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import z3

from loop_invariants.execution.c_types import CType, Integer, UnsupportedC
from loop_invariants.execution.memory import MemoryObject
from loop_invariants.execution.path_bounds import (
    Model,
    PathBounds,
    contains,
    intersect,
    parse_bound,
    subtract,
)
from loop_invariants.execution.values import Address, Value, fold, is_symbolic, to_vector

Operation = Callable[["State"], "list[State] | None"]

_MAX_PATHS = 20_000
_MAX_FRAMES = 20_000
_MAX_CHOICES = 128
"""Maximum number of elements among which a symbolic address chooses."""
_QUERY_MILLISECONDS = 3_000
_STEPS_BETWEEN_CHECKS = 2048
_MAX_OBJECT_BYTES = 1 << 26


class EndOfPath(Exception):
    """The end of a run."""


class Undecided(Exception):
    """The exploration cannot cover all runs."""


class Violation(Exception):
    """A run violates the property.

    Attributes:
        kind: `assertion`, `index`, `null`, `division`, `shift` or `overflow`.
        line: line of the text.
        inputs: values that the run reads, in order.
        is_real: whether the run depends on these inputs only.
    """

    def __init__(self, kind: str, line: int, inputs: tuple[int, ...], is_real: bool) -> None:
        super().__init__(kind)
        self.kind, self.line, self.inputs, self.is_real = kind, line, inputs, is_real


class Choice(Exception):
    """A value on the stack that must become concrete before an operation.

    Attributes:
        position: index of the address on the stack, from its end.
    """

    def __init__(self, position: int) -> None:
        super().__init__("an address")
        self.position = position


@dataclass
class Code:
    """The code of a function.

    Attributes:
        name: name of the function.
        slots: number of its variables.
        operations: operations; empty before its first call.
        lines: line of the text of each operation.
        is_library: whether the text does not contain the function.
    """

    name: str
    slots: int = 0
    operations: list[Operation] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    is_library: bool = False

    def find_line(self, pc: int) -> int:
        """Return the line of the operation before a position."""
        return self.lines[pc - 1] if 0 < pc <= len(self.lines) else 0


@dataclass(frozen=True)
class _Constraint:
    """A condition of a path, and those before it."""

    parent: "_Constraint | None"
    condition: z3.BoolRef
    depth: int


@dataclass(frozen=True)
class Access:
    """An access to memory between two sequence points.

    Attributes:
        is_write: whether it changes the memory.
        obj: number of the object; -1 for the end of a run.
        offset: offset in bytes; None if it is open.
        size: size in bytes.
        depth: number of calls around it.
    """

    is_write: bool
    obj: int
    offset: int | None
    size: int
    depth: int

    def overlaps(self, other: "Access") -> bool:
        """Return whether two accesses share a byte."""
        if self.obj != other.obj:
            return False
        if self.offset is None or other.offset is None:
            return True
        return self.offset < other.offset + other.size and other.offset < self.offset + self.size


class State:
    """The state of a run.

    Attributes:
        code, pc, slots: the function that runs, its next operation, the objects of its variables.
        stack: values of unfinished expressions.
        frames: the callers: code, position, slots.
        objects: objects that the run has changed or made, by number.
        path: conditions of the path.
        bounds: those of them that bound one input.
        model: inputs that satisfy them; None if unknown.
        inputs: type and symbol of the inputs so far.
        logs: accesses of the operands of unfinished expressions with side effects.
    """

    __slots__ = (
        "bounds",
        "code",
        "frames",
        "inputs",
        "logs",
        "model",
        "objects",
        "owner",
        "path",
        "pc",
        "slots",
        "stack",
    )

    def __init__(self, code: Code) -> None:
        self.code, self.pc = code, 0
        self.slots: list[int] = [0] * code.slots
        self.stack: list[Value] = []
        self.frames: list[tuple[Code, int, list[int]]] = []
        self.objects: dict[int, MemoryObject] = {}
        self.owner = object()
        self.path: _Constraint | None = None
        self.bounds = PathBounds()
        self.model: Model | None = Model()
        self.inputs: tuple[tuple[Integer, Any], ...] = ()
        self.logs: list[list[list[Access]]] = []

    def fork(self) -> "State":
        """Copy the state; both copies share their objects until one changes them."""
        other = State.__new__(State)
        other.code, other.pc = self.code, self.pc
        other.slots, other.stack = list(self.slots), list(self.stack)
        other.frames = [(code, pc, list(slots)) for code, pc, slots in self.frames]
        other.objects = dict(self.objects)
        self.owner, other.owner = object(), object()
        other.path, other.model, other.inputs = self.path, self.model, self.inputs
        other.bounds = self.bounds.copy()
        other.logs = [[list(log) for log in group] for group in self.logs]
        return other


class Machine:
    """A machine for one text.

    Args:
        violations: the kinds of violations that violate the property; a run with another one
            is not decided.
        deadline: clock time at which the exploration ends.

    Attributes:
        statics: initial values of the objects that live as long as the run.
        external_objects: objects that functions of another file may change.
        assumptions: sentences that a complete exploration rests on.
        is_static: whether initial values of static objects are computed.
    """

    def __init__(self, violations: frozenset[str], deadline: float) -> None:
        self._violations, self._deadline = violations, deadline
        self._solver = z3.SolverFor("QF_BV")
        self._solver.set("timeout", _QUERY_MILLISECONDS)
        self._pushed: list[_Constraint] = []
        self._count = 0
        self._symbols: list[Any] = []
        self._unreal: list[Any] = []
        self.statics: dict[int, MemoryObject] = {}
        self.external_objects: list[tuple[int, CType]] = []
        self.assumptions: dict[str, None] = {}
        self.is_static = False

    # -- symbols and objects ---------------------------------------------------------------

    def create_symbol(self, bits: int, is_real: bool = False) -> z3.BitVecRef:
        """Create a number with any value; a real one is an input of the run."""
        self._count += 1
        symbol = z3.BitVec(f"v{self._count}", bits)
        # Z3 gives the identifier of an expression without a reference to another one.
        self._symbols.append(symbol)
        if not is_real:
            self._unreal.append(symbol)
        return symbol

    def create_object(self, state: State, size: int, fill: int | None, kind: str) -> int:
        """Create an object in a state and return its number."""
        if size > _MAX_OBJECT_BYTES:
            raise UnsupportedC(f"an object of {size:,} bytes")
        self._count += 1
        state.objects[self._count] = MemoryObject(size, fill, kind, state.owner)
        return self._count

    def create_static(self, size: int, fill: int | None, kind: str) -> tuple[int, MemoryObject]:
        """Create an object that lives as long as the run."""
        if size > _MAX_OBJECT_BYTES:
            raise UnsupportedC(f"an object of {size:,} bytes")
        self._count += 1
        item = self.statics[self._count] = MemoryObject(size, fill, kind, None)
        return self._count, item

    def find_object(self, state: State, number: int) -> MemoryObject:
        """Return the object of an address; a violation if it has ended."""
        item = state.objects.get(number)
        if item is None:
            item = self.statics.get(number)
            if item is None:
                self.violate(state, "null")
        return item  # type: ignore[return-value]  # `violate` raises

    def change_object(self, state: State, number: int) -> MemoryObject:
        """Return an object that the state may change in place."""
        item = self.find_object(state, number)
        if item.owner is not state.owner:
            if item.kind == "string":
                self.violate(state, "null")
            # Initial values are computed in place.
            if self.is_static and number in self.statics:
                return item
            item = state.objects[number] = item.copy(state.owner)
        return item

    # -- conditions ------------------------------------------------------------------------

    def _check(self, state: State, *conditions: Any) -> Model | None:
        """Return a model of the path with further conditions; None if it is infeasible."""
        nodes = []
        node = state.path
        while node is not None and not (
            node.depth <= len(self._pushed) and self._pushed[node.depth - 1] is node
        ):
            nodes.append(node)
            node = node.parent
        depth = 0 if node is None else node.depth
        if depth < len(self._pushed):
            self._solver.pop(len(self._pushed) - depth)
            del self._pushed[depth:]
        for node in reversed(nodes):
            self._solver.push()
            self._solver.add(node.condition)
            self._pushed.append(node)
        self._solver.push()
        try:
            self._solver.add(*conditions)
            remaining = max(1, int(1000 * (self._deadline - time.monotonic())))
            self._solver.set("timeout", min(_QUERY_MILLISECONDS, remaining))
            answer = self._solver.check()
            if answer == z3.sat:
                return Model(self._solver.model())
            if answer == z3.unsat:
                return None
            raise Undecided("the solver's time limit")
        finally:
            self._solver.pop()

    def add(self, state: State, condition: Any) -> None:
        """Add a condition to a path, whose model may not satisfy it."""
        for part in _split_conjunction(condition):
            # A part alone may be simplified to a constant.
            part = z3.BoolVal(part) if isinstance(part, bool) else part
            depth = 1 if state.path is None else state.path.depth + 1
            state.path = _Constraint(state.path, part, depth)
            state.bounds.add(part)

    def assume(self, state: State, condition: Any) -> None:
        """Restrict a path to a condition; end it if none of its runs is left."""
        for part in _split_conjunction(_simplify(condition)):
            if isinstance(part, bool):
                if not part:
                    raise EndOfPath
                continue
            truth, model, other = self._decide(state, part)
            if not truth and other is None:
                raise EndOfPath
            self.add(state, part)
            state.model = model if truth else other

    def _find_model(self, state: State) -> Model:
        if state.model is None:
            state.model = self._check(state)
            if state.model is None:
                raise EndOfPath
        return state.model

    def _decide(self, state: State, condition: Any) -> tuple[bool, Model, Model | None]:
        """Return a truth that a condition can have, its model, and one of the other truth."""
        model = self._find_model(state)
        bound = parse_bound(condition)
        ranges = None if bound is None else state.bounds.find(bound)
        if bound is None or ranges is None:
            truth = z3.is_true(model.evaluate(condition))
            return truth, model, self._check(state, z3.Not(condition) if truth else condition)
        value = model.evaluate(bound.symbol)
        number = value.as_signed_long() if bound.signed else value.as_long()
        truth = contains(bound.ranges, number)
        # The input occurs in bounds only, so that it can change alone.
        others = (subtract if truth else intersect)(ranges, bound.ranges)
        other = model.replace(bound.symbol, others[0][0]) if others else None
        return truth, model, other

    def split(self, state: State, condition: Any) -> tuple[bool, State | None]:
        """Return the truth of a condition, and the other state if both are feasible."""
        condition = _simplify(condition)
        if isinstance(condition, bool):
            return condition, None
        truth, _, other_model = self._decide(state, condition)
        if other_model is None:
            return truth, None
        negation = _simplify(z3.Not(condition))
        other = state.fork()
        self.add(other, negation if truth else condition)
        other.model = other_model
        self.add(state, condition if truth else negation)
        return truth, other

    def check(self, state: State, condition: Any, kind: str) -> None:
        """Raise Violation if a run of the path violates a condition."""
        condition = _simplify(condition)
        if isinstance(condition, bool):
            if not condition:
                self.violate(state, kind)
            return
        truth, _, other = self._decide(state, condition)
        if not truth or other is not None:
            self.violate(state, kind, z3.Not(condition))

    def check_supported(self, state: State, condition: Any, construct: str) -> None:
        """Raise UnsupportedC if a run of the path violates a condition."""
        condition = _simplify(condition)
        if condition is True:
            return
        if condition is False:
            raise UnsupportedC(construct)
        truth, _, other = self._decide(state, condition)
        if not truth or other is not None:
            raise UnsupportedC(construct)

    def violate(self, state: State, kind: str, *conditions: Any) -> None:
        """Raise the violation of a path.

        Raises:
            Violation: the property contains the kind.
            UnsupportedC: it does not.
        """
        if kind not in self._violations or self.is_static:
            raise UnsupportedC(f"an error that the property does not contain ({kind})")
        zeros = [symbol == 0 for symbol in self._unreal]
        model = self._check(state, *conditions, *zeros)
        is_real = model is not None
        if model is None:
            model = self._check(state, *conditions)
        if model is None:
            raise EndOfPath
        values = tuple(
            type_.wrap(model.evaluate(symbol).as_long()) for type_, symbol in state.inputs
        )
        raise Violation(kind, self._find_line(state), values, is_real)

    def _find_line(self, state: State) -> int:
        """Return the line of the text, not of the library."""
        frames = [(state.code, state.pc), *((f[0], f[1]) for f in reversed(state.frames))]
        return next((code.find_line(pc) for code, pc in frames if not code.is_library), 0)

    # -- memory ----------------------------------------------------------------------------

    def log(self, state: State, is_write: bool, obj: int, offset: Any, size: int) -> None:
        """Log an access for the check of unspecified orders."""
        if state.logs:
            place = offset if isinstance(offset, int) else None
            access = Access(is_write, obj, place, size, len(state.frames))
            state.logs[-1][-1].append(access)

    def check_address(self, state: State, address: Value, size: int, align: int) -> Address:
        """Check that an address can be dereferenced; its object is alive."""
        if not isinstance(address, Address):
            raise UnsupportedC("an access through this value")
        if address.obj == 0:
            self.violate(state, "null")
        item = self.find_object(state, address.obj)
        offset = address.offset
        if type(offset) is int:
            if not address.low <= offset <= min(address.high, item.size) - size:
                self.violate(state, "index")
            if offset % align:
                raise UnsupportedC("an access that is not aligned")
            return address
        end = min(address.high, item.size) - size
        self.check(state, z3.And(offset >= address.low, offset <= end), "index")
        return address

    def _list_offsets(self, state: State, address: Address, size: int, position: int) -> list[int]:
        """Return the offsets that a symbolic address may have."""
        count = (address.high - address.low) // size
        if not 0 < count <= _MAX_CHOICES:
            raise Choice(position)
        remainder = z3.URem(address.offset - address.low, z3.BitVecVal(size, 64))
        if _simplify(remainder == 0) is not True and self._check(state, remainder != 0) is not None:
            raise Choice(position)
        return [address.low + index * size for index in range(count)]

    def load(self, state: State, address: Address, type_size: int, position: int = 1) -> Value:
        """Load a number or address; `position` is the place of the address on the stack."""
        offset = address.offset
        if type(offset) is int:
            item = self.find_object(state, address.obj)
            cell = item.cells.get(offset)
            if cell is not None and cell[0] == type_size:
                value = cell[1]
            else:
                value = self._load_slowly(state, address.obj, offset, type_size)
        else:
            offsets = self._list_offsets(state, address, type_size, position)
            values = [self._load_slowly(state, address.obj, o, type_size) for o in offsets]
            if any(not isinstance(value, int) and not is_symbolic(value) for value in values):
                raise Choice(position)
            bits = 8 * type_size
            value = to_vector(values[-1], bits)
            for place, other in zip(offsets[:-1], values[:-1], strict=True):
                value = z3.If(offset == place, to_vector(other, bits), value)
            value = fold(value)
        if state.logs:
            self.log(state, False, address.obj, offset, type_size)
        return value

    def _load_slowly(self, state: State, number: int, offset: int, size: int) -> Value:
        item = self.find_object(state, number)

        def create(place: int, length: int) -> Value:
            # One arbitrary value, which the object keeps.
            symbol = self.create_symbol(8 * length)
            self.change_object(state, number).store(place, length, symbol)
            return symbol

        if item.fill is None and item.owner is not state.owner and item.kind != "string":
            item = self.change_object(state, number)
        return item.load(offset, size, create)

    def store(
        self, state: State, address: Address, size: int, value: Value, position: int = 1
    ) -> None:
        """Store a number or address."""
        offset = address.offset
        if type(offset) is int:
            item = self.change_object(state, address.obj)
            if isinstance(value, z3.BoolRef):
                value = fold(to_vector(value, 8 * size))
            cell = item.cells.get(offset)
            if cell is not None and cell[0] == size:
                item.cells[offset] = (size, value)
            else:
                item.store(offset, size, value)
        else:
            offsets = self._list_offsets(state, address, size, position)
            if not isinstance(value, int) and not is_symbolic(value):
                raise Choice(position)
            olds = [self._load_slowly(state, address.obj, o, size) for o in offsets]
            if any(not isinstance(old, int) and not is_symbolic(old) for old in olds):
                raise Choice(position)
            vector = to_vector(value, 8 * size)
            item = self.change_object(state, address.obj)
            for place, old in zip(offsets, olds, strict=True):
                new = z3.If(offset == place, vector, to_vector(old, 8 * size))
                item.store(place, size, fold(new))
        if state.logs:
            self.log(state, True, address.obj, offset, size)

    # -- exploration -----------------------------------------------------------------------

    def explore(self, state: State) -> int:
        """Run all paths from a state to their ends; return their number.

        Raises:
            Violation: a run violates the property.
            Undecided: a limit or an unsupported construct.
        """
        pending, count = [state], 0
        while pending:
            count += 1
            if count > _MAX_PATHS:
                raise Undecided(f"more than {_MAX_PATHS:,} paths")
            self._check_limits(state)
            self._run(pending.pop(), pending)
        return count

    def _run(self, state: State, pending: list[State]) -> None:
        steps = 0
        while True:
            try:
                while True:
                    operation = state.code.operations[state.pc]
                    state.pc += 1
                    others = operation(state)
                    if others is not None:
                        pending += others
                    steps += 1
                    if steps % _STEPS_BETWEEN_CHECKS == 0:
                        self._check_limits(state)
            except EndOfPath:
                return
            except Choice as choice:
                state.pc -= 1
                self._concretize(state, choice.position, pending)
                if time.monotonic() > self._deadline:
                    raise Undecided("the time limit") from choice
            except UnsupportedC as error:
                line = self._find_line(state)
                raise Undecided(f"line {line}: {error} is not supported") from error

    def _check_limits(self, state: State) -> None:
        if time.monotonic() > self._deadline:
            raise Undecided("the time limit")
        if len(state.frames) > _MAX_FRAMES:
            raise Undecided(f"more than {_MAX_FRAMES:,} calls")

    def _concretize(self, state: State, position: int, pending: list[State]) -> None:
        """Fork a state by the values of an address or number on its stack."""
        value = state.stack[-position]
        expression = value.offset if isinstance(value, Address) else value
        if not isinstance(expression, z3.BitVecRef):
            raise UnsupportedC("this value")
        bits = expression.size()
        numbers: list[int] = []
        while True:
            model = self._check(state, *(expression != number for number in numbers))
            if model is None:
                break
            if len(numbers) >= _MAX_CHOICES:
                raise UnsupportedC(f"an address or a size with over {_MAX_CHOICES} values")
            numbers.append(model.evaluate(expression).as_long())
        if not numbers:
            raise EndOfPath
        states = [state, *(state.fork() for _ in numbers[1:])]
        for item, number in zip(states, numbers, strict=True):
            self.add(item, expression == number)
            item.model = None
            signed = number - (1 << bits) if number >> (bits - 1) else number
            item.stack[-position] = (
                Address(value.obj, signed, value.low, value.high)
                if isinstance(value, Address)
                else signed
            )
        pending += states[1:]

    def run_static(self, state: State) -> None:
        """Run code without inputs to its end, in place: a constant or an initial value."""
        outer, self.is_static = self.is_static, True
        try:
            while state.pc < len(state.code.operations):
                operation = state.code.operations[state.pc]
                state.pc += 1
                if operation(state):
                    raise UnsupportedC("an initial value that is not constant")
        except Choice as error:
            raise UnsupportedC("an initial value that is not constant") from error
        finally:
            self.is_static = outer

    def end(self, state: State) -> None:
        """End a run."""
        if state.logs:
            raise UnsupportedC("the end of a run in an expression with other effects")
        raise EndOfPath


def _simplify(condition: Any) -> Any:
    """Return a bool, or a truth value that Z3 cannot simplify to one."""
    if isinstance(condition, int):
        return bool(condition)
    condition = z3.simplify(condition)
    if z3.is_true(condition):
        return True
    if z3.is_false(condition):
        return False
    return condition


def _split_conjunction(condition: Any) -> list[Any]:
    """Return the parts of a conjunction, or of a negated disjunction."""
    if isinstance(condition, bool):
        return [condition]
    if z3.is_and(condition):
        return [part for child in condition.children() for part in _split_conjunction(child)]
    if z3.is_not(condition) and z3.is_or(condition.arg(0)):
        return [
            part
            for child in condition.arg(0).children()
            for part in _split_conjunction(_simplify(z3.Not(child)))
        ]
    return [condition]
