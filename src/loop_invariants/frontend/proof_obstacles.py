"""Reasons why the verdict of a verifier alone is no proof of a C text.

A verifier chooses one meaning where C leaves several, and bounds the environment of a program. So a
text with such a choice is not proven, whatever a verifier reports.
"""

from collections.abc import Callable

from pycparser import c_ast

from llmchecker.errors import UnsupportedProgram
from loop_invariants.frontend.addresses import find_address, format_construct
from loop_invariants.frontend.evaluation_order import find_order_dependence
from loop_invariants.frontend.expressions import ExpressionReader, callee_name
from loop_invariants.frontend.preprocessing.translation_phases import (
    ERROR_FUNCTION,
    FAILURE_FUNCTIONS,
)
from loop_invariants.frontend.skipped_declarations import find_skipped_declaration
from loop_invariants.frontend.syntax_tree import iter_nodes
from loop_invariants.frontend.text_facts import MODELLED_FUNCTIONS, TextFacts
from loop_invariants.frontend.verifier_builtins import (
    ASSERT_FUNCTIONS,
    list_parameters,
    read_builtins,
)
from loop_invariants.ir.instrumentation import Property

NO_ASSERTION = "no assertion"
"""Obstacle of a text whose `main` reaches no known assertion."""


def find_obstacle(facts: TextFacts) -> str:
    """Return the first obstacle to a proof of a text by a verifier alone; else empty."""
    # The other checks need the function `main`.
    if "main" not in facts.functions:
        return "no function main"
    return next(filter(None, (check(facts) for check in _CHECKS)), "")


def _find_missing_assertion(facts: TextFacts) -> str:
    # Rules of C are the property there.
    if facts.required_property is Property.NO_OVERFLOW:
        return ""
    names = facts.error_names
    errors = ASSERT_FUNCTIONS | FAILURE_FUNCTIONS | names.failures | names.assertions
    labels = {
        label.name
        for function in facts.reached_functions
        for label in iter_nodes(facts.functions[function], (c_ast.Label,))
    }
    return "" if errors & facts.called_functions or names.labels & labels else NO_ASSERTION


def _find_unknown_call(facts: TextFacts) -> str:
    """Find a call whose effects or result only another file or the system defines."""
    known = set(facts.functions) | set(facts.inputs)
    for name in sorted(facts.reached_functions):
        for call in iter_nodes(facts.functions[name], (c_ast.FuncCall,)):
            callee = callee_name(call)
            if callee in facts.called_functions - known and not facts.is_known(callee):
                return format_construct(f"the call of {callee}", call)
    if facts.calls_pointers:
        return "the call of a pointer"
    return "an annotation of ACSL" if facts.is_annotated else ""


def _find_foreign_variable(facts: TextFacts) -> str:
    """Find a variable that something outside of the text may set."""
    for node in iter_nodes(facts.unit, (c_ast.Decl, c_ast.TypeDecl, c_ast.PtrDecl)):
        # A volatile variable may change between two reads, an external one before the first.
        if "volatile" in node.quals:
            return format_construct("a volatile variable", node)
        is_variable = isinstance(node, c_ast.Decl) and not isinstance(node.type, c_ast.FuncDecl)
        if is_variable and "extern" in node.storage:
            return format_construct("a variable of another file", node)
    # A verifier bounds the number and the lengths of a program's arguments.
    has_parameters = list_parameters(facts.functions["main"].decl)
    return "parameters of main" if has_parameters else ""


def _find_machine_type(facts: TextFacts) -> str:
    """Find a type whose width or length differs between verifiers and machines."""
    for array in iter_nodes(facts.unit, (c_ast.ArrayDecl,)):
        # A verifier may accept a length that is not positive.
        if array.dim is not None and any(iter_nodes(array.dim, (c_ast.ID,))):
            return format_construct("an array of variable length", array)
    return ""


def _find_address_use(facts: TextFacts) -> str:
    """Find an address, or a type with several meanings."""
    found = find_address(facts)
    return "" if found is None else format_construct(*found)


def _find_unmarked_label(facts: TextFacts) -> str:
    """Find a label of an error that comments or macros hide from the search."""
    for label in iter_nodes(facts.unit, (c_ast.Label,)):
        if label.name in facts.error_names.labels and not _is_marked(label):
            return format_construct(f"the label {label.name}, which cannot be marked,", label)
    return ""


def _is_marked(label: c_ast.Label) -> bool:
    match label.stmt:
        case c_ast.If(cond=c_ast.FuncCall() as call):
            return callee_name(call) == ERROR_FUNCTION
    return False


def _find_order_dependence(facts: TextFacts) -> str:
    can_overflow = facts.required_property is Property.NO_OVERFLOW
    node = find_order_dependence(facts.unit, facts.inputs, can_overflow)
    construct = "an expression that may depend on the evaluation order"
    return "" if node is None else format_construct(construct, node)


def _find_skipped_declaration(facts: TextFacts) -> str:
    for name in sorted(facts.reached_functions):
        node = find_skipped_declaration(facts.functions[name])
        if node is not None:
            return format_construct(f"a jump over the declaration of {node.name}", node)
    return ""


def _find_wrong_builtin(facts: TextFacts) -> str:
    """Find a definition of a builtin that may differ from its known meaning."""
    names = facts.error_names
    errors = ASSERT_FUNCTIONS | FAILURE_FUNCTIONS | names.failures | names.assertions
    undefined_errors = errors - set(facts.functions)
    for name in sorted(facts.functions):
        # A verifier reads the definition, so that it must end in an error of the verifier.
        is_silent = name in errors and not facts.names_any(name, undefined_errors)
        if is_silent or name in MODELLED_FUNCTIONS:
            return format_construct(f"the definition of {name}", facts.functions[name])
    try:
        read_builtins(facts.unit, ExpressionReader("text", (), {}))
    except UnsupportedProgram as error:
        return str(error)
    return ""


_CHECKS: tuple[Callable[[TextFacts], str], ...] = (
    _find_missing_assertion,
    _find_unknown_call,
    _find_foreign_variable,
    _find_machine_type,
    _find_unmarked_label,
    _find_order_dependence,
    _find_skipped_declaration,
    _find_wrong_builtin,
    _find_address_use,
)
