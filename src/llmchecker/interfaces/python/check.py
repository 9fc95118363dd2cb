"""Scores of trees, and answers to queries on them, for the Python library."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING

from llmchecker.checking import formatting
from llmchecker.checking.anytime.path_formulas import CheckedQuery
from llmchecker.checking.verdict import Verdict
from llmchecker.errors import ConfigError
from llmchecker.properties import scores
from llmchecker.properties.logic.ast import is_variable_name
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.logic.query import Query
from llmchecker.properties.quantifiers.interface import Quantifier
from llmchecker.properties.registry import BUILTIN_TYPES, create_quantifier, find_quantifiers
from llmchecker.trees.text_tree import StateKind, TextTree, check_length
from llmchecker.utils.optional_packages import explain_missing_packages

if TYPE_CHECKING:
    import pandas as pd

    from llmchecker.reporting.answer_figure import Axes

Scorer = Quantifier | Callable[[str, str], int]
"""A quantifier, or a function from start and continuation to an integer."""


class ReadableVerdict(Verdict):
    """A `Verdict` with a format for terminals and for notebooks, and a plot."""

    def __str__(self) -> str:
        return formatting.format_verdict_as_text(self)

    def _repr_html_(self) -> str:
        return formatting.format_verdict_as_html(self)

    def plot(self, label: str | None = None, *, axes: "Axes | None" = None) -> "Axes":
        """Plot value and bounds; for a query without =?, the texts that decide it.

        Args:
            label: the label of the row; the start string if it is None.
            axes: axes of the plot of another verdict, to which this one adds a row; None for new
                axes.

        Raises:
            InvalidQuery: the query has no =?, and no single text decides it.
        """
        # imported here, because matplotlib takes a second to load
        with explain_missing_packages():
            from llmchecker.reporting.answer_figure import draw_verdict

        return draw_verdict(self, parse(self.query), label, axes)


class _FunctionQuantifier:
    """A function as a quantifier, with unbounded scores."""

    minimum = None
    maximum = None

    def __init__(self, function: Callable[[str, str], int]) -> None:
        self._function = function

    def __call__(self, start: str, continuation: str) -> int:
        return self._function(start, continuation)


def score(tree: TextTree, quantifier: Scorer) -> "pd.Series":
    """Score every text of a tree.

    Returns:
        One integer for each state, indexed by `uid`; missing for `rest`, which represents many
        texts.

    Raises:
        ConfigError: `quantifier` is no quantifier, or a score is no integer or out of its range.
    """
    import pandas as pd

    column = pd.array(
        scores.score_tree(_as_quantifier("the quantifier", quantifier), tree), "Int64"
    )
    # `rest` represents many texts and has no score.
    column[tree.kind == StateKind.REST] = pd.NA
    return pd.Series(column, index=pd.RangeIndex(len(tree), name="uid"), name="score")


def check(query: str | Query, tree: TextTree, /, **quantifiers: Scorer) -> ReadableVerdict:
    """Answer a query on a tree: value, bounds for the whole model, witnesses.

    Args:
        query: a text such as `P=? [ F gender > 0 ]`, or a query that `parse` returned.
        tree: a tree that `grow` returned.
        quantifiers: quantifiers by their names in the query. A standard quantifier, which has no
            required settings, is optional: gender, json, length, polarity, readability, refuses.

    Raises:
        InvalidQuery: the query does not parse, or contains an unknown quantifier.
        ConfigError: an argument is no quantifier, or a score is no integer or out of its range.
        CheckFailed: the query has no answer; the message contains the reason.
    """
    # `score` has the tree as its first argument, `check` as its second.
    if not isinstance(tree, TextTree):
        raise ConfigError(
            f"tree: {tree!r} is not a tree; the order of arguments is check(query, tree)"
        )
    checked_query = resolve_query(query, tree.truncation.length, quantifiers)
    columns = {}
    for name, quantifier in checked_query.quantifiers.items():
        columns[name] = scores.score_tree(quantifier, tree, name)
    # Imported after the checks of the arguments, because Storm takes a second to load.
    from llmchecker.checking.check import check_query

    verdict = check_query(tree, columns, checked_query.query, checked_query.ranges)
    return ReadableVerdict(
        **{field.name: getattr(verdict, field.name) for field in fields(Verdict)}
    )


def resolve_query(query: str | Query, length: int, given: Mapping[str, Scorer]) -> CheckedQuery:
    """Parse and check a query, and find its quantifiers.

    Args:
        query: a text, or a parsed query.
        length: the horizon in tokens.
        given: quantifiers and functions by their names in the query; standard quantifiers may be
            absent.

    Raises:
        InvalidQuery: the query does not parse, or contains an unknown quantifier.
        ConfigError: a given object is no quantifier, or a quantifier needs settings.
        InvalidBound: the horizon is out of range.
    """
    # a monitor of a negative horizon would never end
    check_length(length)
    query = parse(query) if isinstance(query, str) else query
    for name in given:
        # A quantifier named after a word of the query language could not be referred to.
        if not is_variable_name(name):
            raise ConfigError(f"{name!r}: a query reserves this name; rename the quantifier")
    defined = {name: _as_quantifier(name, scorer) for name, scorer in given.items()}
    quantifiers = find_quantifiers(query, length, defined, _create_quantifier)
    return CheckedQuery(query, quantifiers, length)


def _create_quantifier(name: str) -> Quantifier:
    """Create the standard quantifier of a name."""
    try:
        return create_quantifier(name)
    except ConfigError as error:
        # The quantifier needs settings, which only the caller has.
        example = f"{name}=llmchecker.{BUILTIN_TYPES[name].attr}(…)"
        raise ConfigError(
            f"{error}; give it to check, as in check(query, tree, {example})"
        ) from error


def _as_quantifier(name: str, scorer: Scorer) -> Quantifier:
    # A class is callable too, so that the test below would accept it.
    if isinstance(scorer, type):
        raise ConfigError(
            f"{name}: {scorer.__name__} is a class; create an instance: {scorer.__name__}(…)"
        )
    if not callable(scorer):
        raise ConfigError(
            f"{name}: {scorer!r} is not a quantifier; give one, or a function of start "
            "string and continuation that returns an integer"
        )
    # A function has no declared range of scores.
    return (
        scorer
        if hasattr(scorer, "minimum") and hasattr(scorer, "maximum")
        else _FunctionQuantifier(scorer)
    )
