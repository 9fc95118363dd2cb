"""Definitions of the functions that a C text leaves undefined, as a second C text.

ESBMC links both texts, so that the original text stays as it is. Without a body, an assertion has
no effect, and every text would be correct.
"""

from collections.abc import Iterator

from loop_invariants.frontend.original_text import OriginalText
from loop_invariants.frontend.preprocessing.translation_phases import (
    ERROR_FUNCTION,
    FAILURE_FUNCTIONS,
)
from loop_invariants.frontend.verifier_builtins import (
    ASSERT_FUNCTIONS,
    ASSUME_FUNCTIONS,
    is_violation,
)
from loop_invariants.ir.expressions import INT, Type, format_type
from loop_invariants.verification.esbmc import (
    ASSERTION,
    ASSUMPTION,
    BODYLESS_PREFIX,
    BUILTINS,
    INPUT_VARIABLE,
)

_LIBRARY_FUNCTIONS = frozenset(("assert", "__assert_fail"))
"""Functions that the C library defines, and ESBMC knows."""


def build_harness(text: OriginalText) -> str:
    """Build the definitions of the functions that a text leaves undefined, for ESBMC."""
    types = sorted(set(text.inputs.values()), key=str)
    lines = [f"{_format_type(t)} {_name_input(t)}(void);" for t in types]
    for name, type_ in text.inputs.items():
        c_type = _format_type(type_)
        # The variable shows each input in the trace, in the order of the calls.
        lines.append(
            f"{c_type} {name}(void) {{ {c_type} {INPUT_VARIABLE} = {_name_input(type_)}(); "
            f"return {INPUT_VARIABLE}; }}"
        )
    undefined = text.called_functions - text.defined_functions - _LIBRARY_FUNCTIONS - BUILTINS
    for name in sorted(undefined):
        check = ASSERTION if is_violation(name, text.required_property) else ASSUMPTION
        lines += format_check(
            text, name, check.format("c != 0"), check.format("0"), ASSUMPTION.format("c != 0")
        )
    return "\n".join((*lines, ""))


def format_check(
    text: OriginalText, name: str, assertion: str, failure: str, assumption: str
) -> Iterator[str]:
    """Yield the definition of an assertion, a failure or an assumption; none for others.

    Args:
        text: the text that leaves the function undefined.
        name: name of the function.
        assertion: statement of an assertion of the parameter `c`.
        failure: statement of a failure.
        assumption: statement of an assumption of `c`.
    """
    names, parameter = text.error_names, _format_type(text.check_types.get(name, INT))
    if name in ASSERT_FUNCTIONS | names.assertions:
        yield f"void {name}({parameter} c) {{ {assertion} }}"
    elif name in FAILURE_FUNCTIONS | names.failures:
        # After a failure no statement is reached, so that the result needs no value.
        result = "int" if name == ERROR_FUNCTION else "void"
        yield f"{result} {name}(void) {{ {failure} }}"
    elif name in ASSUME_FUNCTIONS | names.assumptions:
        yield f"void {name}({parameter} c) {{ {assumption} }}"


def _name_input(type_: Type) -> str:
    """Return the function of an input of a type; without a body, it returns any value."""
    return f"{BODYLESS_PREFIX}{'' if type_.signed else 'u'}int{type_.bits}"


def _format_type(type_: Type) -> str:
    # ESBMC treats `signed char` as a different type.
    return "char" if type_.bits == 8 and type_.signed else format_type(type_)
