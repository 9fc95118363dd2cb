"""Programs: structured transition systems over integer variables and arrays.

A program is a sequence of guarded commands: assignments, assumptions, assertions, branches and
loops. Every loop has a number, in the order of the text from 0 on, and every expression is free of
side effects. `parsing` makes one from C.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from llmchecker.programs.expressions import Element, Expression, Identifier, Type


@dataclass(frozen=True)
class Assign:
    """The variable or array element gets the value, converted to its type."""

    target: Identifier | Element
    value: Expression


@dataclass(frozen=True)
class Forget:
    """The variable, or every element of the array, gets an arbitrary value of its type."""

    name: str


@dataclass(frozen=True)
class Assume:
    """Runs go on only where the condition holds."""

    condition: Expression


@dataclass(frozen=True)
class Assert:
    """The condition must hold; `line` is its place in the source."""

    condition: Expression
    line: int


@dataclass(frozen=True)
class Branch:
    """One block where the condition holds, the other where it does not."""

    condition: Expression
    then: "Block"
    otherwise: "Block"


@dataclass(frozen=True)
class Loop:
    """While the guard holds: the body, then the step (of `for`), which `continue` reaches too.

    Attributes:
        number: its place among the loops of the text, from 0 on.
        line: its place in the source.
        scope: the names, sorted, that can be used in an expression just before the loop.
    """

    number: int
    line: int
    guard: Expression
    body: "Block"
    step: "Block"
    scope: tuple[str, ...]


@dataclass(frozen=True)
class Break:
    """Leave the innermost loop."""


@dataclass(frozen=True)
class Continue:
    """Go to the step of the innermost loop."""


@dataclass(frozen=True)
class Stop:
    """The run ends, and with it all that could go wrong."""


Statement = Assign | Forget | Assume | Assert | Branch | Loop | Break | Continue | Stop
Block = tuple[Statement, ...]


@dataclass(frozen=True)
class Program:
    """A program, from the first statement that it runs on.

    Attributes:
        name: how tables and messages call it.
        source: its C text.
        types: the type of every variable.
        body: what it does.
    """

    name: str
    source: str
    types: Mapping[str, Type]
    body: Block

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", MappingProxyType(dict(self.types)))

    @property
    def loops(self) -> tuple[Loop, ...]:
        """Every loop, by number."""
        found = (statement for statement in statements(self.body) if isinstance(statement, Loop))
        return tuple(sorted(found, key=lambda loop: loop.number))

    @property
    def assertions(self) -> tuple[Assert, ...]:
        """Every assertion, in the order of the text."""
        return tuple(s for s in statements(self.body) if isinstance(s, Assert))


def statements(block: Block) -> Iterator[Statement]:
    """Yield every statement of a block, those inside others after them."""
    for statement in block:
        yield statement
        for part in parts(statement):
            yield from statements(part)


def parts(statement: Statement) -> tuple[Block, ...]:
    """The blocks inside a statement."""
    match statement:
        case Branch(then=then, otherwise=otherwise):
            return (then, otherwise)
        case Loop(body=body, step=step):
            return (body, step)
    return ()


def conditions(block: Block) -> Iterator[Expression]:
    """Yield guards, branch conditions, assumptions and assertions, in the order of the text."""
    for statement in statements(block):
        match statement:
            case Loop(guard=condition):
                yield condition
            case Assume(condition=condition) | Assert(condition=condition):
                yield condition
            case Branch(condition=condition):
                yield condition


def expressions_in(block: Block) -> Iterator[Expression]:
    """Yield every expression of a block: its conditions, and the values that it assigns."""
    yield from conditions(block)
    for statement in statements(block):
        if isinstance(statement, Assign):
            yield from (statement.target, statement.value)


def changed(block: Block) -> frozenset[str]:
    """The names of the variables and arrays that a block may change."""
    names = set()
    for statement in statements(block):
        match statement:
            case Assign(target=Identifier(name=name)) | Forget(name=name):
                names.add(name)
            case Assign(target=Element(array=name)):
                names.add(name)
    return frozenset(names)
