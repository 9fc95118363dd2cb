"""Scores of a caller's trees by a caller's quantifiers, and answers to queries about them."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING

from llmchecker.checking import wording
from llmchecker.checking.verdicts import Verdict
from llmchecker.errors import ConfigError
from llmchecker.quantifiers.quantifier import Quantifier, ranges_of
from llmchecker.queries.formulas import STEP, is_variable_name
from llmchecker.queries.parser import parse
from llmchecker.queries.query import Query
from llmchecker.scoring import scores
from llmchecker.scoring.registry import QUANTIFIERS, create
from llmchecker.trees.text_tree import Kind, TextTree

if TYPE_CHECKING:
    import pandas as pd

Scorer = Quantifier | Callable[[str, str], int]
"""A quantifier, or a plain function from start string and continuation to an integer."""


class ReadableVerdict(Verdict):
    """A `Verdict` that reads well in a terminal and in a notebook."""

    def __str__(self) -> str:
        return wording.verdict_as_text(self)

    def _repr_html_(self) -> str:
        return wording.verdict_as_html(self)


class _Unranged:
    """A plain function as a quantifier; its scores have no least and no greatest value."""

    minimum = None
    maximum = None

    def __init__(self, function: Callable[[str, str], int]) -> None:
        self._function = function

    def __call__(self, start: str, continuation: str) -> int:
        return self._function(start, continuation)


def score(tree: TextTree, quantifier: Scorer) -> "pd.Series":
    """Score every text of a tree.

    Returns:
        One integer for every state, indexed by `uid`; missing for `rest`, which stands for many
        texts.

    Raises:
        ConfigError: `quantifier` is no quantifier, or a score is no integer or out of its range.
    """
    import pandas as pd

    column = pd.array(scores.score_tree(_quantifier("the quantifier", quantifier), tree), "Int64")
    column[tree.kind == Kind.REST] = pd.NA
    return pd.Series(column, index=pd.RangeIndex(len(tree), name="uid"), name="score")


def check(query: str | Query, tree: TextTree, /, **quantifiers: Scorer) -> ReadableVerdict:
    """Answer a query on a tree: the value, bounds for the whole model, and the evidence.

    Args:
        query: a text such as `P=? [ F gender > 0 ]`, or the query that `parse` made of one.
        tree: a tree that `grow` returned.
        quantifiers: the quantifiers under their names in the query. Those of this package that need
            no settings (gender, polarity, readability) may be left out.

    Raises:
        InvalidQuery: the query does not parse, or names a quantifier that is not known.
        ConfigError: an argument is no quantifier, or a score is no integer or out of its range.
        CheckFailed: there is no answer; the message says why.
    """
    if not isinstance(tree, TextTree):
        raise ConfigError(f"{tree!r} is not a tree; check(query, tree) is the order of arguments")
    query = parse(query) if isinstance(query, str) else query
    asked = quantifiers_asked(query, tree.truncation.length, quantifiers)
    columns = {}
    for name, quantifier in asked.items():
        columns[name] = scores.score_tree(quantifier, tree, name)
    # Imported here: Storm takes a second, for which mistakes in the arguments need not wait.
    from llmchecker.checking.solve import solve

    ranges = ranges_of(asked)
    verdict = solve(tree, columns, query, ranges)
    return ReadableVerdict(
        **{field.name: getattr(verdict, field.name) for field in fields(Verdict)}
    )


def quantifiers_asked(
    query: Query, length: int, given: Mapping[str, Scorer]
) -> dict[str, Quantifier]:
    """The quantifiers that a query names: the given ones, and others without settings.

    Args:
        query: what is asked.
        length: the horizon.
        given: by their names in the query.
    """
    for name in given:
        if not is_variable_name(name):
            raise ConfigError(
                f"{name!r} means something else in a query; give the quantifier another name"
            )
    query.require({*QUANTIFIERS, *given}, length)
    return {
        name: _quantifier(name, given[name]) if name in given else _made(name)
        for name in sorted(query.variables - {STEP})
    }


def _made(name: str) -> Quantifier:
    """The quantifier of a name, without settings."""
    try:
        return create(name)
    except ConfigError as error:
        # It needs settings, which only a caller can give.
        made = f"{name}=llmchecker.{QUANTIFIERS[name].__name__}(…)"
        raise ConfigError(f"{error}; give it to check, as in check(query, tree, {made})") from error


def _quantifier(name: str, given: Scorer) -> Quantifier:
    if isinstance(given, type):
        raise ConfigError(f"{name} is the class {given.__name__}; make one: {given.__name__}(…)")
    if not callable(given):
        raise ConfigError(
            f"{name} is {given!r}; it must be a quantifier, or a function of start string and "
            "continuation that returns an integer"
        )
    return given if hasattr(given, "minimum") and hasattr(given, "maximum") else _Unranged(given)
