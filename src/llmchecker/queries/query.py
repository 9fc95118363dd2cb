"""A query: what it asks for, which atoms and quantifiers it names, and how Storm reads it."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property, reduce

from llmchecker.errors import InvalidQuery, did_you_mean
from llmchecker.queries.formulas import (
    STEP,
    Atom,
    Conditional,
    Connective,
    Expectation,
    Formula,
    Label,
    Literal,
    Number,
    Probability,
    Root,
    Temporal,
    Variable,
    bounded_within,
    decided_on_graph,
    in_storm,
    subformulas,
)

SHOWN = 60
"""The most characters of a query that a message shows before and behind the place it points at."""


@dataclass(frozen=True)
class Query:
    """One question to a chain; `parse` makes it.

    Attributes:
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
        """The distinct literals, `true` and `false`, in the order in which they are written."""
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
        """The state formula behind whose states Storm's PRISM front end explores nothing.

        Storm stops where F or U is decided. It stops at phi for `F phi`, and at psi or not phi for
        `phi U psi`, with or without a bound. It does so only for a query whose outermost operator
        is P, E or A, only for the outermost path operator, and only if each operand is an
        expression, a single label or a bare literal. A bare literal stops nothing.
        """
        root = decided_on_graph(self.root)
        path = root.path if isinstance(root, Probability) else None
        if not isinstance(path, Temporal) or path.operator not in ("F", "U"):
            return Literal(False)
        if not all(_is_expression(f) or isinstance(f, Label) for f in path.operands):
            return Literal(False)
        *left, right = path.operands
        stops = [] if isinstance(right, Literal) else [right]
        stops += [Connective("!", (f,)) for f in left if not isinstance(f, Literal)]
        return reduce(lambda one, other: Connective("|", (one, other)), stops, Literal(False))

    def within(self, steps: int) -> "Query":
        """The same query for a chain whose paths end within so many steps; bounds are no larger."""
        return Query(self.text, bounded_within(self.root, steps))

    def require(self, known: Collection[str], length: int | None = None) -> None:
        """Check that the query names known variables and waits for no step beyond the horizon.

        `step = n`, `step >= n` and `I=n` with n > length wait for such a step, and so does `step >
        n` with n >= length. A bound on F, G or U may lie beyond the horizon, since texts stay there
        as they are.

        Args:
            known: the names of the quantifiers; `step` is always known.
            length: the horizon in tokens; None to check the names alone.

        Raises:
            InvalidQuery: a name is not known, or a step lies beyond the horizon.
        """
        names = [STEP, *sorted(known)]
        for name in sorted(self.variables.difference(names)):
            hint = did_you_mean(name, names) or "."
            problem = f"{name} is neither step nor a known quantifier{hint}"
            problem += f" Known are: {', '.join(names)}"
            raise invalid_at(self.text, _place(self.text, name), problem)
        if length is not None:
            self._require_within(length)

    def _require_within(self, length: int) -> None:
        horizon = f"beyond the horizon: texts grow by at most {length} tokens"
        if isinstance(self.root, Expectation) and self.root.step > length:
            step = self.root.step
            problem = f"I={step} is {horizon}; expected I={length} or less"
            raise invalid_at(self.text, _place(self.text, "I", "=", step), problem)
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
                raise invalid_at(self.text, place, f"{atom} never holds, {horizon}")

    def formula(self, naming: Callable[[Atom | Literal], str]) -> str:
        """Return the query as Storm reads it, fully parenthesised, after `decided_on_graph`.

        A `Conditional` becomes two questions with ; between them, for P(path & given) and P(given).

        Args:
            naming: the notation for an atom or literal: a word, a quoted label or an expression in
                parentheses.
        """
        root = decided_on_graph(self.root)
        match root:
            case Expectation(quantifier, step):
                return f'R{{"{quantifier}"}}=? [ I={step} ]'
            case Conditional(path, given):
                both = Connective("&", (path, given))
                questions = (Probability("=", None, asked) for asked in (both, given))
                return "; ".join(in_storm(question, naming) for question in questions)
        return in_storm(root, naming)


def invalid_at(text: str, place: int, problem: str) -> InvalidQuery:
    """Return the error that says `problem` and points at text[place]."""
    number = text.count("\n", 0, place)
    column = place - (text.rfind("\n", 0, place) + 1)
    where = f"column {column + 1}" + (f" of line {number + 1}" if "\n" in text else "")
    line = text.split("\n")[number]
    begin = max(0, column - SHOWN)
    shown = line[begin : column + SHOWN]
    return InvalidQuery(f"{where} of the query: {problem}\n  {shown}\n  {' ' * (column - begin)}^")


def _place(text: str, *words: object) -> int:
    """The position in the text at which the words stand one after the other; 0 if there is none."""
    pattern = r"\s*".join(re.escape(str(word)) for word in words)
    found = re.search(rf"(?<!\w){pattern}(?!\w)", text)
    return found.start() if found else 0


def _is_expression(formula: Formula) -> bool:
    """Whether Storm reads the formula as one expression over variables."""
    return all(isinstance(f, Atom | Literal | Connective) for f in subformulas(formula))
