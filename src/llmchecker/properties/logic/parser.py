"""Parser of queries: probabilistic temporal formulas over step and quantifiers.

Numeric queries:

- `P=? [ path ]`: a probability
- `P=? [ path || given ]`: a conditional probability
- `S=? [ state ]`: a long-run probability
- `R{"polarity"}=? [ I=5 ]`: an expected score; `C<=5` is a sum of scores, `S` the last score

All other queries are true or false in the start state:

- `P>=p [ path ]`: a probability bound
- `S>=p [ state ]`: a long-run probability bound
- `E [ path ]`, `A [ path ]`: at least one path, or every path, satisfies the formula
- `filter(forall, state, state)`: a formula holds in every reachable state that satisfies another
- combinations of these by ?:, =>, <=>, |, & and !

The syntax is PRISM's and Storm's. Binary temporal operators (U W R M) bind weakest, then X F G,
then ?:, =>, <=>, |, &, ! and comparisons: `F step = 5 & similarity > 90` is
`F (step = 5 & similarity > 90)`. A temporal operator that is an operand of ?:, =>, <=>, |, & or !
needs parentheses: `(F gender > 0) & (G polarity > -30)`.

Many operators are rewritten into others, see `derived`. The query keeps its text.
"""

import re
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import cache, lru_cache
from typing import TypeVar

import lark

from llmchecker.errors import InvalidQuery
from llmchecker.properties.logic.ast import (
    LABELS,
    STEP,
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
    find_operands,
    is_variable_name,
)
from llmchecker.properties.logic.derived import (
    MAX_NUMBER,
    Bounds,
    DerivationError,
    Quotient,
    build_choice,
    build_equivalence,
    build_filter,
    build_long_run,
    build_temporal,
    call_function,
    combine,
    compare_quotients,
    negate_quotient,
)
from llmchecker.properties.logic.query import Query, build_syntax_error
from llmchecker.utils.printable_text import shorten

_MAX_SHOWN = 20
_MAX_DEPTH = 100
"""Maximum nesting depth of a query."""
_MAX_REWRITTEN_DEPTH = 200
"""Maximum nesting depth of its formula: functions recurse, and Python limits recursion."""
_MAX_SIZE = 10_000
"""Maximum number of operators and numbers of its formula, which rewriting may multiply."""

_Result = TypeVar("_Result")
_GRAMMAR = r"""
    start: question | path
    ?question: _P COMPARISON _QUESTION "[" path [_GIVEN path] "]" -> valued
        | LONG_RUN COMPARISON _QUESTION "[" path "]" -> long_run_valued
        | RELEASE "{" LABEL "}" COMPARISON _QUESTION "[" reward "]" -> expected
        | FILTER "(" filter_name "," question ["," path] ")" -> filtered
    ?reward: _INSTANT COMPARISON NUMBER -> score
        | CUMULATIVE COMPARISON NUMBER -> sum
        | LONG_RUN -> last_score
    filter_name: (NAME | PLUS | AND | OR)
    ?path: temporal
        | temporal (UNTIL | WEAK | RELEASE | STRONG) [bound] temporal -> binary_temporal
    ?temporal: choice
        | (NEXT | EVENTUALLY | GLOBALLY) [bound] temporal -> unary_temporal
    ?bound: COMPARISON NUMBER -> bound
        | COMPARISON "(" arithmetic ")" -> bound
        | LSQB arithmetic "," arithmetic "]" -> interval
    ?choice: implication
        | implication _QUESTION choice ":" choice
    ?implication: equivalence
        | equivalence IMPLIES equivalence -> connective
    ?equivalence: disjunction
        | equivalence _IFF disjunction
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
        | LONG_RUN COMPARISON NUMBER "[" path "]" -> long_run
        | (EXISTS | ALL) "[" path "]" -> quantified
        | FILTER "(" filter_name "," path ["," path] ")" -> filtered
    ?arithmetic: product
        | arithmetic (PLUS | MINUS) product -> operation
    ?product: factor
        | product (TIMES | DIVIDE) factor -> operation
    ?factor: "(" arithmetic ")"
        | NAME -> variable
        | NAME "(" arithmetic ("," arithmetic)* ")" -> call
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
    STRONG.2: /M\b/
    LONG_RUN.2: /S\b/
    CUMULATIVE.2: /C\b/
    _INSTANT.2: /I\b/
    FILTER.2: /filter\b/
    _TRUE.2: /true\b/
    _FALSE.2: /false\b/
    _IFF.3: "<=>"
    IMPLIES.2: "=>"
    COMPARISON: "!=" | "<=" | ">=" | "<" | ">" | "="
    _GIVEN.2: "||"
    OR: "|"
    AND: "&"
    _NOT: "!"
    PLUS: "+"
    MINUS: "-"
    TIMES: "*"
    DIVIDE: "/"
    _QUESTION: "?"
    LSQB: "["
    LABEL: /"[^"]*"/
    NAME: /[A-Za-z_][A-Za-z_0-9]*/
    NUMBER: /\d+(\.\d+)?([eE][+-]?\d{1,3})?/
    %ignore /\s+/
"""

_QUERY_SYNTAX = (
    "P=? [ … ] or P>=p [ … ] (or >, <=, <), E [ … ], A [ … ], a combination of these by & | ! =>, "
    'or R{"quantifier"}=? [ I=n ]'
)
_REWARD_SYNTAX = "I=n, C<=n or S"
_TERMINAL_NAMES = {
    "NUMBER": "a number",
    "COMPARISON": "a comparison (= != < <= > >=)",
    "_QUESTION": "?",
    "LSQB": "[",
    "PLUS": "+ - * /",
    "AND": "& |",
    "IMPLIES": "=>",
    "UNTIL": "U, W, R or M",
    "RPAR": ")",
    "RSQB": "]",
    "LBRACE": '{"quantifier"}',
    "RBRACE": "}",
    "_INSTANT": _REWARD_SYNTAX,
    "COMMA": ",",
    "COLON": ":",
    "$END": "the end of the query",
}
_PARENTHESES_HINT = "; a temporal operator inside another formula needs parentheses around it"
_HINTS = {
    **dict.fromkeys(
        ("NEXT", "EVENTUALLY", "GLOBALLY", "UNTIL", "WEAK", "RELEASE", "STRONG"),
        _PARENTHESES_HINT,
    ),
    "_QUESTION": "; only the outermost P asks =?",
    "_GIVEN": "; only P=? takes a condition, as in P=? [ path || condition ], and | is or",
}


_REFUSED_FORMS = (
    (r"//", "a query has no comments; remove it"),
    (r"\bmulti\s*\(", "a chain has no strategies to find; write one query for each objective"),
    (
        r"\b[PR]\s*(\{[^}]*\}\s*)?(min|max)+\b",
        "a chain has no choices to minimise or maximise over; write P=? or R{…}=?",
    ),
    (r"<<.*?>>", "a chain has no players; write the query without <<…>>"),
    (
        r"\bR\s*(\{[^}]*\})?\s*(>=|<=|>|<)\s*[\d.(]",
        "a score has no threshold in a query; write R{…}=?, or `average` in a suite",
    ),
    (
        r"\bR\s*(\{[^}]*\})?\s*=\s*\?\s*\[\s*C\s*\]",
        "the last score repeats for ever, so that the total is infinite; write C<=n",
    ),
    (
        r"\bR\s*(\{[^}]*\})?\s*=\s*\?\s*\[[^\]]*\b[FXGUWRM]\b",
        "the sum until an event is infinite unless every text has the event; write C<=n for a sum, "
        "or P=? for the event",
    ),
    (
        r"\bR\s*(\{\s*\d+\s*\})?\s*=\s*\?",
        'scores are named, not numbered; write R{"quantifier"}=?',
    ),
    (
        r"\]\s*/\s*[PSR]\b",
        "a query is one number; write P=? [ φ || ψ ] for φ among the texts with ψ",
    ),
    (
        r"(?<![\w\"])[\d.]+\s*[-+*/]\s*[PSR]\s*(\{[^}]*\}\s*)?=\s*\?|\]\s*[-+*/]",
        "a query is one number, not an expression of several; write P=? [ !(φ) ] for 1 - P=? [ φ ]",
    ),
    (
        r"\b(const|label|formula)\b",
        "a query has no declarations; write numbers and formulas in their place",
    ),
)
"""Forms of PRISM that have no meaning here, and the reason with a form that says the same."""


# a suite and its log repeat few queries in a hundred thousand rows, which then share their memory
@lru_cache(maxsize=1_024)
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
        root = _FormulaBuilder(text).transform(tree)
        _check_size(text, root)
        return Query(text, root)
    except lark.UnexpectedCharacters as error:
        # an unexpected character always has a position
        position = error.pos_in_stream or 0
        _check_refused_forms(text, position)
        raise build_syntax_error(
            text, position, f"found `{text[position]}`, which no query has"
        ) from error
    except lark.UnexpectedToken as error:
        # at the end the message points after the last character that is not a space
        is_at_end = error.token.type == "$END"
        position = len(text.rstrip()) if is_at_end else _find_start(error.token)
        _check_refused_forms(text, position)
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


def _check_refused_forms(text: str, position: int) -> None:
    """Check that a query that does not parse has no form of PRISM without a meaning here.

    Args:
        text: the query.
        position: index of the first character that does not parse.
    """
    for pattern, problem in _REFUSED_FORMS:
        match = re.search(pattern, text)
        if match is not None and match.start() <= position:
            found = shorten(match[0], _MAX_SHOWN)
            raise build_syntax_error(text, match.start(), f"found `{found}`; {problem}")


_OPERATORS = frozenset({"valued", "expected", "bounded", "quantified", "long_run_valued"})
_OPERATORS |= {"long_run", "filtered"}


def _check_root(text: str, tree: lark.Tree[lark.Token]) -> None:
    """Check that the query has an operator, and nothing outside of it that needs one.

    A state decides no path formula. A filter is about all states, so that no state has one.
    """
    if not any(node.data in _OPERATORS for node in tree.iter_subtrees()):
        start = len(text) - len(text.lstrip())
        symbol = re.findall(r"\w+|\S", text)[0]
        raise build_syntax_error(text, start, f"found `{symbol}`, expected {_QUERY_SYNTAX}")
    stack = [tree]
    while stack:
        node = stack.pop()
        if node.data in ("unary_temporal", "binary_temporal"):
            name = next(child for child in node.children if isinstance(child, lark.Token))
            problem = f"found `{name}` outside of P, E and A, which hold path formulas: P=? [ … ]"
            raise build_syntax_error(text, _find_start(name), problem)
        inner = [child for child in node.children if isinstance(child, lark.Tree)]
        # the operators hold other formulas, so the search for path formulas ends there
        if node.data not in _OPERATORS:
            stack += inner
            continue
        for child in (each for tree in inner for each in tree.iter_subtrees()):
            if child.data == "filtered":
                name = next(each for each in child.children if isinstance(each, lark.Token))
                problem = "found `filter` inside of another operator; a filter is outermost"
                raise build_syntax_error(text, _find_start(name), problem)


def _check_size(text: str, root: Root) -> None:
    """Check that the formula is not too large, since rewriting may repeat its operands."""
    depth, size = 0, 0
    level: Counter[int] = Counter({id(root): 1})
    nodes: dict[int, Root | Arithmetic] = {id(root): root}
    # level by level and without recursion, which would fail on exactly the formulas that it refuses
    while level and depth <= _MAX_REWRITTEN_DEPTH and size <= _MAX_SIZE:
        depth, size = depth + 1, size + level.total()
        next_level: Counter[int] = Counter()
        for key, count in level.items():
            for part in _find_parts(nodes[key]):
                nodes[id(part)] = part
                next_level[id(part)] += count
        level = next_level
    if level:
        raise InvalidQuery(
            f"{text[:40]}…: more than {_MAX_SIZE:,} operators, or {_MAX_REWRITTEN_DEPTH} nested "
            "ones, after rewriting; simplify the query"
        )


def _find_parts(node: Root | Arithmetic) -> tuple[Root | Arithmetic, ...]:
    match node:
        case Atom(left, _, right) | Operation(_, left, right):
            return left, right
        case Number() | Variable():
            return ()
    return find_operands(node)


_START = Atom(Variable(STEP), "=", Number(0))
"""The formula of the start state, `"init"`: only the start string has no generated token."""
_STATE_FILTERS = frozenset({"state", "first", "min", "max", "avg", "sum", "+"})
"""Filters that return the value of a single state unchanged."""


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

    def long_run_valued(
        self, name: lark.Token, comparison: lark.Token, state: Formula
    ) -> Probability:
        if comparison != "=":
            raise self._build_error(comparison, f"found `{comparison}?`; the question is S=?")
        self._check_state(name, state)
        return build_long_run("=", None, state)

    def expected(
        self,
        _operator: lark.Token,
        label: lark.Token,
        comparison: lark.Token,
        reward: tuple[int | None, bool],
    ) -> Expectation:
        if comparison != "=":
            raise self._build_error(comparison, f"found `{comparison}?`; the question is R{{…}}=?")
        quantifier = label[1:-1]
        if not is_variable_name(quantifier):
            raise self._build_error(label, f"found {label}, expected the name of a quantifier")
        step, is_sum = reward
        return Expectation(quantifier, step, is_sum)

    def score(self, comparison: lark.Token, step: lark.Token) -> tuple[int, bool]:
        if comparison != "=":
            raise self._build_error(
                comparison, f"found `{comparison}`, expected I=n, the score after n steps"
            )
        return self._parse_integer(step), False

    def sum(self, _name: lark.Token, comparison: lark.Token, step: lark.Token) -> tuple[int, bool]:
        if comparison != "<=":
            raise self._build_error(
                comparison, f"found `{comparison}`, expected C<=n, the sum of the first n scores"
            )
        return self._parse_integer(step), True

    def last_score(self, _name: lark.Token) -> tuple[None, bool]:
        return None, False

    def bounded(self, comparison: lark.Token, number: lark.Token, path: Formula) -> Probability:
        return Probability(str(comparison), self._parse_threshold(comparison, number), path)

    def long_run(
        self, name: lark.Token, comparison: lark.Token, number: lark.Token, state: Formula
    ) -> Probability:
        self._check_state(name, state)
        return build_long_run(str(comparison), self._parse_threshold(comparison, number), state)

    def filtered(
        self, keyword: lark.Token, name: lark.Token, content: Root, states: Formula | None
    ) -> Root:
        filtered = Literal(True) if states is None else states
        self._check_state(keyword, filtered)
        is_number = Query(self.text, content).is_numeric
        if name in _STATE_FILTERS and filtered == _START:
            return content
        match name, content:
            case "forall" | "&" | "exists" | "|", _ if not is_number:
                formula: Formula = content  # type: ignore[assignment]
                self._check_state(keyword, formula)
                kind = "forall" if name in ("forall", "&") else "exists"
                return build_filter(kind, formula, filtered)
            case "print" | "printall" | "argmin" | "argmax" | "count" | "range", _:
                problem = "lists or counts states of a tree, not texts; an answer lists its texts"
            case "min" | "max" | "avg" | "sum" | "+" | "first" | "state", _:
                problem = (
                    'needs "init" as its states; for all states write A [ G (… => P>=p [ … ]) ]'
                )
            case "forall" | "&" | "exists" | "|", _:
                problem = "needs a formula that is true or false; write P>=p [ … ]"
            case _:
                problem = "is no filter; write forall or exists"
        raise self._build_error(name, f"filter `{name}` {problem}")

    def filter_name(self, name: lark.Token) -> lark.Token:
        return name

    def quantified(self, quantifier: lark.Token, path: Formula) -> PathQuantifier:
        return PathQuantifier(str(quantifier), path)

    def unary_temporal(self, name: lark.Token, bounds: Bounds | None, operand: Formula) -> Formula:
        return self._derive(name, build_temporal, str(name), (operand,), bounds)

    def binary_temporal(
        self, left: Formula, name: lark.Token, bounds: Bounds | None, right: Formula
    ) -> Formula:
        return self._derive(name, build_temporal, str(name), (left, right), bounds)

    def bound(self, comparison: lark.Token, number: lark.Token | Quotient) -> Bounds:
        steps = self._parse_steps(comparison, number)
        return self._derive(comparison, Bounds.from_comparison, str(comparison), steps)

    def interval(self, bracket: lark.Token, lower: Quotient, upper: Quotient) -> Bounds:
        return Bounds(self._parse_steps(bracket, lower), self._parse_steps(bracket, upper))

    def choice(self, condition: Formula, first: Formula, second: Formula) -> Connective:
        return build_choice(condition, first, second)

    def equivalence(self, left: Formula, right: Formula) -> Connective:
        return build_equivalence(left, right)

    def connective(self, left: Formula, name: lark.Token, right: Formula) -> Connective:
        return Connective(str(name), (left, right))

    def negated(self, operand: Formula) -> Connective:
        return Connective("!", (operand,))

    def true(self) -> Literal:
        return Literal(True)

    def false(self) -> Literal:
        return Literal(False)

    def label(self, token: lark.Token) -> Formula:
        match token[1:-1]:
            case "init":
                return _START
            # every leaf has a loop, so that no state is without a successor
            case "deadlock":
                return Literal(False)
            case name if name in LABELS:
                return Label(name)
        labels = ", ".join(f'"{name}"' for name in (*LABELS, "init", "deadlock"))
        raise self._build_error(token, f"found the label {token}, expected one of {labels}")

    def atom(self, left: Quotient, comparison: lark.Token, right: Quotient) -> Atom:
        return self._derive(comparison, compare_quotients, left, str(comparison), right)

    def operation(self, left: Quotient, name: lark.Token, right: Quotient) -> Quotient:
        return self._derive(name, combine, str(name), left, right)

    def call(self, name: lark.Token, *arguments: Quotient) -> Quotient:
        return self._derive(name, call_function, str(name), arguments)

    def variable(self, name: lark.Token) -> Quotient:
        return Quotient(Variable(str(name)))

    def number(self, token: lark.Token) -> Quotient:
        number = self._parse_integer(token) if token.isdecimal() else Fraction(Decimal(token))
        return self._derive(token, Quotient.from_number, Fraction(number))

    def negative(self, _operator: lark.Token, operand: Quotient) -> Quotient:
        # -1 is a constant, not a subtraction
        return negate_quotient(operand)

    def _derive(
        self, token: lark.Token, build: Callable[..., _Result], *arguments: object
    ) -> _Result:
        """Build a derived operator, with the place of its token in the message of an error."""
        try:
            return build(*arguments)
        except DerivationError as error:
            raise self._build_error(token, f"`{shorten(token, _MAX_SHOWN)}` {error}") from None

    def _check_state(self, token: lark.Token, formula: Formula) -> None:
        """Check that a formula has no temporal operator outside of P, S, E and A."""
        stack = [formula]
        while stack:
            match stack.pop():
                case Connective(_, operands):
                    stack += operands
                case Temporal():
                    raise self._build_error(
                        token,
                        f"`{token}` takes formulas about states; write path formulas in P>=p [ … ]",
                    )

    def _parse_threshold(self, comparison: lark.Token, number: lark.Token) -> Decimal:
        if comparison not in (">=", ">", "<=", "<"):
            raise self._build_error(
                comparison, f"found `{comparison}`, expected =?, >=, >, <= or <"
            )
        if not 0 <= Decimal(number) <= 1:
            raise self._build_error(number, f"found {number}, expected a probability from 0 to 1")
        return Decimal(number)

    def _parse_steps(self, token: lark.Token, steps: lark.Token | Quotient) -> int:
        """Return a number of steps that is written as a number or a constant expression."""
        if isinstance(steps, lark.Token):
            return self._parse_integer(steps)
        value = steps.value
        if value is None or value.denominator != 1 or not 0 <= value <= MAX_NUMBER:
            raise self._build_error(
                token, f"expected steps that are constant whole numbers from 0 to {MAX_NUMBER}"
            )
        return value.numerator

    def _parse_integer(self, token: lark.Token) -> int:
        # Python rejects integers of more than 4,300 digits, even if all are zeros
        digits = token.lstrip("0") or "0"
        is_short = token.isdecimal() and len(digits) <= len(str(MAX_NUMBER))
        if not is_short or int(digits) > MAX_NUMBER:
            shown_token = shorten(token, _MAX_SHOWN)
            raise self._build_error(
                token, f"found {shown_token}, expected a whole number of at most {MAX_NUMBER}"
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
    return "" if expected in (_QUERY_SYNTAX, "[", _REWARD_SYNTAX) else _HINTS.get(terminal, "")
