"""Queries: probabilistic temporal formulas over `step` and quantifiers.

A query asks for a number: a probability `P=? [ path ]`, one under a condition
`P=? [ path || given ]`, an expected score `R{"polarity"}=? [ I=5 ]`. Or it is true or false in the
start state: `P>=p [ path ]`, `E [ path ]` for some path, `A [ path ]` for every path, and what =>,
|, & and ! make of these.

The syntax is PRISM's and Storm's. Binary temporal operators (U W R) bind weakest, then X F G, then
=>, |, &, ! and comparisons: `F step = 5 & similarity > 90` is `F (step = 5 & similarity > 90)`. A
temporal operator below =>, |, & or ! stands in parentheses:
`(F gender > 0) & (G polarity > -30)`.
"""

import difflib
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, cached_property, reduce

import lark

from llmchecker.errors import InvalidQuery
from llmchecker.queries.formulas import (
    LABELS,
    STEP,
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
    in_storm,
    is_variable_name,
    subformulas,
)

MAX_NUMBER = 2**31 - 1
MAX_DEPTH = 100  # the recursions over a formula stay far from Python's limit

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


@dataclass(frozen=True)
class Query:
    """One question to a chain; `parse` makes it.

    Args:
        text: the query as it was asked.
        root: its syntax tree.
    """

    text: str
    root: Root

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
        if isinstance(self.root, Expectation):
            return frozenset([self.root.quantifier])
        return frozenset(name for atom in self.atoms for name in atom.variables)

    @property
    def numeric(self) -> bool:
        """Whether the answer is a number, and not yes or no."""
        match self.root:
            case Conditional() | Expectation():
                return True
            case Probability(_, threshold):
                return threshold is None
        return False

    @property
    def decided(self) -> Formula:
        """The state formula past whose states Storm's PRISM front end does not explore.

        Storm stops where F or U is decided: for `F phi` at phi, for `phi U psi` at psi or not phi,
        with a bound too. It does so for one question with P, E or A outermost, for the outermost
        path operator alone, and only where each operand is an expression, a single label or a bare
        literal, the last of which stops nothing.
        """
        path = self.root.path if isinstance(self.root, Probability | PathQuantifier) else None
        if not isinstance(path, Temporal) or path.operator not in ("F", "U"):
            return Literal(False)
        if not all(_is_expression(f) or isinstance(f, Label) for f in path.operands):
            return Literal(False)
        *left, right = path.operands
        stops = [] if isinstance(right, Literal) else [right]
        stops += [Connective("!", (f,)) for f in left if not isinstance(f, Literal)]
        return reduce(lambda one, other: Connective("|", (one, other)), stops, Literal(False))

    def require(self, known: Collection[str], length: int | None = None) -> None:
        """Check that the query can be asked of texts of up to `length` tokens, if that is given.

        Every variable must be `step` or one of the `known` quantifiers, and no step that the query
        waits for may lie beyond the horizon: `step = n`, `step >= n` and `I=n` with n > length, and
        `step > n` with n >= length. A bound on F, G or U may, since texts stay as they are.

        Raises:
            InvalidQuery: what is not so.
        """
        names = [STEP, *sorted(known)]
        for name in sorted(self.variables.difference(names)):
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"; did you mean {near[0]}?" if near else "."
            problem = f"{name} is neither step nor a known quantifier{hint}"
            problem += f" Known are: {', '.join(names)}"
            raise _invalid(self.text, _place(self.text, name), problem)
        if length is not None:
            self._require_within(length)

    def _require_within(self, length: int) -> None:
        horizon = f"beyond the horizon: texts grow by at most {length} tokens"
        if isinstance(self.root, Expectation) and self.root.step > length:
            step = self.root.step
            problem = f"I={step} is {horizon}; expected I={length} or less"
            raise _invalid(self.text, _place(self.text, "I", "=", step), problem)
        for atom in self.atoms:
            match atom:
                case Atom(Variable("step"), comparison, Number(step)):
                    awaited = comparison
                case Atom(Number(step), comparison, Variable("step")):
                    awaited = {"<": ">", "<=": ">="}.get(comparison, comparison)
                case _:
                    continue
            if (awaited in ("=", ">=") and step > length) or (awaited == ">" and step >= length):
                place = _place(self.text, *str(atom).split())
                raise _invalid(self.text, place, f"{atom} never holds, {horizon}")

    def formula(self, naming: Callable[[Atom | Literal], str]) -> str:
        """Return the query as Storm reads it, fully parenthesised.

        A `Conditional` is two questions, for P(path & given) and for P(given), with ; between them.

        Args:
            naming: what stands for an atom or literal: a word, a quoted label or an expression in
                parentheses.
        """
        match self.root:
            case Expectation(quantifier, step):
                return f'R{{"{quantifier}"}}=? [ I={step} ]'
            case Conditional(path, given):
                both = Connective("&", (path, given))
                questions = (Probability("=", None, asked) for asked in (both, given))
                return "; ".join(in_storm(question, naming) for question in questions)
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
        _check_root(text, tree)
        return Query(text, _Builder(text).transform(tree))
    except lark.UnexpectedCharacters as error:
        found = f"`{text[error.pos_in_stream]}`"
        raise _invalid(text, error.pos_in_stream, f"found {found}, which no query has") from error
    except lark.UnexpectedToken as error:
        at_end = error.token.type == "$END"
        place = len(text.rstrip()) if at_end else error.token.start_pos
        found = "the end of the query" if at_end else f"`{error.token}`"
        expected = _expected(error.accepts) if text[:place].strip() else _WHOLE_QUERY
        hint = _hint(error.token.type, expected, text[:place])
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


def _check_root(text: str, tree: lark.Tree) -> None:
    """Reject what cannot be asked of a state: a path formula outside [ ], or no [ ] at all."""
    operators = {"valued", "expected", "bounded", "quantified"}
    if not any(node.data in operators for node in tree.iter_subtrees()):
        start = len(text) - len(text.lstrip())
        first = re.match(r"\w+|\S", text[start:])[0]
        raise _invalid(text, start, f"found `{first}`, expected {_WHOLE_QUERY}")
    outside = [tree]
    while outside:
        node = outside.pop()
        if node.data in ("unary_temporal", "binary_temporal"):
            (name,) = (c for c in node.children if isinstance(c, lark.Token))
            problem = f"found `{name}` outside of P, E and A, which hold path formulas: P=? [ … ]"
            raise _invalid(text, name.start_pos, problem)
        if node.data not in operators:
            outside += [c for c in node.children if isinstance(c, lark.Tree)]


class _Builder(lark.Transformer):
    """Turns lark's parse tree into ours, and rejects what the grammar alone lets through."""

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


def _place(text: str, *words: object) -> int:
    """Where in the text the words stand one after the other, or 0."""
    pattern = r"\s*".join(re.escape(str(word)) for word in words)
    found = re.search(rf"(?<!\w){pattern}(?!\w)", text)
    return found.start() if found else 0


def _expected(accepts: set[str]) -> str:
    """Return in words what the parser could have read next, given its terminals."""
    words = [word for terminal, word in _WORDS.items() if terminal in accepts]
    if "LABEL" in accepts:
        words = ["a formula such as gender > 0"]
    elif "NAME" in accepts:
        words = ["a variable", "a whole number"]
    return ", ".join(words[:-1]) + " or " + words[-1] if len(words) > 1 else words[0]


def _hint(found: str, expected: str, before: str) -> str:
    """What else helps who wrote the terminal `found` where something else was expected."""
    if abbreviation := re.search(r"\b([EA])([XFG])\s*$", before):
        return f"; write {abbreviation[1]} [ {abbreviation[2]} … ]"
    if found == "MINUS" and expected in ("a number", "a number or ?"):
        return "; a probability is from 0 to 1"
    return "" if expected in (_WHOLE_QUERY, "[", "I=n") else _HINTS.get(found, "")


def _is_expression(formula: Formula) -> bool:
    """Whether Storm reads the formula as one expression over variables."""
    return all(isinstance(f, Atom | Literal | Connective) for f in subformulas(formula))
