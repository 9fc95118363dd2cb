"""Queries: probabilistic temporal formulas over `step` and quantifiers.

The syntax is PRISM's. Binary temporal operators (U W R) bind weakest, then X F G, then =>, |, &, !
and comparisons: `F step = 5 & similarity > 90` is `F (step = 5 & similarity > 90)`. A temporal
operator below =>, |, & or ! stands in parentheses: `(F gender > 0) & (G polarity > -30)`.
"""

import difflib
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, cached_property, reduce

import lark

from llmchecker.errors import InvalidQuery
from llmchecker.formulas import (
    LABELS,
    STEP,
    Atom,
    Connective,
    Formula,
    Label,
    Literal,
    Number,
    Operation,
    Probability,
    Temporal,
    Variable,
    subformulas,
)

MAX_NUMBER = 2**31 - 1
MAX_DEPTH = 100  # the recursions over a formula stay far from Python's limit

_GRAMMAR = r"""
    start: P COMPARISON QUESTION "[" path "]" -> valued
        | P COMPARISON NUMBER "[" path "]" -> bounded
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
    ?arithmetic: product
        | arithmetic (PLUS | MINUS) product -> operation
    ?product: factor
        | product TIMES factor -> operation
    ?factor: "(" arithmetic ")"
        | NAME -> variable
        | NUMBER -> number
        | MINUS factor -> negative

    P.2: /P\b/
    NEXT.2: /X\b/
    EVENTUALLY.2: /F\b/
    GLOBALLY.2: /G\b/
    UNTIL.2: /U\b/
    WEAK.2: /W\b/
    RELEASE.2: /R\b/
    TRUE.2: /true\b/
    FALSE.2: /false\b/
    IMPLIES.2: "=>"
    COMPARISON: "!=" | "<=" | ">=" | "<" | ">" | "="
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

_WHOLE_QUERY = "P=? [ … ] or P>=p [ … ] (or >, <=, <): a query is one probability operator P"
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
    "$END": "the end of the query",
}
_PARENTHESES = "; a temporal operator inside another formula needs parentheses around it"
_HINTS = {
    **dict.fromkeys(("NEXT", "EVENTUALLY", "GLOBALLY", "UNTIL", "WEAK", "RELEASE"), _PARENTHESES),
    "QUESTION": "; only the outermost P asks =?",
}


@dataclass(frozen=True)
class Query:
    """One question to a chain; `parse` makes it.

    Args:
        text: the query as it was asked.
        root: its syntax tree.
    """

    text: str
    root: Probability

    def __str__(self) -> str:
        return self.text

    @cached_property
    def atoms(self) -> tuple[Atom, ...]:
        """The distinct atoms, in the order in which they are written."""
        return tuple(dict.fromkeys(f for f in subformulas(self.root) if isinstance(f, Atom)))

    @cached_property
    def literals(self) -> tuple[Literal, ...]:
        """The distinct ones of `true` and `false`, in the order in which they are written."""
        return tuple(dict.fromkeys(f for f in subformulas(self.root) if isinstance(f, Literal)))

    @cached_property
    def variables(self) -> frozenset[str]:
        """`step` and the quantifiers that the query names."""
        return frozenset(name for atom in self.atoms for name in atom.variables)

    @property
    def decided(self) -> Formula:
        """The state formula past whose states Storm's PRISM front end does not explore.

        Storm stops where F or U is decided: for `F phi` at phi, for `phi U psi` at psi or not phi,
        with a bound too. It does so for the outermost path operator alone, and only where each
        operand is an expression, a single label or a bare literal, the last of which stops nothing.
        """
        path = self.root.path
        if not isinstance(path, Temporal) or path.operator not in ("F", "U"):
            return Literal(False)
        if not all(_is_expression(f) or isinstance(f, Label) for f in path.operands):
            return Literal(False)
        *left, right = path.operands
        stops = [] if isinstance(right, Literal) else [right]
        stops += [Connective("!", (f,)) for f in left if not isinstance(f, Literal)]
        return reduce(lambda one, other: Connective("|", (one, other)), stops, Literal(False))

    def require(self, known: Collection[str]) -> None:
        """Check that every variable is `step` or one of the `known` quantifiers.

        Raises:
            InvalidQuery: a variable is neither.
        """
        names = [STEP, *sorted(known)]
        for name in sorted(self.variables.difference(names)):
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"; did you mean {near[0]}?" if near else "."
            place = re.search(rf"\b{name}\b", self.text).start()
            problem = f"{name} is neither step nor a known quantifier{hint}"
            raise _invalid(self.text, place, f"{problem} Known are: {', '.join(names)}")

    def formula(self, naming: Callable[[Atom | Literal], str]) -> str:
        """Return the query as Storm reads it, fully parenthesised.

        Args:
            naming: what stands for an atom or literal: a word, a quoted label or an expression in
                parentheses.
        """
        return in_storm(self.root, naming)


def parse(text: str) -> Query:
    """Read a query.

    Raises:
        InvalidQuery: the text is not a query; the message says where, what was found there, what
            was expected, and points at it.
    """
    try:
        tree = _parser().parse(text)
        if _depth(tree) > MAX_DEPTH:
            raise InvalidQuery(f"{text[:40]}… nests more than {MAX_DEPTH} levels deep")
        return Query(text, _Builder(text).transform(tree))
    except lark.UnexpectedCharacters as error:
        found = f"`{text[error.pos_in_stream]}`"
        raise _invalid(text, error.pos_in_stream, f"found {found}, which no query has") from error
    except lark.UnexpectedToken as error:
        at_end = error.token.type == "$END"
        place = len(text.rstrip()) if at_end else error.token.start_pos
        found = "the end of the query" if at_end else f"`{error.token}`"
        expected = _expected(error.accepts) if text[:place].strip() else _WHOLE_QUERY
        hint = _HINTS.get(error.token.type, "") if expected != _WHOLE_QUERY else ""
        raise _invalid(text, place, f"found {found}, expected {expected}{hint}") from error
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


class _Builder(lark.Transformer):
    """Turns lark's parse tree into ours, and rejects what the grammar alone lets through."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def valued(self, parts: list) -> Probability:
        _, comparison, _, path = parts
        if comparison != "=":
            raise self._invalid(comparison, f"found `{comparison}?`; the question is P=?")
        return Probability("=", None, path)

    def bounded(self, parts: list) -> Probability:
        _, comparison, number, path = parts
        if comparison not in (">=", ">", "<=", "<"):
            raise self._invalid(comparison, f"found `{comparison}`, expected =?, >=, >, <= or <")
        if not 0 <= Decimal(number) <= 1:
            raise self._invalid(number, f"found {number}, expected a probability from 0 to 1")
        return Probability(str(comparison), Decimal(number), path)

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
        if not token.isdecimal() or int(token) > MAX_NUMBER:
            raise self._invalid(
                token, f"found {token}, expected a whole number of at most {MAX_NUMBER}"
            )
        return int(token)

    def _invalid(self, token: lark.Token, problem: str) -> InvalidQuery:
        return _invalid(self.text, token.start_pos, problem)


def _invalid(text: str, place: int, problem: str) -> InvalidQuery:
    """Return the error that says `problem` and points at text[place]."""
    number = text.count("\n", 0, place)
    column = place - (text.rfind("\n", 0, place) + 1)
    where = f"column {column + 1}" + (f" of line {number + 1}" if "\n" in text else "")
    line = text.split("\n")[number]
    return InvalidQuery(f"{where} of the query: {problem}\n  {line}\n  {' ' * column}^")


def _expected(accepts: set[str]) -> str:
    """Return in words what the parser could have read next, given its terminals."""
    words = [word for terminal, word in _WORDS.items() if terminal in accepts]
    if "LABEL" in accepts:
        words = ["a formula such as gender > 0"]
    elif "NAME" in accepts:
        words = ["a variable", "a whole number"]
    return ", ".join(words[:-1]) + " or " + words[-1] if len(words) > 1 else words[0]


def _is_expression(formula: Formula) -> bool:
    """Whether Storm reads the formula as one expression over variables."""
    return all(isinstance(f, Atom | Literal | Connective) for f in subformulas(formula))


def in_storm(formula: Formula, naming: Callable[[Atom | Literal], str]) -> str:
    """Return a formula as Storm reads it; G<=n, W and R, which it lacks, by their duals."""
    match formula:
        case Atom() | Literal():
            return naming(formula)
        case Label(name):
            return f'"{name}"'
        case Probability(comparison, threshold, path):
            bound = "?" if threshold is None else f"{threshold:f}"
            return f"P{comparison}{bound} [ {in_storm(path, naming)} ]"
    words = [_enclosed(operand, naming) for operand in formula.operands]
    bound = "" if isinstance(formula, Connective) or formula.bound is None else f"<={formula.bound}"
    match formula.operator, words:
        case "=>", [left, right]:
            return f"(!{left}) | {right}"
        case "G", [operand] if bound:
            return f"!(F{bound} (!{operand}))"
        case "W", [left, right]:
            return f"!((!{right}) U ((!{left}) & (!{right})))"
        case "R", [left, right]:
            return f"!((!{left}) U (!{right}))"
        case name, [operand]:
            return f"{name}{bound} {operand}" if name != "!" else f"!{operand}"
        case name, [left, right]:
            return f"{left} {name}{bound} {right}"


def _enclosed(formula: Formula, naming: Callable[[Atom | Literal], str]) -> str:
    words = in_storm(formula, naming)
    return words if isinstance(formula, Atom | Literal | Label) else f"({words})"
