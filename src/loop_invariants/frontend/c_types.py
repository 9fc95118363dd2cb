"""Types of C: of declarations, structures and type names of one text.

The frontend's own types cover integers and arrays only. These cover all of C that a verifier alone
may prove: integers, pointers, arrays, functions, structures and unions.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from pycparser import c_ast

from loop_invariants.frontend.syntax_tree import iter_nodes

_SIZES = {"_Bool": 1, "char": 1, "short": 2, "int": 4, "enum": 4, "long": 8}
"""Sizes of the integers in bytes, by the last word of their names."""


class Kind(StrEnum):
    """A kind of type."""

    NUMBER = "number"
    POINTER = "pointer"
    ARRAY = "array"
    FUNCTION = "function"
    STRUCTURE = "structure"
    UNION = "union"
    VOID = "void"


@dataclass(frozen=True)
class CType:
    """A type of C.

    Attributes:
        kind: the kind.
        name: words of an integer type, or the key of a structure or union; empty for others.
        target: type of a pointer's target, an array's elements or a function's result.
        is_constant: whether the type has the qualifier `const`.
    """

    kind: Kind
    name: str = ""
    target: "CType | None" = None
    is_constant: bool = False

    @property
    def unqualified(self) -> "CType":
        """The type without its own `const`."""
        return replace(self, is_constant=False)


VOID = CType(Kind.VOID)
INT = CType(Kind.NUMBER, "int")
LONG = CType(Kind.NUMBER, "long")
CONSTANT_CHAR = CType(Kind.NUMBER, "char", is_constant=True)


class Obstacle(Exception):
    """A construct for which the verdict of a verifier alone is no proof.

    Attributes:
        construct: name of the construct, with its line.
    """

    def __init__(self, construct: str, node: c_ast.Node | None = None) -> None:
        super().__init__(construct)
        self.construct = construct if node is None else format_construct(construct, node)


def format_construct(construct: str, node: c_ast.Node) -> str:
    """Add the line of a node to the name of a construct."""
    # Nodes of lists have no coordinates, but their items have.
    while getattr(node, "coord", None) is None and (children := node.children()):
        node = children[0][1]
    return f"{construct} in line {node.coord.line}" if node.coord else construct


class TypeTable:
    """The type names and structures of one text.

    Args:
        unit: syntax tree of the text.
    """

    def __init__(self, unit: c_ast.FileAST) -> None:
        self._typedefs: dict[str, list[c_ast.Typedef]] = defaultdict(list)
        self._tagged: dict[str, list[c_ast.Struct | c_ast.Union]] = defaultdict(list)
        for node in iter_nodes(unit, (c_ast.Typedef, c_ast.Struct, c_ast.Union)):
            if isinstance(node, c_ast.Typedef):
                self._typedefs[node.name].append(node)
            elif node.decls is not None:
                self._tagged[_build_key(node)].append(node)

    def resolve(self, node: c_ast.Node) -> CType:
        """Return the type of a declaration or a type name.

        Raises:
            Obstacle: the type is no integer, pointer, array, function, structure or union.
        """
        match node:
            case c_ast.Decl() | c_ast.Typename() | c_ast.Typedef():
                return self.resolve(node.type)
            case c_ast.TypeDecl(type=inner, quals=qualifiers):
                type_ = self.resolve(inner)
                return add_const(type_) if "const" in qualifiers else type_
            case c_ast.PtrDecl(type=inner, quals=qualifiers):
                if "restrict" in qualifiers:
                    raise Obstacle("the qualifier restrict", node)
                return CType(
                    Kind.POINTER, target=self.resolve(inner), is_constant="const" in qualifiers
                )
            case c_ast.ArrayDecl(type=inner):
                return CType(Kind.ARRAY, target=self.resolve(inner))
            case c_ast.FuncDecl(type=inner):
                return CType(Kind.FUNCTION, target=self.resolve(inner))
            case c_ast.Enum():
                return CType(Kind.NUMBER, "enum")
            case c_ast.Struct():
                return CType(Kind.STRUCTURE, _build_key(node))
            case c_ast.Union():
                return CType(Kind.UNION, _build_key(node))
            case c_ast.IdentifierType(names=names):
                return self._resolve_words(node, names)
        raise Obstacle("a type that is not known", node)

    def resolve_parameter(self, node: c_ast.Node) -> CType:
        """Return the type of a parameter: an array is a pointer there (C11 6.7.6.3p7)."""
        if isinstance(node.type, c_ast.ArrayDecl) and node.type.dim_quals:
            raise Obstacle("a qualifier of an array", node)
        type_ = self.resolve(node)
        return decay(type_) if type_.kind in (Kind.ARRAY, Kind.FUNCTION) else type_

    def _resolve_words(self, node: c_ast.IdentifierType, names: list[str]) -> CType:
        definitions = self._typedefs.get(names[0], ())
        if definitions:
            types = {self.resolve(definition) for definition in definitions}
            # The name may have another type in another block.
            if len(types) > 1:
                raise Obstacle(f"the type name {names[0]} with two types", node)
            return types.pop()
        if names == ["void"]:
            return VOID
        if {"float", "double"} & set(names):
            raise Obstacle("floating point", node)
        bases = [name for name in names if name not in ("signed", "unsigned", "int")] or ["int"]
        if not set(bases) <= set(_SIZES):
            raise Obstacle(f"the type {' '.join(names)}", node)
        # `char` is another type than `signed char`, and `int` than `long` (C11 6.2.5p14).
        is_signed_char = bases == ["char"] and "signed" in names
        sign = ["unsigned"] if "unsigned" in names else ["signed"] * is_signed_char
        return CType(Kind.NUMBER, " ".join([*sign, *bases]))

    def find_members(self, type_: CType, node: c_ast.Node | None) -> dict[str, c_ast.Decl]:
        """Return the members of a structure or union, by name, in order.

        Args:
            type_: the structure or union.
            node: the use of the type, for messages; None without one.
        """
        definitions = self._tagged.get(type_.name, ())
        # A tag may have another definition in another block.
        if len(definitions) != 1:
            raise Obstacle("a structure without one definition", node)
        members = {member.name: member for member in definitions[0].decls}
        if None in members:
            raise Obstacle("a member without a name", node)
        return members

    def iter_scalars(self, type_: CType, node: c_ast.Node | None) -> Iterator[CType]:
        """Yield the scalar types in a type, each at least once."""
        if type_.kind in (Kind.STRUCTURE, Kind.UNION):
            for member in self.find_members(type_, node).values():
                yield from self.iter_scalars(self.resolve(member), node)
        elif type_.kind is Kind.ARRAY:
            yield from self.iter_scalars(type_.target, node)
        else:
            yield type_

    def check_union(self, type_: CType, node: c_ast.Node) -> None:
        """Check that the members of a union are the same bytes, and have no padding.

        Other bytes than those of the assigned member have unspecified values (C11 6.2.6.1p7).
        """
        members = self.find_members(type_, node).values()
        if len(members) < 2:
            return
        sizes = {self._measure_number(member) for member in members}
        if len(sizes) > 1 or None in sizes:
            raise Obstacle("a union whose members are no integers of one size", node)

    def _measure_number(self, member: c_ast.Decl) -> int | None:
        """Return the size of an integer or an array of integers in bytes; None for others."""
        count, node = 1, member.type
        while isinstance(node, c_ast.ArrayDecl):
            if not isinstance(node.dim, c_ast.Constant) or not node.dim.value.isdecimal():
                return None
            count, node = count * int(node.dim.value), node.type
        type_ = self.resolve(node)
        # Not every byte is a truth value.
        if type_.kind is not Kind.NUMBER or type_.name == "_Bool" or member.bitsize is not None:
            return None
        return count * _SIZES[type_.name.split()[-1]]


def add_const(type_: CType) -> CType:
    """Return a type with `const`, which an array gives to its elements (C11 6.7.3p9)."""
    if type_.kind is Kind.ARRAY:
        return replace(type_, target=add_const(type_.target))
    return replace(type_, is_constant=True)


def decay(type_: CType) -> CType:
    """Return the type of a value: arrays and functions become pointers (C11 6.3.2.1)."""
    if type_.kind is Kind.ARRAY:
        return CType(Kind.POINTER, target=type_.target)
    return CType(Kind.POINTER, target=type_) if type_.kind is Kind.FUNCTION else type_.unqualified


def _build_key(node: c_ast.Struct | c_ast.Union) -> str:
    # A structure without a tag differs from every other one.
    return node.name or f"without a tag {id(node)}"
