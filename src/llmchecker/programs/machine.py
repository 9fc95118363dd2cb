"""Concrete runs of a program, one at a time.

Integers behave as the semantics say, as in `proving.terms`. Whoever runs a program decides every
value that the program leaves open.
"""

from collections.abc import Callable

from llmchecker.programs.evaluation import (
    ConcreteState,
    Evaluator,
    Undetermined,
    Violation,
    copied,
)
from llmchecker.programs.expressions import Constant, Expression, Identifier, Semantics, Type
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
    statements,
)

_Left = Break | Continue | Leave | None
"""How a block was left; None if its end was reached."""

_Step = Callable[[ConcreteState], _Left]
"""A statement made ready: it changes a state and tells how it was left."""


_MOST_RETRIES = 1000
"""The most rounds that one run makes anew."""

_TRIES = 100
"""A round is made anew at most so many times."""


class _End(Exception):
    """A run is over: the program stops."""


class _Refused(_End):
    """A run is over, since it does not fulfil an assumption."""

    def __init__(self, condition: Expression, state: ConcreteState) -> None:
        super().__init__()
        self.condition = condition
        self.state = state


class _LongEnough(Exception):
    """A run has made as many rounds as it may, and makes none anew."""


class Machine:
    """Runs one program.

    Args:
        program: the program.
        semantics: what its integers are.
        iterations: a run is stopped after so many iterations of all its loops together.

    Attributes:
        value: gives a value of a type for everything that the program leaves open; it is told the
            variable that has no value, or an empty name where a function returns any value.
        head: is told of every state in which a run comes to a loop's head, and in which iteration.
        leap: is asked at every head whether the run goes on behind some rounds of the loop: it then
            changes the state and tells how many; 0 otherwise.
        refused: is told of an assumption that ends a run, and of the state.
        drawn: tells how many values the run has drawn.
        rewind: takes back the values drawn since there were so many, and tells whether there were
            any. A round of a loop in which an assumption fails or the program stops is then made
            anew, with other values, as few runs survive many choices otherwise. None where no round
            is made anew.
        stays: in so many rounds of a loop, one that leaves the loop is made anew as well.
    """

    value: Callable[[Type, str], int]
    head: Callable[[Loop, int, ConcreteState], None]
    leap: Callable[[Loop, int, ConcreteState], int]
    refused: Callable[[Expression, ConcreteState], None]
    drawn: Callable[[], int]
    rewind: Callable[[int], bool] | None
    stays: int

    def __init__(self, program: Program, semantics: Semantics, iterations: int) -> None:
        self._types = program.types
        self._iterations = iterations
        self._ranges = program.ranges
        self._evaluator = Evaluator(semantics, program.types, lambda type_: self.value(type_, ""))
        self._block = self._compiled(program.body)
        self._left = self._retries = 0
        self.drawn = lambda: 0
        self.rewind = None
        self.stays = 0
        self.leap = lambda loop, iteration, state: 0
        self.refused = lambda condition, state: None

    def run(self, state: ConcreteState) -> int | None:
        """Run the program from a state of all its variables, which changes.

        Returns:
            The line of the assertion that the run violates; 0 if an index, a divisor, a shift or an
            array's length is out of range; None without a violation.
        """
        self._left, self._retries = self._iterations, _MOST_RETRIES
        try:
            self._block(state)
        except Violation as violation:
            return violation.line if violation.line or self._ranges else None
        except _Refused as refusal:
            self.refused(refusal.condition, refusal.state)
        except (_End, _LongEnough, Undetermined):
            # After a value that is not decided, nothing that the run does is certain.
            pass
        return None

    def arbitrary(self, name: str) -> object:
        """Any value of a variable."""
        type_ = self._types[name]
        return {} if type_.array else self.value(type_, name)

    def _compiled(self, block: Block) -> _Step:
        """A function that changes a state as a block does.

        It returns the Break, Continue or Leave by which the block was left, else None.
        """
        steps = [self._statement(statement) for statement in block]

        def go(state: ConcreteState) -> _Left:
            for step in steps:
                left = step(state)
                if left is not None:
                    return left
            return None

        return go

    def _statement(self, statement: Statement) -> _Step:
        match statement:
            case Assign():
                return self._assign(statement)
            case Forget(name=name):
                return lambda state: state.update({name: self.arbitrary(name)})
            case Assume(condition=condition):
                return self._assume(condition)
            case Assert(condition=condition, line=None):
                return self._guard(condition, Undetermined)
            case Assert(condition=condition, line=line):
                return self._guard(condition, lambda: Violation(line))
            case Branch(condition=condition, then=then, otherwise=otherwise):
                test = self._evaluator.value(condition)
                a, b = self._compiled(then), self._compiled(otherwise)
                return lambda state: a(state) if test(state) else b(state)
            case Loop():
                return self._loop(statement)
            case Labelled(label=label, body=body):
                inside, leave = self._compiled(body), Leave(label)
                return lambda state: _unless(inside(state), leave)
            case Stop():
                return self._guard(Constant(0), _End)
        return lambda state: statement

    def _guard(
        self, condition: Expression, error: Callable[[], Exception]
    ) -> Callable[[ConcreteState], None]:
        test = self._evaluator.value(condition)

        def check(state: ConcreteState) -> None:
            if not test(state):
                raise error()

        return check

    def _assume(self, condition: Expression) -> Callable[[ConcreteState], None]:
        test = self._evaluator.value(condition)

        def check(state: ConcreteState) -> None:
            if not test(state):
                raise _Refused(condition, state)

        return check

    def _assign(self, statement: Assign) -> Callable[[ConcreteState], None]:
        target = statement.target
        if isinstance(target, Identifier):
            value = self._evaluator.as_type(statement.value, self._types[target.name])
            return lambda state: state.__setitem__(target.name, value(state))
        value = self._evaluator.as_type(statement.value, self._types[target.array].element)
        index = self._evaluator.index(target.array, target.index)
        return lambda state: state[target.array].__setitem__(index(state), value(state))

    def _loop(self, loop: Loop) -> _Step:
        test = self._evaluator.value(loop.guard)
        body, step = self._compiled(loop.body), self._compiled(loop.step)
        ends = any(isinstance(s, Assume | Stop) for s in statements((loop,)))

        def once(state: ConcreteState) -> _Left:
            """A round; left by a break where the guard is false."""
            if not test(state):
                return Break()
            self._left -= 1
            if self._left < 0:
                raise _LongEnough
            left = body(state)
            if not isinstance(left, Break | Leave):
                left = None
                step(state)
            return left

        def go(state: ConcreteState) -> _Left:
            iteration = 0
            while True:
                self.head(loop, iteration, state)
                passed = self.leap(loop, iteration, state)
                if passed:
                    iteration += passed
                    self.head(loop, iteration, state)
                stays = iteration < self.stays
                again = self.rewind is not None and (ends or stays)
                left = self._retried(once, state, stays) if again else once(state)
                if left is not None:
                    return _unless(left, Break())
                iteration += 1

        return go

    def _retried(self, once: _Step, state: ConcreteState, stays: bool) -> _Left:
        """A round, made anew with other values while it ends the run, or the loop it stays in."""
        count, left, least = self.drawn(), self._left, max(0, self._retries - _TRIES)
        before = copied(state)
        while True:
            try:
                by = once(state)
                if by is None or not stays or not self._again(count, least):
                    return by
            except _End:
                if not self._again(count, least):
                    raise
            self._left = left
            state.update(copied(before))

    def _again(self, count: int, least: int) -> bool:
        """Whether a round is made once more, without the values that it has drawn."""
        if self._retries <= least or not self.rewind(count):
            return False
        self._retries -= 1
        return True


def _unless(left: _Left, ended: Break | Leave) -> _Left:
    """How a block was left, seen from outside of a statement that catches one way of leaving."""
    return None if left == ended else left
