"""Proof obligations: the formulas of Z3 that must hold for a set of invariants to be proven.

Every loop is cut at its head (Floyd 1967): all that the loop changes is forgotten, its invariants
and its guard are assumed, and its body runs once. The paths of such a program have no loops. There
are three kinds of obligations. Base: the invariants hold where the loop is first reached. Step: the
body preserves them. Goals: every assertion follows on every path. That indices are in range and
divisors are not zero are goals too, so a proof never rests on what C leaves undefined.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import z3

from llmchecker.programs.expressions import (
    Element,
    Expression,
    Identifier,
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
    Labelled,
    Leave,
    Loop,
    Program,
    Statement,
    Stop,
    changed,
)
from llmchecker.proving.terms import Encoder, SymbolicState


@dataclass(frozen=True)
class Head:
    """The head of a loop in an arbitrary iteration.

    Attributes:
        reached: a Boolean of the loop's own that every path through the loop assumes. Where it is
            true, the loop's invariants may be assumed of `state`.
        state: the values of all variables at the head.
    """

    reached: z3.BoolRef
    state: SymbolicState


@dataclass(frozen=True)
class Preservation:
    """The invariants of a loop must hold in `state` wherever `path` holds.

    Attributes:
        loop: the number of the loop.
        kind: `base` or `step`.
        path: the condition under which the case is reached.
        state: the values of all variables there.
    """

    loop: int
    kind: str
    path: z3.BoolRef
    state: SymbolicState


@dataclass(frozen=True)
class Goal:
    """`condition` must hold wherever `path` does.

    Attributes:
        line: the line of the assertion; 0 for a range.
        path: the condition under which the assertion is reached.
        condition: what must hold there.
    """

    line: int
    path: z3.BoolRef
    condition: z3.BoolRef


@dataclass(frozen=True)
class Obligations:
    """All that must be proven of a program.

    Attributes:
        heads: the head of every loop, by number; a loop behind a stop is never reached.
        preservations: base and step of every loop.
        goals: the assertions, and that indices and divisors are in range.
    """

    heads: Mapping[int, Head]
    preservations: tuple[Preservation, ...]
    goals: tuple[Goal, ...]


@dataclass(frozen=True)
class _Path:
    """A way to a place in the program.

    Attributes:
        condition: the condition under which the place is reached.
        state: the values of all variables there.
    """

    condition: z3.BoolRef
    state: SymbolicState


def obligations(program: Program, encoder: Encoder, apart: bool = False) -> Obligations:
    """The proof obligations of a program.

    Args:
        program: the program.
        encoder: makes the terms; candidates must be turned into terms by the same one.
        apart: whether each path begins at the head of the last loop that it came by, so that it
            knows nothing of what was before. An obligation then has one such head, or none.
    """
    walk = _Walk(program, encoder, apart)
    start = walk.anything()
    walk.block(program.body, start)
    # Loops that the walk does not come to keep this head, so that every loop has one.
    never = {loop.number: Head(z3.BoolVal(False), start.state) for loop in program.loops}
    return Obligations(never | walk.heads, tuple(walk.preservations), tuple(walk.goals))


class _Walk:
    """Goes through a program once and collects its obligations."""

    def __init__(self, program: Program, encoder: Encoder, apart: bool) -> None:
        self._types = program.types
        self._apart = apart
        self._encoder = encoder
        # For every loop around the current statement, the paths that leave it or go on early.
        self._breaks: list[list[_Path]] = []
        self._continues: list[list[_Path]] = []
        # For every labelled block around it, the paths that leave it by its label.
        self._leaves: dict[str, list[_Path]] = {}
        self._line = 0
        self.heads: dict[int, Head] = {}
        self.preservations: list[Preservation] = []
        self.goals: list[Goal] = []

    def anything(self) -> _Path:
        """The path to the beginning, where variables have arbitrary values of their types."""
        return self._forgotten(sorted(self._types), _Path(z3.BoolVal(True), {}))

    def block(self, block: Block, path: _Path | None) -> _Path | None:
        """The path at the end of a block; None if no run reaches the end."""
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
            case Labelled(label=label, body=body):
                self._leaves[label] = []
                end = self.block(body, path)
                ends = [*self._leaves.pop(label), *([end] if end is not None else [])]
                return _merged(ends)
            case Leave(label=label):
                self._leaves[label].append(path)
            case Stop():
                pass
        return None

    def _truth(self, condition: Expression, path: _Path) -> z3.BoolRef:
        truth = self._encoder.truth(condition, path.state)
        self._collect_checks(path)
        return truth

    def _collect_checks(self, path: _Path) -> None:
        """Make goals of the ranges that the encoder met since the last time."""
        self.goals += [Goal(0, path.condition, check) for check in self._encoder.checks]
        self._encoder.checks.clear()

    def _assigned(self, statement: Assign, path: _Path) -> _Path:
        target = statement.target
        name = target.name if isinstance(target, Identifier) else target.array
        value = self._encoder.converted(statement.value, self._types[name].element, path.state)
        if isinstance(target, Element):
            value = self._encoder.stored(target, value, path.state)
        self._collect_checks(path)
        return _Path(path.condition, {**path.state, name: value})

    def _forgotten(self, names: list[str], path: _Path) -> _Path:
        """The path after variables got arbitrary values of their types."""
        new = {name: self._encoder.fresh(name, self._types[name]) for name in names}
        known = [self._encoder.within(term, self._types[name]) for name, term in new.items()]
        return _Path(z3.And(path.condition, *known), {**path.state, **new})

    def _loop(self, loop: Loop, path: _Path) -> _Path | None:
        self.preservations.append(Preservation(loop.number, "base", path.condition, path.state))
        if self._apart:
            path = _Path(z3.BoolVal(True), path.state)
        forgotten = self._forgotten(sorted(self._types if self._apart else changed((loop,))), path)
        reached = z3.Bool(f"loop!{loop.number}")
        self.heads[loop.number] = Head(reached, forgotten.state)
        head = _assumed(forgotten, reached)
        guard = self._truth(loop.guard, head)
        self._breaks.append([])
        self._continues.append([])
        end = self.block(loop.body, _assumed(head, guard))
        ends = [*self._continues.pop(), *([end] if end is not None else [])]
        # Both the end of the body and `continue` lead to the step, and then back to the head.
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
    """The path from a place where several paths meet; a run takes one of them."""
    if not paths:
        return None
    # The conditions exclude each other, so a value is chosen by the first that holds.
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
