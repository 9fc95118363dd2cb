"""The growing code of a function."""

from collections.abc import Callable
from typing import Any

from loop_invariants.execution.machine import Machine, Operation, State
from loop_invariants.execution.scopes import TypeReader
from loop_invariants.execution.values import Value, to_truth


class Label:
    """A position in the code."""

    def __init__(self) -> None:
        self.pc = -1


class CodeWriter(TypeReader):
    """A writer of operations of the machine.

    Args:
        machine: the machine that runs the code.

    Attributes:
        code: the code so far.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self.machine = machine
        self.code: list[Operation] = []
        self.lines: list[int] = []
        self.line = 0

    def emit(self, operation: Operation) -> None:
        """Add an operation to the code."""
        self.code.append(operation)
        self.lines.append(self.line)

    def push(self, value: Value) -> None:
        """Emit a constant."""

        def operation(state: State) -> None:
            state.stack.append(value)

        self.emit(operation)

    def mark(self, label: Label) -> None:
        """Set a label to the current position."""
        label.pc = len(self.code)
        # A jump skips the operation before it, which `_pop_slot_address` must not change then.
        if self.code:
            self.code[-1].__dict__.pop("variable", None)

    def jump(self, label: Label) -> None:
        """Emit a jump."""

        def operation(state: State) -> None:
            state.pc = label.pc

        self.emit(operation)

    def jump_if(self, label: Label, expected: bool) -> None:
        """Emit a jump that pops a value and depends on its truth."""
        split = self.machine.split

        def operation(state: State) -> list[State] | None:
            value = state.stack.pop()
            if type(value) is int:
                if (value != 0) is expected:
                    state.pc = label.pc
                return None
            truth, other = split(state, to_truth(value))
            if truth is expected:
                state.pc = label.pc
            if other is None:
                return None
            if truth is not expected:
                other.pc = label.pc
            return [other]

        self.emit(operation)

    def pop(self) -> None:
        """Emit the removal of a value."""

        def operation(state: State) -> None:
            state.stack.pop()

        self.emit(operation)

    def discard_code(self, compile_: Callable[[], Any]) -> Any:
        """Return the result of a compilation without its code."""
        outer, self.code, self.lines = (self.code, self.lines), [], []
        try:
            return compile_()
        finally:
            self.code, self.lines = outer
