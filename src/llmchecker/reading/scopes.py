"""Names of a C text: what they stand for where they are used, and what the program calls it.

A program has one variable for every name. A second variable of the text with the same name, in an
inner scope or of another type, gets a name of its own in the program.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from llmchecker.programs.expressions import Constant, Type


@dataclass(frozen=True)
class Variable:
    """An integer or an array.

    Attributes:
        name: the name that the program has for it.
    """

    name: str


@dataclass(frozen=True)
class Fields:
    """The type of a structure.

    Attributes:
        types: the type of every field, by name.
    """

    types: Mapping[str, Type]


@dataclass(frozen=True)
class Structure:
    """A variable of a structure's type; each field is a variable of the program.

    Attributes:
        variables: the program's variable for every field, by the field's name.
    """

    variables: Mapping[str, str]


Meaning = Variable | Structure | Constant | Type | Fields
"""What a name stands for: a variable, a constant of an enumeration, or a type."""


class Names:
    """The names that can be used at the place that is being read.

    Attributes:
        types: the types of all variables of the program so far, by their names in it.
        renamed: whether a variable has another name in the program than in the text.

    Args:
        words: all words of the text, none of which becomes the name of something else.
    """

    def __init__(self, words: Collection[str]) -> None:
        self.types: dict[str, Type] = {}
        self.renamed = False
        self._words = frozenset(words)
        # The scopes of every function that is being read, the caller's before the called one's.
        self._frames: list[list[dict[str, Meaning]]] = [[{}]]
        self._kept: set[str] = set()

    @property
    def outside(self) -> bool:
        """Whether the place is outside of all functions."""
        return len(self._frames) == 1 and len(self._frames[0]) == 1

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

    def live(self) -> frozenset[str]:
        """The program's variables that have a meaning here or in a caller, or keep their values."""
        live = set(self._kept)
        for frame in self._frames:
            for scope in frame:
                for meaning in scope.values():
                    if isinstance(meaning, Variable):
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

    def declare_structure(self, name: str, fields: Fields) -> Structure:
        """Declare a variable of a structure's type: a variable of the program for every field."""
        variables = {}
        for field, type_ in fields.types.items():
            variables[field] = self.fresh(f"{name}_{field}")
            self.types[variables[field]] = type_
        structure = Structure(MappingProxyType(variables))
        self.give(name, structure)
        self.renamed = True
        return structure

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
