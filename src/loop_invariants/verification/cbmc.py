"""CBMC 6, a bounded model checker that unrolls loops."""

import re

from loop_invariants.ir.instrumentation import Property
from loop_invariants.verification.tool import (
    INPUT_VARIABLE,
    Tool,
    ToolAnswer,
    ToolInputs,
    ToolTask,
    ToolVerdict,
    find_last_error,
)

_ANSWERS = {"SUCCESSFUL": ToolAnswer.SUCCESSFUL, "FAILED": ToolAnswer.FAILED}
_ASSIGNMENT = re.compile(r"^  (\w+)=(-?\d+)[uUlL]* \(", flags=re.MULTILINE)
_VIOLATED_PROPERTY = re.compile(r"^Violated property:\n.*\n  (.*)", flags=re.MULTILINE)


class Cbmc(Tool):
    """The adapter of CBMC."""

    name = "CBMC"
    variable = "CBMC"
    assertion = '__CPROVER_assert({}, "assertion");'
    assumption = "__CPROVER_assume({});"

    def build_options(self, task: ToolTask) -> list[str]:
        """Build the options of a task."""
        # The trace of the first failed property suffices. Version 6 has further checks by default.
        options = ["--trace", "--stop-on-fail", "--no-standard-checks", "--no-malloc-may-fail"]
        options += [] if task.depth is None else ["--unwind", str(task.depth)]
        unwinding = "--unwinding-assertions"
        options.append(unwinding if task.has_unwinding_assertions else f"--no-{unwinding[2:]}")
        is_overflow = task.required_property is Property.NO_OVERFLOW
        # The user's assertions are no property there.
        checks = ["--signed-overflow-check", "--no-assertions"] if is_overflow else []
        checks += ["--bounds-check", "--pointer-check"] if task.has_range_checks else []
        checks += ["--div-by-zero-check"] if task.has_range_checks or is_overflow else []
        if task.has_overflow_checks:
            checks += ["--undefined-shift-check", "--signed-overflow-check"]
        return [*options, *checks]

    def parse_output(self, output: str) -> ToolVerdict:
        """Parse CBMC's verdict, the violated property and the trace."""
        verdicts = re.findall(r"^VERIFICATION (\w+)", output, flags=re.MULTILINE)
        if not verdicts:
            return ToolVerdict(ToolAnswer.ERROR, 0.0, find_last_error(output))
        violated = _VIOLATED_PROPERTY.findall(output)
        violation = violated[-1].strip() if violated else ""
        values: list[int] = []
        variables: dict[str, int] = {}
        for name, value in _ASSIGNMENT.findall(output):
            if name == INPUT_VARIABLE:
                values.append(int(value))
            else:
                variables.setdefault(name, int(value))
        answer = _ANSWERS.get(verdicts[-1], ToolAnswer.ERROR)
        missing = re.findall(r"no body for (?:function|callee) (\S+)", output)
        return ToolVerdict(
            answer,
            0.0,
            f"VERIFICATION {verdicts[-1]}",
            violation=violation,
            is_incomplete=violation.startswith(("unwinding", "recursion unwinding")),
            inputs=ToolInputs(tuple(values), variables) if answer is ToolAnswer.FAILED else None,
            missing_functions=frozenset(missing),
        )


CBMC = Cbmc()
