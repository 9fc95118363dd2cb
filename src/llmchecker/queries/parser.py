"""The parser of queries: probabilistic temporal formulas over `step` and quantifiers.

Some queries ask for a number: a probability `P=? [ path ]`, a probability under a condition
`P=? [ path || given ]`, or an expected score `R{"polarity"}=? [ I=5 ]`. All others are true or
false in the start state: `P>=p [ path ]`, `E [ path ]` for some path, `A [ path ]` for every path,
and combinations of these by =>, |, & and !.

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
from llmchecker.queries.formulas import (
    LABELS,
    Atom,
    Conditional,
    Connective,
    Expectation,
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
from llmchecker.queries.query import Query, invalid_at

MAX_NUMBER = 2**31 - 1
MAX_SHOWN = 20
MAX_DEPTH = 100
"""Levels of a query, at most. Functions recurse over formulas, and Python limits recursion."""

_GRAMMAR = r"""
    start: question | path
    ?question: P COMPARISON QUESTION "[" path [GIVEN path] "]" -> valued
        | RELEASE "{" LABEL "}" COMPARISON QUESTION "[" INSTANT COMPARISON NUMBER "]" -> expected
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
        | NOT negation -> negated
    ?primary: "(" path ")"
        | TRUE -> true
        | FALSE -> false
        | LABEL -> label
        | arithmetic COMPARISON arithmetic -> atom
        | P COMPARISON NUMBER "[" path "]" -> bounded
        | (EXISTS | ALL) "[" path "]" -> quantified
    ?arithmetic: product
        | arithmetic (PLUS | MINUS) product -> operation
    ?product: factor
        | product TIMES factor -> operation
    ?factor: "(" arithmetic ")"
        | NAME -> variable
        | NUMBER -> number
        | MINUS factor -> negative

    P.2: /P\b/
    EXISTS.2: /E\b/
    ALL.2: /A\b/
    NEXT.2: /X\b/
    EVENTUALLY.2: /F\b/
    GLOBALLY.2: /G\b/
    UNTIL.2: /U\b/
    WEAK.2: /W\b/
    RELEASE.2: /R\b/
    INSTANT.2: /I\b/
    TRUE.2: /true\b/
    FALSE.2: /false\b/
    IMPLIES.2: "=>"
    COMPARISON: "!=" | "<=" | ">=" | "<" | ">" | "="
    GIVEN.2: "||"
    OR: "|"
    AND: "&"
    NOT: "!"
    PLUS: "+"
    MINUS: "-"
    TIMES: "*"
    QUESTION: "?"
    LABEL: /"[^"]*"/
    NAME: /[A-Za-z_][A-Za-z_0-9]*/
    NUMBER: /\d+(\.\d+)?([eE][+-]?\d{1,3})?/
    %ignore /\s+/
"""

_WHOLE_QUERY = (
    "P=? [ … ] or P>=p [ … ] (or >, <=, <), E [ … ], A [ … ], a combination of these by & | ! =>, "
    'or R{"quantifier"}=? [ I=n ]'
)
_WORDS = {
    "NUMBER": "a number",
    "COMPARISON": "a comparison (= != < <= > >=)",
    "QUESTION": "?",
    "LSQB": "[",
    "PLUS": "+ - *",
    "AND": "& |",
    "IMPLIES": "=>",
    "UNTIL": "U, W or R",
    "RPAR": ")",
    "RSQB": "]",
    "LBRACE": '{"quantifier"}',
    "RBRACE": "}",
    "INSTANT": "I=n",
    "$END": "the end of the query",
}
_PARENTHESES = "; a temporal operator inside another formula needs parentheses around it"
_HINTS = {
    **dict.fromkeys(("NEXT", "EVENTUALLY", "GLOBALLY", "UNTIL", "WEAK", "RELEASE"), _PARENTHESES),
    "QUESTION": "; only the outermost P asks =?",
    "GIVEN": "; only P=? takes a condition, as in P=? [ path || condition ], and | is or",
}


def parse(text: str) -> Query:
    """Read a query.

    Raises:
        InvalidQuery: the text is not a query. The message says what was found and what was
            expected, and points at the place.
    """
    try:
        tree = _parser().parse(text)
        if _depth(tree) > MAX_DEPTH:
            raise InvalidQuery(f"{text[:40]}… nests more than {MAX_DEPTH} levels deep")
        _check_root(text, tree)
        return Query(text, _Builder(text).transform(tree))
    except lark.UnexpectedCharacters as error:
        found = f"`{text[error.pos_in_stream]}`"
        raise invalid_at(text, error.pos_in_stream, f"found {found}, which no query has") from error
    except lark.UnexpectedToken as error:
        at_end = error.token.type == "$END"
        place = len(text.rstrip()) if at_end else error.token.start_pos
        found = "the end of the query" if at_end else f"`{error.token}`"
        expected = _expected(error.accepts) if text[:place].strip() else _WHOLE_QUERY
        hint = _hint(error.token.type, expected, text[:place])
        raise invalid_at(text, place, f"found {found}, expected {expected}{hint}") from error
    except lark.exceptions.VisitError as error:
        if isinstance(error.orig_exc, InvalidQuery):
            raise error.orig_exc from None
        raise InvalidQuery(f"{text!r} cannot be read as a query: {error.orig_exc}") from error


@cache
def _parser() -> lark.Lark:
    return lark.Lark(_GRAMMAR, parser="lalr", lexer="basic", maybe_placeholders=True)


def _depth(tree: lark.Tree) -> int:
    level, depth = [tree], 0
    while level:
        level = [c for t in level for c in t.children if isinstance(c, lark.Tree)]
        depth += 1
    return depth


def _check_root(text: str, tree: lark.Tree) -> None:
    """Reject a path formula outside of [ ], and a query without [ ]: a state decides neither."""
    operators = {"valued", "expected", "bounded", "quantified"}
    if not any(node.data in operators for node in tree.iter_subtrees()):
        start = len(text) - len(text.lstrip())
        first = re.match(r"\w+|\S", text[start:])[0]
        raise invalid_at(text, start, f"found `{first}`, expected {_WHOLE_QUERY}")
    outside = [tree]
    while outside:
        node = outside.pop()
        if node.data in ("unary_temporal", "binary_temporal"):
            (name,) = (c for c in node.children if isinstance(c, lark.Token))
            problem = f"found `{name}` outside of P, E and A, which hold path formulas: P=? [ … ]"
            raise invalid_at(text, name.start_pos, problem)
        if node.data not in operators:
            outside += [c for c in node.children if isinstance(c, lark.Tree)]


class _Builder(lark.Transformer):
    """Turns lark's parse tree into formulas, and rejects mistakes that the grammar lets through.

    The grammar accepts some mistakes on purpose, because a message about the mistake itself helps
    more than a list of expected words.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def start(self, parts: list) -> Root:
        return parts[0]

    def valued(self, parts: list) -> Probability | Conditional:
        _, comparison, _, path, _, given = parts
        if comparison != "=":
            raise self._invalid(comparison, f"found `{comparison}?`; the question is P=?")
        return Probability("=", None, path) if given is None else Conditional(path, given)

    def expected(self, parts: list) -> Expectation:
        _, label, comparison, _, _, equals, step = parts
        if comparison != "=":
            raise self._invalid(comparison, f"found `{comparison}?`; the question is R{{…}}=?")
        if equals != "=":
            raise self._invalid(equals, f"found `{equals}`, expected I=n, the score after n steps")
        quantifier = label[1:-1]
        if not is_variable_name(quantifier):
            raise self._invalid(label, f"found {label}, expected the name of a quantifier")
        return Expectation(quantifier, self._whole(step))

    def bounded(self, parts: list) -> Probability:
        _, comparison, number, path = parts
        if comparison not in (">=", ">", "<=", "<"):
            raise self._invalid(comparison, f"found `{comparison}`, expected =?, >=, >, <= or <")
        if not 0 <= Decimal(number) <= 1:
            raise self._invalid(number, f"found {number}, expected a probability from 0 to 1")
        return Probability(str(comparison), Decimal(number), path)

    def quantified(self, parts: list) -> PathQuantifier:
        quantifier, path = parts
        return PathQuantifier(str(quantifier), path)

    def unary_temporal(self, parts: list) -> Temporal:
        name, bound, operand = parts
        if name == "X" and bound is not None:
            raise self._invalid(name, "X takes no bound; F, G and U do")
        return Temporal(str(name), (operand,), bound)

    def binary_temporal(self, parts: list) -> Temporal:
        left, name, bound, right = parts
        if name != "U" and bound is not None:
            raise self._invalid(name, f"{name} takes no bound; F, G and U do")
        return Temporal(str(name), (left, right), bound)

    def bound(self, parts: list) -> int:
        comparison, number = parts
        if comparison != "<=":
            raise self._invalid(comparison, f"found `{comparison}`, expected <= and a step bound")
        return self._whole(number)

    def connective(self, parts: list) -> Connective:
        left, name, right = parts
        return Connective(str(name), (left, right))

    def negated(self, parts: list) -> Connective:
        return Connective("!", (parts[1],))

    def true(self, _: list) -> Literal:
        return Literal(True)

    def false(self, _: list) -> Literal:
        return Literal(False)

    def label(self, parts: list) -> Label:
        name = parts[0][1:-1]
        if name not in LABELS:
            raise self._invalid(parts[0], f'found the label "{name}", expected "rest" or "end"')
        return Label(name)

    def atom(self, parts: list) -> Atom:
        left, comparison, right = parts
        return Atom(left, str(comparison), right)

    def operation(self, parts: list) -> Operation:
        left, name, right = parts
        return Operation(str(name), left, right)

    def variable(self, parts: list) -> Variable:
        return Variable(str(parts[0]))

    def number(self, parts: list) -> Number:
        return Number(self._whole(parts[0]))

    def negative(self, parts: list) -> Number | Operation:
        operand = parts[1]
        if isinstance(operand, Number):
            return Number(-operand.value)
        return Operation("-", Number(0), operand)

    def _whole(self, token: lark.Token) -> int:
        # Python reads no number of thousands of digits, not even one of zeros
        digits = token.lstrip("0") or "0"
        small = token.isdecimal() and len(digits) <= len(str(MAX_NUMBER))
        if not small or int(digits) > MAX_NUMBER:
            found = token if len(token) <= MAX_SHOWN else f"{token[:MAX_SHOWN]}…"
            raise self._invalid(
                token, f"found {found}, expected a whole number of at most {MAX_NUMBER}"
            )
        return int(digits)

    def _invalid(self, token: lark.Token, problem: str) -> InvalidQuery:
        return invalid_at(self.text, token.start_pos, problem)


def _expected(accepts: set[str]) -> str:
    """Return in words what the parser could have read next, given its terminals."""
    words = [word for terminal, word in _WORDS.items() if terminal in accepts]
    if "LABEL" in accepts:
        words = ["a formula such as gender > 0"]
    elif "NAME" in accepts:
        words = ["a variable", "a whole number"]
    return ", ".join(words[:-1]) + " or " + words[-1] if len(words) > 1 else words[0]


def _hint(found: str, expected: str, before: str) -> str:
    """A hint for a common mistake, to be added to the message; empty if there is none."""
    if abbreviation := re.search(r"\b([EA])([XFG])\s*$", before):
        return f"; write {abbreviation[1]} [ {abbreviation[2]} … ]"
    if found == "MINUS" and expected in ("a number", "a number or ?"):
        return "; a probability is from 0 to 1"
    return "" if expected in (_WHOLE_QUERY, "[", "I=n") else _HINTS.get(found, "")
