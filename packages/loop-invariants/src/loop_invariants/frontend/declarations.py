"""Declarations of C: types, variables and their initial values."""

import re
from collections.abc import Callable, Iterator, Sequence
from math import prod

from pycparser import c_ast

from llmchecker.errors import UnsupportedProgram
from loop_invariants.frontend.expressions import NONDET_PREFIX
from loop_invariants.frontend.sequence_points import fold_constant
from loop_invariants.frontend.side_effects import EffectReader
from loop_invariants.frontend.symbol_table import (
    MultiArray,
    StructType,
    Structure,
    Symbol,
    SymbolTable,
    UnsupportedType,
    root_variable,
)
from loop_invariants.frontend.syntax_tree import iter_nodes, parse_integer_type
from loop_invariants.frontend.verifier_builtins import VERIFIER_BUILTINS
from loop_invariants.ir.expressions import INT, Binary, Constant, Expression, Identifier, Type
from loop_invariants.ir.statements import Assert, Assign, Block, Havoc, Statement

_MAX_INITIALIZERS = 64
"""Maximum number of initialized elements; each becomes an assignment."""

_LIBRARY_VARIABLE = re.compile(
    r"_(IO|dl|nl|sys|rtld|obstack|libc|r|h)_\w*|_res|_environ|_end|_edata|_etext|_init|_fini|_start"
    r"|_exit|_tolower|_toupper|_DYNAMIC|_GLOBAL_OFFSET_TABLE_|__\w*(libc|start|end|environ|data)\w*"
    r"|environ|signgam|timezone|daylight|tzname|stdin|stdout|stderr|optarg|optind|opterr|optopt"
    r"|program_invocation_\w+|errno"
)
"""Variables of the C library, which executes its own code before `main`."""

_TYPE_DESCRIPTIONS = {
    c_ast.PtrDecl: "a pointer",
    c_ast.ArrayDecl: "an array of arrays",
    c_ast.Union: "a union",
    c_ast.FuncDecl: "a function inside a function",
}


class DeclarationReader:
    """A reader of the declarations of one file.

    Args:
        symbols: symbol table that receives the declarations.

    Attributes:
        expression_reader: reads the expressions in declarations. It uses this object for type
            names, so it must be set before the first use.
        declare_pointer: reads the declaration of a pointer; must be set before the first use too.
        static_initializers: statements that initialize `static` variables before the program
            starts.
    """

    def __init__(self, symbols: SymbolTable) -> None:
        self._symbols = symbols
        self.expression_reader: EffectReader
        self.declare_pointer: Callable[[c_ast.Decl, bool], Block]
        self.static_initializers: list[Statement] = []
        self._static_symbols: dict[
            int, Symbol
        ] = {}  # symbols of `static` variables, by id of the declaration

    def read_type(self, node: c_ast.Node) -> Type:
        """Return the integer type, or array of integers, of a type name.

        Raises:
            UnsupportedProgram: it is another type.
        """
        if isinstance(node, c_ast.ArrayDecl) and node.dim is not None:
            element = self.read_type(node.type)
            length = fold_constant(self.expression_reader.read(node.dim))
            if not element.is_array and length is not None and length > 0:
                return element.to_array(Constant(length))
        type_ = self.read_base_type(node)
        if isinstance(type_, StructType):
            raise self._build_error(node, "a structure as a type")
        return type_

    def read_typedef(self, node: c_ast.Typedef) -> None:
        """Read a typedef; an unsupported type is an error only at its use."""
        symbol: Symbol
        try:
            symbol = self.read_base_type(node.type)
        except UnsupportedProgram as error:
            symbol = UnsupportedType(error)
        # The declaration of a variable would not contain the qualifier.
        if node.quals:
            qualifiers = " ".join(node.quals)
            symbol = UnsupportedType(self._build_error(node, f"{qualifiers} for {node.name!r}"))
        self._symbols.bind(node.name, symbol)

    def declare(self, node: c_ast.Decl, is_global: bool = False) -> Block:
        """Declare a variable and return the statements that initialize it.

        Args:
            node: the declaration.
            is_global: whether the variable is outside of functions, and thus 0 without an initial
                value.
        """
        # Calls look up the functions themselves.
        if isinstance(node.type, c_ast.FuncDecl):
            return ()
        # The declaration only names a structure or an enumeration.
        if node.name is None:
            self._read_tag(node)
            return ()
        self._check_storage(node, is_global)
        # A variable outside of functions may be declared again without a value.
        if is_global and self._symbols.is_in_innermost_scope(node.name) and node.init is None:
            return self._read_redeclaration(node)
        if isinstance(node.type, c_ast.PtrDecl) and (is_global or not node.storage):
            return self.declare_pointer(node, is_global)
        if "static" in node.storage and not is_global:
            block = self._declare_static(node)
        else:
            block = self._declare_object(node, is_zeroed=is_global)
        symbol = self._symbols.look_up(node.name)
        if "const" in node.quals and isinstance(symbol, Identifier | Structure):
            self._symbols.constant_variables.add(root_variable(symbol))
        return block

    def _read_redeclaration(self, node: c_ast.Decl) -> Block:
        """Check a second declaration of a variable outside of functions (C11 6.9.2)."""
        symbol = self._symbols.look_up(node.name)
        if not isinstance(symbol, Identifier) or symbol.type != parse_integer_type(node.type):
            raise self._build_error(node, f"a second {node.name!r} in one scope")
        return ()

    def _read_tag(self, node: c_ast.Decl) -> None:
        """Read a structure or an enumeration without a variable."""
        has_members = getattr(node.type, "decls", None) is not None
        if not isinstance(node.type, c_ast.Struct | c_ast.Union):
            self.read_base_type(node)
        # An incomplete declaration names no fields yet.
        elif has_members:
            try:
                self.read_base_type(node)
            # An unsupported structure is an error only where it is used.
            except UnsupportedProgram as error:
                word = "struct" if isinstance(node.type, c_ast.Struct) else "union"
                self._symbols.bind(f"{word} {node.type.name}", UnsupportedType(error))

    def _build_error(self, node: c_ast.Node, construct: str) -> Exception:
        return self.expression_reader.build_error(node, construct)

    def read_base_type(self, node: c_ast.Node) -> Type | StructType:
        """Return the integer type or the structure that a declaration or a type name names."""
        integer_type = parse_integer_type(node)
        if integer_type is not None:
            return integer_type
        type_node = node.type if isinstance(node, c_ast.TypeDecl | c_ast.Decl) else node
        match type_node:
            case c_ast.IdentifierType(names=[name]):
                symbol = self._symbols.look_up(name)
                if isinstance(symbol, Type | StructType):
                    return symbol
                # The type is used here, so its error applies.
                if isinstance(symbol, UnsupportedType):
                    raise symbol.error
            case c_ast.Enum():
                return self._read_enumeration(type_node)
            case c_ast.Struct():
                return self._read_structure(type_node)
        if isinstance(type_node, c_ast.IdentifierType):
            raise self._build_error(node, f"the type {' '.join(type_node.names)}")
        raise self._build_error(
            node, _TYPE_DESCRIPTIONS.get(type(type_node), "a type that is no integer")
        )

    def _read_enumeration(self, node: c_ast.Enum) -> Type:
        if node.values is None:
            symbol = self._symbols.look_up(f"enum {node.name}")
            if not isinstance(symbol, Type):
                raise self._build_error(node, f"an enumeration {node.name!r} without values")
            return symbol
        value, is_negative = -1, False
        for enumerator in node.values.enumerators:
            if enumerator.value is None:
                value += 1
            else:
                value = self._read_constant(enumerator.value)
            if not INT.min_value <= value <= INT.max_value:
                raise self._build_error(enumerator, f"{enumerator.name!r} beyond an int")
            is_negative = is_negative or value < 0
            self._symbols.bind(enumerator.name, Constant(value))
        # The compiler chooses the type of an enumeration (C11 6.7.2.2p4). gcc chooses an unsigned
        # type if no constant is negative.
        type_ = Type(32, signed=is_negative)
        if node.name is not None:
            self._symbols.bind(f"enum {node.name}", type_)
        return type_

    def _read_constant(self, node: c_ast.Node) -> int:
        """Evaluate a constant expression of literals."""
        value = fold_constant(self.expression_reader.read(node))
        if value is None:
            raise self._build_error(node, "a constant that is no number")
        return value

    def _read_structure(self, node: c_ast.Struct) -> StructType:
        tag = f"struct {node.name}"
        if node.decls is None:
            symbol = self._symbols.look_up(tag)
            if isinstance(symbol, UnsupportedType):
                raise symbol.error
            if not isinstance(symbol, StructType):
                raise self._build_error(node, f"a structure {node.name!r} of unknown fields")
            return symbol
        member_types = {}
        for field in node.decls:
            type_ = self.read_type(field.type)
            # Bit fields wrap around in their own width.
            if field.bitsize is not None or field.quals or field.align:
                raise self._build_error(
                    node, f"the field {field.name!r}, which is no plain integer,"
                )
            member_types[field.name] = type_
        fields = StructType(member_types)
        if node.name is not None:
            self._symbols.bind(tag, fields)
        return fields

    def _check_storage(self, node: c_ast.Decl, is_global: bool) -> None:
        """Reject `volatile` variables, which others may set, and `extern` ones."""
        qualifiers = {*node.quals, *node.storage} - {"const", "auto", "register", "static"}
        if qualifiers or node.align:
            problem = " ".join(sorted(qualifiers)) or "an alignment"
            raise self._build_error(node, f"{problem} for {node.name!r}")

    def _declare_static(self, node: c_ast.Decl) -> Block:
        """Declare a `static` variable, initialized before the start (C11 6.2.4p3)."""
        symbol = self._static_symbols.get(id(node))
        if symbol is None:
            self.static_initializers += self._declare_object(node, is_zeroed=True)
            symbol = self._symbols.look_up(node.name)
            assert symbol is not None
            self._symbols.make_persistent(symbol)
            self._static_symbols[id(node)] = symbol
        # A function that is inlined again uses the same variable.
        self._symbols.bind(node.name, symbol)
        return ()

    def _declare_object(self, node: c_ast.Decl, is_zeroed: bool) -> Block:
        type_, length = node.type, None
        length_effects: Block = ()
        if isinstance(type_, c_ast.ArrayDecl) and isinstance(type_.type, c_ast.ArrayDecl):
            return self._declare_multi_array(node, is_zeroed)
        identifiers = (
            i for part in (node.type, node.init) if part for i in iter_nodes(part, (c_ast.ID,))
        )
        if any(identifier.name == node.name for identifier in identifiers):
            # The name is already in scope and has no value yet (C11 6.2.1p7).
            raise self._build_error(node, f"{node.name!r} in its own declaration")
        if isinstance(type_, c_ast.ArrayDecl):
            length, length_effects = self._read_length(node)
            type_ = type_.type
        element = self.read_base_type(type_)
        if isinstance(element, StructType):
            return (
                *length_effects,
                *self._declare_structure(node, element, length, is_zeroed),
            )
        if length is None and node.init is not None:
            evaluation = self.expression_reader.evaluate(node.init)
            # C requires a constant for static storage (C11 6.7.9p4).
            if is_zeroed and fold_constant(evaluation.value) is None:
                raise self._build_error(node, "a first value that is no constant")
            variable = self._declare_variable(node, element)
            assignment = Assign(variable, evaluation.value)
            return (*length_effects, *evaluation.effects, assignment)
        # A variable without an initial value is 0 if static, and arbitrary otherwise.
        if length is None:
            variable = self._declare_variable(node, element)
            statement = Assign(variable, Constant(0)) if is_zeroed else Havoc(variable.name)
            return (*length_effects, statement)
        effects, values = self._read_array_values(node, length, is_zeroed)
        array = self._declare_variable(node, element.to_array(length))
        if values is None:
            return (*length_effects, Havoc(array.name))
        return (*length_effects, *effects, *_assign_elements(array, values))

    def _declare_variable(self, node: c_ast.Decl, type_: Type) -> Identifier:
        """Declare a variable and return it."""
        name = node.name
        if name in VERIFIER_BUILTINS or name.startswith(NONDET_PREFIX):
            raise self._build_error(node, f"a variable {name!r}, which is a known function,")
        # Code of the library before `main` could change a variable of this name.
        if _LIBRARY_VARIABLE.fullmatch(name) and self._symbols.is_global_scope:
            raise self._build_error(node, f"the reserved name {name!r} outside of functions")
        if self._symbols.is_in_innermost_scope(name):
            raise self._build_error(node, f"a second {name!r} in one scope")
        return self._symbols.declare(name, type_)

    def _declare_structure(
        self, node: c_ast.Decl, struct_type: StructType, length: Expression | None, is_zeroed: bool
    ) -> Block:
        arrays = any(type_.is_array for type_ in struct_type.types.values())
        if length is not None or arrays:
            return self._declare_struct_arrays(node, struct_type, length, is_zeroed)
        effects, values = self._read_field_values(node, struct_type, is_zeroed)
        structure = self._symbols.create_structure(node.name, struct_type)
        self._symbols.bind(node.name, structure)
        fields = structure.variables.values()
        if values is None:
            return tuple(Havoc(field.name) for field in fields)
        assignments = (Assign(field, value) for field, value in zip(fields, values, strict=True))
        return (*effects, *assignments)

    def _declare_struct_arrays(
        self, node: c_ast.Decl, struct_type: StructType, length: Expression | None, is_zeroed: bool
    ) -> Block:
        """Declare an array of structures, or a structure with arrays, without values."""
        arrays = any(type_.is_array for type_ in struct_type.types.values())
        if arrays and length is not None:
            raise self._build_error(node, "an array of structures with arrays")
        if node.init is not None:
            problem = "a structure with arrays" if length is None else "an array of structures"
            raise self._build_error(node, f"{problem} with first values")
        structure = self._symbols.create_structure(node.name, struct_type, length)
        self._symbols.bind(node.name, structure)
        fields = structure.variables.values()
        if not is_zeroed:
            return tuple(Havoc(field.name) for field in fields)
        assignments: list[Statement] = []
        for array in fields:
            if not array.type.is_array:
                assignments.append(Assign(array, Constant(0)))
                continue
            assert array.type.length is not None
            _, values = self._read_array_values(node, array.type.length, is_zeroed=True)
            assignments += _assign_elements(array, values or ())
        return tuple(assignments)

    def _declare_multi_array(self, node: c_ast.Decl, is_zeroed: bool) -> Block:
        """Declare an array of arrays, as one array of the program in row-major order."""
        sizes: list[int] = []
        type_ = node.type
        while isinstance(type_, c_ast.ArrayDecl):
            sizes.append(0 if type_.dim is None else self._read_constant(type_.dim))
            type_ = type_.type
        if min(sizes) <= 0:
            raise self._build_error(node, "an array of arrays of an open length")
        element = self.read_base_type(type_)
        if isinstance(element, StructType):
            raise self._build_error(node, "an array of arrays of structures")
        length = Constant(prod(sizes))
        effects, values = self._read_array_values(node, length, is_zeroed, sizes)
        array = self._declare_variable(node, element.to_array(length))
        self._symbols.bind(node.name, MultiArray(array, tuple(sizes)))
        self._symbols.has_renames = True
        if values is None:
            return (Havoc(array.name),)
        return (*effects, *_assign_elements(array, values))

    def _collect_initializers(
        self, node: c_ast.Decl, sizes: Sequence[int]
    ) -> tuple[Block, list[Expression]]:
        """Read all initial values, and the statements of their side effects."""
        values = self._flatten_initializer(node, node.init, sizes)
        return self.expression_reader.collect_values(values)

    def _flatten_initializer(
        self, node: c_ast.Decl, init: c_ast.Node | None, sizes: Sequence[int]
    ) -> list[c_ast.Node]:
        """Return the initial values of a structure or an array, in row-major order."""
        if not sizes:
            if isinstance(init, c_ast.InitList):
                raise self._build_error(node, "such a list of values")
            return [init or c_ast.Constant("int", "0", node.coord)]
        if init is not None and not isinstance(init, c_ast.InitList):
            raise self._build_error(node, "an array that is not given a list of values")
        expressions = init.exprs if init is not None else []
        if any(isinstance(value, c_ast.NamedInitializer) for value in expressions):
            raise self._build_error(node, "an index in a list of values")
        if len(expressions) > sizes[0]:
            raise self._build_error(node, "more values than elements")
        # Missing values are 0 (C11 6.7.9p21).
        rows = [*expressions, *[None] * (sizes[0] - len(expressions))]
        return [value for row in rows for value in self._flatten_initializer(node, row, sizes[1:])]

    def _read_field_values(
        self, node: c_ast.Decl, struct_type: StructType, is_zeroed: bool
    ) -> tuple[Block, list[Expression] | None]:
        """Read the initial values of a structure's fields; None if they are arbitrary."""
        # A structure can be initialized by another of the same type.
        if isinstance(node.init, c_ast.ID):
            symbol = self._symbols.look_up(node.init.name)
            if (
                isinstance(symbol, Structure)
                and symbol.struct_type == struct_type
                and not symbol.is_array
            ):
                return (), list(symbol.variables.values())
        if node.init is None:
            return (), [Constant(0)] * len(struct_type.types) if is_zeroed else None
        return self._collect_initializers(node, [len(struct_type.types)])

    def _read_length(self, node: c_ast.Decl) -> tuple[Expression, Block]:
        """Read an array's length, and the statements that store an unknown length."""
        if node.type.dim is None:
            if not isinstance(node.init, c_ast.InitList):
                raise self._build_error(node, "an array without a length")
            return Constant(len(node.init.exprs)), ()
        length = self.expression_reader.evaluate(node.type.dim)
        constant = fold_constant(length.value)
        if constant is not None and constant > 0:
            return Constant(constant), ()
        length_variable = self._symbols.create_length_variable(node.name)
        # An array must have an element; otherwise the behaviour is undefined (C11 6.7.6.2).
        positive_check = Assert(Binary(">", length_variable, Constant(0)), 0)
        return length_variable, (
            *length.effects,
            Assign(length_variable, length.value),
            positive_check,
        )

    def _read_array_values(
        self, node: c_ast.Decl, length: Expression, is_zeroed: bool, sizes: Sequence[int] = ()
    ) -> tuple[Block, Sequence[Expression] | None]:
        """Read the initial values of an array's elements; None if they are arbitrary.

        Args:
            node: the declaration.
            length: number of elements.
            is_zeroed: whether missing values are 0, not arbitrary.
            sizes: for an array of arrays, the number of elements in each dimension.
        """
        if node.init is None and not is_zeroed:
            return (), None
        # Each value becomes an assignment, so their number is limited.
        if not isinstance(length, Constant) or length.value > _MAX_INITIALIZERS:
            raise self._build_error(
                node, f"giving values to more than {_MAX_INITIALIZERS} elements"
            )
        return self._collect_initializers(node, sizes or [length.value])


def _assign_elements(array: Identifier, values: Sequence[Expression]) -> Iterator[Assign]:
    """Yield the assignments of values to the first elements of an array."""
    for index, value in enumerate(values):
        yield Assign(array.element(Constant(index)), value)
