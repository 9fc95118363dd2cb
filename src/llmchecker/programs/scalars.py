"""Elements at constant indices as integers of their own: scalar replacement of aggregates."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from llmchecker.programs.expressions import (
    Constant,
    Element,
    Expression,
    Identifier,
    c_text,
    walk,
    with_children,
)
from llmchecker.programs.statements import (
    Assert,
    Assign,
    Assume,
    Block,
    Branch,
    Forget,
    Labelled,
    Loop,
    Program,
    Statement,
    expressions_in,
)


def with_scalars(program: Program) -> Program:
    """The same program, in which no array has only constant indices.

    Each element of such an array is an integer whose name is the text of the element, `a[0]`. An
    array with an index out of its range stays one, since that violates the program.
    """
    used: dict[str, dict[int, None]] = {}
    kept = {name for name, type_ in program.types.items() if not type_.array}
    for expression in expressions_in(program.body):
        for part in walk(expression):
            match part:
                case Element(array, Constant(index)) if _inside(program, array, index):
                    used.setdefault(array, {})[index] = None
                case Element(array):
                    kept.add(array)
    elements = {
        array: [Element(array, Constant(index)) for index in sorted(indices)]
        for array, indices in used.items()
        if array not in kept
    }
    if not elements:
        return program
    types = dict(program.types)
    for array, own in elements.items():
        element = types.pop(array).element
        types |= {c_text(each): element for each in own}
    body = _Split(elements).block(program.body)
    # What changes one element of an array keeps the others, which the text does not tell ESBMC.
    lowered = program.lowered or any(len(own) > 1 for own in elements.values())
    return replace(program, types=types, body=body, lowered=lowered)


def _inside(program: Program, array: str, index: int) -> bool:
    length = program.types[array].length
    return isinstance(length, Constant) and 0 <= index < length.value


class _Split:
    """Writes statements with integers in the place of elements."""

    def __init__(self, elements: Mapping[str, list[Element]]) -> None:
        self._elements = elements
        self._names = {name: [c_text(e) for e in own] for name, own in elements.items()}

    def block(self, block: Block) -> Block:
        return tuple(new for statement in block for new in self._statements(statement))

    def _statements(self, statement: Statement) -> Iterator[Statement]:
        match statement:
            case Assign(target=target, value=value):
                yield replace(statement, target=self._value(target), value=self._value(value))
            case Forget(name=name):
                yield from map(Forget, self._names.get(name, [name]))
            case Assume(condition=condition) | Assert(condition=condition):
                yield replace(statement, condition=self._value(condition))
            case Branch(condition=condition, then=then, otherwise=otherwise):
                blocks = {"then": self.block(then), "otherwise": self.block(otherwise)}
                yield replace(statement, condition=self._value(condition), **blocks)
            case Loop(guard=guard, body=body, step=step, scope=scope):
                blocks = {"body": self.block(body), "step": self.block(step)}
                names = sorted(own for name in scope for own in self._names.get(name, [name]))
                yield replace(statement, guard=self._value(guard), scope=tuple(names), **blocks)
            case Labelled(body=body):
                yield replace(statement, body=self.block(body))
            case _:
                yield statement

    def _value(self, expression: Expression) -> Expression:
        match expression:
            case Element(array, Constant()) if array in self._elements:
                return Identifier(c_text(expression))
        return with_children(expression, self._value)
