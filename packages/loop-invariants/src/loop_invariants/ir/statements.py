"""Programs: structured transition systems over integer variables and arrays.

A program is a sequence of guarded commands: assignments, assumptions, assertions, branches and
loops. Loops are numbered from 0 in the order of the text. No expression has side effects.
`frontend.translation_unit` builds programs from C.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeVar

from loop_invariants.ir.expressions import (
    Constant,
    Element,
    Expression,
    Identifier,
    Type,
    iter_subexpressions,
)


@dataclass(frozen=True)
class Assign:
    """An assignment to a variable or array element, with conversion to its type.

    Attributes:
        target: variable or array element.
        value: new value.
        line: line in the source; 0 for a statement without a line. Ignored by equality.
    """

    target: Identifier | Element
    value: Expression
    line: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True)
class Havoc:
    """An assignment of arbitrary values to a variable or to a whole array."""

    name: str


@dataclass(frozen=True)
class Assume:
    """An assumption: a run continues only if it holds. `line` is as in `Assign`."""

    condition: Expression
    line: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True)
class Assert:
    """An assertion.

    Attributes:
        condition: condition that must hold.
        line: line in the source; 0 for a rule of C that has no statement. None for undefined
            behaviour after which a compiled program continues: the run ends without a violation,
            but a proof must still show that the condition holds.
    """

    condition: Expression
    line: int | None


@dataclass(frozen=True)
class Branch:
    """A branch: one block if the condition holds, the other if not.

    `line` is as in `Assign`.
    """

    condition: Expression
    then: "Block"
    otherwise: "Block"
    line: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True)
class Loop:
    """A loop: while the guard holds, the body and then the step are executed.

    Attributes:
        number: index of the loop in the order of the text, from 0.
        line: line of the loop in the source.
        guard: condition for another iteration.
        body: statements of an iteration.
        step: third part of a `for`, which `continue` jumps to; empty for other loops.
        scope: sorted names that an expression directly before the loop can use.
    """

    number: int
    line: int
    guard: Expression
    body: "Block"
    step: "Block"
    scope: tuple[str, ...]


@dataclass(frozen=True)
class Break:
    """A jump out of the innermost loop."""


@dataclass(frozen=True)
class Continue:
    """A jump to the step of the innermost loop."""


@dataclass(frozen=True)
class LabelledBlock:
    """A block that `BreakTo` can leave; execution continues after it, as at its end.

    Attributes:
        label: name that no other block of the program has.
        body: statements of the block.
    """

    label: str
    body: "Block"


@dataclass(frozen=True)
class BreakTo:
    """A jump out of the enclosing block with this label, and of its loops."""

    label: str


@dataclass(frozen=True)
class Stop:
    """The end of a run, after which no assertion can fail."""


Statement = (
    Assign
    | Havoc
    | Assume
    | Assert
    | Branch
    | Loop
    | Break
    | Continue
    | LabelledBlock
    | BreakTo
    | Stop
)
Block = tuple[Statement, ...]


@dataclass(frozen=True)
class Program:
    """A program.

    Attributes:
        name: name in tables and messages.
        source: C text.
        types: type of every variable, by name.
        body: all statements, in execution order.
        is_lowered: whether its loops or variables differ from the C text.
        has_range_checks: whether an array index, divisor or shift out of range violates the
            program. If not, the run ends at that point, since its behaviour is undefined in C.
        needs_assertion: whether the C text must contain the property to prove. False where rules of
            C are the property, as for overflow.
        syntax_tree: syntax tree of the C text, which must not be changed; None without a text.
    """

    name: str
    source: str
    types: Mapping[str, Type]
    body: Block
    is_lowered: bool = False
    has_range_checks: bool = True
    needs_assertion: bool = True
    syntax_tree: object = field(default=None, compare=False, repr=False)

    def variable(self, name: str) -> Identifier:
        """Return the variable with a name."""
        return Identifier(name, self.types[name])

    def __post_init__(self) -> None:
        # A read-only copy keeps the program immutable.
        object.__setattr__(self, "types", MappingProxyType(dict(self.types)))

    @property
    def loops(self) -> tuple[Loop, ...]:
        """All loops, by number."""
        # Nested loops may be visited in another order than their numbers.
        loops = (
            statement for statement in iter_statements(self.body) if isinstance(statement, Loop)
        )
        return tuple(sorted(loops, key=lambda loop: loop.number))

    @property
    def assertions(self) -> tuple[Assert, ...]:
        """All assertions, in the order of the text."""
        return tuple(s for s in iter_statements(self.body) if isinstance(s, Assert))

    @property
    def has_property(self) -> bool:
        """Whether there is a property to prove: an assertion or the rules of C.

        Assertions on indices and pointers, which the frontend adds, have no line and do not count.
        """
        return not self.needs_assertion or any(a.line for a in self.assertions)


def iter_statements(block: Block) -> Iterator[Statement]:
    """Yield every statement of a block; each precedes the statements inside it."""
    for statement in block:
        yield statement
        for child_block in child_blocks(statement):
            yield from iter_statements(child_block)


_BLOCK_FIELDS = ("then", "otherwise", "body", "step")
"""Fields of statements that are blocks."""

_AnyStatement = TypeVar("_AnyStatement", bound=Statement)


def child_blocks(statement: Statement) -> tuple[Block, ...]:
    """Return the blocks of a statement."""
    return tuple(part for name, part in vars(statement).items() if name in _BLOCK_FIELDS)


def with_parts(
    statement: _AnyStatement,
    transform: Callable[[Expression], Expression],
    transform_block: Callable[[Block], Block],
) -> _AnyStatement:
    """Return a copy of a statement with each direct expression and block transformed."""
    parts: dict[str, Any] = {}
    for name, part in vars(statement).items():
        if isinstance(part, Expression):
            parts[name] = transform(part)
        elif name in _BLOCK_FIELDS:
            parts[name] = transform_block(part)
    return replace(statement, **parts)


def iter_conditions(block: Block) -> Iterator[Expression]:
    """Yield the guards, branch conditions, assumptions and assertions in text order."""
    for statement in iter_statements(block):
        match statement:
            case Loop(guard=condition):
                yield condition
            case Assume(condition=condition) | Assert(condition=condition):
                yield condition
            case Branch(condition=condition):
                yield condition


def iter_expressions(block: Block) -> Iterator[Expression]:
    """Yield every expression of a block: conditions, then targets and values."""
    yield from iter_conditions(block)
    for statement in iter_statements(block):
        if isinstance(statement, Assign):
            yield from (statement.target, statement.value)


def collect_constants(block: Block) -> tuple[int, ...]:
    """Return the distinct constants of a block, in the order of its expressions."""
    parts = iter_subexpressions(*iter_expressions(block))
    return tuple(dict.fromkeys(part.value for part in parts if isinstance(part, Constant)))


def find_modified_variables(block: Block) -> frozenset[str]:
    """Return the names of the variables and arrays that a block may change."""
    names = set()
    for statement in iter_statements(block):
        match statement:
            case Assign(target=Identifier(name=name)) | Havoc(name=name):
                names.add(name)
            case Assign(target=Element(array=name)):
                names.add(name)
    return frozenset(names)
