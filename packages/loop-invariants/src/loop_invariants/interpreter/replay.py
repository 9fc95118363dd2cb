"""Runs of a program with given inputs, which confirm a tool's violation."""

import re
from collections.abc import Mapping, Sequence

from loop_invariants.interpreter.machine import Machine
from loop_invariants.interpreter.simulation import Failure, record_trace
from loop_invariants.ir.expressions import Semantics, Type, convert_number
from loop_invariants.ir.statements import Program

_MAX_ITERATIONS = 100_000
"""Maximum number of iterations of all loops together: about a second."""


def replay_inputs(
    program: Program, semantics: Semantics, values: Sequence[int], variables: Mapping[str, int]
) -> Failure | None:
    """Run a program with given inputs; return its violation, or None without one.

    Args:
        program: the program.
        semantics: semantics of its integers.
        values: results of functions, in order; then 0.
        variables: values of uninitialized variables, by name in the text; 0 for others.
    """
    machine = Machine(program, semantics, _MAX_ITERATIONS)

    def start() -> None:
        remaining_values = list(values)

        def draw(type_: Type, name: str) -> int:
            if name:
                # Variables with equal names have a number at their end.
                value = variables.get(name, variables.get(re.sub(r"_\d+$", "", name), 0))
            else:
                value = remaining_values.pop(0) if remaining_values else 0
            return convert_number(value, Type(64), type_, semantics)

        machine.draw = draw

    start()
    line = machine.run(machine.draw_state())
    if line is None:
        return None
    # The same run again, with a record of its events.
    start()
    return Failure(line, record_trace(machine, program))
