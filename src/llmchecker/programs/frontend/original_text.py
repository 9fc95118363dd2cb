"""Original C texts, as other verifiers and a compiler read them.

An `OriginalText` contains the text itself, and the facts that decide whether a verdict of another
verifier on it can be trusted. The frontend's own program is not involved.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pycparser import c_ast

from llmchecker.errors import ProgramError, UnsupportedProgram
from llmchecker.programs.frontend.c_ast import iter_nodes, parse_c, parse_integer_type
from llmchecker.programs.frontend.error_names import ErrorNames
from llmchecker.programs.frontend.evaluation_order import has_order_dependence
from llmchecker.programs.frontend.expressions import ExpressionReader, callee_name, nondet_type
from llmchecker.programs.frontend.preprocessing.acsl_contracts import REQUIRES_ARRAY
from llmchecker.programs.frontend.preprocessing.source_files import (
    read_included_headers,
    read_source,
)
from llmchecker.programs.frontend.preprocessing.translation_phases import (
    ANNOTATION_FUNCTION,
    ERROR_FUNCTION,
    FAILURE_FUNCTIONS,
    STOP_FUNCTIONS,
)
from llmchecker.programs.frontend.verifier_builtins import (
    ASSERT_FUNCTIONS,
    ASSUME_FUNCTIONS,
    INPUT_NAME,
    list_parameters,
    read_builtins,
)
from llmchecker.programs.ir.expressions import INT, Type
from llmchecker.programs.ir.instrumentation import Property

MODELLED_FUNCTIONS = frozenset(
    "abs labs llabs malloc calloc realloc free alloca memcpy memmove memset "
    "strlen strcpy strncpy printf puts putchar".split()
)
"""Functions of the C library whose results C defines, and every verifier knows."""

NO_ASSERTION = "no assertion"
"""Obstacle of a text whose `main` reaches no known assertion."""

LABEL_MARK = f"if ({ERROR_FUNCTION}()) ; else"
"""Beginning of a statement that reports the label before it as an error."""

_CODE_OR_LABEL = r"""
    (?P<skipped>"(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' | /\*.*?\*/ | //[^\n]*)
    | (?P<case>\bcase\b[^:;]*:)
    | (?P<label>(?<![\w?.])NAMES\s*:(?!:))
"""


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
        has_traps: whether the text contains a shift, or a division by a variable: other than zero
            divisors, only checks of overflow find their violations.
        obstacle: reason why no verdict of a verifier alone is a proof; empty without a reason.
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
    has_traps: bool
    obstacle: str
    is_annotated: bool

    @property
    def marked_source(self) -> str:
        """The text, with `LABEL_MARK` after each label that names an error."""
        return _mark_labels(self.source, self.error_names)


def _mark_labels(source: str, error_names: ErrorNames) -> str:
    names = "|".join(sorted(error_names.labels))
    if not names:
        return source
    pattern = re.compile(
        _CODE_OR_LABEL.replace("NAMES", rf"(?:{names})"), flags=re.DOTALL | re.VERBOSE
    )

    def mark(match: re.Match[str]) -> str:
        return f"{match.group()} {LABEL_MARK}" if match["label"] else match.group()

    return pattern.sub(mark, source)


def read_original_text(
    path: Path, required_property: Property, error_names: ErrorNames
) -> OriginalText | None:
    """Read the original text of a program; None if the parser rejects it.

    Args:
        path: path of the file.
        required_property: property to prove.
        error_names: further names of errors.
    """
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
    facts = _TextFacts(unit, error_names, required_property)
    return OriginalText(
        name,
        source,
        sibling_files,
        required_property,
        error_names,
        facts.inputs,
        facts.find_check_types(),
        frozenset(facts.functions),
        facts.called_functions,
        has_traps=any(
            _may_trap(node) for node in iter_nodes(unit, (c_ast.BinaryOp, c_ast.Assignment))
        ),
        obstacle=facts.find_obstacle(),
        is_annotated=facts.is_annotated,
    )


class _TextFacts:
    """The facts about one syntax tree."""

    def __init__(
        self, unit: c_ast.FileAST, error_names: ErrorNames, required_property: Property
    ) -> None:
        self._unit = unit
        self._error_names = error_names
        self._required_property = required_property
        self.functions = {
            node.decl.name: node for node in unit.ext if isinstance(node, c_ast.FuncDef)
        }
        self._prototypes = {
            node.name: node
            for node in iter_nodes(unit, (c_ast.Decl,))
            if isinstance(node.type, c_ast.FuncDecl)
        }
        self._reached_functions = self._find_reached_functions()
        variables = {
            node.name
            for node in iter_nodes(unit, (c_ast.Decl,))
            if not isinstance(node.type, c_ast.FuncDecl)
        }
        names = {
            callee_name(call)
            for function in self._reached_functions
            for call in iter_nodes(self.functions[function], (c_ast.FuncCall,))
        }
        self._calls_pointers = bool(names & (variables | {""}))
        self.called_functions = frozenset(names - variables - {""})
        self.is_annotated = any(
            name.startswith((ANNOTATION_FUNCTION, REQUIRES_ARRAY)) for name in self.called_functions
        ) or any(getattr(node, "name", None) == REQUIRES_ARRAY for node in unit.ext)
        self.inputs = dict(self._iter_inputs())

    def _find_reached_functions(self, start: str = "main") -> set[str]:
        """Return the functions of the text that `start` names, directly or through others."""
        reached, pending = set(), [start]
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
        names = self._error_names
        return name in (
            ASSERT_FUNCTIONS
            | ASSUME_FUNCTIONS
            | STOP_FUNCTIONS
            | FAILURE_FUNCTIONS
            | MODELLED_FUNCTIONS
            | names.assertions
            | names.failures
            | names.assumptions
        )

    def _has_assertion(self) -> bool:
        """Return whether `main` reaches a known assertion, failure or label."""
        names = self._error_names
        failures = FAILURE_FUNCTIONS | names.failures | names.assertions
        labels = {
            label.name
            for function in self._reached_functions
            for label in iter_nodes(self.functions[function], (c_ast.Label,))
        }
        return bool((ASSERT_FUNCTIONS | failures) & self.called_functions or names.labels & labels)

    def find_obstacle(self) -> str:
        """Return the reason why no verdict of a verifier alone is a proof; else empty."""
        if "main" not in self.functions:
            return "no function main"
        if self._required_property is not Property.NO_OVERFLOW and not self._has_assertion():
            return NO_ASSERTION
        names = self._error_names
        unknown = sorted(
            name
            for name in self.called_functions - set(self.functions) - set(self.inputs)
            if not self._is_known(name)
        )
        if unknown:
            return f"the call of {unknown[0]}"
        if self._calls_pointers:
            return "the call of a pointer"
        if self.is_annotated:
            return "an annotation of ACSL"
        for node in iter_nodes(self._unit, (c_ast.Decl, c_ast.TypeDecl)):
            # A volatile variable may change between two reads, an external one before the first.
            if "volatile" in node.quals:
                return "a volatile variable"
            is_variable = isinstance(node, c_ast.Decl) and not isinstance(node.type, c_ast.FuncDecl)
            if is_variable and "extern" in node.storage:
                return "a variable of another file"
        if any(
            node.names[0] == "_Atomic" for node in iter_nodes(self._unit, (c_ast.IdentifierType,))
        ):
            return "an atomic variable"
        labels = [n for n in iter_nodes(self._unit, (c_ast.Label,)) if n.name in names.labels]
        # Comments and macros can hide a label from the search in the text.
        if not all(_is_marked(label) for label in labels):
            return "a label that cannot be marked"
        if has_order_dependence(self._unit):
            return "an expression that may depend on the evaluation order"
        return self._find_wrong_builtin()

    def _find_wrong_builtin(self) -> str:
        """Return a definition of a builtin that may differ from its known meaning."""
        names = self._error_names
        errors = ASSERT_FUNCTIONS | FAILURE_FUNCTIONS | names.failures | names.assertions
        for name in sorted(self.functions):
            # A verifier reads the definition, so that it must end in an error of the verifier.
            is_silent = name in errors and not self._reaches(name, errors - set(self.functions))
            if is_silent or name in MODELLED_FUNCTIONS:
                return f"the definition of {name}"
        try:
            read_builtins(self._unit, ExpressionReader("text", (), {}))
        except UnsupportedProgram as error:
            return str(error)
        return ""

    def _reaches(self, function: str, names: frozenset[str]) -> bool:
        """Return whether a function names one of `names`, directly or through others."""
        reached = self._find_reached_functions(function)
        return any(
            node.name in names
            for reached_name in reached
            for node in iter_nodes(self.functions[reached_name], (c_ast.ID,))
        )


def _may_trap(node: c_ast.BinaryOp | c_ast.Assignment) -> bool:
    """Return whether an operation is a shift, or a division by no literal."""
    divisor = node.right if isinstance(node, c_ast.BinaryOp) else node.rvalue
    is_literal = isinstance(divisor, c_ast.Constant)
    return node.op.rstrip("=") in ("<<", ">>") or (node.op[0] in "/%" and not is_literal)


def _is_marked(label: c_ast.Label) -> bool:
    match label.stmt:
        case c_ast.If(cond=c_ast.FuncCall() as call):
            return callee_name(call) == ERROR_FUNCTION
    return False
