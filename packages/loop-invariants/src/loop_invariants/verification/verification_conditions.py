"""Verification conditions: the Z3 formulas that prove a set of invariants.

Every loop is cut at its head (Floyd 1967). The variables that the loop changes are havocked, its
invariants and guard are assumed, and its body runs once. The paths of this program have no loops.
The three kinds of conditions are:

- base: the invariants hold where the loop is first reached,
- step: the loop body preserves the invariants,
- goals: every assertion follows on every path, indices are in range and divisors are not zero.

A proof therefore never relies on undefined behaviour of C.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import z3

from loop_invariants.ir.expressions import Element, Expression, Identifier
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
    find_modified_variables,
)
from loop_invariants.verification.z3_encoding import Encoder, SymbolicState


@dataclass(frozen=True)
class CutPoint:
    """A cut point: the head of a loop in an arbitrary iteration.

    Attributes:
        is_reached: Boolean of the loop that every path through it assumes. Where it is true, the
            loop's invariants may be assumed of `state`.
        state: values of all variables at the head.
    """

    is_reached: z3.BoolRef
    state: SymbolicState


@dataclass(frozen=True)
class InductionCase:
    """An induction case: a loop's invariants must hold in `state` if `path` holds.

    Attributes:
        loop: the loop number.
        path: path condition of the case.
        state: values of all variables.
    """

    loop: int
    path: z3.BoolRef
    state: SymbolicState


@dataclass(frozen=True)
class Goal:
    """A goal: `condition` must hold wherever `path` does.

    Attributes:
        line: line of the assertion, as in `Assert`; 0 for a range check.
        path: path condition of the assertion.
        condition: condition that must hold.
    """

    line: int | None
    path: z3.BoolRef
    condition: z3.BoolRef


@dataclass(frozen=True)
class VerificationConditions:
    """The verification conditions of a program.

    Attributes:
        cut_points: the head of every loop, by loop number, including unreachable loops.
        induction_cases: base and step case of every loop.
        goals: assertions and range checks of indices and divisors.
    """

    cut_points: Mapping[int, CutPoint]
    induction_cases: tuple[InductionCase, ...]
    goals: tuple[Goal, ...]


@dataclass(frozen=True)
class _Path:
    """A path to a program point.

    Attributes:
        condition: path condition.
        state: values of all variables at the end of the path.
    """

    condition: z3.BoolRef
    state: SymbolicState


def build_verification_conditions(
    program: Program, encoder: Encoder, per_segment: bool = False
) -> VerificationConditions:
    """Build the verification conditions of a program.

    Args:
        program: the program.
        encoder: the encoder of all terms; candidates need the same encoder.
        per_segment: whether each path begins at the head of the last loop before it and contains no
            condition from before this head. A condition then has at most one such head.
    """
    generator = _ConditionGenerator(program, encoder, per_segment)
    start = generator.build_initial_path()
    generator.visit_block(program.body, start)
    # Loops that the walk does not reach keep this head, so that every loop has one.
    default_cut_points = {
        loop.number: CutPoint(z3.BoolVal(False), start.state) for loop in program.loops
    }
    return VerificationConditions(
        default_cut_points | generator.cut_points,
        tuple(generator.induction_cases),
        tuple(generator.goals),
    )


class _ConditionGenerator:
    """A walk through a program that collects its verification conditions."""

    def __init__(self, program: Program, encoder: Encoder, per_segment: bool) -> None:
        self._types = program.types
        self._per_segment = per_segment
        self._encoder = encoder
        # For every loop around the current statement, the paths of its `break` and `continue`.
        self._breaks: list[list[_Path]] = []
        self._continues: list[list[_Path]] = []
        # For every labelled block around the statement, the paths that leave it by its label.
        self._block_exits: dict[str, list[_Path]] = {}
        self.cut_points: dict[int, CutPoint] = {}
        self.induction_cases: list[InductionCase] = []
        self.goals: list[Goal] = []

    def build_initial_path(self) -> _Path:
        """Return the initial path, where variables have arbitrary values of their types."""
        return self._havoc(sorted(self._types), _Path(z3.BoolVal(True), {}))

    def visit_block(self, block: Block, path: _Path | None) -> _Path | None:
        """Return the path at the end of a block; None if no run reaches the end."""
        for statement in block:
            if path is None:
                return None
            path = self._visit_statement(statement, path)
        return path

    def _visit_statement(self, statement: Statement, path: _Path) -> _Path | None:
        match statement:
            case Assign():
                return self._visit_assignment(statement, path)
            case Havoc(name=name):
                return self._havoc([name], path)
            case Assume(condition=condition):
                return _assume(path, self._encode_condition(condition, path))
            case Assert(condition=condition, line=line):
                truth = self._encode_condition(condition, path)
                self.goals.append(Goal(line, path.condition, truth))
                return path
            case Branch(condition=condition, then=then, otherwise=otherwise):
                truth = self._encode_condition(condition, path)
                # Both branches start from the same path; only the condition differs.
                then_end = self.visit_block(then, _assume(path, truth))
                else_end = self.visit_block(otherwise, _assume(path, z3.Not(truth)))
                return _merge_paths([then_end, else_end])
            case Loop():
                return self._visit_loop(statement, path)
            # Jumps store their path for the enclosing loop or block, and nothing follows them.
            case Break():
                self._breaks[-1].append(path)
            case Continue():
                self._continues[-1].append(path)
            case LabelledBlock(label=label, body=body):
                self._block_exits[label] = []
                end = self.visit_block(body, path)
                return _merge_paths([*self._block_exits.pop(label), end])
            case BreakTo(label=label):
                self._block_exits[label].append(path)
            case Stop():
                # No run continues after a stop.
                pass
        return None

    def _encode_condition(self, condition: Expression, path: _Path) -> z3.BoolRef:
        truth = self._encoder.encode_condition(condition, path.state)
        self._collect_checks(path)
        return truth

    def _collect_checks(self, path: _Path) -> None:
        """Convert the encoder's range checks since the last call to goals."""
        self.goals += [Goal(0, path.condition, check) for check in self._encoder.checks]
        self._encoder.checks.clear()

    def _visit_assignment(self, statement: Assign, path: _Path) -> _Path:
        target = statement.target
        name = target.name if isinstance(target, Identifier) else target.array
        value = self._encoder.encode_conversion(statement.value, target.type, path.state)
        if isinstance(target, Element):
            # A store yields a new array, since terms do not change.
            value = self._encoder.encode_store(target, value, path.state)
        self._collect_checks(path)
        return _Path(path.condition, {**path.state, name: value})

    def _havoc(self, names: list[str], path: _Path) -> _Path:
        """Return the path after a havoc of variables, within their types."""
        fresh_terms = {name: self._encoder.create_fresh(name, self._types[name]) for name in names}
        type_ranges = [
            self._encoder.encode_type_range(term, self._types[name])
            for name, term in fresh_terms.items()
        ]
        return _Path(z3.And(path.condition, *type_ranges), {**path.state, **fresh_terms})

    def _visit_loop(self, loop: Loop, path: _Path) -> _Path | None:
        self.induction_cases.append(InductionCase(loop.number, path.condition, path.state))
        # A segment contains nothing from before its loop head.
        if self._per_segment:
            path = _Path(z3.BoolVal(True), path.state)
        havoc_path = self._havoc(
            sorted(self._types if self._per_segment else find_modified_variables((loop,))), path
        )
        is_reached = z3.Bool(f"loop!{loop.number}")
        self.cut_points[loop.number] = CutPoint(is_reached, havoc_path.state)
        head = _assume(havoc_path, is_reached)
        guard = self._encode_condition(loop.guard, head)
        self._breaks.append([])
        # The head is in an arbitrary iteration, so a single run of the body covers all.
        self._continues.append([])
        end = self.visit_block(loop.body, _assume(head, guard))
        # Both the end of the body and `continue` lead to the step, and then back to the head.
        step_path = self.visit_block(loop.step, _merge_paths([*self._continues.pop(), end]))
        if step_path is not None:
            self.induction_cases.append(
                InductionCase(loop.number, step_path.condition, step_path.state)
            )
        # A loop ends by its guard or by `break`.
        return _merge_paths([_assume(head, z3.Not(guard)), *self._breaks.pop()])


def _assume(path: _Path, condition: z3.BoolRef) -> _Path:
    return _Path(z3.And(path.condition, condition), path.state)


def _merge_paths(ends: Sequence[_Path | None]) -> _Path | None:
    """Merge paths that meet at a program point; each run takes exactly one of them.

    An end of None is not reached.
    """
    paths = [path for path in ends if path is not None]
    if not paths:
        return None
    # The conditions exclude each other, so the first that holds selects the value.
    merged_path = paths[-1]
    for path in reversed(paths[:-1]):
        state = {
            name: value
            if value.eq(merged_path.state[name])
            else z3.If(path.condition, value, merged_path.state[name])
            for name, value in path.state.items()
        }
        merged_path = _Path(z3.Or(path.condition, merged_path.condition), state)
    return merged_path
