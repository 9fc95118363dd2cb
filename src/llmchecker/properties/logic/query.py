"""Queries: their answer type, atoms, variables, and Storm's notation."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property, partial, reduce

from llmchecker.errors import InvalidQuery, did_you_mean
from llmchecker.properties.logic.ast import (
    STEP,
    Atom,
    Conditional,
    Connective,
    Expectation,
    Formula,
    Label,
    Literal,
    Number,
    PathQuantifier,
    Probability,
    Root,
    Temporal,
    Variable,
    cap_step_bounds,
    find_distinct,
    format_for_storm,
    map_formulas,
    rewrite_for_graph_decision,
    subformulas,
)
from llmchecker.utils.number_format import format_count

_MAX_SHOWN = 60
"""Maximum characters that a message shows before and after a position."""


@dataclass(frozen=True)
class Query:
    """A parsed query; `parse` creates it.

    Attributes:
        text: str, the query as written.
        root: the syntax tree.
    """

    text: str
    root: Root

    def __str__(self) -> str:
        return self.text

    @cached_property
    def atoms(self) -> tuple[Atom, ...]:
        """Distinct atoms, in their order in the text."""
        return find_distinct(self.root, Atom)

    @cached_property
    def literals(self) -> tuple[Literal, ...]:
        """Distinct literals, `true` and `false`, in their order in the text."""
        return find_distinct(self.root, Literal)

    @cached_property
    def variables(self) -> frozenset[str]:
        """Names of the query's variables: `step` and quantifiers."""
        if isinstance(self.root, Expectation):
            return frozenset([self.root.quantifier])
        return frozenset(name for atom in self.atoms for name in atom.variables)

    @property
    def is_numeric(self) -> bool:
        """Whether the answer is a number, not true or false."""
        match self.root:
            case Conditional() | Expectation():
                return True
            case Probability(_, threshold):
                return threshold is None
        return False

    @property
    def operator_text(self) -> str:
        """The operator of a single P, E or A with its bound: `P>=0.9`."""
        return self._split()[0]

    @property
    def path_text(self) -> str:
        """The path formula of a single P, E or A or of a conditional, as written.

        The formula of another operator, which is rewritten to a P, E or A, is formatted.
        """
        return self._split()[1]

    def _split(self) -> tuple[str, str]:
        match = re.fullmatch(r"[\s(]*([PEA]\b[^\[]*)\[(.*)\][\s)]*", self.text, re.DOTALL)
        # the brackets of `P>=0.5 [ … ] & P>=0.5 [ … ]` do not enclose a path formula
        if match and isinstance(self.root, Probability | PathQuantifier | Conditional):
            return match[1].strip(), match[2]
        match self.root:
            case Probability(comparison, threshold, path):
                number = "?" if threshold is None else f"{threshold:f}"
                return f"P{comparison}{number}", f" {format_for_storm(path, str)} "
            case PathQuantifier(quantifier, path):
                return quantifier, f" {format_for_storm(path, str)} "
            case Conditional(path, condition):
                paths = (format_for_storm(each, str) for each in (path, condition))
                return "P=?", f" ({') || ('.join(paths)}) "
        raise AssertionError(self)

    @property
    def stop_formula(self) -> Formula:
        """State formula after whose states Storm's PRISM front end explores nothing.

        Storm stops where F or U is decided. It stops at phi for `F phi`, and at psi or not phi for
        `phi U psi`, with or without a bound. It stops only at the outermost path operator of a
        query whose outermost operator is P, E or A. Each operand must be an expression, a single
        label or a bare literal. A bare literal stops nothing.
        """
        root = map_formulas(self.root, rewrite_for_graph_decision)
        path = root.path if isinstance(root, Probability) else None
        if not isinstance(path, Temporal) or path.operator not in ("F", "U"):
            return Literal(False)
        if not all(
            _is_expression(operand) or isinstance(operand, Label) for operand in path.operands
        ):
            return Literal(False)
        *left, right = path.operands
        # a bare literal stops nothing
        stop_formulas = [] if isinstance(right, Literal) else [right]
        stop_formulas += [
            Connective("!", (operand,)) for operand in left if not isinstance(operand, Literal)
        ]
        no_formula: Formula = Literal(False)
        return reduce(lambda one, other: Connective("|", (one, other)), stop_formulas, no_formula)

    def cap_step_bounds(self, max_steps: int) -> "Query":
        """Return the query with no step bound above `max_steps`.

        It is equivalent on a chain whose paths end within `max_steps` steps.
        """
        return Query(
            self.text, map_formulas(self.root, partial(cap_step_bounds, max_steps=max_steps))
        )

    def check_without_tree(self) -> None:
        """Check that the query is about a model, and not about a tree of alpha and k.

        Raises:
            InvalidQuery: it names "rest", the tokens that a tree does not select.
        """
        if Label("rest") in find_distinct(self.root, Label):
            raise InvalidQuery(
                f'{self.text}: "rest" is about the tokens that alpha and k do not select; ask it '
                "about a tree"
            )

    def check_references(
        self, quantifier_names: Collection[str], length: int | None = None
    ) -> None:
        """Check that variables are known and steps are within the horizon.

        `step = n`, `step >= n` and `I=n` need n <= length, and `step > n` needs n < length. `C<=n`
        is about n texts, of which there are length + 1. A bound on F, G or U may exceed the
        horizon, since texts do not change there.

        Args:
            quantifier_names: names of the quantifiers; `step` is always known.
            length: horizon in tokens; None to check the names alone.

        Raises:
            InvalidQuery: a name is unknown, or a step is beyond the horizon.
        """
        names = [STEP, *sorted(quantifier_names)]
        for name in sorted(self.variables.difference(names)):
            hint = did_you_mean(name, names) or "."
            problem = f"{name} is neither step nor a known quantifier{hint}"
            problem += f" Known are: {', '.join(names)}"
            raise build_syntax_error(self.text, _find_position(self.text, name), problem)
        if length is not None:
            self._check_steps(length)

    def _check_steps(self, length: int) -> None:
        horizon = f"beyond the horizon: texts grow by at most {format_count(length, 'token')}"
        if isinstance(self.root, Expectation) and self.root.step is not None:
            max_step = length + 1 if self.root.is_sum else length
            if self.root.step > max_step:
                problem = f"{self.root} is {horizon}; expected at most {max_step}"
                words = re.findall(r"\w+|\W+", str(self.root))
                raise build_syntax_error(self.text, _find_position(self.text, *words), problem)
        for atom in self.atoms:
            match atom:
                case Atom(Variable("step"), comparison, Number(step)):
                    comparison_with_step = comparison
                case Atom(Number(step), comparison, Variable("step")):
                    # `n < step` is `step > n`
                    comparison_with_step = {"<": ">", "<=": ">="}.get(comparison, comparison)
                case _:
                    continue
            # `<`, `<=` and `!=` can hold within the horizon
            if (comparison_with_step in ("=", ">=") and step > length) or (
                comparison_with_step == ">" and step >= length
            ):
                position = _find_position(self.text, *str(atom).split())
                raise build_syntax_error(self.text, position, f"{atom} never holds, {horizon}")

    def format_for_storm(self, format_atom: Callable[[Atom | Literal], str]) -> str:
        """Format the query in Storm's syntax after `rewrite_for_graph_decision`.

        A `Conditional` becomes two queries for P(path & given) and P(given), with ; between them.

        Args:
            format_atom: function that formats an atom or literal as a word, a quoted label or an
                expression in parentheses.
        """
        root = map_formulas(self.root, rewrite_for_graph_decision)
        match root:
            case Expectation(quantifier):
                return f'R{{"{quantifier}"}}=? [ {root} ]'
            case Conditional(path, condition):
                # two probabilities, since their quotient is the answer
                conjunction = Connective("&", (path, condition))
                probabilities = (
                    Probability("=", None, path_formula)
                    for path_formula in (conjunction, condition)
                )
                return "; ".join(
                    format_for_storm(probability, format_atom) for probability in probabilities
                )
        return format_for_storm(root, format_atom)


def build_syntax_error(text: str, position: int, problem: str) -> InvalidQuery:
    """Build the error for a problem at a position of a query's text.

    Args:
        text: str, the query.
        position: index of the marked character in the text.
        problem: str, the message.
    """
    line_index = text.count("\n", 0, position)
    column = position - (text.rfind("\n", 0, position) + 1)
    location = f"column {column + 1}" + (f" of line {line_index + 1}" if "\n" in text else "")
    line = text.split("\n")[line_index]
    start = max(0, column - _MAX_SHOWN)
    excerpt = line[start : column + _MAX_SHOWN]
    return InvalidQuery(
        f"{location} of the query: {problem}\n  {excerpt}\n  {' ' * (column - start)}^"
    )


def _find_position(text: str, *words: object) -> int:
    """Return the position of adjacent words in the text; 0 if they do not occur."""
    # the text may have other spaces than the formatted atom
    pattern = r"\s*".join(re.escape(str(word)) for word in words)
    match = re.search(rf"(?<!\w){pattern}(?!\w)", text)
    return match.start() if match else 0


def _is_expression(formula: Formula) -> bool:
    """Return whether Storm parses the formula as one expression over variables."""
    return all(
        isinstance(subformula, Atom | Literal | Connective) for subformula in subformulas(formula)
    )
