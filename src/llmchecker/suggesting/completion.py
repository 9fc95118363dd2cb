"""Candidates that the program itself suggests: conditions, weaker ones, remainders, disjunctions.

They complete what a model proposes. Often a model's proposals lack only a bound that stands in the
program, or one half of a case distinction.
"""

from collections.abc import Iterator, Sequence

from llmchecker.programs.expressions import (
    COMPARISONS,
    CONNECTIVES,
    MIRRORED,
    NEGATED,
    Binary,
    Constant,
    Expression,
    Identifier,
    Nondet,
    Unary,
    is_truth,
    replaced,
    variables,
    walk,
)
from llmchecker.programs.statements import (
    Assign,
    Block,
    Loop,
    Program,
    changed,
    conditions,
    expressions_in,
    statements,
)

_WEAKER = {
    "<": ("<=", "!="),
    ">": (">=", "!="),
    "<=": (),
    ">=": (),
    "==": ("<=", ">="),
    "!=": (),
}
"""For each comparison, weaker ones that follow from it."""


def atoms(program: Program, loop: Loop) -> tuple[Expression, ...]:
    """The program's conditions that can be asked at a loop's head, also negated and weakened.

    For each condition the whole comes first (an assertion is often its own invariant), then its
    comparisons. The conditions uncoupled from the loop's bounds come last. An assignment counts as
    the equality that it makes true, if there is one.
    """
    own = (*_conditions(program), *_equalities(program.body))
    variants = [variant for condition in own for variant in _variants(condition)]
    candidates = dict.fromkeys((*variants, *_uncoupled(program, loop)))
    return tuple(c for c in candidates if variables(c) and variables(c) <= set(loop.scope))


_LARGEST_MODULUS = 10


def congruences(program: Program, loop: Loop) -> tuple[Expression, ...]:
    """Remainders of the loop's variables, by constants: those of steps, of factors and of divisors.

    Of `x = x + 2` come `x % 2 == 0` and `x % 2 == 1`; if `y` moves too, `x % 2 == y % 2`. Joined
    with a guard by *or*, such a condition tells what holds from the round on in which the guard
    switches.
    """
    moduli: dict[int, None] = {}
    for expression in expressions_in((loop,)):
        match expression:
            case Binary("+" | "-", _, Constant(value)):
                moduli[abs(value)] = None
        for part in walk(expression):
            match part:
                case Binary("%", _, Constant(value)) | Binary("*", Constant(value), _):
                    moduli[abs(value)] = None
    moving = [n for n in sorted(changed((loop,))) if not program.types[n].array]
    moving = [Identifier(name) for name in moving if name in loop.scope]
    found: dict[Expression, None] = {}
    for modulus in sorted(m for m in moduli if 2 <= m <= _LARGEST_MODULUS):
        parts = [Binary("%", variable, Constant(modulus)) for variable in moving]
        for number, part in enumerate(parts):
            for rest in range(modulus):
                found[Binary("==", part, Constant(rest))] = None
            for other in parts[:number]:
                found[Binary("==", other, part)] = None
                if modulus == 2:
                    found[Binary("!=", other, part)] = None
    return tuple(found)


def steps(loop: Loop) -> dict[str, set[int]]:
    """The constants by which assignments in a loop move each variable."""
    found: dict[str, set[int]] = {}
    for statement in statements((loop,)):
        match statement:
            case Assign(
                Identifier(name) as target, Binary("+" | "-" as op, moved, Constant(value))
            ):
                if moved == target:
                    found.setdefault(name, set()).add(value if op == "+" else -value)
    return found


def drifting(loop: Loop) -> frozenset[str]:
    """The variables that assignments in a loop move by amounts that are no constants."""
    found = set()
    for statement in statements((loop,)):
        match statement:
            case Assign(Identifier(name) as target, Binary("+" | "-", moved, by)):
                if target in (moved, by) and not isinstance(by, Constant):
                    found.add(name)
    return frozenset(found)


def switches(loop: Loop) -> tuple[Expression, ...]:
    """The conditions on the state by which rounds of a loop differ."""
    found = (c for c in conditions(loop.body) if is_truth(c) and not _is_open(c))
    return tuple(c for c in dict.fromkeys(found) if variables(c) <= set(loop.scope))


def constants(program: Program) -> tuple[int, ...]:
    """The numbers that a program names, in the order of the text."""
    parts = (part for expression in expressions_in(program.body) for part in walk(expression))
    return tuple(dict.fromkeys(part.value for part in parts if isinstance(part, Constant)))


def never_left(program: Program, loop: Loop) -> tuple[Expression, ...]:
    """Conditions under which machine integers may never make the loop's guard false.

    `while (x <= n) x = x + 2;` goes on for ever if no number is larger than `n` by enough. Joined
    with such a condition by *or*, others hold although what is counted may wrap around.
    """
    lengths = {1}.union(*steps(loop).values())
    moved = changed((loop,))
    found: dict[Expression, None] = {}
    for guard in _comparisons(loop.guard):
        for operator, border in (
            (guard.operator, guard.right),
            (MIRRORED[guard.operator], guard.left),
        ):
            if not isinstance(border, Identifier) or border.name in moved:
                continue
            type_ = program.types[border.name]
            for step in sorted(map(abs, lengths)):
                # after the last round that is sure to come to its end
                past = step - 1 if operator in ("<", ">") else step
                if past and operator in ("<", "<="):
                    found[Binary(">", border, Constant(type_.most - past))] = None
                if past and operator in (">", ">="):
                    found[Binary("<", border, Constant(type_.least + past))] = None
    return tuple(found)


def disjunctions(expressions: Sequence[Expression], most: int) -> tuple[Expression, ...]:
    """Disjunctions of two of the expressions, beginning with the first expressions.

    Args:
        expressions: what to join.
        most: the most disjunctions.
    """
    found: dict[Expression, None] = {}
    for last in range(1, len(expressions)):
        for first in range(last):
            if len(found) == most:
                return tuple(found)
            found.setdefault(Binary("||", expressions[first], expressions[last]))
    return tuple(found)


def _conditions(program: Program) -> Iterator[Expression]:
    """Assertions first, then the other conditions."""
    asserted = [assertion.condition for assertion in program.assertions]
    for condition in (*asserted, *conditions(program.body)):
        if not _is_open(condition):
            yield condition


def _is_open(expression: Expression) -> bool:
    """Whether the value depends on more than the state."""
    return any(isinstance(node, Nondet) for node in walk(expression))


def _equalities(block: Block) -> Iterator[Binary]:
    """The equalities that assignments make true; `x = x + 1` makes none true."""
    for statement in statements(block):
        match statement:
            case Assign(target=Identifier() as target, value=value):
                if not _is_open(value) and target not in walk(value):
                    yield Binary("==", target, value)


def _uncoupled(program: Program, loop: Loop) -> Iterator[Expression]:
    """Conditions in which a variable of the loop replaces its first or last value.

    If an assertion speaks of all elements up to n, every round of the loop often makes it true of
    the elements up to the counter ("uncoupling", Furia and Meyer 2010).
    """
    changing = changed((loop,))
    guards = [c for c in _comparisons(loop.guard) if not _is_open(c)]
    sides = [(g.left, g.right) for g in guards] + [(g.right, g.left) for g in guards]
    sides += [(equality.left, equality.right) for equality in _equalities(program.body)]
    for variable, value in dict.fromkeys(sides):
        if isinstance(variable, Identifier) and variable.name in changing and value != variable:
            for condition in _conditions(program):
                uncoupled = replaced(condition, value, variable)
                if uncoupled != condition and is_truth(uncoupled):
                    yield uncoupled


def _variants(condition: Expression) -> Iterator[Expression]:
    if is_truth(condition):
        yield condition
    for part in _comparisons(condition):
        yield part
        yield from _weakened(part)
        yield Binary(NEGATED[part.operator], part.left, part.right)
        yield from _weakened(Binary(NEGATED[part.operator], part.left, part.right))


def _comparisons(condition: Expression) -> Iterator[Binary]:
    match condition:
        case Binary(operator=op) if op in COMPARISONS:
            yield condition
        case Binary(operator=op, left=left, right=right) if op in CONNECTIVES:
            yield from _comparisons(left)
            yield from _comparisons(right)
        case Unary(operator="!", operand=operand):
            yield from _comparisons(operand)
        case Identifier():
            yield Binary("!=", condition, Constant(0))


def _weakened(comparison: Binary) -> Iterator[Binary]:
    """The comparisons that follow from one, and those that are still true after a step by one."""
    left, right = comparison.left, comparison.right
    for op in _WEAKER[comparison.operator]:
        yield Binary(op, left, right)
    for op, step in (("<", 1), ("<=", 1), (">", -1), (">=", -1)):
        if comparison.operator == op:
            yield Binary(op if op.endswith("=") else f"{op}=", left, _moved(right, step))


def _moved(expression: Expression, step: int) -> Expression:
    if isinstance(expression, Constant):
        return Constant(expression.value + step)
    return Binary("+" if step > 0 else "-", expression, Constant(1))
