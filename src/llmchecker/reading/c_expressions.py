"""C expressions, read by pycparser."""

from collections.abc import Callable, Container, Mapping
from types import MappingProxyType

from pycparser import c_ast, c_parser

from llmchecker.errors import UnsupportedProgram
from llmchecker.programs.expressions import (
    ARITHMETIC,
    COMPARISONS,
    CONNECTIVES,
    INT,
    INT_MAX,
    Binary,
    Cast,
    Constant,
    Element,
    Expression,
    Identifier,
    Nondet,
    Quantified,
    Ternary,
    Type,
    Unary,
    c_text,
    is_truth,
    literal_type,
    variables,
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
"""The type that `__VERIFIER_nondet_…()` returns, by the end of its name."""

ALL_INT: Mapping[str, Type] = MappingProxyType({})
"""The types of a program in which every variable is an int: a name without a type is one."""

ESBMC_QUANTIFIERS = {"__ESBMC_forall": "forall", "__ESBMC_exists": "exists"}

_LONG_MAX = 2**63 - 1

_MOST_DIGITS = 70
"""The most digits that a constant may have: enough for 64 bits in base 2."""


_ESCAPES = {"n": 10, "t": 9, "r": 13, "0": 0, "a": 7, "b": 8, "f": 12, "v": 11}
_ESCAPES |= {character: ord(character) for character in "\\'\"?"}
"""Characters that stand after a backslash in a character constant."""

MOST_NESTED = 100
"""The deepest nesting of syntax that is read: far less than the interpreter's stack allows."""


def parse_condition(
    text: str, scope: Container[str], types: Mapping[str, Type] = ALL_INT
) -> Expression:
    """Read a condition over the variables in scope.

    Args:
        text: the condition, as it would stand between two parentheses.
        scope: the names that may occur free in it.
        types: the type of every variable of the program, in scope or not.

    Raises:
        UnsupportedProgram: the text is not an expression, names something that is not in scope,
            calls a function other than a quantifier, or changes a variable.
    """
    # The cast makes a statement of any expression. The line break ends a `//` comment in the text.
    # Text that closes the parenthesis itself gives more than one statement or no cast.
    try:
        unit = c_parser.CParser().parse(f"int main(void) {{ (void)({text}\n); }}", "condition")
        (statement,) = unit.ext[0].body.block_items
        if len(unit.ext) != 1 or not isinstance(statement, c_ast.Cast):
            raise UnsupportedProgram(f"{text!r} is not one expression")
    except (c_parser.ParseError, ValueError, AssertionError, RecursionError) as error:
        raise UnsupportedProgram(f"{text!r} is not a C expression: {error}") from error
    reader = ExpressionReader("condition", scope, types, nondet=False)
    reader.refuse_deep(statement)
    return reader.read(statement.expr)


def parse_candidate(text: str, scope: Container[str], types: Mapping[str, Type]) -> Expression:
    """Read a condition that can be an invariant: one that is true or false and names a variable.

    Raises:
        UnsupportedProgram: the text is not a condition that `parse_condition` reads, is a number,
            or names no variable.
    """
    expression = parse_condition(text, scope, types)
    if not is_truth(expression) or not variables(expression):
        raise UnsupportedProgram(f"{text!r} is not a condition that names a variable")
    return expression


def closing(text: str) -> int | None:
    """The index of the parenthesis that closes one opened before the text; None without one."""
    depth = 1
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return place
    return None


class ExpressionReader:
    """Reads the expressions of one source file.

    Args:
        source: the name of the file, for messages.
        scope: the names that may be used; looked up each time an expression is read.
        types: the types of the names declared so far; looked up each time an expression is read.
        nondet: whether the expressions stand in a program, not in an invariant. A program may call
            `__VERIFIER_nondet_…()` and must declare the variables of its quantifiers.
    """

    def __init__(
        self,
        source: str,
        scope: Container[str],
        types: Mapping[str, Type],
        nondet: bool = True,
    ) -> None:
        self._operators = frozenset((*ARITHMETIC, *COMPARISONS, *CONNECTIVES))
        self._source = source
        self._scope = scope
        self._types = types
        self._nondet = nondet

    def read(self, node: c_ast.Node, bound: frozenset[str] = frozenset()) -> Expression:
        """Turn a node of the syntax tree into an expression.

        Args:
            bound: the variables of the quantifiers around it.

        Raises:
            UnsupportedProgram: the node is not an integer expression, or has side effects.
        """
        readers = self._readers()
        if type(node) not in readers:
            raise self.unsupported(node, _NAMES.get(type(node), type(node).__name__))
        return readers[type(node)](node, bound)

    def _readers(self) -> dict[type, Callable[..., Expression]]:
        """What reads each kind of node."""
        return {
            c_ast.Constant: self._constant,
            c_ast.ID: self._variable,
            c_ast.ArrayRef: self._element,
            c_ast.UnaryOp: self._unary,
            c_ast.BinaryOp: self._binary,
            c_ast.TernaryOp: self._conditional,
            c_ast.FuncCall: self._call,
        }

    def unsupported(self, node: c_ast.Node, what: str) -> UnsupportedProgram:
        """The error that names a construct which is not covered, with its file and line."""
        line = node.coord.line if node.coord else "?"
        return UnsupportedProgram(f"{self._source}:{line}: {what} is not supported")

    def refuse_deep(self, node: c_ast.Node) -> None:
        """Raise UnsupportedProgram if the syntax is nested deeper than `MOST_NESTED`."""
        # Level by level, since recursion is what deep nesting would break.
        level, depth = [node], 0
        while level:
            if depth > MOST_NESTED:
                raise self.unsupported(level[0], f"nesting deeper than {MOST_NESTED}")
            level = [child for parent in level for _, child in parent.children()]
            depth += 1

    def _constant(self, node: c_ast.Constant, bound: frozenset[str]) -> Expression:
        if node.type == "char" and len(node.value) == 3 and node.value.isascii():
            return Constant(ord(node.value[1]))
        digits = node.value.rstrip("uUlL")
        if len(digits) > _MOST_DIGITS:
            raise self.unsupported(node, f"a constant of {len(digits)} digits")
        if not node.type.endswith("int") or not node.value[0].isdigit():
            raise self.unsupported(node, f"the constant {node.value}")
        value = self._number(node, digits)
        decimal = digits.isdigit() and (digits[0] != "0" or digits == "0")
        # A hexadecimal or octal constant that an int cannot hold is unsigned if that can hold it
        # (C11 6.4.4.1p5); a decimal one becomes a long.
        if "unsigned" in node.type or (not decimal and INT_MAX < value <= 2 * INT_MAX + 1):
            raise self.unsupported(node, f"the unsigned constant {node.value}")
        if value > _LONG_MAX or ("long" in node.type and value <= INT_MAX):
            raise self.unsupported(node, f"the constant {node.value}")
        return Constant(value)

    def _typed_constant(self, node: c_ast.Constant) -> Expression | None:
        """A constant of the first type that holds it (C11 6.4.4.1p5); None if it is no number."""
        if node.type == "char" and node.value[1:2] == "\\" and node.value[2:-1] in _ESCAPES:
            return Constant(_ESCAPES[node.value[2:-1]])
        if not node.type.endswith("int") or not node.value[0].isdigit():
            return None
        digits = node.value.rstrip("uUlL")
        value = self._number(node, digits)
        suffix = node.value[len(digits) :].lower()
        types = [INT, Type(32, False), Type(64), Type(64, False)]
        if "u" in suffix:
            types = [type_ for type_ in types if not type_.signed]
        elif digits[0] != "0" or digits == "0":
            types = [type_ for type_ in types if type_.signed]
        if "l" in suffix:
            types = [type_ for type_ in types if type_.bits == 64]
        fitting = [type_ for type_ in types if value <= type_.most]
        if not fitting:
            raise self.unsupported(node, f"the constant {node.value}")
        constant = Constant(value)
        return constant if literal_type(value) == fitting[0] else Cast(fitting[0], constant)

    def _number(self, node: c_ast.Constant, digits: str) -> int:
        """The number that digits stand for, in any base of C."""
        if len(digits) > _MOST_DIGITS:
            raise self.unsupported(node, f"a constant of {len(digits)} digits")
        octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
        try:
            return int(digits, 8 if octal else 0)
        except ValueError as error:
            raise self.unsupported(node, f"the constant {node.value}") from error

    def _variable(self, node: c_ast.ID, bound: frozenset[str]) -> Expression:
        if node.name in ("true", "false") and node.name not in self._scope:
            return Constant(int(node.name == "true"))
        if node.name not in self._scope and node.name not in bound:
            raise self.unsupported(node, f"{node.name!r}, which is not a variable in scope,")
        if node.name not in bound and self._types.get(node.name, INT).array:
            raise self.unsupported(node, f"the array {node.name!r} without an index")
        return Identifier(node.name)

    def _element(self, node: c_ast.ArrayRef, bound: frozenset[str]) -> Expression:
        if not isinstance(node.name, c_ast.ID):
            raise self.unsupported(node, "an array of arrays")
        name = node.name.name
        if name not in bound and isinstance(node.subscript, c_ast.Constant):
            own = c_text(Element(name, self._constant(node.subscript, bound)))
            if own in self._scope:  # the element is an integer of its own
                return Identifier(own)
        if name in bound or name not in self._scope or not self._types.get(name, INT).array:
            raise self.unsupported(node, f"an index of {name!r}, which is not an array in scope,")
        return Element(name, self.read(node.subscript, bound))

    def _unary(self, node: c_ast.UnaryOp, bound: frozenset[str]) -> Expression:
        if node.op in ("p++", "p--", "++", "--"):
            raise self.unsupported(node, "an increment inside an expression")
        if node.op == "+":
            return self.read(node.expr, bound)
        if node.op not in ("-", "!"):
            raise self.unsupported(node, _NAMES.get(node.op, f"the operator {node.op}"))
        operand = self.read(node.expr, bound)
        if node.op == "-" and isinstance(operand, Constant):
            # So that equal numbers are equal expressions, whatever way they were written.
            return Constant(-operand.value)
        return Unary(node.op, operand)

    def _binary(self, node: c_ast.BinaryOp, bound: frozenset[str]) -> Expression:
        if node.op not in self._operators:
            raise self.unsupported(node, f"the operator {node.op}")
        return Binary(node.op, self.read(node.left, bound), self.read(node.right, bound))

    def _conditional(self, node: c_ast.TernaryOp, bound: frozenset[str]) -> Expression:
        return Ternary(*(self.read(n, bound) for n in (node.cond, node.iftrue, node.iffalse)))

    def _call(self, node: c_ast.FuncCall, bound: frozenset[str]) -> Expression:
        name = called(node)
        if name in ESBMC_QUANTIFIERS:
            return self._quantified(node, bound)
        # Inside a quantifier a drawn value would be another one for every bound value.
        if self._nondet and not bound and name.startswith(NONDET) and not node.args:
            type_ = drawn(name)
            if type_ is not None:
                return Nondet(type_)
        raise self.unsupported(node, f"the call of {name or 'a function'} in an expression")

    def _quantified(self, node: c_ast.FuncCall, bound: frozenset[str]) -> Expression:
        match node.args.exprs if node.args else ():
            case [c_ast.UnaryOp(op="&", expr=c_ast.ID(name=name)), body]:
                # An invariant may bind a new name, which `annotate` declares as an int.
                if self._types.get(name, None if self._nondet else INT) != INT:
                    raise self.unsupported(node, f"a quantifier over {name!r}, which is no int,")
                inner = self.read(body, bound | {name})
                return Quantified(ESBMC_QUANTIFIERS[called(node)], name, inner)
        raise self.unsupported(node, "a quantifier without a variable and a body")


def called(node: c_ast.FuncCall) -> str:
    """The name of the function that is called; empty if it is called through an expression."""
    return node.name.name if isinstance(node.name, c_ast.ID) else ""


def drawn(name: str) -> Type | None:
    """The type of the value that a function of this name draws; None if it draws none."""
    return NONDET_TYPES.get(name.removeprefix(NONDET)) if name.startswith(NONDET) else None


_NAMES = {
    "*": "a pointer",
    "&": "the address of a variable",
    "sizeof": "sizeof",
    c_ast.StructRef: "a structure",
    c_ast.Cast: "a cast",
    c_ast.Assignment: "an assignment inside an expression",
    c_ast.ExprList: "the comma operator",
}
