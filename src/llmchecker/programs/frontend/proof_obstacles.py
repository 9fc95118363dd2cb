"""Reasons why the verdict of a verifier alone is no proof of a C text.

A verifier chooses one meaning where C leaves several, and bounds the environment of a program. So a
text with such a choice is not proven, whatever a verifier reports.
"""

from collections.abc import Callable

from pycparser import c_ast

from llmchecker.errors import UnsupportedProgram
from llmchecker.programs.frontend.evaluation_order import has_order_dependence
from llmchecker.programs.frontend.expressions import ExpressionReader, callee_name
from llmchecker.programs.frontend.preprocessing.translation_phases import (
    ERROR_FUNCTION,
    FAILURE_FUNCTIONS,
)
from llmchecker.programs.frontend.syntax_tree import iter_nodes
from llmchecker.programs.frontend.text_facts import MODELLED_FUNCTIONS, TextFacts
from llmchecker.programs.frontend.verifier_builtins import (
    ASSERT_FUNCTIONS,
    list_parameters,
    read_builtins,
)
from llmchecker.programs.ir.instrumentation import Property

NO_ASSERTION = "no assertion"
"""Obstacle of a text whose `main` reaches no known assertion."""

ORDER_OF_ADDRESSES = "the order of addresses"
"""Obstacle of a text that compares addresses, and has no other obstacle.

The order in one array is defined. The frontend covers no other comparison.
"""

_STEPS = ("++", "--", "p++", "p--")


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
    undefined = facts.called_functions - set(facts.functions) - set(facts.inputs)
    unknown = sorted(name for name in undefined if not facts.is_known(name))
    if unknown:
        return f"the call of {unknown[0]}"
    if facts.calls_pointers:
        return "the call of a pointer"
    return "an annotation of ACSL" if facts.is_annotated else ""


def _find_foreign_variable(facts: TextFacts) -> str:
    """Find a variable that something outside of the text may set."""
    for node in iter_nodes(facts.unit, (c_ast.Decl, c_ast.TypeDecl)):
        # A volatile variable may change between two reads, an external one before the first.
        if "volatile" in node.quals:
            return "a volatile variable"
        is_variable = isinstance(node, c_ast.Decl) and not isinstance(node.type, c_ast.FuncDecl)
        if is_variable and "extern" in node.storage:
            return "a variable of another file"
    # A verifier bounds the number and the lengths of a program's arguments.
    has_parameters = list_parameters(facts.functions["main"].decl)
    return "parameters of main" if has_parameters else ""


def _find_machine_type(facts: TextFacts) -> str:
    """Find a type whose width or length differs between verifiers and machines."""
    for array in iter_nodes(facts.unit, (c_ast.ArrayDecl,)):
        # A verifier may accept a length that is not positive.
        if array.dim is not None and any(iter_nodes(array.dim, (c_ast.ID,))):
            return "an array of variable length"
    names = (sorted(node.names) for node in iter_nodes(facts.unit, (c_ast.IdentifierType,)))
    return "the type long double" if ["double", "long"] in names else ""


def _find_address_value(facts: TextFacts) -> str:
    """Find an address that is converted to a number."""
    addresses = _list_addresses(facts)
    for node in iter_nodes(facts.unit, (c_ast.Cast,)):
        is_number = not isinstance(node.to_type.type, c_ast.PtrDecl)
        if is_number and _is_address(node.expr, addresses):
            return "an address as a number"
    return ""


def _find_address_order(facts: TextFacts) -> str:
    """Find an address that is compared by its order, which differs between objects."""
    addresses = _list_addresses(facts)
    for node in iter_nodes(facts.unit, (c_ast.BinaryOp,)):
        is_order = node.op in ("<", "<=", ">", ">=")
        if is_order and any(_is_address(side, addresses) for side in (node.left, node.right)):
            return ORDER_OF_ADDRESSES
    return ""


def _list_addresses(facts: TextFacts) -> frozenset[str]:
    """Return the names of the pointers and arrays."""
    return frozenset(
        node.name
        for node in iter_nodes(facts.unit, (c_ast.Decl,))
        if isinstance(node.type, c_ast.PtrDecl | c_ast.ArrayDecl)
    )


def _is_address(node: c_ast.Node, addresses: frozenset[str]) -> bool:
    """Return whether an expression is an address.

    Args:
        node: the expression.
        addresses: names of the pointers and arrays.
    """
    match node:
        case c_ast.ID(name=name):
            return name in addresses
        case c_ast.UnaryOp(op=op, expr=operand):
            return op == "&" or (op in _STEPS and _is_address(operand, addresses))
        case c_ast.BinaryOp(op="+" | "-", left=left, right=right):
            return _is_address(left, addresses) or _is_address(right, addresses)
        case c_ast.Cast(to_type=to_type, expr=operand):
            return isinstance(to_type.type, c_ast.PtrDecl) or _is_address(operand, addresses)
    return False


def _find_unmarked_label(facts: TextFacts) -> str:
    """Find a label of an error that comments or macros hide from the search."""
    for label in iter_nodes(facts.unit, (c_ast.Label,)):
        if label.name in facts.error_names.labels and not _is_marked(label):
            return f"the label {label.name}, which cannot be marked"
    return ""


def _is_marked(label: c_ast.Label) -> bool:
    match label.stmt:
        case c_ast.If(cond=c_ast.FuncCall() as call):
            return callee_name(call) == ERROR_FUNCTION
    return False


def _find_order_dependence(facts: TextFacts) -> str:
    is_dependent = has_order_dependence(facts.unit)
    return "an expression that may depend on the evaluation order" if is_dependent else ""


def _find_wrong_builtin(facts: TextFacts) -> str:
    """Find a definition of a builtin that may differ from its known meaning."""
    names = facts.error_names
    errors = ASSERT_FUNCTIONS | FAILURE_FUNCTIONS | names.failures | names.assertions
    undefined_errors = errors - set(facts.functions)
    for name in sorted(facts.functions):
        # A verifier reads the definition, so that it must end in an error of the verifier.
        is_silent = name in errors and not facts.names_any(name, undefined_errors)
        if is_silent or name in MODELLED_FUNCTIONS:
            return f"the definition of {name}"
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
    _find_address_value,
    _find_unmarked_label,
    _find_order_dependence,
    _find_wrong_builtin,
    # The last one, so that this obstacle is the only one of its text.
    _find_address_order,
)
