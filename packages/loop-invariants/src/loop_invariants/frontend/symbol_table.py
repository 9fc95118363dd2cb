"""Symbol table: scopes, meanings of names, and their program variables.

A program has one variable for every name. A second variable with the same name, in an inner scope
or of another type, gets a new name.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType

from loop_invariants.ir.expressions import Constant, Expression, Identifier, Type


@dataclass(frozen=True)
class MultiArray:
    """An array of arrays, as one array of the program in row-major order.

    Attributes:
        array: array of the program.
        sizes: number of elements in each dimension.
    """

    array: Identifier
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class StructType:
    """The type of a structure.

    Attributes:
        types: type of every field, by name: an integer or an array of integers.
    """

    types: Mapping[str, Type]


@dataclass(frozen=True)
class Structure:
    """A structure or an array of structures: one program variable for each field.

    Attributes:
        struct_type: type of the structure.
        variables: program variable of every field, by name of the field. For an array of
            structures, the variable is the array of this field of all elements.
        is_array: whether it is an array of structures.
    """

    struct_type: StructType
    variables: Mapping[str, Identifier]
    is_array: bool = False


Target = Identifier | Structure
"""Target of a pointer."""


def find_root(target: Target) -> Identifier:
    """Return a variable that belongs to one target only: itself, or its first field."""
    return next(iter(target.variables.values())) if isinstance(target, Structure) else target


def root_variable(target: Target) -> str:
    """Return the name of a variable that belongs to one target only."""
    return find_root(target).name


@dataclass
class Pointer:
    """A pointer, which is bound to one target at its first assignment.

    Attributes:
        name: name in messages.
        target_type: type of the target; None for `void`.
        loop_stack: numbers of the program's loops around the declaration.
        optional_regions: optional regions of the text around the declaration.
        is_read_only: whether the target is `const` for this pointer.
        state: variable with the state of the pointer: valid, null or uninitialized. None if every
            run that uses the pointer has set its target.
        target: target of the pointer; None before it is bound.
        offset: index in an array: 0, or a variable of the program.
        binding_regions: optional regions of the text in which the pointer was bound.
    """

    name: str
    target_type: Type | StructType | None
    loop_stack: tuple[int, ...]
    optional_regions: tuple[int, ...]
    is_read_only: bool = False
    state: Identifier | None = None
    target: Target | None = None
    offset: Constant | Identifier = field(default_factory=lambda: Constant(0))
    binding_regions: tuple[int, ...] = ()

    @property
    def variables(self) -> tuple[str, ...]:
        """Program variables that belong to the pointer only."""
        return tuple(v.name for v in (self.offset, self.state) if isinstance(v, Identifier))


@dataclass(frozen=True)
class UnsupportedType:
    """An unsupported type, which is an error only where it is used.

    Attributes:
        error: error to raise at the use.
    """

    error: Exception


Symbol = (
    Identifier | MultiArray | Structure | Pointer | Constant | Type | StructType | UnsupportedType
)
"""Meaning of a name: a variable, an enumeration constant, or a type."""


def _iter_variables(symbol: Symbol | None) -> Iterator[str]:
    """Yield the program variables that a symbol leads to."""
    match symbol:
        case Identifier(name=name):
            yield name
        case MultiArray(array=array):
            yield array.name
        case Structure(variables=variables):
            yield from (variable.name for variable in variables.values())
        case Pointer(target=target, variables=names):
            # Memory without a name is alive through the pointer.
            yield from (*names, *_iter_variables(target))


class SymbolTable:
    """The names in scope at the current position of the text.

    Attributes:
        types: types of all variables of the program so far, by name in the program.
        has_renames: whether a variable has another name in the program than in the text.
        loop_stack: numbers of the program's loops around the position.
        allocation_loops: loops around each allocation, by root variable of the memory.
        freed_variables: root variables of freed memory.
        constant_variables: root variables of what is declared `const`.
        automatic_depths: call depth of the function whose end frees the memory, by root variable.
        optional_regions: regions of the text around the position that a run may skip.

    Args:
        words: all words of the text; generated names differ from them.
    """

    def __init__(self, words: Collection[str]) -> None:
        self.types: dict[str, Type] = {}
        self.has_renames = False
        self.loop_stack: list[int] = []
        self.allocation_loops: dict[str, tuple[int, ...]] = {}
        self.freed_variables: set[str] = set()
        self.constant_variables: set[str] = set()
        self.automatic_depths: dict[str, int] = {}
        self.optional_regions: tuple[int, ...] = ()
        self._region_count = 0
        self._reserved_words = frozenset(words)
        # The scopes of every function on the call stack, the caller's before the callee's.
        self._frames: list[list[dict[str, Symbol]]] = [[{}]]
        # These variables keep their values when their scope is closed.
        self._persistent_names: set[str] = set()

    @property
    def is_global_scope(self) -> bool:
        """Whether the position is outside of all functions."""
        return len(self._frames) == 1 and len(self._frames[0]) == 1

    @contextmanager
    def optional_region(self) -> Iterator[None]:
        """Enter a region of the text that a run may skip, or leave before its end."""
        outer = self.optional_regions
        self._region_count += 1
        self.optional_regions = (*outer, self._region_count)
        yield
        self.optional_regions = outer

    def open_scope(self) -> None:
        """Open a scope."""
        self._frames[-1].append({})

    def close_scope(self) -> None:
        """Close the innermost scope."""
        self._frames[-1].pop()

    def enter_function(self) -> None:
        """Enter a function: only names outside of functions are in scope."""
        self._frames.append([{}])

    def leave_function(self) -> None:
        """Leave the function that was entered last."""
        self._frames.pop()

    def look_up(self, name: str) -> Symbol | None:
        """Return the meaning of a name; None if it is not in scope."""
        # A function does not see the scopes of its caller, only the outermost one.
        for scope in (*reversed(self._frames[-1]), self._frames[0][0]):
            if name in scope:
                return scope[name]
        return None

    def is_in_innermost_scope(self, name: str) -> bool:
        """Check that the innermost scope declares the name."""
        return name in self._frames[-1][-1]

    @property
    def call_depth(self) -> int:
        """Number of nested function calls at the position."""
        return len(self._frames) - 1

    def can_outlive(self, pointer: Pointer, target: Target) -> bool:
        """Check that a pointer can outlive its target."""
        root = root_variable(target)
        # A `static` or temporary variable never ends.
        if root in self._persistent_names:
            return False
        pointer_positions = [
            position for position, symbol in self._iter_symbols() if symbol is pointer
        ]
        target_positions = [
            position for position, symbol in self._iter_symbols() if symbol == target
        ]
        # `alloca` frees its memory at the end of the function.
        if root in self.automatic_depths:
            target_positions.append((self.automatic_depths[root], -1))
        return (
            bool(pointer_positions and target_positions)
            and target_positions[-1] > pointer_positions[-1]
        )

    def find_pointers(self, target: Target) -> list[Pointer]:
        """Return the pointers that are bound to a target."""
        symbols = (symbol for _, symbol in self._iter_symbols())
        return [m for m in symbols if isinstance(m, Pointer) and m.target == target]

    def _iter_symbols(self) -> Iterator[tuple[tuple[int, int], Symbol]]:
        """Yield all symbols with their call depth and scope number."""
        for depth, frame in enumerate(self._frames):
            for number, scope in enumerate(frame):
                # A variable in the block of `main` lives as long as a global one.
                position = (depth, max(number - 1, 0) if depth == 0 else number)
                yield from ((position, symbol) for symbol in scope.values())

    def collect_live_variables(self) -> frozenset[str]:
        """Return the program variables in scope here or in a caller, or persistent."""
        live_variables = set(self._persistent_names)
        for _, symbol in self._iter_symbols():
            live_variables.update(_iter_variables(symbol))
        return frozenset(live_variables)

    def collect_visible_variables(self) -> tuple[str, ...]:
        """Return the sorted names that an expression here can use."""
        return tuple(sorted(self.collect_live_variables() - self._persistent_names))

    def bind(self, name: str, symbol: Symbol) -> None:
        """Bind a name to a meaning in the innermost scope."""
        self._frames[-1][-1][name] = symbol

    def make_persistent(self, symbol: Symbol) -> None:
        """Keep the variables of a symbol, which is `static`, alive after its scope."""
        self._persistent_names.update(_iter_variables(symbol))

    def declare(self, name: str, type_: Type) -> Identifier:
        """Declare a variable of the text and return it."""
        known_type = self.types.get(name)
        unique_name = name
        # A variable that is still alive, or has another type, keeps the name.
        if known_type is not None and (
            known_type != type_ or name in self.collect_live_variables()
        ):
            unique_name = self.build_fresh_name(name)
            self.has_renames = True
        variable = self._create(unique_name, type_)
        self.bind(name, variable)
        return variable

    def create_structure(
        self, name: str, struct_type: StructType, length: Expression | None = None
    ) -> Structure:
        """Create a structure, or an array of them: one variable for each field.

        Args:
            name: name of the structure.
            struct_type: type of the structure.
            length: number of structures; None for a single structure.
        """
        # No name of the text refers to a field's variable.
        variables = {}
        for field_name, type_ in struct_type.types.items():
            unique_name = self.build_fresh_name(f"{name}_{field_name}")
            field_type = type_ if length is None else type_.to_array(length)
            variables[field_name] = self._create(unique_name, field_type)
        self.has_renames = True
        return Structure(struct_type, MappingProxyType(variables), length is not None)

    def create_length_variable(self, name: str) -> Identifier:
        """Create a variable for an array's length, with a name that is not valid in C."""
        unique_name, count = f"{name}.length", 1
        while unique_name in self.types:
            count += 1
            unique_name = f"{name}_{count}.length"
        return self._create(unique_name, Type(64))

    def create_variable(self, type_: Type, name: str) -> Identifier:
        """Create a variable that only a pointer refers to, named after the pointer."""
        self.has_renames = True
        unique_name = self.build_fresh_name(name) if name in self.types else name
        return self._create(unique_name, type_)

    def create_temporary(self, type_: Type, name: str = "value") -> Identifier:
        """Create a variable without a name in the text."""
        unique_name = self.build_fresh_name(name)
        self._persistent_names.add(unique_name)
        self.has_renames = True
        return self._create(unique_name, type_)

    def _create(self, name: str, type_: Type) -> Identifier:
        self.types[name] = type_
        return Identifier(name, type_)

    def build_fresh_name(self, name: str) -> str:
        """Build a name similar to the given one, unused by the text and the program."""
        fresh_name, count = name, 1
        while fresh_name in self._reserved_words or fresh_name in self.types:
            count += 1
            fresh_name = f"{name}_{count}"
        return fresh_name
