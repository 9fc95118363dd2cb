"""Original C texts, as other verifiers and a compiler read them.

An `OriginalText` contains the text itself, and the facts that a harness needs. The frontend's own
program is not involved.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pycparser import c_ast

from llmchecker.errors import ProgramError, UnsupportedProgram
from loop_invariants.c_files import read_included_headers, read_source
from loop_invariants.frontend.acsl_assertions import has_contract
from loop_invariants.frontend.error_names import ErrorNames
from loop_invariants.frontend.expressions import callee_name, nondet_type
from loop_invariants.frontend.preprocessing.preprocessor import parse_preprocessed
from loop_invariants.frontend.preprocessing.translation_phases import (
    ANNOTATION_FUNCTION,
    ERROR_FUNCTION,
    FAILURE_FUNCTIONS,
)
from loop_invariants.frontend.syntax_tree import (
    find_definitions,
    find_prototypes,
    is_void,
    iter_nodes,
    parse_c,
    parse_integer_type,
)
from loop_invariants.frontend.verifier_builtins import (
    ASSERT_FUNCTIONS,
    INPUT_NAME,
    VERIFIER_BUILTINS,
    list_parameters,
)
from loop_invariants.ir.expressions import INT, Type
from loop_invariants.ir.instrumentation import Property

MODELLED_FUNCTIONS = frozenset(
    "abs labs llabs malloc calloc realloc free alloca memcpy memmove memset "
    "strlen strcpy strncpy printf puts putchar".split()
)
"""Functions of the C library whose results C defines, and every verifier knows."""

COMPILED_FUNCTIONS = frozenset(
    "memcmp memchr strnlen strcat strncat strcmp strncmp strchr strrchr strstr strspn strcspn "
    "strtol strtoul atoi atol rand srand qsort bsearch div ldiv isdigit isalpha isalnum isspace "
    "isupper islower ispunct isxdigit isprint iscntrl tolower toupper fabs fabsf sqrt sqrtf "
    "floor floorf ceil ceilf fmod fmodf pow powf sin cos exp log round roundf trunc truncf fmin "
    "fmax isnan isinf ldexp frexp modf snprintf sprintf sscanf vsnprintf putc fputs fputc "
    "fprintf fflush setjmp _setjmp longjmp va_start va_end va_arg va_copy __builtin_va_start "
    "__builtin_va_end __builtin_va_arg __builtin_expect __builtin_unreachable atexit raise "
    "signal offsetof".split()
)
"""Functions that a compiled text may call besides: they reach neither files nor processes."""

_LABEL_MARK = f"if ({ERROR_FUNCTION}()) ; else"
"""Beginning of a statement that reports the label before it as an error."""

_CODE_OR_LABEL = r"""
    (?P<skipped>"(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' | /\*.*?\*/ | //[^\n]*)
    | (?P<case>\bcase\b[^:;]*:)
    | (?P<label>(?<![\w?.])NAMES\s*:(?!:))
"""


_ANNOTATION = re.compile(r"/[/*]@")


def find_compiled_functions(error_names: ErrorNames) -> frozenset[str]:
    """Return the undefined functions that a compiled text may call."""
    return _find_known_functions(error_names) | COMPILED_FUNCTIONS


def _find_known_functions(error_names: ErrorNames) -> frozenset[str]:
    """Return the undefined functions that have a known meaning."""
    return VERIFIER_BUILTINS | MODELLED_FUNCTIONS | error_names.functions


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
        external_variables: types of the numbers that other files may change, by name.
        changing_functions: types of the results of the declared functions of other files, which
            may change these variables, by name; None for no result.
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
    external_variables: Mapping[str, Type]
    changing_functions: Mapping[str, Type | None]
    is_annotated: bool

    @property
    def has_property(self) -> bool:
        """Whether `main` reaches an assertion or a failure."""
        if self.required_property is Property.NO_OVERFLOW:
            return True
        names = ASSERT_FUNCTIONS | FAILURE_FUNCTIONS
        names |= self.error_names.assertions | self.error_names.failures
        return bool(self.called_functions & names)

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
    marked, file = _mark_labels(source, error_names), f"{name}.c"
    try:
        unit = parse_c(marked, file, sibling_files)
    except UnsupportedProgram:
        # gcc's preprocessor reads more texts, but no annotations.
        if _ANNOTATION.search(source):
            raise
        unit = parse_preprocessed(marked, file, sibling_files)
    definitions, prototypes = find_definitions(unit), find_prototypes(unit)
    called_functions = _find_called_functions(unit, definitions)
    known_functions = _find_known_functions(error_names)
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
    external_variables = _find_external_variables(unit)
    changing_functions = {
        function: inputs.get(function)
        for function in sorted(called_functions - definitions.keys() - known_functions)
        if external_variables and _may_change(function, prototypes.get(function))
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
        external_variables,
        changing_functions,
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
    type_ = None
    if prototype is not None and name not in known_functions:
        # A pointer would let the function change variables.
        parameters = list_parameters(prototype)
        if all(parse_integer_type(getattr(p, "type", None)) for p in parameters):
            type_ = parse_integer_type(prototype.type.type)
    type_ = type_ or nondet_type(name)
    # An undeclared input returns an int (C90 3.3.2.2).
    if prototype is None and type_ is None and INPUT_NAME.fullmatch(name):
        type_ = INT
    return type_


def _find_external_variables(unit: c_ast.FileAST) -> dict[str, Type]:
    """Return the types of the numbers that other files may change, by name."""
    types: dict[str, Type] = {}
    for node in unit.ext:
        if isinstance(node, c_ast.Decl) and not {"static", "_Thread_local"} & set(node.storage):
            type_ = parse_integer_type(node.type)
            if type_ is not None and "const" not in node.quals:
                types[node.name] = type_
    return types


def _may_change(name: str, prototype: c_ast.Decl | None) -> bool:
    """Return whether a function of another file may change variables, and is no mere input."""
    if prototype is None or INPUT_NAME.fullmatch(name) or name in COMPILED_FUNCTIONS:
        return False
    result = prototype.type.type
    numbers = all(parse_integer_type(getattr(p, "type", None)) for p in list_parameters(prototype))
    return (
        nondet_type(name) is None
        and numbers
        and (is_void(result) or parse_integer_type(result) is not None)
    )
