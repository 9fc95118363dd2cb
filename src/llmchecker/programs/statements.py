"""Programs: structured transition systems over integer variables and arrays.

A program is a sequence of guarded commands: assignments, assumptions, assertions, branches and
loops. Loops are numbered from 0 on in the order of the text. No expression has side effects.
`parsing` makes programs from C.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from llmchecker.programs.expressions import Element, Expression, Identifier, Type


@dataclass(frozen=True)
class Assign:
    """The variable or array element gets the value, converted to its type.

    Attributes:
        target: what gets the value.
        value: the value.
        line: its line in the source; 0 where no line has it. It makes no difference to equality.
    """

    target: Identifier | Element
    value: Expression
    line: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True)
class Forget:
    """The variable, or every element of the array, gets an arbitrary value of its type."""

    name: str


@dataclass(frozen=True)
class Assume:
    """A run goes on only if the condition holds; the line is as in `Assign`."""

    condition: Expression
    line: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True)
class Assert:
    """The condition must hold.

    Attributes:
        condition: what must hold.
        line: its line in the source; 0 for what C demands without a statement. None where C
            says nothing of a run that lacks it, but a compiled program goes on: such a run ends
            without a violation, and a proof must still show that there is none.
    """

    condition: Expression
    line: int | None


@dataclass(frozen=True)
class Branch:
    """The run goes through one block if the condition holds, through the other if it does not.

    The line is as in `Assign`.
    """

    condition: Expression
    then: "Block"
    otherwise: "Block"
    line: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True)
class Loop:
    """While the guard holds, the body runs and then the step.

    Attributes:
        number: the loop's place among the loops of the text, from 0 on.
        line: the loop's line in the source.
        guard: the condition to go on.
        body: what each iteration does.
        step: the third part of a `for`, which `continue` reaches too; empty for other loops.
        scope: the names that an expression just before the loop can use, sorted.
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
class Labelled:
    """A block that `Leave` may leave; the run goes on behind it, as at its end.

    Attributes:
        label: a name that no other block of the program has.
        body: the statements in it.
    """

    label: str
    body: "Block"


@dataclass(frozen=True)
class Leave:
    """Leave the block around it that has this label, and all loops inside that block."""

    label: str


@dataclass(frozen=True)
class Stop:
    """The run ends; no assertion can fail in it any more."""


Statement = (
    Assign | Forget | Assume | Assert | Branch | Loop | Break | Continue | Labelled | Leave | Stop
)
Block = tuple[Statement, ...]


@dataclass(frozen=True)
class Program:
    """A program.

    Attributes:
        name: the name that tables and messages use.
        source: the C text.
        types: the type of every variable, by name.
        body: all statements, from the first that runs on.
        lowered: whether its loops or variables are not those of the C text, one by one.
        ranges: whether a run violates the program that leaves the range of an array, a divisor or a
            shift. Where it does not, such a run only ends: C says nothing of how it goes on.
    """

    name: str
    source: str
    types: Mapping[str, Type]
    body: Block
    lowered: bool = False
    ranges: bool = True

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
    """Yield every statement of a block; each comes before the statements inside it."""
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
        case Labelled(body=body):
            return (body,)
    return ()


def conditions(block: Block) -> Iterator[Expression]:
    """Yield the guards, branch conditions, assumptions and assertions in the order of the text."""
    for statement in statements(block):
        match statement:
            case Loop(guard=condition):
                yield condition
            case Assume(condition=condition) | Assert(condition=condition):
                yield condition
            case Branch(condition=condition):
                yield condition


def expressions_in(block: Block) -> Iterator[Expression]:
    """Yield every expression of a block: its conditions, then the targets and values it assigns."""
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
