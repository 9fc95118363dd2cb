"""Scores of trees, and queries with their quantifiers, for the Python library."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

from llmchecker.config import question
from llmchecker.config.registry_keys import OutputKeys
from llmchecker.errors import ConfigError
from llmchecker.properties import scores
from llmchecker.properties.assertions import (
    AT_LEAST,
    AT_MOST,
    build_assertion,
    find_kind,
    parse_assertion,
)
from llmchecker.properties.custom_class import read_declared_range
from llmchecker.properties.logic.query import Query
from llmchecker.properties.property import Property
from llmchecker.properties.quantifiers.interface import Quantifier
from llmchecker.properties.registry import check_name, create_quantifier, name_class
from llmchecker.trees.text_tree import StateKind, TextTree

if TYPE_CHECKING:
    import pandas as pd

Scorer = Quantifier | Callable[[str, str], int]
"""A quantifier, or a function from start and continuation to an integer."""
QueryForm = str | Query | Mapping[str, Any]
"""A query as a text, a parsed query, or an assertion such as `{"contains": "yes"}`."""


_MODEL_KEYS = (*OutputKeys.model_fields, "tokens", "dollars")
"""Keys of a question that a loaded model has already."""


@dataclass(frozen=True)
class _FunctionQuantifier:
    """A function as a quantifier, with unbounded scores."""

    function: Callable[[str, str], int]
    type_name: ClassVar[str] = "function"
    minimum: int | None = field(default=None, init=False)
    maximum: int | None = field(default=None, init=False)

    def __call__(self, start: str, continuation: str) -> int:
        return self.function(start, continuation)


def merge_scorers(
    quantifiers: Mapping[str, Scorer] | None,
    keywords: Mapping[str, Scorer],
    options: Mapping[str, object] | None = None,
) -> dict[str, Scorer]:
    """Return the quantifiers of a call by their names in the query.

    Args:
        quantifiers: those of the argument `quantifiers`; None for none.
        keywords: those that were given as keywords.
        options: the values of the options whose names a quantifier might have.

    Raises:
        ConfigError: a name occurs twice, or an option is a quantifier.
    """
    for name, value in (options or {}).items():
        # no option with a quantifier's value takes a function
        if callable(value):
            raise ConfigError(
                f"{name}: this is an option; for a quantifier of that name write "
                f"quantifiers={{'{name}': …}}"
            )
    for name, value in keywords.items():
        if name in _MODEL_KEYS and not callable(value):
            raise ConfigError(f"{name}: it belongs to the model; give it to load")
    if quantifiers is None:
        return dict(keywords)
    if not isinstance(quantifiers, Mapping):
        raise ConfigError(f"quantifiers: {quantifiers!r} is no dict of quantifiers by their names")
    if twice := quantifiers.keys() & keywords.keys():
        raise ConfigError(f"{min(twice)}: given as a keyword and in quantifiers; keep one")
    return {**quantifiers, **keywords}


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
    query: QueryForm,
    length: int | str,
    given: Mapping[str, Scorer],
    turn_count: int | None = None,
) -> Property:
    """Parse and check a query, whose quantifiers may be functions.

    Args:
        query: a text, a parsed query, or an assertion.
        length: the horizon in tokens.
        given: quantifiers and functions by their names in the query; standard quantifiers may be
            absent.
        turn_count: the number of turns of a conversation; None for a query about one text.

    Raises:
        InvalidQuery: the query does not parse, or contains an unknown quantifier.
        ConfigError: a given object is no quantifier, or a quantifier needs settings.
        InvalidBound: the horizon is out of range.
    """
    entry = query if isinstance(query, Mapping) else None
    if isinstance(query, Mapping):
        if turn_count is not None:
            raise ConfigError(
                f"{dict(query)!r}: an assertion is about one answer; with turns write a query"
            )
        query, of_assertion = _resolve_assertion(query)
        if clash := of_assertion.keys() & given.keys():
            raise ConfigError(f"{min(clash)}: the assertion uses this name; rename the quantifier")
        given = {**given, **of_assertion}
    for name in given:
        check_name(name)
    defined = {name: _as_quantifier(name, scorer) for name, scorer in given.items()}
    found = question.resolve_query(query, length, defined, _create_quantifier, turn_count)
    return replace(found, assertion=entry)


def _resolve_assertion(entry: Mapping[str, Any]) -> tuple[str, dict[str, Quantifier]]:
    """Return the query of an assertion, with =? without a probability, and its quantifiers."""
    if entry.keys() & {AT_LEAST, AT_MOST}:
        text, assertion = parse_assertion(entry)
    else:
        kind = find_kind(entry)
        if others := [key for key in entry if key != kind]:
            raise ConfigError(f"{others[0]}: no effect without {AT_LEAST} or {AT_MOST}; add one")
        assertion = build_assertion(kind, entry[kind])
        text = assertion.format_query()
    created = {
        name: create_quantifier(name, settings) for name, settings in assertion.properties.items()
    }
    return text, created


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
