"""Array templates: quantified candidates on the elements that a loop processes.

A loop that increments `i` from `l` and assigns `a[i]` in each iteration establishes a condition on
all elements from `l` to `i`. It leaves the remaining elements unchanged (range predicates, Jhala
and McMillan 2007). The conditions come from its assignments and branches and from the program's
assertions.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from loop_invariants.generation.index_ranges import Counter, Range, Ranges
from loop_invariants.generation.symbolic_step import (
    LoopStep,
    iter_leaves,
    simplify,
    substitute,
    summarize,
)
from loop_invariants.ir.expressions import (
    COMPARISONS,
    INT,
    SWAPPED_COMPARISONS,
    Binary,
    Constant,
    Element,
    Expression,
    Identifier,
    Ternary,
    bound_variables,
    has_nondet,
    is_boolean,
    iter_subexpressions,
    negate,
    size,
    variables,
)
from loop_invariants.ir.polynomials import decompose_linear, sum_of
from loop_invariants.ir.statements import (
    Assign,
    Block,
    Loop,
    Program,
    child_blocks,
    collect_constants,
    find_modified_variables,
    iter_conditions,
)

_MAX_CANDIDATES = 60
"""Maximum number of candidates for a loop."""

_MAX_VALUES = 3
"""Maximum number of descriptions of the elements of an array at each program point."""

_MAX_SIZE = 60
"""Maximum size of the value in a condition on an element, in parts."""

_MAX_CONSTANTS = 6
"""Maximum number of constants of a program that elements are compared with."""


def instantiate_templates(program: Program) -> Mapping[int, tuple[Expression, ...]]:
    """Build conditions on array elements for each loop, by loop number.

    The most likely conditions come first, at most `_MAX_CANDIDATES` for each loop. A loop gets no
    condition whose names it neither changes nor tests: such a condition holds after the loop if it
    held before.
    """
    if not any(type_.is_array for type_ in program.types.values()):
        # A program without arrays has no elements to describe.
        return {}
    collector = _Collector(program)
    collector.visit_block(program.body)
    return {
        number: tuple(conditions)[:_MAX_CANDIDATES]
        for number, conditions in collector.candidates.items()
        if conditions
    }


@dataclass(frozen=True)
class _RangeContent:
    """The common value of all elements in a range of an array, over the bound index."""

    array: str
    value: Expression
    index_range: Range


@dataclass
class _Collector:
    """A walk through a program that collects candidates for its loops.

    Attributes:
        candidates: the candidates of each loop, by loop number.
        scalar_values: the known values of integers at the current statement.
        contents: the known values of elements at the current statement.
        outer_candidates: the candidates of the enclosing loops.
    """

    program: Program
    candidates: dict[int, dict[Expression, None]] = field(default_factory=dict)
    scalar_values: dict[str, Expression] = field(default_factory=dict)
    contents: list[_RangeContent] = field(default_factory=list)
    outer_candidates: list[list[Expression]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # A name of the program text would be captured where the bound variable is declared.
        used_names = set(re.findall(r"\w+", self.program.source)) | set(self.program.types)
        names = ("k", "j", "p", "q", *(f"k{n}" for n in range(len(used_names) + 1)))
        self.bound_variable = Identifier(next(n for n in names if n not in used_names), INT)
        numbers = dict.fromkeys((0, 1, *collect_constants(self.program.body)))
        self.constants = [Constant(number) for number in numbers]

    def visit_block(self, block: Block) -> None:
        """Visit a block and collect the candidates of its loops."""
        for statement in block:
            match statement:
                case Loop():
                    self._visit_loop(statement)
                case Assign(target=Identifier(name=name), value=value):
                    self._invalidate({name})
                    # `x = x + 1` gives no equality with the new value of `x`.
                    if name not in variables(value) and not has_nondet(value):
                        self.scalar_values[name] = simplify(value)
                case _:
                    for part in child_blocks(statement):
                        self.visit_block(part)
                    # The assignment of a single element leaves most of its array unchanged.
                    if not isinstance(statement, Assign):
                        self._invalidate(find_modified_variables((statement,)))

    def _invalidate(self, names: Iterable[str]) -> None:
        names = set(names)
        self.scalar_values = {
            name: value
            for name, value in self.scalar_values.items()
            # A value is stale as soon as a variable in it changes.
            if name not in names and not variables(value) & names
        }
        self.contents = [
            content for content in self.contents if not _collect_dependencies(content) & names
        ]

    def _visit_loop(self, loop: Loop) -> None:
        state, changed_names = summarize(loop, self.program), find_modified_variables((loop,))
        counters = list(self._find_counters(loop, state))
        final_contents: list[_RangeContent] = []
        conditions: list[Expression] = []
        # Every pair of a counter and an assigned element may describe a range of the array.
        for counter, (element, value) in product(counters, state.elements.items()):
            ranges = Ranges(counter, element.index, self.bound_variable)
            # The factor is 0 if the index does not depend on the counter linearly.
            if ranges.factor:
                conditions += self._iter_frame_conditions(ranges, element.array)
                stored_values = [
                    self._express_by_index(alternative, counter, counters, ranges)
                    for alternative in (value, *self._resolve_elements(value))
                ]
                conditions += self._iter_write_conditions(
                    counter, ranges, element.array, stored_values, changed_names
                )
                final_contents += _find_final_contents(
                    counter, ranges, element.array, stored_values
                )[-_MAX_VALUES:]
        described_arrays = {content.array for content in final_contents}
        for counter in counters:
            conditions += self._iter_program_conditions(loop, counter, state, changed_names)
            conditions += self._iter_comparisons_with_constants(
                counter, state, changed_names - described_arrays
            )
        # Conditions of enclosing loops must be repeated for a loop that changes their variables.
        conditions += [
            e
            for outer_conditions in self.outer_candidates
            for e in outer_conditions
            if variables(e) & changed_names
        ]
        self.candidates[loop.number] = dict.fromkeys(conditions)
        # Inside the loop, only the values of unchanged variables are known.
        saved_values = dict(self.scalar_values)
        self._invalidate(changed_names)
        saved_contents = self.contents
        self.outer_candidates.append(conditions)
        self.visit_block((*loop.body, *loop.step))
        self.outer_candidates.pop()
        self.scalar_values, self.contents = saved_values, saved_contents + final_contents
        self._invalidate(changed_names - described_arrays)

    def _find_counters(self, loop: Loop, state: LoopStep) -> Iterator[Counter]:
        changed_names = find_modified_variables((loop,))
        for variable, value in state.values.items():
            # An element is no counter, even if it moves by a constant.
            if isinstance(variable, Element):
                continue
            changes = [
                sum_of(decompose_linear(e), decompose_linear(variable), -1)
                for e in iter_leaves(value)
            ]
            # A counter moves by the same constant on every path of an iteration.
            steps = {change.get((), 0) for change in changes} - {0}
            if len(steps) == 1 and all(change.keys() <= {()} for change in changes):
                # The first value is unusable if the loop itself changes it.
                initial_value = self.scalar_values.get(variable.name, Constant(0))
                known_values = () if variables(initial_value) & changed_names else (initial_value,)
                initial_values = tuple(dict.fromkeys((*known_values, Constant(0))))
                guard_comparison = _find_guard_comparison(loop, variable)
                yield Counter(variable, steps.pop(), initial_values, guard_comparison)

    def _iter_frame_conditions(self, ranges: Ranges, array: str) -> Iterator[Expression]:
        """Yield that elements not yet processed keep their values from before the loop."""
        element = self.program.variable(array).element(self.bound_variable)
        for content in self.contents:
            if content.array == array:
                body = Binary("==", element, content.value)
                yield ranges.remaining(content.index_range).forall(body, self.bound_variable)

    def _express_by_index(
        self, value: Expression, counter: Counter, counters: Iterable[Counter], ranges: Ranges
    ) -> Expression:
        """Express the value that an iteration stores by the index of its element."""
        replacements = [(counter.variable, ranges.counter_value)]
        for other_counter in counters:
            # A counter whose step is a multiple is an integer function of this counter.
            if other_counter != counter and other_counter.step % counter.step == 0:
                other_value = substitute(_express_counter(other_counter, counter), replacements)
                replacements.append((other_counter.variable, other_value))
        return substitute(value, replacements)

    def _iter_write_conditions(
        self,
        counter: Counter,
        ranges: Ranges,
        array: str,
        values: Iterable[Expression],
        changed_names: frozenset[str],
    ) -> Iterator[Expression]:
        """Yield that the processed elements have the values that the loop stored."""
        element = self.program.variable(array).element(self.bound_variable)
        for value in values:
            equality = _build_equality(element, value)
            # A variable that changes has a different value by the time of later iterations.
            if (
                equality is None
                or size(value) > _MAX_SIZE
                or _collect_identifiers(equality) & changed_names
            ):
                continue
            for body in (equality, *_iter_bounds(element, value)):
                for initial_value in counter.initial_values:
                    yield ranges.processed(initial_value).forall(body, self.bound_variable)
                    # With a stride, the condition holds only for the elements that the loop
                    # reaches.
                    if ranges.stride_condition is not None:
                        strided_body = Binary("||", negate(ranges.stride_condition), body)
                        yield ranges.processed(initial_value).forall(
                            strided_body, self.bound_variable
                        )

    def _resolve_elements(self, value: Expression) -> Iterator[Expression]:
        """Yield the value with known contents in place of its elements."""
        elements = [e for e in dict.fromkeys(iter_subexpressions(value)) if isinstance(e, Element)]
        alternatives = [
            [
                (element, substitute(content.value, [(self.bound_variable, element.index)]))
                for content in self.contents
                if content.array == element.array
            ][:_MAX_VALUES]
            or [(element, element)]
            for element in elements
        ]
        # The number of combinations grows exponentially, so only the first ones are used.
        for _, replacements in zip(range(2 * _MAX_VALUES), product(*alternatives), strict=False):
            if any(old != new for old, new in replacements):
                yield substitute(value, replacements)

    def _iter_program_conditions(
        self, loop: Loop, counter: Counter, state: LoopStep, changed_names: frozenset[str]
    ) -> Iterator[Expression]:
        """Yield the program's conditions, generalized to the processed elements.

        A loop can establish an assertion only if it changes a variable of it. A condition that the
        loop tests must have its counter as the index.
        """
        assertions = [assertion.condition for assertion in self.program.assertions]
        asserted_conditions = dict.fromkeys((*assertions, *_iter_comparisons(assertions)))
        tests = list(iter_conditions((loop,)))
        # The loop may take either branch of a test, so both are candidates.
        tested_conditions = dict.fromkeys(
            e for c in (*tests, *_iter_comparisons(tests)) for e in (c, negate(c))
        )
        processed_ranges = self._find_processed_ranges(counter, state)
        for condition in (
            *asserted_conditions,
            *(c for c in tested_conditions if c not in asserted_conditions),
        ):
            for name, body in self._generalize_condition(condition):
                is_relevant = (
                    variables(body) & changed_names
                    if condition in asserted_conditions
                    else name == counter.variable.name
                )
                if is_relevant and counter.variable.name not in variables(body):
                    for ranges, initial_value in product(processed_ranges, counter.initial_values):
                        yield ranges.processed(initial_value).forall(body, self.bound_variable)

    def _generalize_condition(self, condition: Expression) -> Iterator[tuple[str, Expression]]:
        """Yield a condition over the bound variable, and the variable that it replaces."""
        # Nested quantifiers and nondeterministic values are not generalized.
        if has_nondet(condition) or bound_variables(condition) or not is_boolean(condition):
            return
        for index in dict.fromkeys(
            e.index for e in iter_subexpressions(condition) if isinstance(e, Element)
        ):
            for name in sorted(variables(index)):
                variable = self.program.variable(name)
                ranges = Ranges(Counter(variable, 1), index, self.bound_variable)
                # With a factor of 1 the substitution needs no division.
                if ranges.factor == 1:
                    yield name, substitute(condition, [(variable, ranges.counter_value)])

    def _find_processed_ranges(self, counter: Counter, state: LoopStep) -> list[Ranges]:
        """Return the processed ranges: of the assigned elements, else of an array at the
        counter."""
        indices = [element.index for element in state.elements]
        all_ranges = [
            Ranges(counter, index, self.bound_variable) for index in dict.fromkeys(indices)
        ]
        linear_ranges = [ranges for ranges in all_ranges if ranges.factor]
        return linear_ranges or [Ranges(counter, counter.variable, self.bound_variable)]

    def _iter_comparisons_with_constants(
        self, counter: Counter, state: LoopStep, changed_names: frozenset[str]
    ) -> Iterator[Expression]:
        """Yield comparisons of the processed elements with constants of the program."""
        for array in sorted(name for name in changed_names if self.program.types[name].is_array):
            for constant in self.constants[:_MAX_CONSTANTS]:
                for operator in (">=", "<="):
                    element = self.program.variable(array).element(self.bound_variable)
                    body = Binary(operator, element, constant)
                    for ranges in self._find_processed_ranges(counter, state):
                        yield ranges.processed(counter.initial_values[0]).forall(
                            body, self.bound_variable
                        )


def _find_guard_comparison(loop: Loop, variable: Identifier) -> Binary | None:
    """Find the loop guard's comparison of a variable with an unchanged expression."""
    changed_names = find_modified_variables((loop,))
    for comparison in _iter_comparisons([loop.guard]):
        operator, left, right = comparison.operator, comparison.left, comparison.right
        # The variable belongs on the left, as `Counter.guard_comparison` requires.
        if right == variable:
            operator, left, right = SWAPPED_COMPARISONS[operator], right, left
        if left == variable and operator != "==" and not variables(right) & changed_names:
            return Binary(operator, left, right)
    return None


def _express_counter(other: Counter, counter: Counter) -> Expression:
    """Express a counter by another counter that moves in the same iterations."""
    iterations = simplify(Binary("-", counter.variable, counter.initial_values[0]))
    increment = simplify(Binary("*", Constant(other.step // counter.step), iterations))
    return simplify(Binary("+", other.initial_values[0], increment))


def _find_final_contents(
    counter: Counter, ranges: Ranges, array: str, values: Iterable[Expression]
) -> list[_RangeContent]:
    """Return the values of all elements of an array after the loop, if they are known."""
    total_range = ranges.total(counter.initial_values[0])
    # Without a known end, or with gaps, no statement about all elements is possible.
    if total_range is None or ranges.stride_condition is not None:
        return []
    known_values = [v for v in values if not has_nondet(v) and size(v) <= _MAX_SIZE]
    return [_RangeContent(array, v, total_range) for v in known_values if array not in variables(v)]


def _build_equality(own: Element, value: Expression) -> Expression | None:
    """Build the equality of an element and a value; None if the value is arbitrary."""
    match value:
        case Ternary(condition, then, otherwise):
            left, right = _build_equality(own, then), _build_equality(own, otherwise)
            # The condition has no value afterwards, so either alternative may hold.
            if has_nondet(condition):
                return left if left == right else left and right and Binary("||", left, right)
            # Only the alternative with a known value restricts the element.
            if right is None:
                return left and Binary("||", negate(condition), left)
            if left is None:
                return Binary("||", condition, right)
            then_case = Binary("&&", condition, left)
            return Binary("||", then_case, Binary("&&", negate(condition), right))
    if has_nondet(value) or own in iter_subexpressions(value):
        return None
    return Binary("==", own, value)


def _iter_bounds(own: Element, value: Expression) -> Iterator[Expression]:
    """Yield bounds of an element, if its value is chosen from constants."""
    leaves = list(iter_leaves(value))
    numbers = [leaf.value for leaf in leaves if isinstance(leaf, Constant)]
    if 1 < len(leaves) == len(numbers):
        yield Binary(">=", own, Constant(min(numbers)))
        yield Binary("<=", own, Constant(max(numbers)))


def _collect_dependencies(content: _RangeContent) -> frozenset[str]:
    """Collect the names on which the content of an array depends, including the array."""
    names = (
        variables(e)
        for e in (content.value, content.index_range.lower_bound, content.index_range.upper_bound)
    )
    return frozenset().union(*names, (content.array,))


def _collect_identifiers(expression: Expression) -> frozenset[str]:
    """Collect the integer variables of an expression, including those in indices."""
    names = (part.name for part in iter_subexpressions(expression) if isinstance(part, Identifier))
    return frozenset(names)


def _iter_comparisons(expressions: Iterable[Expression]) -> Iterator[Binary]:
    """Yield the comparisons in conditions."""
    for part in iter_subexpressions(*expressions):
        if isinstance(part, Binary) and part.operator in COMPARISONS:
            yield part
