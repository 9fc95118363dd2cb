"""Scores of trees, and queries with their quantifiers, for the Python library."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, cast

from llmchecker.checking.anytime.checked_query import CheckedQuery
from llmchecker.config import question
from llmchecker.errors import ConfigError
from llmchecker.properties import scores
from llmchecker.properties.custom_class import read_declared_range
from llmchecker.properties.logic.ast import is_variable_name
from llmchecker.properties.logic.query import Query
from llmchecker.properties.quantifiers.interface import Quantifier
from llmchecker.properties.registry import create_quantifier, name_class
from llmchecker.trees.text_tree import StateKind, TextTree

if TYPE_CHECKING:
    import pandas as pd

Scorer = Quantifier | Callable[[str, str], int]
"""A quantifier, or a function from start and continuation to an integer."""


@dataclass(frozen=True)
class _FunctionQuantifier:
    """A function as a quantifier, with unbounded scores."""

    function: Callable[[str, str], int]
    type_name: ClassVar[str] = "function"
    minimum: int | None = field(default=None, init=False)
    maximum: int | None = field(default=None, init=False)

    def __call__(self, start: str, continuation: str) -> int:
        return self.function(start, continuation)


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


def resolve_scorers(
    query: str | Query,
    length: int | str,
    given: Mapping[str, Scorer],
    turn_count: int | None = None,
) -> CheckedQuery:
    """Parse and check a query, whose quantifiers may be functions.

    Args:
        query: a text, or a parsed query.
        length: the horizon in tokens.
        given: quantifiers and functions by their names in the query; standard quantifiers may be
            absent.
        turn_count: the number of turns of a conversation; None for a query about one text.

    Raises:
        InvalidQuery: the query does not parse, or contains an unknown quantifier.
        ConfigError: a given object is no quantifier, or a quantifier needs settings.
        InvalidBound: the horizon is out of range.
    """
    for name in given:
        # A quantifier named after a word of the query language could not be referred to.
        if not is_variable_name(name):
            raise ConfigError(f"{name!r}: a query reserves this name; rename the quantifier")
    defined = {name: _as_quantifier(name, scorer) for name, scorer in given.items()}
    return question.resolve_query(query, length, defined, _create_quantifier, turn_count)


def _create_quantifier(name: str) -> Quantifier:
    """Create the standard quantifier of a name."""
    try:
        return create_quantifier(name)
    except ConfigError as error:
        # The quantifier needs settings, which only the caller has.
        example = f"{name}={name_class(name)}(…)"
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
    if hasattr(scorer, "minimum") and hasattr(scorer, "maximum"):
        read_declared_range(scorer)
        return cast(Quantifier, scorer)
    return cast(Quantifier, _FunctionQuantifier(scorer))
