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
        reached: true on the paths that go through the loop; where it is true, the loop's
            invariants may be assumed of `state`.
    """

    reached: z3.BoolRef
    state: SymbolicState


@dataclass(frozen=True)
class Preservation:
    """The invariants of a loop must hold in `state` wherever `path` holds."""

    loop: int
    kind: str
    path: z3.BoolRef
    state: SymbolicState


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


@dataclass(frozen=True)
class _Path:
    """The condition under which a place is reached, and the values there."""

    condition: z3.BoolRef
    state: SymbolicState


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
        name = target.name if isinstance(target, Identifier) else target.array
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
