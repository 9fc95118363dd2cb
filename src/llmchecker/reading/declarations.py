"""Declarations of C: types, variables and what they are given at first."""

import re
from collections.abc import Callable, Sequence
from math import prod

from pycparser import c_ast

from llmchecker.errors import UnsupportedProgram
from llmchecker.programs.expressions import (
    INT,
    Binary,
    Constant,
    Element,
    Expression,
    Identifier,
    Type,
)
from llmchecker.programs.statements import Assert, Assign, Block, Forget, Statement
from llmchecker.reading.c_expressions import NONDET
from llmchecker.reading.effects import EffectReader
from llmchecker.reading.known_functions import KNOWN
from llmchecker.reading.scopes import Fields, Grid, Meaning, Names, Structure, Uncovered, Variable
from llmchecker.translating.evaluations import folded
from llmchecker.translating.syntax import integer_type, nodes_in

_LARGEST_LIST = 64
"""The most elements that an initialisation may set: each becomes an assignment of its own."""

_OF_LIBRARY = re.compile(
    r"_(IO|dl|nl|sys|rtld|obstack|libc|r|h)_\w*|_res|_environ|_end|_edata|_etext|_init|_fini|_start"
    r"|_exit|_tolower|_toupper|_DYNAMIC|_GLOBAL_OFFSET_TABLE_|__\w*(libc|start|end|environ|data)\w*"
    r"|environ|signgam|timezone|daylight|tzname|stdin|stdout|stderr|optarg|optind|opterr|optopt"
    r"|program_invocation_\w+|errno"
)
"""Variables of the C library, which runs code of its own before `main`."""

_KINDS = {
    c_ast.PtrDecl: "a pointer",
    c_ast.ArrayDecl: "an array of arrays",
    c_ast.Union: "a union",
    c_ast.FuncDecl: "a function inside a function",
}


class DeclarationReader:
    """Reads the declarations of one file.

    Args:
        names: gets what is declared.

    Attributes:
        reader: reads the expressions in declarations; it is set before anything is read, since it
            reads the names of types by this object.
        pointer: reads the declaration of a pointer; it is set then too.
        statics: statements that give `static` variables their values, before the program starts.
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self.reader: EffectReader
        self.pointer: Callable[[c_ast.Decl, bool], Block]
        self.statics: list[Statement] = []
        self._kept: dict[int, Meaning] = {}  # what `static` names mean, by their declaration

    def type_named(self, node: c_ast.Node) -> Type:
        """The integer type, or the array of one, that a type's name stands for.

        Raises:
            UnsupportedProgram: it stands for another type.
        """
        if isinstance(node, c_ast.ArrayDecl) and node.dim is not None:
            element = self.type_named(node.type)
            length = folded(self.reader.read(node.dim), self._names.types)
            if not element.array and length is not None and length > 0:
                return Type(element.bits, element.signed, Constant(length))
        type_ = self.kind_named(node)
        if isinstance(type_, Fields):
            raise self._unsupported(node, "a structure as a type")
        return type_

    def kind_named(self, node: c_ast.Node) -> Type | Fields:
        """The integer type or the structure that a type's name stands for."""
        return self._type(node)

    def typedef(self, node: c_ast.Typedef) -> None:
        """Read a typedef; one of a type that is not covered is refused where it is used."""
        try:
            meaning = self._type(node.type)
        except UnsupportedProgram as error:
            meaning = Uncovered(error)
        self._names.give(node.name, meaning)

    def declare(self, node: c_ast.Decl, constants_only: bool = False) -> Block:
        """The statements that give a new variable its value.

        Args:
            constants_only: whether the variable stands outside of functions, so that it is 0 unless
                it is given a constant.
        """
        if isinstance(node.type, c_ast.FuncDecl):
            return ()
        if node.name is None:
            self._tagged(node)
            return ()
        self._refuse_storage(node, constants_only)
        if constants_only and self._names.in_innermost_scope(node.name) and node.init is None:
            return self._again(node)
        if isinstance(node.type, c_ast.PtrDecl) and (constants_only or not node.storage):
            return self.pointer(node, constants_only)
        if "static" in node.storage and not constants_only:
            return self._static(node)
        return self._declared(node, zero=constants_only)

    def _again(self, node: c_ast.Decl) -> Block:
        """A second declaration of a variable outside of functions (C11 6.9.2)."""
        known = self._names.meaning(node.name)
        same = isinstance(known, Variable) and self._names.types[known.name] == integer_type(
            node.type
        )
        if not same:
            raise self._unsupported(node, f"a second {node.name!r} in one scope")
        return ()

    def _tagged(self, node: c_ast.Decl) -> None:
        """Read a structure or an enumeration without a variable."""
        told = getattr(node.type, "decls", None) is not None
        if not isinstance(node.type, c_ast.Struct | c_ast.Union):
            self._type(node)
        elif told:
            try:
                self._type(node)
            except UnsupportedProgram as error:
                word = "struct" if isinstance(node.type, c_ast.Struct) else "union"
                self._names.give(f"{word} {node.type.name}", Uncovered(error))

    def _unsupported(self, node: c_ast.Node, what: str) -> Exception:
        return self.reader.unsupported(node, what)

    def _type(self, node: c_ast.Node) -> Type | Fields:
        """The type that a declaration names."""
        known = integer_type(node)
        if known is not None:
            return known
        inner = node.type if isinstance(node, c_ast.TypeDecl | c_ast.Decl) else node
        match inner:
            case c_ast.IdentifierType(names=[name]):
                meaning = self._names.meaning(name)
                if isinstance(meaning, Type | Fields):
                    return meaning
                if isinstance(meaning, Uncovered):
                    raise meaning.why
            case c_ast.Enum():
                return self._enumeration(inner)
            case c_ast.Struct():
                return self._structure(inner)
        if isinstance(inner, c_ast.IdentifierType):
            raise self._unsupported(node, f"the type {' '.join(inner.names)}")
        raise self._unsupported(node, _KINDS.get(type(inner), "a type that is no integer"))

    def _enumeration(self, node: c_ast.Enum) -> Type:
        if node.values is None:
            known = self._names.meaning(f"enum {node.name}")
            if not isinstance(known, Type):
                raise self._unsupported(node, f"an enumeration {node.name!r} without values")
            return known
        value, negative = -1, False
        for enumerator in node.values.enumerators:
            if enumerator.value is None:
                value += 1
            else:
                value = self._constant(enumerator.value)
            if not INT.least <= value <= INT.most:
                raise self._unsupported(enumerator, f"{enumerator.name!r} beyond an int")
            negative = negative or value < 0
            self._names.give(enumerator.name, Constant(value))
        type_ = Type(32, signed=negative)
        # Which integer type an enumeration has, the compiler decides (C11 6.7.2.2p4); gcc takes an
        # unsigned one where no constant is negative.
        if node.name is not None:
            self._names.give(f"enum {node.name}", type_)
        return type_

    def _constant(self, node: c_ast.Node) -> int:
        """The value of a constant expression of literals."""
        value = folded(self.reader.read(node), self._names.types)
        if value is None:
            raise self._unsupported(node, "a constant that is no number")
        return value

    def _structure(self, node: c_ast.Struct) -> Fields:
        tag = f"struct {node.name}"
        if node.decls is None:
            known = self._names.meaning(tag)
            if isinstance(known, Uncovered):
                raise known.why
            if not isinstance(known, Fields):
                raise self._unsupported(node, f"a structure {node.name!r} of unknown fields")
            return known
        types = {}
        for field in node.decls:
            type_ = self.type_named(field.type)
            if field.bitsize is not None or field.quals or field.align:
                raise self._unsupported(
                    node, f"the field {field.name!r}, which is no plain integer,"
                )
            types[field.name] = type_
        fields = Fields(types)
        if node.name is not None:
            self._names.give(tag, fields)
        return fields

    def _refuse_storage(self, node: c_ast.Decl, outside: bool) -> None:
        """Refuse variables that others may set (`volatile`) or that lie in another file."""
        words = {*node.quals, *node.storage} - {"const", "auto", "register", "static"}
        if words or node.align:
            what = " ".join(sorted(words)) or "an alignment"
            raise self._unsupported(node, f"{what} for {node.name!r}")

    def _static(self, node: c_ast.Decl) -> Block:
        """A `static` variable gets its value once, before the program starts (C11 6.2.4p3)."""
        if id(node) not in self._kept:
            self.statics += self._declared(node, zero=True, keeps=True)
            self._kept[id(node)] = self._names.meaning(node.name)
        # Where a function is read again, it is the same variable.
        self._names.give(node.name, self._kept[id(node)])
        return ()

    def _declared(self, node: c_ast.Decl, zero: bool, keeps: bool = False) -> Block:
        type_, length = node.type, None
        before: Block = ()
        if isinstance(type_, c_ast.ArrayDecl) and isinstance(type_.type, c_ast.ArrayDecl):
            return self._declared_grid(node, zero, keeps)
        if any(use.name == node.name for use in nodes_in(node.type, (c_ast.ID,))) or (
            node.init and any(use.name == node.name for use in nodes_in(node.init, (c_ast.ID,)))
        ):
            # The name is in scope already, and has no value yet (C11 6.2.1p7).
            raise self._unsupported(node, f"{node.name!r} in its own declaration")
        if isinstance(type_, c_ast.ArrayDecl):
            length, before = self._length(node)
            type_ = type_.type
        element = self._type(type_)
        if isinstance(element, Fields):
            return (*before, *self._declared_structure(node, element, length, zero or keeps))
        if length is None and node.init is not None:
            given = self.reader.evaluated(node.init)
            if zero and folded(given.value, self._names.types) is None:
                raise self._unsupported(node, "a first value that is no constant")
            name = self._named(node, element, keeps)
            return (*before, *given.before, Assign(Identifier(name), given.value))
        if length is None:
            name = self._named(node, element, keeps)
            return (*before, Assign(Identifier(name), Constant(0)) if zero else Forget(name))
        listed, values = self._array_values(node, length, zero)
        name = self._named(node, Type(element.bits, element.signed, length), keeps)
        if values is None:
            return (*before, Forget(name))
        given = (Assign(Element(name, Constant(i)), value) for i, value in enumerate(values))
        return (*before, *listed, *given)

    def _named(self, node: c_ast.Decl, type_: Type, keeps: bool = False) -> str:
        """The program's name of a new variable."""
        name = node.name
        if name in KNOWN or name.startswith(NONDET):
            raise self._unsupported(node, f"a variable {name!r}, which is a known function,")
        if _OF_LIBRARY.fullmatch(name) and self._names.outside:
            raise self._unsupported(node, f"the reserved name {name!r} outside of functions")
        if self._names.in_innermost_scope(name):
            raise self._unsupported(node, f"a second {name!r} in one scope")
        return self._names.declare(name, type_, keeps)

    def _declared_structure(
        self, node: c_ast.Decl, fields: Fields, length: Expression | None, zero: bool
    ) -> Block:
        arrays = any(type_.array for type_ in fields.types.values())
        if length is not None or arrays:
            return self._declared_arrays(node, fields, length, zero)
        before, values = self._given_to_fields(node, fields, zero)
        structure = self._names.made_structure(node.name, fields)
        self._names.give(node.name, structure)
        names = structure.variables.values()
        if values is None:
            return tuple(Forget(name) for name in names)
        given = (Assign(Identifier(n), v) for n, v in zip(names, values, strict=True))
        return (*before, *given)

    def _declared_arrays(
        self, node: c_ast.Decl, fields: Fields, length: Expression | None, zero: bool
    ) -> Block:
        """An array of structures, or a structure with arrays; it gets no values but zeros."""
        arrays = any(type_.array for type_ in fields.types.values())
        if arrays and length is not None:
            raise self._unsupported(node, "an array of structures with arrays")
        if node.init is not None:
            of = "a structure with arrays" if length is None else "an array of structures"
            raise self._unsupported(node, f"{of} with first values")
        structure = self._names.made_structure(node.name, fields, length)
        self._names.give(node.name, structure)
        names = structure.variables.values()
        if not zero:
            return tuple(Forget(name) for name in names)
        zeros: list[Statement] = []
        for name in names:
            type_ = self._names.types[name]
            if not type_.array:
                zeros.append(Assign(Identifier(name), Constant(0)))
                continue
            count = len(self._array_values(node, type_.length, zero=True)[1])
            zeros += [Assign(Element(name, Constant(i)), Constant(0)) for i in range(count)]
        return tuple(zeros)

    def _declared_grid(self, node: c_ast.Decl, zero: bool, keeps: bool) -> Block:
        """An array of arrays: one array of the program, row after row."""
        sizes: list[int] = []
        type_ = node.type
        while isinstance(type_, c_ast.ArrayDecl):
            sizes.append(0 if type_.dim is None else self._constant(type_.dim))
            type_ = type_.type
        if min(sizes) <= 0:
            raise self._unsupported(node, "an array of arrays of an open length")
        element = self._type(type_)
        if isinstance(element, Fields):
            raise self._unsupported(node, "an array of arrays of structures")
        length = Constant(prod(sizes))
        before: Block = ()
        values: Sequence[Expression] | None = None
        if zero or node.init is not None:
            if length.value > _LARGEST_LIST:
                what = f"giving values to more than {_LARGEST_LIST} elements"
                raise self._unsupported(node, what)
            before, values = self.reader.evaluated_each(self._rows(node, node.init, sizes))
        name = self._named(node, Type(element.bits, element.signed, length), keeps)
        self._names.give(node.name, Grid(name, tuple(sizes)))
        self._names.renamed = True
        if values is None:
            return (Forget(name),)
        given = (Assign(Element(name, Constant(i)), value) for i, value in enumerate(values))
        return (*before, *given)

    def _rows(
        self, node: c_ast.Decl, init: c_ast.Node | None, sizes: Sequence[int]
    ) -> list[c_ast.Node]:
        """What each element of an array of arrays gets, by its lists of values, row after row."""
        if not sizes:
            if isinstance(init, c_ast.InitList | c_ast.NamedInitializer):
                raise self._unsupported(node, "such a list of values")
            return [init or c_ast.Constant("int", "0", node.coord)]
        if init is not None and not isinstance(init, c_ast.InitList):
            raise self._unsupported(node, "an array that is not given a list of values")
        given = init.exprs if init is not None else []
        if len(given) > sizes[0]:
            raise self._unsupported(node, "more values than elements")
        rows = [*given, *[None] * (sizes[0] - len(given))]
        return [value for row in rows for value in self._rows(node, row, sizes[1:])]

    def _given_to_fields(
        self, node: c_ast.Decl, fields: Fields, zero: bool
    ) -> tuple[Block, list[Expression] | None]:
        """What the fields of a structure get at first; None if their values are open."""
        if isinstance(node.init, c_ast.ID):
            meaning = self._names.meaning(node.init.name)
            if isinstance(meaning, Structure) and meaning.fields == fields and not meaning.array:
                return (), [Identifier(name) for name in meaning.variables.values()]
        if node.init is None:
            return (), [Constant(0)] * len(fields.types) if zero else None
        before, listed = self._listed(node)
        return before, [*listed, *[Constant(0)] * (len(fields.types) - len(listed))]

    def _length(self, node: c_ast.Decl) -> tuple[Expression, Block]:
        """An array's number of elements, and statements that keep it if only a run can tell it."""
        if node.type.dim is None:
            if not isinstance(node.init, c_ast.InitList):
                raise self._unsupported(node, "an array without a length")
            return Constant(len(node.init.exprs)), ()
        length = self.reader.evaluated(node.type.dim)
        known = folded(length.value, self._names.types)
        if known is not None and known > 0:
            return Constant(known), ()
        kept = self._names.length_of(node.name)
        # An array must have an element: C leaves undefined what follows otherwise (C11 6.7.6.2).
        positive = Assert(Binary(">", kept, Constant(0)), 0)
        return kept, (*length.before, Assign(kept, length.value), positive)

    def _array_values(
        self, node: c_ast.Decl, length: Expression, zero: bool
    ) -> tuple[Block, Sequence[Expression] | None]:
        """What the elements of an array get at first; None if their values are open."""
        if node.init is None and not zero:
            return (), None
        before, listed = ((), []) if node.init is None else self._listed(node)
        if not isinstance(length, Constant) or length.value > _LARGEST_LIST:
            raise self._unsupported(node, f"giving values to more than {_LARGEST_LIST} elements")
        return before, [*listed, *[Constant(0)] * (length.value - len(listed))]

    def _listed(self, node: c_ast.Decl) -> tuple[Block, list[Expression]]:
        """What a list of values does, and the values."""
        if not isinstance(node.init, c_ast.InitList):
            raise self._unsupported(node, "an array that is not given a list of values")
        if any(isinstance(value, c_ast.NamedInitializer) for value in node.init.exprs):
            raise self._unsupported(node, "an index in a list of values")
        return self.reader.evaluated_each(node.init.exprs)
