"""Names of a C text: what they stand for where they are used, and what the program calls it.

A program has one variable for every name. A second variable of the text with the same name, in an
inner scope or of another type, gets a name of its own in the program.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType

from llmchecker.programs.expressions import Constant, Expression, Identifier, Type


@dataclass(frozen=True)
class Variable:
    """An integer or an array.

    Attributes:
        name: the name that the program has for it.
    """

    name: str


@dataclass(frozen=True)
class Grid:
    """An array of arrays: the program has one array for it, row after row.

    Attributes:
        name: the name that the program has for it.
        sizes: the number of elements in each direction.
    """

    name: str
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Fields:
    """The type of a structure.

    Attributes:
        types: the type of every field, by name: integers and arrays of them.
    """

    types: Mapping[str, Type]


@dataclass(frozen=True)
class Structure:
    """A variable of a structure's type, or an array of them; each field is one of the program.

    Attributes:
        fields: its type.
        variables: the program's variable for every field, by the field's name. In an array, it is
            the array of this field of all elements.
        array: whether it is an array of structures.
    """

    fields: Fields
    variables: Mapping[str, str]
    array: bool = False


Target = Variable | Structure
"""What a pointer points to."""


def root_of(target: Target) -> str:
    """A variable of the program that belongs to one target alone."""
    return target.name if isinstance(target, Variable) else next(iter(target.variables.values()))


@dataclass
class Pointer:
    """A pointer, which is bound to one target where the text first gives it one.

    Attributes:
        name: its name in messages.
        kind: the type of what it may point to; None for `void`.
        around: the program's loops around its declaration, by number.
        within: the parts of the text, which may be passed over, around its declaration.
        state: the variable that tells whether it leads to its target, is null or neither; None
            where every run that uses it has given it its target.
        target: what it is bound to; None before.
        offset: its place in an array: 0, or a variable of the program.
        certain: the parts of the text, which may be passed over, in which it got its target.
    """

    name: str
    kind: Type | Fields | None
    around: tuple[int, ...]
    within: tuple[int, ...]
    state: Identifier | None = None
    target: Target | None = None
    offset: Constant | Identifier = field(default_factory=lambda: Constant(0))
    certain: tuple[int, ...] = ()

    @property
    def variables(self) -> tuple[str, ...]:
        """The program's variables that belong to it alone."""
        return tuple(v.name for v in (self.offset, self.state) if isinstance(v, Identifier))


@dataclass(frozen=True)
class Uncovered:
    """A type that is not covered, which matters only where it is used.

    Attributes:
        why: the error that says so.
    """

    why: Exception


Meaning = Variable | Grid | Structure | Pointer | Constant | Type | Fields | Uncovered
"""What a name stands for: a variable, a constant of an enumeration, or a type."""


class Names:
    """The names that can be used at the place that is being read.

    Attributes:
        types: the types of all variables of the program so far, by their names in it.
        renamed: whether a variable has another name in the program than in the text.
        around: the program's loops around the place, by number.
        allocated: the loops around the place where memory was allocated, by a variable in it.
        freed: of these variables, those whose memory was freed.
        automatic: the functions whose end frees memory that they allocated, by a variable in it.
        within: the parts of the text around the place that a run may pass over.

    Args:
        words: all words of the text, none of which becomes the name of something else.
    """

    def __init__(self, words: Collection[str]) -> None:
        self.types: dict[str, Type] = {}
        self.renamed = False
        self.around: list[int] = []
        self.allocated: dict[str, tuple[int, ...]] = {}
        self.freed: set[str] = set()
        self.automatic: dict[str, int] = {}
        self.within: tuple[int, ...] = ()
        self._parts = 0
        self._words = frozenset(words)
        # The scopes of every function that is being read, the caller's before the called one's.
        self._frames: list[list[dict[str, Meaning]]] = [[{}]]
        self._kept: set[str] = set()

    @property
    def outside(self) -> bool:
        """Whether the place is outside of all functions."""
        return len(self._frames) == 1 and len(self._frames[0]) == 1

    @contextmanager
    def perhaps(self) -> Iterator[None]:
        """A part of the text that a run may pass over, or leave before its end."""
        outer = self.within
        self._parts += 1
        self.within = (*outer, self._parts)
        yield
        self.within = outer

    def open(self) -> None:
        """Open a scope."""
        self._frames[-1].append({})

    def close(self) -> None:
        """Close the innermost scope."""
        self._frames[-1].pop()

    def enter(self) -> None:
        """Enter a function: of all names, only those outside of functions can be used in it."""
        self._frames.append([{}])

    def leave(self) -> None:
        """Leave the function that was entered last."""
        self._frames.pop()

    def meaning(self, name: str) -> Meaning | None:
        """What a name stands for here; None if it is not in scope."""
        for scope in (*reversed(self._frames[-1]), self._frames[0][0]):
            if name in scope:
                return scope[name]
        return None

    def in_innermost_scope(self, name: str) -> bool:
        """Whether the innermost scope declares the name."""
        return name in self._frames[-1][-1]

    @property
    def depth(self) -> int:
        """How many functions are being read, one inside the other."""
        return len(self._frames) - 1

    def outlives(self, pointer: Pointer, target: Target) -> bool:
        """Whether a pointer stays when its target is gone."""
        root = root_of(target)
        if root in self._kept:
            return False
        kept = [place for place, meaning in self._places() if meaning is pointer]
        ending = [place for place, meaning in self._places() if meaning == target]
        if root in self.automatic:
            ending.append((self.automatic[root], -1))
        return bool(kept and ending) and ending[-1] > kept[-1]

    def pointers_to(self, target: Target) -> list[Pointer]:
        """The pointers that are bound to a target."""
        meanings = (meaning for _, meaning in self._places())
        return [m for m in meanings if isinstance(m, Pointer) and m.target == target]

    def _places(self) -> Iterator[tuple[tuple[int, int], Meaning]]:
        """All that names mean, by the function and the scope in it."""
        for depth, frame in enumerate(self._frames):
            for number, scope in enumerate(frame):
                # What stands in the block of `main` stays as long as what stands outside of it.
                place = (depth, max(number - 1, 0) if depth == 0 else number)
                yield from ((place, meaning) for meaning in scope.values())

    def live(self) -> frozenset[str]:
        """The program's variables that have a meaning here or in a caller, or keep their values."""
        live = set(self._kept)
        for frame in self._frames:
            for scope in frame:
                for meaning in scope.values():
                    if isinstance(meaning, Pointer):
                        live.update(meaning.variables)
                        meaning = meaning.target
                    if isinstance(meaning, Variable | Grid):
                        live.add(meaning.name)
                    elif isinstance(meaning, Structure):
                        live.update(meaning.variables.values())
        return frozenset(live)

    def scope(self) -> tuple[str, ...]:
        """The names that an expression here can use, sorted; those of the compiler left out."""
        return tuple(sorted(self.live() - self._kept))

    def give(self, name: str, meaning: Meaning) -> None:
        """Give a name its meaning in the innermost scope."""
        self._frames[-1][-1][name] = meaning

    def declare(self, name: str, type_: Type, keeps: bool = False) -> str:
        """Declare a variable and return its name in the program.

        Args:
            keeps: whether the variable keeps its value when its scope is left (`static`).
        """
        known = self.types.get(name)
        own = name
        if known is not None and (known != type_ or name in self.live()):
            own = self.fresh(name)
            self.renamed = True
        self.types[own] = type_
        self.give(name, Variable(own))
        if keeps:
            self._kept.add(own)
        return own

    def made_structure(
        self, name: str, fields: Fields, length: Expression | None = None
    ) -> Structure:
        """A new structure, or an array of so many: a variable of the program for every field.

        Args:
            length: the number of structures; None for one alone.
        """
        variables = {}
        for part, type_ in fields.types.items():
            variables[part] = self.fresh(f"{name}_{part}")
            own = type_ if length is None else Type(type_.bits, type_.signed, length)
            self.types[variables[part]] = own
        self.renamed = True
        return Structure(fields, MappingProxyType(variables), length is not None)

    def length_of(self, name: str) -> Identifier:
        """A new variable for an array's length, with a name that C does not allow."""
        own, count = f"{name}.length", 1
        while own in self.types:
            count += 1
            own = f"{name}_{count}.length"
        self.types[own] = Type(64)
        return Identifier(own)

    def made(self, type_: Type, name: str) -> str:
        """A new variable of the program that only a pointer leads to, with a name like its own."""
        own = self.fresh(name) if name in self.types else name
        self.types[own] = type_
        self.renamed = True
        return own

    def temporary(self, type_: Type, name: str = "value") -> str:
        """A new variable of the program that the text has no name for."""
        own = self.fresh(name)
        self.types[own] = type_
        self._kept.add(own)
        self.renamed = True
        return own

    def fresh(self, name: str) -> str:
        """A name like the given one that neither the text nor the program uses."""
        own, count = name, 1
        while own in self._words or own in self.types:
            count += 1
            own = f"{name}_{count}"
        return own
