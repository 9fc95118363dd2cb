"""Names of errors: the functions and labels that a correct program never reaches.

    cpachecker        the set of a tool
    check(c)          a function whose argument must hold
    fail()            a function that must not be called
    BAD:              a label that must not be reached

`parse_error_names` parses such names. `mark_errors` marks their uses in a syntax tree, so that the
frontend needs to know its own builtins only.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pycparser import c_ast

from llmchecker.errors import ConfigError, UnsupportedProgram
from loop_invariants.frontend.expressions import callee_name
from loop_invariants.frontend.preprocessing.translation_phases import (
    ERROR_FUNCTION,
    NAMED_ASSERTION,
)
from loop_invariants.frontend.syntax_tree import iter_nodes

_NAME = re.compile(r"([A-Za-z_]\w*)(\(\w+\)|\(\)|:)", flags=re.ASCII)


@dataclass(frozen=True)
class ErrorNames:
    """The names of a program's errors, in addition to the builtins of SV-COMP.

    Attributes:
        assertions: functions whose first argument must hold.
        failures: functions that must not be called.
        labels: labels that must not be reached.
        assumptions: functions that return only if their argument holds.
    """

    assertions: frozenset[str] = frozenset()
    failures: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()
    assumptions: frozenset[str] = frozenset()

    def __or__(self, other: "ErrorNames") -> "ErrorNames":
        return ErrorNames(
            self.assertions | other.assertions,
            self.failures | other.failures,
            self.labels | other.labels,
            self.assumptions | other.assumptions,
        )

    @property
    def functions(self) -> frozenset[str]:
        """All functions among the names."""
        return self.assertions | self.failures | self.assumptions


_KNOWN_SETS = {
    # The frontend has these names as builtins.
    "sv-comp": ErrorNames(),
    # CPAchecker's specification ErrorLabel ignores the case of the label.
    "cpachecker": ErrorNames(labels=frozenset(("ERROR", "Error", "error"))),
    "seahorn": ErrorNames(
        assertions=frozenset(("sassert",)),
        failures=frozenset(("__SEAHORN_fail",)),
        assumptions=frozenset(("__SEA_assume",)),
    ),
    # CBMC and 2LS share these builtins, which no text declares.
    "cbmc": ErrorNames(
        assertions=frozenset(("__CPROVER_assert",)),
        assumptions=frozenset(("__CPROVER_assume",)),
    ),
    "klee": ErrorNames(
        assertions=frozenset(("klee_assert",)),
        failures=frozenset(("klee_abort", "klee_report_error")),
        assumptions=frozenset(("klee_assume",)),
    ),
}
"""The names of each tool's errors."""


def find_known_set(function: str) -> str | None:
    """Return the known set that contains a function; None without one."""
    return next((name for name, names in _KNOWN_SETS.items() if function in names.functions), None)


def parse_error_names(text: str) -> ErrorNames:
    """Parse names of errors: `klee,check(c),fail(),BAD:`.

    Args:
        text: sets and names, separated by commas.

    Raises:
        ConfigError: a part is neither a set nor a name.
    """
    names = ErrorNames()
    for part in text.split(","):
        name = part.strip()
        match = _NAME.fullmatch(name)
        if name in _KNOWN_SETS:
            names |= _KNOWN_SETS[name]
        elif match is None:
            sets = ", ".join(_KNOWN_SETS)
            raise ConfigError(
                f"--errors: {name!r} is no name of errors; use {sets}, check(c), fail() or BAD:"
            )
        else:
            field = {":": "labels", "()": "failures"}.get(match[2], "assertions")
            names |= ErrorNames(**{field: frozenset((match[1],))})
    return names


def mark_errors(unit: c_ast.FileAST, names: ErrorNames, file: str) -> None:
    """Replace uses of the names in a syntax tree by the frontend's builtins, in place.

    `check(e)` becomes an assertion of `e != 0`, `fail()` a failure, and a label is followed by a
    failure.

    Args:
        unit: syntax tree of the file.
        names: the names.
        file: name of the file in messages.

    Raises:
        UnsupportedProgram: an assertion has a body in the file, which could change its meaning.
    """
    # Most texts have no further names, and the search is recursive.
    if names == ErrorNames():
        return
    for definition in unit.ext:
        if isinstance(definition, c_ast.FuncDef) and definition.decl.name in names.assertions:
            raise UnsupportedProgram(
                f"{file}:{definition.coord.line}: {definition.decl.name} has a body; "
                "remove the name from --errors"
            )
    parameters = {
        node.name: getattr(node.type.args.params[0], "type", None)
        for node in iter_nodes(unit, (c_ast.Decl,))
        if isinstance(node.type, c_ast.FuncDecl) and node.type.args is not None
    }
    for call in list(iter_nodes(unit, (c_ast.FuncCall,))):
        _mark_call(call, names, parameters)
    for label in list(iter_nodes(unit, (c_ast.Label,))):
        if label.name in names.labels:
            failure = c_ast.FuncCall(c_ast.ID(ERROR_FUNCTION, label.coord), None, label.coord)
            # A label that jumps to itself would be read as an endless loop without its failure.
            label.stmt = c_ast.Compound([failure, label.stmt], label.coord)


def _mark_call(
    call: c_ast.FuncCall, names: ErrorNames, parameters: Mapping[str, c_ast.Node]
) -> None:
    name = callee_name(call)
    if name in names.failures:
        call.name, call.args = c_ast.ID(ERROR_FUNCTION, call.coord), None
    replacement = NAMED_ASSERTION if name in names.assertions else "__VERIFIER_assume"
    if name not in names.assertions | names.assumptions or call.args is None:
        return
    condition = call.args.exprs[0]
    # A declared parameter converts the argument before the test.
    if name in parameters and isinstance(parameters[name], c_ast.TypeDecl):
        type_name = c_ast.Typename(None, [], None, parameters[name], call.coord)
        condition = c_ast.Cast(type_name, condition, call.coord)
    zero = c_ast.Constant("int", "0", call.coord)
    condition = c_ast.BinaryOp("!=", condition, zero, call.coord)
    call.name = c_ast.ID(replacement, call.coord)
    call.args = c_ast.ExprList([condition], call.coord)
