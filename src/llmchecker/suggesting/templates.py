"""Quantified candidates about the elements of arrays that a loop has come by.

A loop that counts `i` up from `l` and treats `a[i]` in each round makes something true of all
elements from `l` to `i`, and leaves those behind as they were (range predicates, Jhala and McMillan
2007). What it makes true is read off its assignments, conditions and the program's assertions.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from llmchecker.programs.expressions import (
    COMPARISONS,
    MIRRORED,
    Binary,
    Constant,
    Element,
    Expression,
    Identifier,
    Quantified,
    Ternary,
    is_open,
    is_truth,
    negation,
    size,
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
    parts,
)
from llmchecker.suggesting.rounds import Round, leaves, linear, placed, round_of, simplified
from llmchecker.suggesting.spans import Counter, Span, Spans

MOST = 60
"""The most candidates of a loop."""

_MOST_VALUES = 3
"""The most ways in which the elements of an array are described at one place."""

_LARGEST = 60
"""The most parts of a condition on an element."""

_MOST_CONSTANTS = 6
"""The most numbers of a program that elements are compared with."""


def templates(program: Program) -> Mapping[int, tuple[Expression, ...]]:
    """Conditions on the elements of arrays, by the number of the loop that they are proposed for.

    The likeliest come first, and no loop has more than `MOST`. A loop that neither changes what a
    condition speaks of nor asks it has none of it: what was true before such a loop stays true.
    """
    if not any(type_.array for type_ in program.types.values()):
        return {}
    collector = _Collector(program)
    collector.block(program.body)
    return {number: tuple(found)[:MOST] for number, found in collector.found.items() if found}


@dataclass(frozen=True)
class _Content:
    """What all elements in a span of an array are equal to, an expression over the index."""

    array: str
    value: Expression
    span: Span


@dataclass
class _Collector:
    """Goes through a program once and collects candidates for its loops.

    Attributes:
        found: the candidates of each loop, by its number.
        numbers: what integers are equal to at the present place.
        contents: what elements are equal to there.
        around: the candidates of the loops around it.
    """

    program: Program
    found: dict[int, dict[Expression, None]] = field(default_factory=dict)
    numbers: dict[str, Expression] = field(default_factory=dict)
    contents: list[_Content] = field(default_factory=list)
    around: list[list[Expression]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Any name of the text would be captured where the bound variable is declared.
        taken = set(re.findall(r"\w+", self.program.source)) | set(self.program.types)
        names = ("k", "j", "p", "q", *(f"k{n}" for n in range(len(taken) + 1)))
        self.bound = Identifier(next(name for name in names if name not in taken))
        named = (part for e in expressions_in(self.program.body) for part in walk(e))
        numbers = dict.fromkeys(part.value for part in named if isinstance(part, Constant))
        self.constants = [Constant(number) for number in {0: None, 1: None} | numbers]

    def block(self, block: Block) -> None:
        """Go through a block and collect the candidates of the loops in it."""
        for statement in block:
            match statement:
                case Loop():
                    self._loop(statement)
                case Assign(target=Identifier(name=name), value=value):
                    self._forget({name})
                    if name not in variables(value) and not is_open(value):
                        self.numbers[name] = simplified(value)
                case _:
                    for part in parts(statement):
                        self.block(part)
                    # An element that is assigned by itself leaves most of its array as it is.
                    if not isinstance(statement, Assign):
                        self._forget(changed((statement,)))

    def _forget(self, names: Iterable[str]) -> None:
        names = set(names)
        self.numbers = {
            name: value
            for name, value in self.numbers.items()
            if name not in names and not variables(value) & names
        }
        self.contents = [content for content in self.contents if not _uses(content) & names]

    def _loop(self, loop: Loop) -> None:
        state, moved = round_of(loop), changed((loop,))
        counters = list(self._counters(loop, state))
        after: list[_Content] = []
        made: list[Expression] = []
        for counter, (element, value) in product(counters, state.elements.items()):
            spans = Spans(counter, element.index, self.bound)
            if spans.factor:
                made += self._left(spans, element.array)
                written = [
                    self._by_index(known, counter, counters, spans)
                    for known in (value, *self._resolved(value))
                ]
                made += self._written(counter, spans, element.array, written, moved)
                after += _contents(counter, spans, element.array, written)[-_MOST_VALUES:]
        described = {content.array for content in after}
        for counter in counters:
            made += self._asked(loop, counter, state, moved)
            made += self._compared(counter, state, moved - described)
        # What is true of elements in the loops around must be said again where they change.
        made += [e for outer in self.around for e in outer if variables(e) & moved]
        self.found[loop.number] = dict.fromkeys(made)
        before = dict(self.numbers)
        self._forget(moved)
        kept = self.contents
        self.around.append(made)
        self.block((*loop.body, *loop.step))
        self.around.pop()
        self.numbers, self.contents = before, kept + after
        self._forget(moved - described)

    def _counters(self, loop: Loop, state: Round) -> Iterator[Counter]:
        moved = changed((loop,))
        for name, value in state.numbers.items():
            sums = [linear(leaf) for leaf in leaves(value)]
            steps = {step for _, step in sums} - {0}
            if len(steps) == 1 and all(parts == {Identifier(name): 1} for parts, _ in sums):
                first = self.numbers.get(name, Constant(0))
                told = () if variables(first) & moved else (first,)
                firsts = tuple(dict.fromkeys((*told, Constant(0))))
                yield Counter(name, steps.pop(), firsts, _last(loop, name))

    def _left(self, spans: Spans, array: str) -> Iterator[Expression]:
        """That the elements which a loop has not come by are as they were."""
        for content in self.contents:
            if content.array == array:
                body = Binary("==", Element(array, self.bound), content.value)
                yield spans.rest(content.span).forall(body, self.bound)

    def _by_index(
        self, value: Expression, counter: Counter, counters: Iterable[Counter], spans: Spans
    ) -> Expression:
        """What a round writes, by the index that it writes to."""
        here = [(Identifier(counter.name), spans.place)]
        for other in counters:
            if other != counter and other.step % counter.step == 0:
                together = placed(_together(other, counter), here)
                here.append((Identifier(other.name), together))
        return placed(value, here)

    def _written(
        self,
        counter: Counter,
        spans: Spans,
        array: str,
        values: Iterable[Expression],
        moved: frozenset[str],
    ) -> Iterator[Expression]:
        """That the elements which a loop has come by are what it wrote."""
        own = Element(array, self.bound)
        for value in values:
            equal = _equal(own, value)
            if equal is None or size(value) > _LARGEST or _numbers(equal) & moved:
                continue
            for body in (equal, *_bounds(own, value)):
                for first in counter.firsts:
                    yield spans.done(first).forall(body, self.bound)
                    if spans.every is not None:
                        some = Binary("||", negation(spans.every), body)
                        yield spans.done(first).forall(some, self.bound)

    def _resolved(self, value: Expression) -> Iterator[Expression]:
        """The value with what is known of the elements in it."""
        read = [e for e in dict.fromkeys(walk(value)) if isinstance(e, Element)]
        ways = [
            [
                (element, placed(content.value, [(self.bound, element.index)]))
                for content in self.contents
                if content.array == element.array
            ][:_MOST_VALUES]
            or [(element, element)]
            for element in read
        ]
        for _, places in zip(range(2 * _MOST_VALUES), product(*ways), strict=False):
            if any(old != new for old, new in places):
                yield placed(value, places)

    def _asked(
        self, loop: Loop, counter: Counter, state: Round, moved: frozenset[str]
    ) -> Iterator[Expression]:
        """Conditions of the program on the elements that a loop has come by.

        A loop may make true what is asserted if it changes something that is spoken of, and may
        learn what it asks itself.
        """
        asserted = [assertion.condition for assertion in self.program.assertions]
        asserted = dict.fromkeys((*asserted, *_comparisons(asserted)))
        own = list(conditions((loop,)))
        own = dict.fromkeys(e for c in (*own, *_comparisons(own)) for e in (c, negation(c)))
        passed = self._passed(counter, state)
        for condition in (*asserted, *(c for c in own if c not in asserted)):
            for name, body in self._on_elements(condition):
                fits = variables(body) & moved if condition in asserted else name == counter.name
                if fits and counter.name not in variables(body):
                    for spans, first in product(passed, counter.firsts):
                        yield spans.done(first).forall(body, self.bound)

    def _on_elements(self, condition: Expression) -> Iterator[tuple[str, Expression]]:
        """A condition with the bound variable as an index, and the variable that was there."""
        quantified = any(isinstance(part, Quantified) for part in walk(condition))
        if is_open(condition) or quantified or not is_truth(condition):
            return
        for index in dict.fromkeys(e.index for e in walk(condition) if isinstance(e, Element)):
            for name in sorted(variables(index)):
                spans = Spans(Counter(name, 1), index, self.bound)
                if spans.factor == 1:
                    yield name, placed(condition, [(Identifier(name), spans.place)])

    def _passed(self, counter: Counter, state: Round) -> list[Spans]:
        """The elements that a loop has come by: those that it assigns to, or of any array."""
        indices = [element.index for element in state.elements]
        spans = [Spans(counter, index, self.bound) for index in dict.fromkeys(indices)]
        found = [each for each in spans if each.factor]
        return found or [Spans(counter, Identifier(counter.name), self.bound)]

    def _compared(
        self, counter: Counter, state: Round, moved: frozenset[str]
    ) -> Iterator[Expression]:
        """Comparisons of the elements that a loop has come by with numbers of the program."""
        for array in sorted(name for name in moved if self.program.types[name].array):
            for constant in self.constants[:_MOST_CONSTANTS]:
                for operator in (">=", "<="):
                    body = Binary(operator, Element(array, self.bound), constant)
                    for spans in self._passed(counter, state):
                        yield spans.done(counter.firsts[0]).forall(body, self.bound)


def _last(loop: Loop, name: str) -> Binary | None:
    """How a loop's guard compares a variable with what the loop does not change."""
    moved = changed((loop,))
    for comparison in _comparisons([loop.guard]):
        operator, left, right = comparison.operator, comparison.left, comparison.right
        if right == Identifier(name):
            operator, left, right = MIRRORED[operator], right, left
        if left == Identifier(name) and operator != "==" and not variables(right) & moved:
            return Binary(operator, left, right)
    return None


def _together(other: Counter, counter: Counter) -> Expression:
    """A counter by another one that moves in the same rounds."""
    rounds = simplified(Binary("-", Identifier(counter.name), counter.firsts[0]))
    moved = simplified(Binary("*", Constant(other.step // counter.step), rounds))
    return simplified(Binary("+", other.firsts[0], moved))


def _contents(
    counter: Counter, spans: Spans, array: str, values: Iterable[Expression]
) -> list[_Content]:
    """What all elements of an array are when a loop has ended, if the loop tells."""
    whole = spans.whole(counter.firsts[0])
    if whole is None or spans.every is not None:
        return []
    told = [v for v in values if not is_open(v) and size(v) <= _LARGEST]
    return [_Content(array, v, whole) for v in told if array not in variables(v)]


def _equal(own: Element, value: Expression) -> Expression | None:
    """That an element has a value; None if it may have any one."""
    match value:
        case Ternary(condition, then, otherwise):
            one, other = _equal(own, then), _equal(own, otherwise)
            if is_open(condition):
                return one if one == other else one and other and Binary("||", one, other)
            if one is None and other is None:
                return None
            if one is None:
                return Binary("||", condition, other)
            if other is None:
                return Binary("||", negation(condition), one)
            first = Binary("&&", condition, one)
            return Binary("||", first, Binary("&&", negation(condition), other))
    if is_open(value) or own in walk(value):
        return None
    return Binary("==", own, value)


def _bounds(own: Element, value: Expression) -> Iterator[Expression]:
    """That an element is within the constants that its value is chosen from."""
    chosen = list(leaves(value))
    if len(chosen) > 1 and all(isinstance(leaf, Constant) for leaf in chosen):
        numbers = [leaf.value for leaf in chosen]
        yield Binary(">=", own, Constant(min(numbers)))
        yield Binary("<=", own, Constant(max(numbers)))


def _uses(content: _Content) -> frozenset[str]:
    """The names that the content of an array depends on, and the array's own."""
    names = (variables(e) for e in (content.value, content.span.low, content.span.high))
    return frozenset().union(*names, (content.array,))


def _numbers(expression: Expression) -> frozenset[str]:
    """The integers in an expression, those in indices included."""
    named = (part.name for part in walk(expression) if isinstance(part, Identifier))
    return frozenset(named)


def _comparisons(expressions: Iterable[Expression]) -> Iterator[Binary]:
    """The comparisons in conditions."""
    for expression in expressions:
        for part in walk(expression):
            if isinstance(part, Binary) and part.operator in COMPARISONS:
                yield part
