"""Symbolic execution of a loop iteration over the state at the loop head.

The iteration is executed symbolically (King 1976), and its branches are merged. The result only
suggests candidates and proves nothing. It may therefore be wrong where types wrap around or indices
coincide.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from loop_invariants.interpreter.evaluator import Evaluator
from loop_invariants.ir.expressions import (
    COMPARISONS,
    Binary,
    Constant,
    Element,
    Expression,
    Identifier,
    Nondet,
    Semantics,
    Ternary,
    Type,
    has_nondet,
    with_children,
)
from loop_invariants.ir.polynomials import Polynomial, build_product, decompose_linear
from loop_invariants.ir.statements import (
    Assign,
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

_UNKNOWN = Nondet(Type())
"""A value that the state at the loop head does not determine."""


@dataclass
class LoopStep:
    """The symbolic state after a part of an iteration.

    Attributes:
        program: the program of the loop.
        values: the assigned values of integers and elements.
        is_interrupted: whether no run reaches the end of this part.
    """

    program: Program
    values: dict[Identifier | Element, Expression] = field(default_factory=dict)
    is_interrupted: bool = False

    @property
    def elements(self) -> dict[Element, Expression]:
        """The assigned values of elements."""
        return {key: value for key, value in self.values.items() if isinstance(key, Element)}

    def locate(self, target: Identifier | Element) -> Identifier | Element:
        """Evaluate the index of an element; return a variable unchanged."""
        if isinstance(target, Identifier):
            return target
        return replace(target, index=simplify(self.evaluate(target.index)))

    def evaluate(self, expression: Expression) -> Expression:
        """Evaluate an expression over the state at the loop head.

        An element with a nondeterministic value represents itself, as it is after the iteration.
        """
        match expression:
            case Identifier():
                return self.values.get(expression, expression)
            case Element():
                element = self.locate(expression)
                value = self.values.get(element, element)
                return element if has_nondet(value) else value
        return simplify(with_children(expression, self.evaluate))


def summarize(loop: Loop, program: Program) -> LoopStep:
    """Summarize a loop iteration that neither leaves the loop nor ends the run."""
    state = LoopStep(program)
    _execute_block(loop.body, state)
    state.is_interrupted = False  # `continue` also leads to the step
    _execute_block(loop.step, state)
    return state


def _execute_block(block: Block, state: LoopStep) -> None:
    for statement in block:
        if state.is_interrupted:
            return
        _execute_statement(statement, state)


def _execute_statement(statement: Statement, state: LoopStep) -> None:
    match statement:
        case Assign(target=target, value=value):
            state.values[state.locate(target)] = state.evaluate(value)
        case Havoc() | Loop():
            # An inner loop is not executed: its variables have unknown values afterwards.
            for name in find_modified_variables((statement,)):
                state.values[state.program.variable(name)] = _UNKNOWN
                state.values |= {e: _UNKNOWN for e in state.elements if e.array == name}
        case Branch(condition=condition, then=then, otherwise=otherwise):
            branches = []
            # Each branch starts from a copy, so that the branches do not affect each other.
            for block in (then, otherwise):
                branches.append(LoopStep(state.program, dict(state.values)))
                _execute_block(block, branches[-1])
            merged_step = _merge_steps(state.evaluate(condition), *branches)
            state.values, state.is_interrupted = merged_step.values, merged_step.is_interrupted
        case LabelledBlock(body=body):
            _execute_block(body, state)
        case Break() | Continue() | BreakTo() | Stop():
            # The rest of the iteration is not executed after a jump.
            state.is_interrupted = True


def _merge_steps(condition: Expression, then: LoopStep, otherwise: LoopStep) -> LoopStep:
    # A branch that leaves the iteration does not reach the point of the merge.
    if then.is_interrupted or otherwise.is_interrupted:
        return then if otherwise.is_interrupted else otherwise

    values = {}
    for key in then.values | otherwise.values:
        # A variable that a branch does not assign keeps its value, which is its own name.
        one, other = then.values.get(key, key), otherwise.values.get(key, key)
        values[key] = one if one == other else Ternary(condition, one, other)
    return LoopStep(then.program, values)


def iter_leaves(expression: Expression) -> Iterator[Expression]:
    """Yield the alternatives of the conditional operators in an expression."""
    match expression:
        case Ternary(then=then, otherwise=otherwise):
            yield from iter_leaves(then)
            yield from iter_leaves(otherwise)
        case _:
            yield expression


def simplify(expression: Expression) -> Expression:
    """Simplify the sums of an expression, as if no number wrapped around.

    The operands must already be simplified.
    """
    match expression:
        case Ternary(Constant(value), then, otherwise):
            return then if value else otherwise
        case Binary(operator, Constant(), Constant()) if operator in COMPARISONS:
            return Constant(_EVALUATOR.interpret(expression)({}))
        case Binary("+" | "-" | "*"):
            # Equal summands cancel in the linear form.
            return _build_sum(decompose_linear(expression))
    return expression


_EVALUATOR = Evaluator(Semantics.INTEGERS, lambda type_: 0)


def _build_sum(polynomial: Polynomial[Expression]) -> Expression:
    """Build the expression of a sum, beginning with a positive summand if possible."""
    factors = dict(polynomial)
    constant = factors.pop((), 0)
    total: Expression | None = None
    for parts, factor in sorted(factors.items(), key=lambda item: item[1] < 0):
        term = build_product(abs(factor), parts)
        if total is None:
            # Without a positive summand, the constant takes its place on the left.
            total = term if factor > 0 else Binary("-", Constant(constant), term)
            constant = constant if factor > 0 else 0
        else:
            total = Binary("+" if factor > 0 else "-", total, term)
    if total is None or not constant:
        return Constant(constant) if total is None else total
    return Binary("+" if constant > 0 else "-", total, Constant(abs(constant)))


def substitute(
    expression: Expression, replacements: Iterable[tuple[Expression, Expression]]
) -> Expression:
    """Replace parts of an expression simultaneously, and simplify the result."""
    table = dict(replacements)

    def replace_part(part: Expression) -> Expression:
        return table[part] if part in table else simplify(with_children(part, replace_part))

    return replace_part(expression)
