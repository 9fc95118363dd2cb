"""Declarations of C: types, constants and the scopes of their names."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pycparser import c_ast

from loop_invariants.execution.c_types import (
    BOOL,
    INT,
    VOID,
    Array,
    CType,
    FunctionType,
    Integer,
    PointerType,
    Record,
    UnsupportedC,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_BITS = {"char": 8, "short": 16, "int": 32, "long": 64}
_SIGNS = ("signed", "unsigned")


@dataclass
class Variable:
    """A variable.

    Attributes:
        type: type.
        slot: number among the variables of its function; None for one that lives as long as the
            run.
        obj: number of its object; 0 for a variable with a slot.
        is_const: whether it cannot be changed.
    """

    type: CType
    slot: int | None = None
    obj: int = 0
    is_const: bool = False


@dataclass(frozen=True)
class TypeName:
    """A name of a type."""

    type: CType


@dataclass(frozen=True)
class FunctionName:
    """A name of a function."""

    name: str
    type: FunctionType


_Symbol = Variable | TypeName | FunctionName | int


@dataclass(eq=False)
class Scope:
    """A scope of names.

    Attributes:
        parent: the scope around it; None at file scope.
        symbols: variables, functions, types and constants; None for a name without a meaning here.
        tags: structures, unions and enumerations.
        slots: slots and sizes of the variables that begin with the scope.
        late_slots: slots of the variables that begin later.
        has_variables: whether a run enters and leaves it.
    """

    parent: "Scope | None"
    symbols: dict[str, _Symbol | None] = field(default_factory=dict)
    tags: dict[str, Record] = field(default_factory=dict)
    slots: list[tuple[int, int]] = field(default_factory=list)
    late_slots: list[int] = field(default_factory=list)
    has_variables: bool = True

    def look_up(self, name: str) -> _Symbol | None:
        """Return the meaning of a name; None without one."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.symbols:
                return scope.symbols[name]
            scope = scope.parent
        return None

    def list_ancestors(self) -> "list[Scope]":
        """Return the scope and those around it, outermost last."""
        result: list[Scope] = []
        scope: Scope | None = self
        while scope is not None:
            result.append(scope)
            scope = scope.parent
        return result


class TypeReader:
    """A reader of types in the current scope.

    Attributes:
        scope: the current scope.
        fold_constant: evaluates an integer constant expression; None if it is not constant.
    """

    fold_constant: "Callable[[c_ast.Node], int | None]"

    def __init__(self) -> None:
        self.scope = Scope(None)

    def read_type(self, node: c_ast.Node) -> CType:
        """Read the type of a declaration or a type name.

        Raises:
            UnsupportedC: the type has no meaning here, such as a floating type.
        """
        match node:
            case c_ast.Typename() | c_ast.Decl() | c_ast.Typedef():
                if getattr(node, "align", None):
                    raise UnsupportedC("an alignment")
                return self.read_type(node.type)
            case c_ast.TypeDecl():
                return self._read_qualified(node)
            case c_ast.PtrDecl():
                if "volatile" in (node.quals or ()):
                    raise UnsupportedC("a volatile pointer")
                return PointerType(self.read_type(node.type))
            case c_ast.ArrayDecl():
                element = self.read_type(node.type)
                if node.dim is None:
                    return Array(element, None)
                length = self.fold_constant(node.dim)
                if length is not None and length < 0:
                    raise UnsupportedC("an array of a negative length")
                return Array(element, length)
            case c_ast.FuncDecl():
                return self._read_function(node)
            case c_ast.Struct() | c_ast.Union():
                return self._read_record(node)
            case c_ast.Enum():
                return self._read_enumeration(node)
            case c_ast.IdentifierType():
                return self._read_names(node)
        raise UnsupportedC(f"the type {type(node).__name__}")

    def _read_qualified(self, node: c_ast.TypeDecl) -> CType:
        type_ = self.read_type(node.type)
        if "_Atomic" in (node.quals or ()):
            raise UnsupportedC("an atomic type")
        if "volatile" in (node.quals or ()):
            if not isinstance(type_, Integer):
                raise UnsupportedC("a volatile variable that is no number")
            return Integer(type_.bits, type_.signed, type_.is_bool, is_volatile=True)
        return type_

    def _read_names(self, node: c_ast.IdentifierType) -> CType:
        names = list(node.names)
        if names == ["void"]:
            return VOID
        if names == ["_Bool"]:
            return BOOL
        if len(names) == 1 and isinstance(symbol := self.scope.look_up(names[0]), TypeName):
            return symbol.type
        kinds = [name for name in names if name in _BITS]
        signs = [name for name in names if name in _SIGNS]
        if not names or len(kinds) + len(signs) != len(names) or len(signs) > 1:
            raise UnsupportedC(f"the type {' '.join(names)}")
        shorts = [kind for kind in kinds if kind != "int"]
        kind = shorts[0] if shorts else "int"
        if set(shorts) - {kind}:
            raise UnsupportedC(f"the type {' '.join(names)}")
        return Integer(_BITS[kind], "unsigned" not in signs)

    def _read_function(self, node: c_ast.FuncDecl) -> FunctionType:
        result = self.read_type(node.type)
        if node.args is None:
            return FunctionType(result, None)
        parameters, is_variadic = [], False
        for parameter in node.args.params:
            if isinstance(parameter, c_ast.EllipsisParam):
                is_variadic = True
            elif isinstance(parameter, c_ast.ID):
                raise UnsupportedC("parameters without types")
            else:
                parameters.append(_decay(self.read_type(parameter.type)))
        if parameters == [VOID]:
            parameters = []
        return FunctionType(result, tuple(parameters), is_variadic)

    def _find_tag(self, name: str) -> Record | None:
        for scope in self.scope.list_ancestors():
            if name in scope.tags:
                return scope.tags[name]
        return None

    def _read_record(self, node: c_ast.Struct | c_ast.Union) -> Record:
        is_union = isinstance(node, c_ast.Union)
        if node.decls is None:
            known = self._find_tag(node.name)
            if known is None:
                known = self.scope.tags[node.name] = Record(is_union)
            return known
        record = self.scope.tags.get(node.name) if node.name else None
        if record is None or record.fields is not None:
            record = Record(is_union)
        if node.name:
            self.scope.tags[node.name] = record
        members: list[tuple[str, CType, int | None]] = []
        for member in node.decls:
            if not isinstance(member, c_ast.Decl):
                raise UnsupportedC("this part of a structure")
            type_, width = self.read_type(member.type), None
            if isinstance(type_, Array) and type_.length is None:
                raise UnsupportedC("a flexible array")
            if member.bitsize is not None:
                width = self.fold_constant(member.bitsize)
                is_narrow = isinstance(type_, Integer) and type_.bits <= 32
                if width is None or not is_narrow:
                    raise UnsupportedC("this bit-field")
            members.append((member.name or "", type_, width))
        record.define(members)
        return record

    def _read_enumeration(self, node: c_ast.Enum) -> Integer:
        if node.values is None:
            known = self.scope.look_up(f"enum {node.name}")
            if not isinstance(known, TypeName):
                raise UnsupportedC("an enumeration that is not defined")
            return known.type  # type: ignore[return-value]  # stored below
        value, values = 0, []
        for item in node.values.enumerators:
            if item.value is not None:
                number = self.fold_constant(item.value)
                if number is None:
                    raise UnsupportedC("an enumeration constant")
                value = number
            self.scope.symbols[item.name] = value
            values.append(value)
            value += 1
        if not all(INT.min_value <= number <= INT.max_value for number in values):
            raise UnsupportedC("a wide enumeration")
        # gcc takes `unsigned int` unless a constant is negative.
        result = Integer(32, signed=min(values) < 0)
        if node.name:
            self.scope.symbols[f"enum {node.name}"] = TypeName(result)
        return result


def _decay(type_: CType) -> CType:
    """Return the type of an array or function as a value or parameter: a pointer."""
    if isinstance(type_, Array):
        return PointerType(type_.element)
    if isinstance(type_, FunctionType):
        return PointerType(type_)
    return type_
