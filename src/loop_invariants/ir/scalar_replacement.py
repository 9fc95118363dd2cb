"""Scalar replacement of aggregates: array elements become integers."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from loop_invariants.ir.expressions import (
    Constant,
    Element,
    Expression,
    Identifier,
    format_c,
    iter_subexpressions,
    with_children,
)
from loop_invariants.ir.statements import (
    Block,
    Havoc,
    Loop,
    Program,
    Statement,
    iter_expressions,
    with_parts,
)


def replace_arrays(program: Program) -> Program:
    """Replace every array that is only accessed at constant indices by integers.

    Each element becomes an integer variable whose name is the text of the element, such as `a[0]`.
    An array with an index out of range remains an array, since that access violates the program.
    """
    used_elements: dict[str, dict[int, Element]] = {}
    remaining_names = {name for name, type_ in program.types.items() if not type_.is_array}
    for node in iter_subexpressions(*iter_expressions(program.body)):
        match node:
            case Element(array, Constant(index)) if _is_in_range(program, array, index):
                used_elements.setdefault(array, {})[index] = node
            # Any other index could refer to each element.
            case Element(array):
                remaining_names.add(array)
    elements = {
        array: [array_elements[index] for index in sorted(array_elements)]
        for array, array_elements in used_elements.items()
        if array not in remaining_names
    }
    if not elements:
        return program
    types = dict(program.types)
    for array, array_elements in elements.items():
        del types[array]
        types |= {format_c(element): element.type for element in array_elements}
    body = _ScalarReplacer(elements).replace_block(program.body)
    # An assignment to one element keeps the others, which the C text does not express for ESBMC.
    is_lowered = program.is_lowered or any(
        len(array_elements) > 1 for array_elements in elements.values()
    )
    return replace(program, types=types, body=body, is_lowered=is_lowered)


def _is_in_range(program: Program, array: str, index: int) -> bool:
    length = program.types[array].length
    return isinstance(length, Constant) and 0 <= index < length.value


class _ScalarReplacer:
    """A rewriter of statements that replaces array elements by integers."""

    def __init__(self, elements: Mapping[str, list[Element]]) -> None:
        self._elements = elements
        self._names = {
            name: [format_c(e) for e in array_elements] for name, array_elements in elements.items()
        }

    def replace_block(self, block: Block) -> Block:
        return tuple(
            replacement for statement in block for replacement in self._replace_statement(statement)
        )

    def _replace_statement(self, statement: Statement) -> Iterator[Statement]:
        if isinstance(statement, Havoc):
            # An arbitrary array becomes one arbitrary integer for each element.
            yield from map(Havoc, self._names.get(statement.name, [statement.name]))
            return
        if isinstance(statement, Loop):
            # Invariants may refer to each new integer where they could refer to the array.
            names = (new for name in statement.scope for new in self._names.get(name, [name]))
            statement = replace(statement, scope=tuple(sorted(names)))
        yield with_parts(statement, self._replace_expression, self.replace_block)

    def _replace_expression(self, expression: Expression) -> Expression:
        match expression:
            case Element(array, Constant()) if array in self._elements:
                return Identifier(format_c(expression), expression.type)
        return with_children(expression, self._replace_expression)
