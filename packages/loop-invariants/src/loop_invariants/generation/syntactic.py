"""Syntactic candidates: conditions of the program, weakened, negated, combined.

They complete a model's proposals, which often lack only a bound from the program text or half of a
case distinction.
"""

from collections.abc import Iterator, Sequence

from loop_invariants.ir.expressions import (
    COMPARISONS,
    CONNECTIVES,
    NEGATED_COMPARISONS,
    SWAPPED_COMPARISONS,
    Binary,
    Constant,
    Expression,
    Identifier,
    Unary,
    has_nondet,
    is_boolean,
    iter_subexpressions,
    substitute,
    variables,
)
from loop_invariants.ir.statements import (
    Assign,
    Block,
    Loop,
    Program,
    find_modified_variables,
    iter_conditions,
    iter_expressions,
    iter_statements,
)

_WEAKER_COMPARISONS = {
    "<": ("<=", "!="),
    ">": (">=", "!="),
    "<=": (),
    ">=": (),
    "==": ("<=", ">="),
    "!=": (),
}
"""The weaker comparisons that follow from each comparison."""


def collect_atoms(program: Program, loop: Loop) -> tuple[Expression, ...]:
    """Collect the conditions in scope at a loop head, also negated and weakened.

    Each whole condition comes before its comparisons, since an assertion is often its own
    invariant. Conditions uncoupled from the loop's bounds come last. An assignment counts as the
    equality that it establishes, if any.
    """
    conditions = (*_iter_conditions(program), *_iter_assignment_equalities(program.body))
    variants = [variant for condition in conditions for variant in _iter_variants(condition)]
    candidates = dict.fromkeys((*variants, *_iter_uncoupled(program, loop)))
    # Only conditions over variables in scope can be invariants of the loop.
    return tuple(c for c in candidates if variables(c) and variables(c) <= set(loop.scope))


_MAX_MODULUS = 10


def build_congruences(program: Program, loop: Loop) -> tuple[Expression, ...]:
    """Build congruences of the loop's variables.

    The moduli are constant steps, factors and divisors of the loop.

    For `x = x + 2` the result contains `x % 2 == 0`, `x % 2 == 1` and `x % 2 != 0`; if `y` changes
    too, also `x % 2 == y % 2`. In a disjunction with a guard, such a condition describes the
    iterations after the guard changes.
    """
    moduli: dict[int, None] = {}
    for expression in iter_expressions((loop,)):
        # A constant summand is the step of an assignment such as `x = x + 2`.
        match expression:
            case Binary("+" | "-", _, Constant(value)):
                moduli[abs(value)] = None
        for part in iter_subexpressions(expression):
            match part:
                case Binary("%", _, Constant(value)) | Binary("*", Constant(value), _):
                    moduli[abs(value)] = None
    loop_variables = [
        program.variable(name)
        for name in sorted(find_modified_variables((loop,)))
        if name in loop.scope and not program.types[name].is_array
    ]
    congruences: dict[Expression, None] = {}
    for modulus in sorted(m for m in moduli if 2 <= m <= _MAX_MODULUS):
        parts = [Binary("%", variable, Constant(modulus)) for variable in loop_variables]
        for number, part in enumerate(parts):
            for remainder in range(modulus):
                congruences[Binary("==", part, Constant(remainder))] = None
            # The remainders of negative numbers are negative, so an odd number has two of them.
            congruences[Binary("!=", part, Constant(0))] = None
            for previous_part in parts[:number]:
                congruences[Binary("==", previous_part, part)] = None
                # Modulo 2, unequal remainders are as informative as equal ones.
                if modulus == 2:
                    congruences[Binary("!=", previous_part, part)] = None
    return tuple(congruences)


def find_constant_steps(loop: Loop) -> dict[Identifier, set[int]]:
    """Return the constants by which the loop's assignments move each variable."""
    steps: dict[Identifier, set[int]] = {}
    for statement in iter_statements((loop,)):
        match statement:
            case Assign(Identifier() as target, Binary("+" | "-" as op, left, Constant(value))):
                if left == target:
                    steps.setdefault(target, set()).add(value if op == "+" else -value)
    return steps


def variables_with_variable_step(loop: Loop) -> frozenset[Identifier]:
    """Return the variables that the loop's assignments move by amounts that vary."""
    targets = set()
    for statement in iter_statements((loop,)):
        match statement:
            case Assign(Identifier() as target, Binary("+" | "-", left, right)):
                if target in (left, right) and not isinstance(right, Constant):
                    targets.add(target)
    return frozenset(targets)


def branch_conditions(loop: Loop) -> tuple[Expression, ...]:
    """Return the conditions on the state by which iterations of a loop differ."""
    conditions = (c for c in iter_conditions(loop.body) if is_boolean(c) and not has_nondet(c))
    return tuple(c for c in dict.fromkeys(conditions) if variables(c) <= set(loop.scope))


def nontermination_guards(program: Program, loop: Loop) -> tuple[Expression, ...]:
    """Return conditions under which wrapping may keep the loop's guard true for ever.

    `while (x <= n) x = x + 2;` does not terminate if `n` is too close to the maximum of its type.
    In a disjunction with such a condition, others hold although the counter may wrap around.
    """
    step_sizes = {1}.union(*find_constant_steps(loop).values())
    modified_variables = find_modified_variables((loop,))
    conditions: dict[Expression, None] = {}
    for guard in _iter_comparisons(loop.guard):
        # A guard may have its bound on either side.
        for operator, bound in (
            (guard.operator, guard.right),
            (SWAPPED_COMPARISONS[guard.operator], guard.left),
        ):
            # A bound that the loop changes is no fixed limit.
            if not isinstance(bound, Identifier) or bound.name in modified_variables:
                continue
            type_ = bound.type
            for step in sorted(map(abs, step_sizes)):
                # The distance that the counter may exceed the bound in its last iteration.
                overshoot = step - 1 if operator in ("<", ">") else step
                if overshoot and operator in ("<", "<="):
                    conditions[Binary(">", bound, Constant(type_.max_value - overshoot))] = None
                if overshoot and operator in (">", ">="):
                    conditions[Binary("<", bound, Constant(type_.min_value + overshoot))] = None
    return tuple(conditions)


def build_disjunctions(expressions: Sequence[Expression], limit: int) -> tuple[Expression, ...]:
    """Build disjunctions of pairs of expressions, first expressions first.

    Args:
        expressions: the expressions to join.
        limit: maximum number of disjunctions.
    """
    disjunctions: dict[Expression, None] = {}
    for last in range(1, len(expressions)):
        for first in range(last):
            if len(disjunctions) == limit:
                return tuple(disjunctions)
            disjunctions.setdefault(Binary("||", expressions[first], expressions[last]))
    return tuple(disjunctions)


def _iter_conditions(program: Program) -> Iterator[Expression]:
    """Yield the assertions' conditions, then the other conditions."""
    asserted_conditions = [assertion.condition for assertion in program.assertions]
    for condition in (*asserted_conditions, *iter_conditions(program.body)):
        if not has_nondet(condition):
            yield condition


def _iter_assignment_equalities(block: Block) -> Iterator[Binary]:
    """Yield the equalities that assignments establish; `x = x + 1` establishes none."""
    for statement in iter_statements(block):
        match statement:
            case Assign(target=Identifier() as target, value=value):
                # The target must not occur in the value, which uses its old value.
                if not has_nondet(value) and target not in iter_subexpressions(value):
                    yield Binary("==", target, value)


def _iter_uncoupled(program: Program, loop: Loop) -> Iterator[Expression]:
    """Yield conditions in which a loop's variable replaces its first or last value.

    This is "uncoupling" (Furia and Meyer 2010): an assertion about all elements up to n often
    holds after every iteration for the elements up to the counter.
    """
    modified_variables = find_modified_variables((loop,))
    guards = [c for c in _iter_comparisons(loop.guard) if not has_nondet(c)]
    sides = [(g.left, g.right) for g in guards] + [(g.right, g.left) for g in guards]
    sides += [
        (equality.left, equality.right) for equality in _iter_assignment_equalities(program.body)
    ]
    # Only a variable that the loop changes can replace its final value.
    for variable, value in dict.fromkeys(sides):
        if (
            isinstance(variable, Identifier)
            and variable.name in modified_variables
            and value != variable
        ):
            for condition in _iter_conditions(program):
                uncoupled_condition = substitute(condition, value, variable)
                if uncoupled_condition != condition and is_boolean(uncoupled_condition):
                    yield uncoupled_condition


def _iter_variants(condition: Expression) -> Iterator[Expression]:
    if is_boolean(condition):
        yield condition
    for part in _iter_comparisons(condition):
        yield part
        # The negation describes the other branch, or the state after the loop.
        yield from _weaken(part)
        yield Binary(NEGATED_COMPARISONS[part.operator], part.left, part.right)
        yield from _weaken(Binary(NEGATED_COMPARISONS[part.operator], part.left, part.right))


def _iter_comparisons(condition: Expression) -> Iterator[Binary]:
    match condition:
        case Binary(operator=op) if op in COMPARISONS:
            yield condition
        case Binary(operator=op, left=left, right=right) if op in CONNECTIVES:
            yield from _iter_comparisons(left)
            yield from _iter_comparisons(right)
        case Unary(operator="!", operand=operand):
            yield from _iter_comparisons(operand)
        # C treats a variable as a condition that it is not zero.
        case Identifier():
            yield Binary("!=", condition, Constant(0))


def _weaken(comparison: Binary) -> Iterator[Binary]:
    """Yield comparisons that follow from a comparison, or hold after a step of 1."""
    left, right = comparison.left, comparison.right
    for op in _WEAKER_COMPARISONS[comparison.operator]:
        yield Binary(op, left, right)
    for op, step in (("<", 1), ("<=", 1), (">", -1), (">=", -1)):
        if comparison.operator == op:
            yield Binary(op if op.endswith("=") else f"{op}=", left, _shift(right, step))


def _shift(expression: Expression, step: int) -> Expression:
    if isinstance(expression, Constant):
        return Constant(expression.value + step)
    return Binary("+" if step > 0 else "-", expression, Constant(1))
