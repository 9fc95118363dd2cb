"""C expressions, read by pycparser."""

from collections.abc import Callable, Container, Mapping

from pycparser import c_ast, c_parser

from llmchecker.errors import UnsupportedProgram
from llmchecker.invariants.expressions import (
    ARITHMETIC,
    COMPARISONS,
    CONNECTIVES,
    INT_MAX,
    Binary,
    Conditional,
    Element,
    Expression,
    Literal,
    Nondet,
    Quantified,
    Type,
    Unary,
    Variable,
    is_truth,
    variables,
    walk,
)

NONDET = "__VERIFIER_nondet_"
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
}
"""The type of what `__VERIFIER_nondet_…()` returns, by the end of its name."""

_LONG_MAX = 2**63 - 1

QUANTIFIERS = {"__ESBMC_forall": "forall", "__ESBMC_exists": "exists"}

_OPERATORS = frozenset((*ARITHMETIC, *COMPARISONS, *CONNECTIVES))


def parse_condition(text: str, scope: Container[str]) -> Expression:
    """Read a condition over the variables in scope, as it stands between two parentheses.

    Raises:
        UnsupportedProgram: it is not an expression, names what is not in scope, calls a function
            other than a quantifier, or changes a variable.
    """
    try:
        unit = c_parser.CParser().parse(f"int main(void) {{ (void)({text}\n); }}", "condition")
        (statement,) = unit.ext[0].body.block_items
        if len(unit.ext) != 1 or not isinstance(statement, c_ast.Cast):
            raise UnsupportedProgram(f"{text!r} is not one expression")
    except (c_parser.ParseError, ValueError, AssertionError, RecursionError) as error:
        raise UnsupportedProgram(f"{text!r} is not a C expression: {error}") from error
    return ExpressionReader("condition", scope, nondet=False).read(statement.expr)


def parse_candidate(text: str, scope: Container[str], types: Mapping[str, Type]) -> Expression:
    """Read a condition that can be an invariant: true or false of at least one variable.

    Args:
        types: of the variables in scope.

    Raises:
        UnsupportedProgram: it is not a condition, as for `parse_condition`, is a number or the
            same for all values, or indexes what is no array.
    """
    expression = parse_condition(text, scope)
    for node in walk(expression):
        match node:
            case Variable(name=name) if name in types and types[name].array:
                raise UnsupportedProgram(f"{text!r} uses the array {name!r} as a number")
            case Element(array=name) if not types[name].array:
                raise UnsupportedProgram(f"{text!r} indexes {name!r}, which is no array")
    if not is_truth(expression) or not variables(expression):
        raise UnsupportedProgram(f"{text!r} is no condition of a variable")
    return expression


def before_closing(text: str) -> str | None:
    """The text before the parenthesis that closes one opened before it; None if none does."""
    depth = 1
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return text[:place]
    return None


class ExpressionReader:
    """Reads the expressions of one source file.

    Args:
        source: the name of the file, for messages.
        scope: the names that may be used; looked up when an expression is read.
        nondet: whether `__VERIFIER_nondet_…()` may be called.
    """

    def __init__(self, source: str, scope: Container[str], nondet: bool = True) -> None:
        self._source = source
        self._scope = scope
        self._nondet = nondet

    def read(self, node: c_ast.Node, bound: frozenset[str] = frozenset()) -> Expression:
        """Turn a node of the syntax tree into an expression.

        Args:
            bound: variables of quantifiers around it.

        Raises:
            UnsupportedProgram: it is not an expression without side effects over integers.
        """
        readers: dict[type, Callable[..., Expression]] = {
            c_ast.Constant: self._constant,
            c_ast.ID: self._variable,
            c_ast.ArrayRef: self._element,
            c_ast.UnaryOp: self._unary,
            c_ast.BinaryOp: self._binary,
            c_ast.TernaryOp: self._conditional,
            c_ast.FuncCall: self._call,
        }
        if type(node) not in readers:
            raise self.unsupported(node, _NAMES.get(type(node), type(node).__name__))
        return readers[type(node)](node, bound)

    def unsupported(self, node: c_ast.Node, what: str) -> UnsupportedProgram:
        """The error for a construct that is not covered, at its place in the file."""
        line = node.coord.line if node.coord else "?"
        return UnsupportedProgram(f"{self._source}:{line}: {what} is not supported")

    def _constant(self, node: c_ast.Constant, bound: frozenset[str]) -> Expression:
        if node.type == "char" and len(node.value) == 3:
            return Literal(ord(node.value[1]))
        if "float" in node.type or "double" in node.type or node.type in ("string", "char"):
            raise self.unsupported(node, f"the constant {node.value}")
        digits = node.value.rstrip("uUlL")
        octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
        value = int(digits, 8 if octal else 0)
        if "u" in node.value.lower() or (digits[0] == "0" and value > INT_MAX):
            raise self.unsupported(node, f"the unsigned constant {node.value}")
        if value > _LONG_MAX or (digits != node.value and value <= INT_MAX):
            # The type of a number is read off its value.
            raise self.unsupported(node, f"the constant {node.value}")
        return Literal(value)

    def _variable(self, node: c_ast.ID, bound: frozenset[str]) -> Expression:
        if node.name in ("true", "false") and node.name not in self._scope:
            return Literal(int(node.name == "true"))
        if node.name not in self._scope and node.name not in bound:
            raise self.unsupported(node, f"{node.name!r}, which is not a variable in scope,")
        return Variable(node.name)

    def _element(self, node: c_ast.ArrayRef, bound: frozenset[str]) -> Expression:
        if not isinstance(node.name, c_ast.ID):
            raise self.unsupported(node, "an array of arrays")
        self._variable(node.name, frozenset())
        return Element(node.name.name, self.read(node.subscript, bound))

    def _unary(self, node: c_ast.UnaryOp, bound: frozenset[str]) -> Expression:
        if node.op in ("p++", "p--", "++", "--"):
            raise self.unsupported(node, "an increment inside an expression")
        if node.op == "+":
            return self.read(node.expr, bound)
        if node.op not in ("-", "!"):
            raise self.unsupported(node, _NAMES.get(node.op, f"the operator {node.op}"))
        operand = self.read(node.expr, bound)
        if node.op == "-" and isinstance(operand, Literal) and operand.value != INT_MAX + 1:
            return Literal(-operand.value)
        return Unary(node.op, operand)

    def _binary(self, node: c_ast.BinaryOp, bound: frozenset[str]) -> Expression:
        if node.op not in _OPERATORS:
            raise self.unsupported(node, f"the operator {node.op}")
        return Binary(node.op, self.read(node.left, bound), self.read(node.right, bound))

    def _conditional(self, node: c_ast.TernaryOp, bound: frozenset[str]) -> Expression:
        return Conditional(*(self.read(n, bound) for n in (node.cond, node.iftrue, node.iffalse)))

    def _call(self, node: c_ast.FuncCall, bound: frozenset[str]) -> Expression:
        name = called(node)
        if name in QUANTIFIERS:
            return self._quantified(node, bound)
        if self._nondet and name.startswith(NONDET) and not node.args:
            kind = name.removeprefix(NONDET)
            if kind in NONDET_TYPES:
                return Nondet(NONDET_TYPES[kind])
        raise self.unsupported(node, f"the call of {name or 'a function'} in an expression")

    def _quantified(self, node: c_ast.FuncCall, bound: frozenset[str]) -> Expression:
        match node.args.exprs if node.args else ():
            case [c_ast.UnaryOp(op="&", expr=c_ast.ID(name=name)), body]:
                inner = self.read(body, bound | {name})
                return Quantified(QUANTIFIERS[called(node)], name, inner)
        raise self.unsupported(node, "a quantifier without a variable and a body")


def called(node: c_ast.FuncCall) -> str:
    """The name of the function that a call calls; empty if that is an expression."""
    return node.name.name if isinstance(node.name, c_ast.ID) else ""


_NAMES = {
    "*": "a pointer",
    "&": "the address of a variable",
    "sizeof": "sizeof",
    c_ast.StructRef: "a structure",
    c_ast.Cast: "a cast",
    c_ast.Assignment: "an assignment inside an expression",
    c_ast.ExprList: "the comma operator",
}
