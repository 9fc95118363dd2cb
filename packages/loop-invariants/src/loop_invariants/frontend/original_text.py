"""Original C texts, as other verifiers and a compiler read them.

An `OriginalText` contains the text itself, and the facts that a harness needs. The frontend's own
program is not involved.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pycparser import c_ast

from llmchecker.errors import ProgramError
from loop_invariants.c_files import (
    read_included_headers,
    read_source,
)
from loop_invariants.frontend.acsl_assertions import has_contract
from loop_invariants.frontend.error_names import ErrorNames
from loop_invariants.frontend.expressions import callee_name, nondet_type
from loop_invariants.frontend.preprocessing.translation_phases import (
    ANNOTATION_FUNCTION,
    ERROR_FUNCTION,
)
from loop_invariants.frontend.syntax_tree import (
    find_definitions,
    find_prototypes,
    iter_nodes,
    parse_c,
    parse_integer_type,
)
from loop_invariants.frontend.verifier_builtins import (
    INPUT_NAME,
    VERIFIER_BUILTINS,
    list_parameters,
)
from loop_invariants.ir.expressions import INT, Type
from loop_invariants.ir.instrumentation import Property

_MODELLED_FUNCTIONS = frozenset(
    "abs labs llabs malloc calloc realloc free alloca memcpy memmove memset "
    "strlen strcpy strncpy printf puts putchar".split()
)
"""Functions of the C library whose results C defines, and every verifier knows."""

_LABEL_MARK = f"if ({ERROR_FUNCTION}()) ; else"
"""Beginning of a statement that reports the label before it as an error."""

_CODE_OR_LABEL = r"""
    (?P<skipped>"(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' | /\*.*?\*/ | //[^\n]*)
    | (?P<case>\bcase\b[^:;]*:)
    | (?P<label>(?<![\w?.])NAMES\s*:(?!:))
"""


def find_known_functions(error_names: ErrorNames) -> frozenset[str]:
    """Return the undefined functions that have a known meaning."""
    return VERIFIER_BUILTINS | _MODELLED_FUNCTIONS | error_names.functions


@dataclass(frozen=True)
class OriginalText:
    """A C text as written, with the facts about it.

    Attributes:
        name: name of the program.
        source: the C text.
        sibling_files: texts of the included headers in the same folder, by name.
        required_property: property to prove.
        error_names: further names of errors.
        inputs: types of the results of the input functions, by name.
        check_types: types of the first parameters of declared functions, by name; an undeclared
            function has an int.
        defined_functions: functions that the text defines.
        called_functions: functions that `main` calls, directly or through others.
        is_annotated: whether ACSL annotations are a part of the property.
    """

    name: str
    source: str
    sibling_files: Mapping[str, str]
    required_property: Property
    error_names: ErrorNames
    inputs: Mapping[str, Type]
    check_types: Mapping[str, Type]
    defined_functions: frozenset[str]
    called_functions: frozenset[str]
    is_annotated: bool

    @property
    def marked_source(self) -> str:
        """The text, with `_LABEL_MARK` after each label that names an error."""
        return _mark_labels(self.source, self.error_names)


def _mark_labels(source: str, error_names: ErrorNames) -> str:
    names = "|".join(sorted(error_names.labels))
    if not names:
        return source
    pattern = re.compile(
        _CODE_OR_LABEL.replace("NAMES", rf"(?:{names})"), flags=re.DOTALL | re.VERBOSE
    )

    def mark(match: re.Match[str]) -> str:
        return f"{match.group()} {_LABEL_MARK}" if match["label"] else match.group()

    return pattern.sub(mark, source)


def read_original_text(
    path: Path, required_property: Property, error_names: ErrorNames
) -> OriginalText | None:
    """Read the original text of a program; None if the parser rejects it."""
    try:
        source = read_source(path)
        siblings = read_included_headers(path, source)
        return build_original_text(path.stem, source, required_property, error_names, siblings)
    except (ProgramError, RecursionError):
        return None


def build_original_text(
    name: str,
    source: str,
    required_property: Property,
    error_names: ErrorNames,
    sibling_files: Mapping[str, str],
) -> OriginalText:
    """Build the original text of a program from its C text.

    Raises:
        ProgramError: the parser rejects the text.
        RecursionError: the text is nested too deeply.
    """
    unit = parse_c(_mark_labels(source, error_names), f"{name}.c", sibling_files)
    definitions, prototypes = find_definitions(unit), find_prototypes(unit)
    called_functions = _find_called_functions(unit, definitions)
    known_functions = find_known_functions(error_names)
    inputs = {
        function: type_
        for function in sorted(called_functions - definitions.keys())
        if (type_ := _find_input_type(function, prototypes.get(function), known_functions))
    }
    first_parameters = {
        function: next(iter(list_parameters(prototype)), None)
        for function, prototype in prototypes.items()
    }
    check_types = {
        function: type_
        for function, parameter in first_parameters.items()
        if (type_ := parse_integer_type(getattr(parameter, "type", None)))
    }
    is_annotated = any(function.startswith(ANNOTATION_FUNCTION) for function in called_functions)
    return OriginalText(
        name,
        source,
        sibling_files,
        required_property,
        error_names,
        inputs,
        check_types,
        frozenset(definitions),
        called_functions,
        is_annotated=is_annotated or has_contract(source),
    )


def _find_called_functions(
    unit: c_ast.FileAST, definitions: Mapping[str, c_ast.FuncDef]
) -> frozenset[str]:
    """Return the functions that `main` calls by name, directly or through others."""
    reached: set[str] = set()
    pending = ["main"]
    while pending:
        name = pending.pop()
        if name not in reached and name in definitions:
            reached.add(name)
            # Every use of the name counts, since a pointer may call the function.
            pending += [node.name for node in iter_nodes(definitions[name], (c_ast.ID,))]
    names = {
        callee_name(call)
        for function in reached
        for call in iter_nodes(definitions[function], (c_ast.FuncCall,))
    }
    variables = {
        node.name
        for node in iter_nodes(unit, (c_ast.Decl,))
        if not isinstance(node.type, c_ast.FuncDecl)
    }
    return frozenset(names - variables - {""})


def _find_input_type(
    name: str, prototype: c_ast.Decl | None, known_functions: frozenset[str]
) -> Type | None:
    """Return the result's type of an undefined function that changes nothing; else None."""
    type_ = nondet_type(name)
    if type_ is None and prototype is not None and name not in known_functions:
        # A pointer would let the function change variables.
        parameters = list_parameters(prototype)
        if all(parse_integer_type(getattr(p, "type", None)) for p in parameters):
            type_ = parse_integer_type(prototype.type.type)
    # An undeclared input returns an int (C90 3.3.2.2).
    if prototype is None and type_ is None and INPUT_NAME.fullmatch(name):
        type_ = INT
    return type_
