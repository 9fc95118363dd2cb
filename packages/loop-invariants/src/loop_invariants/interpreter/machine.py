"""Machine for concrete runs of a program, one at a time.

Integers follow the semantics, as in `verification.z3_encoding`. The caller provides every
nondeterministic value.
"""

from collections.abc import Callable

from loop_invariants.interpreter.evaluator import ConcreteState, Evaluator, Undetermined, Violation
from loop_invariants.ir.expressions import Constant, Expression, Identifier, Semantics, Type
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

_Jump = Break | Continue | BreakTo | None
"""Jump that ended a block; None at its regular end."""

_CompiledStatement = Callable[[ConcreteState], _Jump]
"""A compiled statement: it changes a state and returns the jump that ended it."""


class _RunEnd(Exception):
    """End of a run: the program stops."""


class _IterationLimit(Exception):
    """End of a run at the maximum number of iterations."""


class Machine:
    """A compiled program.

    Args:
        program: the program.
        semantics: semantics of its integers.
        max_iterations: maximum number of iterations of all loops together in a run.

    Attributes:
        draw: returns a nondeterministic value of a type. The second argument is the name of the
            uninitialized variable; empty for the result of a function.
        on_head: called with the loop, the iteration and the state at every loop head.
    """

    draw: Callable[[Type, str], int]
    on_head: Callable[[Loop, int, ConcreteState], None]

    def __init__(self, program: Program, semantics: Semantics, max_iterations: int) -> None:
        self._types = program.types
        self._max_iterations = max_iterations
        self._has_range_checks = program.has_range_checks
        self._evaluator = Evaluator(semantics, lambda type_: self.draw(type_, ""))
        self._run_body = self._compile_block(program.body)
        self._remaining_iterations = 0
        self.on_head = lambda loop, iteration, state: None

    def run(self, state: ConcreteState) -> int | None:
        """Run the program from a state of all its variables, which changes.

        Returns:
            The line of the failed assertion; 0 if an index, a divisor, a shift or an array's length
            is out of range; None without a violation.
        """
        self._remaining_iterations = self._max_iterations
        try:
            self._run_body(state)
        except Violation as violation:
            # Line 0 is a range violation, which the property may exclude.
            return violation.line if violation.line or self._has_range_checks else None
        except (_RunEnd, _IterationLimit, Undetermined):
            # After an undetermined value, the rest of the run is uncertain.
            pass
        return None

    def draw_state(self) -> ConcreteState:
        """Draw an arbitrary value of every variable."""
        return {name: self._draw_variable(name) for name in self._types}

    def _draw_variable(self, name: str) -> int | dict[int, int]:
        """Draw an arbitrary value of a variable."""
        type_ = self._types[name]
        # Elements of an array are drawn when they are first read.
        return {} if type_.is_array else self.draw(type_, name)

    def _compile_block(self, block: Block) -> _CompiledStatement:
        """Compile a block to a function that changes a state.

        The function returns the Break, Continue or BreakTo that ended the block, else None.
        """
        steps = [self._compile_statement(statement) for statement in block]

        def run_block(state: ConcreteState) -> _Jump:
            for step in steps:
                jump = step(state)
                if jump is not None:
                    return jump
            return None

        return run_block

    def _compile_statement(self, statement: Statement) -> _CompiledStatement:
        match statement:
            case Assign():
                return self._compile_assignment(statement)
            case Havoc(name=name):
                return lambda state: state.update({name: self._draw_variable(name)})
            case Assume(condition=condition):
                return self._compile_check(condition, _RunEnd)
            case Assert(condition=condition, line=None):
                # Without a line, a compiled program continues, so the run proves no violation.
                return self._compile_check(condition, Undetermined)
            case Assert(condition=condition, line=int(line)):
                return self._compile_check(condition, lambda: Violation(line))
            case Branch(condition=condition, then=then, otherwise=otherwise):
                test = self._evaluator.interpret(condition)
                then_block, else_block = self._compile_block(then), self._compile_block(otherwise)
                return lambda state: then_block(state) if test(state) else else_block(state)
            case Loop():
                return self._compile_loop(statement)
            case LabelledBlock(label=label, body=body):
                run_body, target = self._compile_block(body), BreakTo(label)
                return lambda state: _catch_jump(run_body(state), target)
            case Stop():
                return self._compile_check(Constant(0), _RunEnd)
            # The jumps return themselves.
            case Break() | Continue() | BreakTo():
                return lambda state: statement
        raise TypeError(statement)

    def _compile_check(
        self, condition: Expression, error: Callable[[], Exception]
    ) -> Callable[[ConcreteState], None]:
        test = self._evaluator.interpret(condition)

        def check(state: ConcreteState) -> None:
            if not test(state):
                raise error()

        return check

    def _compile_assignment(self, statement: Assign) -> Callable[[ConcreteState], None]:
        target = statement.target
        value = self._evaluator.interpret_as(statement.value, target.type)
        if isinstance(target, Identifier):
            return lambda state: state.__setitem__(target.name, value(state))
        index = self._evaluator.compile_index(target)
        return lambda state: state[target.array].__setitem__(index(state), value(state))

    def _compile_loop(self, loop: Loop) -> _CompiledStatement:
        test = self._evaluator.interpret(loop.guard)
        body, step = self._compile_block(loop.body), self._compile_block(loop.step)

        def run_loop(state: ConcreteState) -> _Jump:
            iteration = 0
            while True:
                self.on_head(loop, iteration, state)
                if not test(state):
                    return None
                self._remaining_iterations -= 1
                if self._remaining_iterations < 0:
                    raise _IterationLimit
                jump = body(state)
                # `continue` ends the body only.
                if isinstance(jump, Break | BreakTo):
                    return _catch_jump(jump, Break())
                step(state)
                iteration += 1

        return run_loop


def _catch_jump(jump: _Jump, target: Break | BreakTo) -> _Jump:
    """Return the jump out of a statement that catches the jump `target`."""
    return None if jump == target else jump
