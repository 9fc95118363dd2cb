"""Facts about a C text: its functions, inputs and calls, from the syntax tree."""

from collections.abc import Iterator

from pycparser import c_ast

from loop_invariants.frontend.error_names import ErrorNames
from loop_invariants.frontend.expressions import callee_name, nondet_type
from loop_invariants.frontend.preprocessing.translation_phases import (
    ANNOTATION_FUNCTION,
    FAILURE_FUNCTIONS,
    STOP_FUNCTIONS,
)
from loop_invariants.frontend.syntax_tree import iter_nodes, parse_integer_type
from loop_invariants.frontend.verifier_builtins import (
    ASSERT_FUNCTIONS,
    ASSUME_FUNCTIONS,
    INPUT_NAME,
    list_parameters,
)
from loop_invariants.ir.expressions import INT, Type

MODELLED_FUNCTIONS = frozenset(
    "abs labs llabs malloc calloc realloc free alloca memcpy memmove memset "
    "strlen strcpy strncpy printf puts putchar".split()
)
"""Functions of the C library whose results C defines, and every verifier knows."""


class TextFacts:
    """The facts about one syntax tree.

    Args:
        unit: syntax tree of a text with marked labels.
        error_names: further names of errors.

    Attributes:
        functions: definitions of the functions, by name.
        called_functions: functions that `main` calls by name, directly or through others.
        is_annotated: whether ACSL annotations are a part of the property.
        inputs: types of the results of the input functions, by name.
    """

    def __init__(self, unit: c_ast.FileAST, error_names: ErrorNames) -> None:
        self._error_names = error_names
        self.functions = {
            node.decl.name: node for node in unit.ext if isinstance(node, c_ast.FuncDef)
        }
        self._prototypes = {
            node.name: node
            for node in iter_nodes(unit, (c_ast.Decl,))
            if isinstance(node.type, c_ast.FuncDecl)
        }
        variables = {
            node.name
            for node in iter_nodes(unit, (c_ast.Decl,))
            if not isinstance(node.type, c_ast.FuncDecl)
        }
        names = {
            callee_name(call)
            for function in self._find_reached_functions()
            for call in iter_nodes(self.functions[function], (c_ast.FuncCall,))
        }
        self.called_functions = frozenset(names - variables - {""})
        self.is_annotated = any(
            name.startswith(ANNOTATION_FUNCTION) for name in self.called_functions
        )
        self.inputs = dict(self._iter_inputs())

    def _find_reached_functions(self) -> set[str]:
        """Return the functions of the text that `main` names, directly or through others."""
        reached, pending = set(), ["main"]
        while pending:
            name = pending.pop()
            if name in reached or name not in self.functions:
                continue
            reached.add(name)
            # Every use of the name counts, since a pointer may call the function.
            pending += [node.name for node in iter_nodes(self.functions[name], (c_ast.ID,))]
        return reached

    def _iter_inputs(self) -> Iterator[tuple[str, Type]]:
        """Yield the undefined functions that return any integer and change nothing."""
        for name in sorted(self.called_functions - set(self.functions)):
            type_ = nondet_type(name)
            prototype = self._prototypes.get(name)
            if type_ is None and prototype is not None and not self._is_known(name):
                parameters = list_parameters(prototype)
                # A pointer would let the function change variables.
                if all(parse_integer_type(getattr(p, "type", None)) for p in parameters):
                    type_ = parse_integer_type(prototype.type.type)
            # An undeclared input returns an int (C90 3.3.2.2).
            if prototype is None and type_ is None and INPUT_NAME.fullmatch(name):
                type_ = INT
            if type_ is not None:
                yield name, type_

    def find_check_types(self) -> dict[str, Type]:
        """Return the types of the first parameters of the declared functions, if integers."""
        types = {}
        for name, prototype in self._prototypes.items():
            first = next(iter(list_parameters(prototype)), None)
            type_ = parse_integer_type(getattr(first, "type", None))
            if type_ is not None:
                types[name] = type_
        return types

    def _is_known(self, name: str) -> bool:
        """Return whether a function has a known meaning."""
        return name in (
            ASSERT_FUNCTIONS
            | ASSUME_FUNCTIONS
            | STOP_FUNCTIONS
            | FAILURE_FUNCTIONS
            | MODELLED_FUNCTIONS
            | self._error_names.functions
        )


def find_undeclared_calls(unit: c_ast.FileAST) -> frozenset[int]:
    """Return the identities of the calls before any prototype of their function.

    Such a call does not convert its arguments to the types of the parameters (C90 3.3.2.2).
    """
    declared_names: set[str] = set()
    undeclared_calls: set[int] = set()
    # The order is that of the text, and a definition declares its own name.
    for node in iter_nodes(unit, (c_ast.Decl, c_ast.FuncCall)):
        if isinstance(node, c_ast.FuncCall) and callee_name(node) not in declared_names:
            undeclared_calls.add(id(node))
        elif isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.FuncDecl):
            # `int f();` declares no parameters, unless it begins a definition.
            declared_names |= {node.name} if node.type.args is not None else set()
    return frozenset(undeclared_calls)
