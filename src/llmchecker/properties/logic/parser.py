"""Parser of queries: probabilistic temporal formulas over step and quantifiers.

Numeric queries:

- `P=? [ path ]`: a probability
- `P=? [ path || given ]`: a conditional probability
- `R{"polarity"}=? [ I=5 ]`: an expected score

All other queries are true or false in the start state:

- `P>=p [ path ]`: a probability bound
- `E [ path ]`, `A [ path ]`: at least one path, or every path, satisfies the formula
- combinations of these by =>, |, & and !

The syntax is PRISM's and Storm's. Binary temporal operators (U W R) bind weakest, then X F G, then
=>, |, &, ! and comparisons: `F step = 5 & similarity > 90` is `F (step = 5 & similarity > 90)`. A
temporal operator that is an operand of =>, |, & or ! needs parentheses:
`(F gender > 0) & (G polarity > -30)`.
"""

import re
from decimal import Decimal
from functools import cache

import lark

from llmchecker.errors import InvalidQuery
from llmchecker.properties.logic.ast import (
    LABELS,
    Arithmetic,
    Atom,
    Conditional,
    Connective,
    Expectation,
    Formula,
    Label,
    Literal,
    Number,
    Operation,
    PathQuantifier,
    Probability,
    Root,
    Temporal,
    Variable,
    is_variable_name,
)
from llmchecker.properties.logic.query import Query, build_syntax_error
from llmchecker.utils.printable_text import shorten

_MAX_NUMBER = 2**31 - 1
_MAX_SHOWN = 20
_MAX_DEPTH = 100
"""Maximum nesting depth: functions recurse, and Python limits recursion."""

_GRAMMAR = r"""
    start: question | path
    ?question: _P COMPARISON _QUESTION "[" path [_GIVEN path] "]" -> valued
        | RELEASE "{" LABEL "}" COMPARISON _QUESTION "[" _INSTANT COMPARISON NUMBER "]" -> expected
    ?path: temporal
        | temporal (UNTIL | WEAK | RELEASE) [bound] temporal -> binary_temporal
    ?temporal: implication
        | (NEXT | EVENTUALLY | GLOBALLY) [bound] temporal -> unary_temporal
    bound: COMPARISON NUMBER
    ?implication: disjunction
        | disjunction IMPLIES disjunction -> connective
    ?disjunction: conjunction
        | disjunction OR conjunction -> connective
    ?conjunction: negation
        | conjunction AND negation -> connective
    ?negation: primary
        | _NOT negation -> negated
    ?primary: "(" path ")"
        | _TRUE -> true
        | _FALSE -> false
        | LABEL -> label
        | arithmetic COMPARISON arithmetic -> atom
        | _P COMPARISON NUMBER "[" path "]" -> bounded
        | (EXISTS | ALL) "[" path "]" -> quantified
    ?arithmetic: product
        | arithmetic (PLUS | MINUS) product -> operation
    ?product: factor
        | product TIMES factor -> operation
    ?factor: "(" arithmetic ")"
        | NAME -> variable
        | NUMBER -> number
        | MINUS factor -> negative

    _P.2: /P\b/
    EXISTS.2: /E\b/
    ALL.2: /A\b/
    NEXT.2: /X\b/
    EVENTUALLY.2: /F\b/
    GLOBALLY.2: /G\b/
    UNTIL.2: /U\b/
    WEAK.2: /W\b/
    RELEASE.2: /R\b/
    _INSTANT.2: /I\b/
    _TRUE.2: /true\b/
    _FALSE.2: /false\b/
    IMPLIES.2: "=>"
    COMPARISON: "!=" | "<=" | ">=" | "<" | ">" | "="
    _GIVEN.2: "||"
    OR: "|"
    AND: "&"
    _NOT: "!"
    PLUS: "+"
    MINUS: "-"
    TIMES: "*"
    _QUESTION: "?"
    LABEL: /"[^"]*"/
    NAME: /[A-Za-z_][A-Za-z_0-9]*/
    NUMBER: /\d+(\.\d+)?([eE][+-]?\d{1,3})?/
    %ignore /\s+/
"""

_QUERY_SYNTAX = (
    "P=? [ … ] or P>=p [ … ] (or >, <=, <), E [ … ], A [ … ], a combination of these by & | ! =>, "
    'or R{"quantifier"}=? [ I=n ]'
)
_TERMINAL_NAMES = {
    "NUMBER": "a number",
    "COMPARISON": "a comparison (= != < <= > >=)",
    "_QUESTION": "?",
    "LSQB": "[",
    "PLUS": "+ - *",
    "AND": "& |",
    "IMPLIES": "=>",
    "UNTIL": "U, W or R",
    "RPAR": ")",
    "RSQB": "]",
    "LBRACE": '{"quantifier"}',
    "RBRACE": "}",
    "_INSTANT": "I=n",
    "$END": "the end of the query",
}
_PARENTHESES_HINT = "; a temporal operator inside another formula needs parentheses around it"
_HINTS = {
    **dict.fromkeys(
        ("NEXT", "EVENTUALLY", "GLOBALLY", "UNTIL", "WEAK", "RELEASE"), _PARENTHESES_HINT
    ),
    "_QUESTION": "; only the outermost P asks =?",
    "_GIVEN": "; only P=? takes a condition, as in P=? [ path || condition ], and | is or",
}


def parse(text: str) -> Query:
    """Parse a query.

    Raises:
        InvalidQuery: the text is not a query. The message contains the found and the expected
            symbols, and marks the position.
    """
    try:
        tree = _build_parser().parse(text)
        # before the transformer, which recurses over the tree
        if _compute_depth(tree) > _MAX_DEPTH:
            raise InvalidQuery(
                f"{text[:40]}…: more than {_MAX_DEPTH} nested levels; simplify the query"
            )
        _check_root(text, tree)
        return Query(text, _FormulaBuilder(text).transform(tree))
    except lark.UnexpectedCharacters as error:
        # an unexpected character always has a position
        position = error.pos_in_stream or 0
        raise build_syntax_error(
            text, position, f"found `{text[position]}`, which no query has"
        ) from error
    except lark.UnexpectedToken as error:
        # at the end the message points after the last character that is not a space
        is_at_end = error.token.type == "$END"
        position = len(text.rstrip()) if is_at_end else _find_start(error.token)
        symbol = "the end of the query" if is_at_end else f"`{error.token}`"
        # at the very start the whole syntax helps more than a list of symbols
        expected_symbols = (
            _format_expected(error.accepts) if text[:position].strip() else _QUERY_SYNTAX
        )
        hint = _find_hint(error.token.type, expected_symbols, text[:position])
        raise build_syntax_error(
            text, position, f"found {symbol}, expected {expected_symbols}{hint}"
        ) from error
    except lark.exceptions.VisitError as error:
        # lark wraps exceptions of the transformer
        if isinstance(error.orig_exc, InvalidQuery):
            raise error.orig_exc from None
        raise InvalidQuery(f"query {text!r}: not readable: {error.orig_exc}") from error


@cache
def _build_parser() -> lark.Lark:
    return lark.Lark(_GRAMMAR, parser="lalr", lexer="basic", maybe_placeholders=True)


def _compute_depth(tree: lark.Tree[lark.Token]) -> int:
    # a loop: recursion would fail on exactly the queries that are too deep
    level, depth = [tree], 0
    while level:
        level = [child for node in level for child in node.children if isinstance(child, lark.Tree)]
        depth += 1
    return depth


def _check_root(text: str, tree: lark.Tree[lark.Token]) -> None:
    """Check that the query has [ ] and no path formula outside [ ].

    A state decides neither.
    """
    operators = {"valued", "expected", "bounded", "quantified"}
    if not any(node.data in operators for node in tree.iter_subtrees()):
        start = len(text) - len(text.lstrip())
        symbol = re.findall(r"\w+|\S", text)[0]
        raise build_syntax_error(text, start, f"found `{symbol}`, expected {_QUERY_SYNTAX}")
    stack = [tree]
    while stack:
        node = stack.pop()
        if node.data in ("unary_temporal", "binary_temporal"):
            (name,) = (child for child in node.children if isinstance(child, lark.Token))
            problem = f"found `{name}` outside of P, E and A, which hold path formulas: P=? [ … ]"
            raise build_syntax_error(text, _find_start(name), problem)
        # P, E and A hold path formulas, so the search ends there
        if node.data not in operators:
            stack += [child for child in node.children if isinstance(child, lark.Tree)]


# each method takes the children of a node as arguments
@lark.v_args(inline=True)
class _FormulaBuilder(lark.Transformer[lark.Token, Root]):
    """Transformer of parse trees into formulas, with checks beyond the grammar.

    The grammar accepts frequent mistakes on purpose, because a message about the mistake helps more
    than a list of expected symbols.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def start(self, root: Root) -> Root:
        return root

    def valued(
        self, comparison: lark.Token, path: Formula, condition: Formula | None
    ) -> Probability | Conditional:
        if comparison != "=":
            raise self._build_error(comparison, f"found `{comparison}?`; the question is P=?")
        return Probability("=", None, path) if condition is None else Conditional(path, condition)

    def expected(
        self,
        _operator: lark.Token,
        label: lark.Token,
        comparison: lark.Token,
        equals: lark.Token,
        step: lark.Token,
    ) -> Expectation:
        if comparison != "=":
            raise self._build_error(comparison, f"found `{comparison}?`; the question is R{{…}}=?")
        if equals != "=":
            raise self._build_error(
                equals, f"found `{equals}`, expected I=n, the score after n steps"
            )
        quantifier = label[1:-1]
        if not is_variable_name(quantifier):
            raise self._build_error(label, f"found {label}, expected the name of a quantifier")
        return Expectation(quantifier, self._parse_integer(step))

    def bounded(self, comparison: lark.Token, number: lark.Token, path: Formula) -> Probability:
        if comparison not in (">=", ">", "<=", "<"):
            raise self._build_error(
                comparison, f"found `{comparison}`, expected =?, >=, >, <= or <"
            )
        if not 0 <= Decimal(number) <= 1:
            raise self._build_error(number, f"found {number}, expected a probability from 0 to 1")
        return Probability(str(comparison), Decimal(number), path)

    def quantified(self, quantifier: lark.Token, path: Formula) -> PathQuantifier:
        return PathQuantifier(str(quantifier), path)

    def unary_temporal(self, name: lark.Token, bound: int | None, operand: Formula) -> Temporal:
        # the grammar accepts a bound here to allow this message
        if name == "X" and bound is not None:
            raise self._build_error(name, "X takes no bound; F, G and U do")
        return Temporal(str(name), (operand,), bound)

    def binary_temporal(
        self, left: Formula, name: lark.Token, bound: int | None, right: Formula
    ) -> Temporal:
        if name != "U" and bound is not None:
            raise self._build_error(name, f"{name} takes no bound; F, G and U do")
        return Temporal(str(name), (left, right), bound)

    def bound(self, comparison: lark.Token, number: lark.Token) -> int:
        if comparison != "<=":
            raise self._build_error(
                comparison, f"found `{comparison}`, expected <= and a step bound"
            )
        return self._parse_integer(number)

    def connective(self, left: Formula, name: lark.Token, right: Formula) -> Connective:
        return Connective(str(name), (left, right))

    def negated(self, operand: Formula) -> Connective:
        return Connective("!", (operand,))

    def true(self) -> Literal:
        return Literal(True)

    def false(self) -> Literal:
        return Literal(False)

    def label(self, token: lark.Token) -> Label:
        name = token[1:-1]
        if name not in LABELS:
            raise self._build_error(token, f'found the label "{name}", expected "rest" or "end"')
        return Label(name)

    def atom(self, left: Arithmetic, comparison: lark.Token, right: Arithmetic) -> Atom:
        return Atom(left, str(comparison), right)

    def operation(self, left: Arithmetic, name: lark.Token, right: Arithmetic) -> Operation:
        return Operation(str(name), left, right)

    def variable(self, name: lark.Token) -> Variable:
        return Variable(str(name))

    def number(self, token: lark.Token) -> Number:
        return Number(self._parse_integer(token))

    def negative(self, _operator: lark.Token, operand: Arithmetic) -> Number | Operation:
        # -1 is a constant, not a subtraction
        if isinstance(operand, Number):
            return Number(-operand.value)
        return Operation("-", Number(0), operand)

    def _parse_integer(self, token: lark.Token) -> int:
        # Python rejects integers of more than 4,300 digits, even if all are zeros
        digits = token.lstrip("0") or "0"
        is_short = token.isdecimal() and len(digits) <= len(str(_MAX_NUMBER))
        if not is_short or int(digits) > _MAX_NUMBER:
            shown_token = shorten(token, _MAX_SHOWN)
            raise self._build_error(
                token, f"found {shown_token}, expected a whole number of at most {_MAX_NUMBER}"
            )
        return int(digits)

    def _build_error(self, token: lark.Token, problem: str) -> InvalidQuery:
        return build_syntax_error(self.text, _find_start(token), problem)


def _find_start(token: lark.Token) -> int:
    # only a token that the parser did not read has no position
    return token.start_pos or 0


def _format_expected(accepts: set[str]) -> str:
    """Format the terminals that the parser accepts next, for an error message."""
    names = [name for terminal, name in _TERMINAL_NAMES.items() if terminal in accepts]
    # a full formula may follow, so the list of symbols would be long
    if "LABEL" in accepts:
        names = ["a formula such as gender > 0"]
    elif "NAME" in accepts:
        names = ["a variable", "a whole number"]
    return ", ".join(names[:-1]) + " or " + names[-1] if len(names) > 1 else names[0]


def _find_hint(terminal: str, expected: str, text_before: str) -> str:
    """Return a hint for a common mistake, or "" without a known mistake."""
    if abbreviation := re.search(r"\b([EA])([XFG])\s*$", text_before):
        return f"; write {abbreviation[1]} [ {abbreviation[2]} … ]"
    if terminal == "MINUS" and expected in ("a number", "a number or ?"):
        return "; a probability is from 0 to 1"
    return "" if expected in (_QUERY_SYNTAX, "[", "I=n") else _HINTS.get(terminal, "")
