"""C expressions: conversion of pycparser's syntax tree, without side effects."""

import re
from collections.abc import Callable, Container, Mapping
from types import MappingProxyType

from pycparser import c_ast, c_parser

from llmchecker.errors import UnsupportedProgram
from loop_invariants.ir.expressions import (
    ARITHMETIC,
    COMPARISONS,
    CONNECTIVES,
    INT,
    Binary,
    Constant,
    Element,
    Expression,
    Identifier,
    Nondet,
    Quantified,
    Ternary,
    Type,
    Unary,
    is_boolean,
    variables,
)

NONDET_PREFIX = "__VERIFIER_nondet_"
NONDET_TYPES = {
    "int": Type(32, True),
    "uint": Type(32, False),
    "unsigned": Type(32, False),
    "unsigned_int": Type(32, False),
    "long": Type(64, True),
    "ulong": Type(64, False),
    "short": Type(16, True),
    "ushort": Type(16, False),
    "char": Type(8, True),
    "uchar": Type(8, False),
    "bool": Type(1, False),
    "longlong": Type(64, True),
    "ulonglong": Type(64, False),
    "size_t": Type(64, False),
    "unsigned_char": Type(8, False),
    "S8": Type(8, True),
    "u8": Type(8, False),
    "u16": Type(16, False),
    "u32": Type(32, False),
    "u64": Type(64, False),
}
"""Result type of `__VERIFIER_nondet_…()`, by suffix of the name."""

_ALL_INT: Mapping[str, Type] = MappingProxyType({})
"""Types of a program with int variables only: a name without a type is an int."""

QUANTIFIER_FUNCTIONS = {
    "__ESBMC_forall": "forall",
    "__ESBMC_exists": "exists",
    "__forall": "forall",
    "__exists": "exists",
}
"""Quantifier of each function of ESBMC, and of the short names beside `__invariant`."""

_MAX_DIGITS = 70
"""Maximum number of digits of a constant: enough for 64 bits in base 2."""

_DIGITS = re.compile(r"0[xX][0-9a-fA-F]+|0[bB][01]+|[0-7]+|[1-9]\d*")
"""Digits of an integer constant, without a suffix."""


_ESCAPES = {"n": 10, "t": 9, "r": 13, "0": 0, "a": 7, "b": 8, "f": 12, "v": 11}
_ESCAPES |= {character: ord(character) for character in "\\'\"?"}
"""Characters after a backslash in a character constant."""

MAX_NESTING = 100
"""Maximum nesting of syntax, far below the interpreter's recursion limit."""


def parse_condition(
    text: str, scope: Container[str], types: Mapping[str, Type] = _ALL_INT
) -> Expression:
    """Parse a condition over the variables in scope.

    Args:
        text: condition, as it would be written between two parentheses.
        scope: names that may occur free in the condition.
        types: type of every variable of the program, in scope or not.

    Raises:
        UnsupportedProgram: the text is not an expression, contains a name that is not in scope,
            calls a function other than a quantifier, or changes a variable.
    """
    # The cast turns every expression into a statement. The line break ends a `//` comment. Text
    # with an unbalanced parenthesis gives more than one statement, or no cast.
    try:
        unit = c_parser.CParser().parse(f"int main(void) {{ (void)({text}\n); }}", "condition")
        (statement,) = unit.ext[0].body.block_items
        if len(unit.ext) != 1 or not isinstance(statement, c_ast.Cast):
            raise UnsupportedProgram(f"condition: {text!r} is not one expression; write one")
    except (c_parser.ParseError, ValueError, AssertionError, RecursionError) as error:
        raise UnsupportedProgram(
            f"condition: {text!r} is not a C expression: {error}; correct it"
        ) from error
    reader = ExpressionReader("condition", scope, types, allow_nondet=False)
    reader.check_nesting(statement)
    return reader.read(statement.expr)


def parse_candidate(text: str, scope: Container[str], types: Mapping[str, Type]) -> Expression:
    """Parse a candidate invariant: a truth value that depends on a variable.

    Args:
        text: condition.
        scope: names that may occur free in the condition.
        types: type of every variable of the program.

    Raises:
        UnsupportedProgram: `parse_condition` rejects the text, or it is a number, or contains no
            variable.
    """
    # A constant condition is independent of the program's state.
    expression = parse_condition(text, scope, types)
    if not is_boolean(expression) or not variables(expression):
        raise UnsupportedProgram(f"condition: {text!r} compares no variable; name one")
    return expression


def find_closing_parenthesis(text: str) -> int | None:
    """Return the index of the first unmatched closing parenthesis; else None."""
    depth = 1
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return position
    return None


class ExpressionReader:
    """Reader of the expressions of one source file.

    Args:
        source: name of the file in messages.
        scope: names in scope; looked up at every expression.
        types: types of the names declared so far; looked up at every expression.
        allow_nondet: whether the expressions are part of a program, not of an invariant. A program
            may call `__VERIFIER_nondet_…()` and must declare the variables of its quantifiers.
    """

    def __init__(
        self,
        source: str,
        scope: Container[str],
        types: Mapping[str, Type],
        allow_nondet: bool = True,
    ) -> None:
        self._operators = frozenset((*ARITHMETIC, *COMPARISONS, *CONNECTIVES))
        self._source = source
        self._scope = scope
        self._types = types
        self._allow_nondet = allow_nondet
        # Variables of the quantifiers around the current expression.
        self._bound_names: frozenset[str] = frozenset()

    def read(self, node: c_ast.Node) -> Expression:
        """Convert a node of the syntax tree to an expression.

        Raises:
            UnsupportedProgram: the node is not an integer expression, or has side effects.
        """
        readers = self._build_readers()
        if type(node) not in readers:
            raise self.build_error(node, _CONSTRUCT_NAMES.get(type(node), type(node).__name__))
        return readers[type(node)](node)

    def _build_readers(self) -> dict[type, Callable[..., Expression]]:
        """Return the reader of each kind of node."""
        return {
            c_ast.Constant: self._read_constant,
            c_ast.ID: self._read_variable,
            c_ast.ArrayRef: self._read_element,
            c_ast.UnaryOp: self._read_unary,
            c_ast.BinaryOp: self._read_binary,
            c_ast.TernaryOp: self._read_conditional,
            c_ast.FuncCall: self._read_call,
        }

    def build_error(self, node: c_ast.Node, construct: str) -> UnsupportedProgram:
        """Build the error for an unsupported construct, with its file and line."""
        line = node.coord.line if node.coord else "?"
        return UnsupportedProgram(
            f"{self._source}:{line}: {construct} is not supported; rewrite it"
        )

    def check_nesting(self, node: c_ast.Node) -> None:
        """Raise UnsupportedProgram if the syntax is nested deeper than `MAX_NESTING`."""
        # Level by level, since recursion would fail for deep nesting.
        level, depth = [node], 0
        while level:
            if depth > MAX_NESTING:
                raise self.build_error(level[0], f"nesting deeper than {MAX_NESTING}")
            level = [child for parent in level for _, child in parent.children()]
            depth += 1

    def _read_constant(self, node: c_ast.Constant) -> Expression:
        if node.type == "char" and len(node.value) == 3 and node.value.isascii():
            return Constant(ord(node.value[1]))
        if node.type == "char" and node.value[1:2] == "\\" and node.value[2:-1] in _ESCAPES:
            return Constant(_ESCAPES[node.value[2:-1]])
        try:
            value, type_ = parse_integer_constant(node)
        except ValueError as error:
            raise self.build_error(node, str(error)) from error
        return self._build_constant(node, Constant(value), type_)

    def _build_constant(self, node: c_ast.Constant, constant: Constant, type_: Type) -> Expression:
        """Build a constant of a type; an invariant has none whose value has another type."""
        if constant.type == type_:
            return constant
        sign = "" if type_.signed else "unsigned "
        raise self.build_error(node, f"the {sign}constant {node.value}")

    def _read_variable(self, node: c_ast.ID) -> Expression:
        # `true` and `false` are macros of a header, which the text may not include.
        if node.name in ("true", "false") and node.name not in self._scope:
            return Constant(int(node.name == "true"))
        if node.name not in self._scope and node.name not in self._bound_names:
            raise self.build_error(node, f"{node.name!r}, which is not a variable in scope,")
        type_ = INT if node.name in self._bound_names else self._types.get(node.name, INT)
        if type_.is_array:
            raise self.build_error(node, f"the array {node.name!r} without an index")
        return Identifier(node.name, type_)

    def _read_element(self, node: c_ast.ArrayRef) -> Expression:
        if not isinstance(node.name, c_ast.ID):
            raise self.build_error(node, "an array of arrays")
        name = node.name.name
        if (
            name in self._bound_names
            or name not in self._scope
            or not self._types.get(name, INT).is_array
        ):
            raise self.build_error(node, f"an index of {name!r}, which is not an array in scope,")
        return Element(name, self.read(node.subscript), self._types[name])

    def _read_unary(self, node: c_ast.UnaryOp) -> Expression:
        if node.op in ("p++", "p--", "++", "--"):
            raise self.build_error(node, "an increment inside an expression")
        if node.op == "+":
            return self.read(node.expr)
        if node.op not in ("-", "!"):
            raise self.build_error(node, _CONSTRUCT_NAMES.get(node.op, f"the operator {node.op}"))
        operand = self.read(node.expr)
        if node.op == "-" and isinstance(operand, Constant):
            # Equal numbers become equal expressions, independent of their notation.
            return Constant(-operand.value)
        return Unary(node.op, operand)

    def _read_binary(self, node: c_ast.BinaryOp) -> Expression:
        if node.op not in self._operators:
            raise self.build_error(node, f"the operator {node.op}")
        return Binary(node.op, self.read(node.left), self.read(node.right))

    def _read_conditional(self, node: c_ast.TernaryOp) -> Expression:
        return Ternary(*(self.read(n) for n in (node.cond, node.iftrue, node.iffalse)))

    def _read_call(self, node: c_ast.FuncCall) -> Expression:
        name = callee_name(node)
        if name in QUANTIFIER_FUNCTIONS:
            return self._read_quantifier(node)
        # Inside a quantifier, each bound value would draw another value.
        if (
            self._allow_nondet
            and not self._bound_names
            and name.startswith(NONDET_PREFIX)
            and not node.args
        ):
            type_ = nondet_type(name)
            if type_ is not None:
                return Nondet(type_)
        raise self.build_error(node, f"the call of {name or 'a function'} in an expression")

    def _read_quantifier(self, node: c_ast.FuncCall) -> Expression:
        match node.args.exprs if node.args else ():
            case [c_ast.UnaryOp(op="&", expr=c_ast.ID(name=name)), body]:
                # An invariant may bind a new name, which the ESBMC annotation declares as an int.
                if self._types.get(name, None if self._allow_nondet else INT) != INT:
                    raise self.build_error(node, f"a quantifier over {name!r}, which is no int,")
                outer_names, self._bound_names = self._bound_names, self._bound_names | {name}
                condition = self.read(body)
                self._bound_names = outer_names
                return Quantified(QUANTIFIER_FUNCTIONS[callee_name(node)], name, condition)
        raise self.build_error(node, "a quantifier without a variable and a body")


def parse_integer_constant(node: c_ast.Constant) -> tuple[int, Type]:
    """Return the value of a constant and the first type that can hold it (C11 6.4.4.1p5).

    Raises:
        ValueError: the constant is no integer, or no type can hold it; the text names it.
    """
    digits = node.value.rstrip("uUlL")
    # A longer constant exceeds 64 bits in every base.
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"a constant of {len(digits)} digits")
    is_octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
    if not node.type.endswith("int") or not _DIGITS.fullmatch(digits):
        raise ValueError(f"the constant {node.value}")
    # Python uses the prefix `0o` for octal numbers, so base 0 would reject them.
    value, suffix = int(digits, 8 if is_octal else 0), node.value[len(digits) :].lower()
    types = [INT, Type(32, False), Type(64), Type(64, False)]
    if "u" in suffix:
        types = [type_ for type_ in types if not type_.signed]
    # A decimal constant without a suffix is never unsigned.
    elif digits.isdigit() and not is_octal:
        types = [type_ for type_ in types if type_.signed]
    if "l" in suffix:
        types = [type_ for type_ in types if type_.bits == 64]
    for type_ in types:
        if value <= type_.max_value:
            return value, type_
    raise ValueError(f"the constant {node.value}")


def callee_name(node: c_ast.FuncCall) -> str:
    """Return the name of the called function; empty for an indirect call."""
    return node.name.name if isinstance(node.name, c_ast.ID) else ""


def nondet_type(name: str) -> Type | None:
    """Return the type of a nondet function's result; None for another function."""
    return (
        NONDET_TYPES.get(name.removeprefix(NONDET_PREFIX))
        if name.startswith(NONDET_PREFIX)
        else None
    )


_CONSTRUCT_NAMES = {
    "*": "a pointer",
    "&": "the address of a variable",
    "sizeof": "sizeof",
    c_ast.StructRef: "a structure",
    c_ast.Cast: "a cast",
    c_ast.Assignment: "an assignment inside an expression",
    c_ast.ExprList: "the comma operator",
}
