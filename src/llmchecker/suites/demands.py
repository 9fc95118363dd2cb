"""The demands of an entry of a suite: its requirements and averages."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from llmchecker.checking.measurement import Threshold, find_threshold
from llmchecker.errors import ConfigError, prefix_errors
from llmchecker.properties.assertions import check_names, check_query_text, is_assertion
from llmchecker.properties.definitions import format_assertion
from llmchecker.properties.logic.ast import Expectation, Probability
from llmchecker.properties.logic.query import Query
from llmchecker.suites.judge_errors import JudgeErrors
from llmchecker.suites.statistic import RowFigure, Scope, Statistic, is_upper_limit
from llmchecker.suites.suite_file import AverageKeys, CaseKeys
from llmchecker.suites.templates import list_columns
from llmchecker.suites.verdicts import parse_threshold
from llmchecker.utils.printable_text import quote_value

_MEAN = re.compile(
    r"\s*(mean|worst)\s+(?:([PS]\s*=\s*\?\s*\[.*\])(.*)|([A-Za-z_][A-Za-z0-9_]*)\s*([<>].*)?)",
    re.DOTALL,
)
"""An average or the worst of probabilities or of the scores of a quantifier, and any threshold."""
_OF = re.compile(r"\s*(?:(P\s*=\s*\?\s*\[.*\])|([A-Za-z_][A-Za-z0-9_]*))\s*", re.DOTALL)
"""What is averaged: a probability, or a quantifier."""
_OPPOSITE = {">=": "<=", ">": "<", "<=": ">=", "<": ">"}


@dataclass(frozen=True)
class Demand:
    """A requirement or an average of an entry, as in the suite file.

    Attributes:
        key: the key, for messages.
        label: its name.
        entry: the query as text, or an assertion.
        has_name: whether the suite file gives it the name.
        mean_threshold: for an average, its requirement, or None.
        is_average: whether it is an average.
        is_score: whether it is an average of the scores of a quantifier, whose name is the entry.
        statistic: what an average reports of its rows, without its clusters.
    """

    key: str
    label: str
    entry: str | Mapping[str, Any]
    has_name: bool = False
    mean_threshold: Threshold | None = None
    is_average: bool = False
    is_score: bool = False
    statistic: Statistic = field(default_factory=Statistic)

    def find_comparison(self, query: Query) -> str:
        """Return the comparison with the threshold; that of an average is outside of its query."""
        threshold = find_threshold(query) or self.mean_threshold
        # a mean that is only reported is that of ended answers
        comparison = ">=" if threshold is None else threshold.comparison
        figure = self.statistic.figure
        # a share of rows below a number falls with their probabilities
        is_falling = figure is not None and is_upper_limit(figure.reached)
        return _OPPOSITE[comparison] if is_falling else comparison

    def add_threshold(self, query: Query) -> Query:
        """Return the query with the threshold that ends it early; itself without one.

        A row that meets the requirement of the worst one cannot be against it, however far it is
        from the threshold.
        """
        root, threshold = query.root, self.mean_threshold
        is_worst = self.statistic == Statistic(Scope.WORST)
        if threshold is None or not is_worst or not isinstance(root, Probability):
            return query
        with_threshold = replace(root, comparison=threshold.comparison, threshold=threshold.number)
        return Query(
            f"P{threshold.comparison}{threshold.number:f} [{query.path_text}]", with_threshold
        )

    def find_limit(self) -> Decimal | None:
        """Return the number that ends the score of a row of the worst one early; else None."""
        is_worst = self.statistic.scope is Scope.WORST and self.is_score
        return self.mean_threshold.number if is_worst and self.mean_threshold else None

    def check_kind(self, query: Query) -> None:
        """Check that a requirement has a threshold in its query, and that an average has none.

        Raises:
            ConfigError: it is otherwise.
        """
        is_mean = isinstance(query.root, Probability | Expectation) and query.is_numeric
        if self.is_average and not is_mean:
            raise ConfigError(
                f"{query.text!r}: no probability to average; write mean P=? [ … ] >= 0.7"
            )
        if not self.is_average and query.is_numeric:
            raise ConfigError(
                f"{query.text!r}: no threshold; write P>=0.95 [ … ], or use `average` for a mean"
            )


def list_demands(place: str, keys: CaseKeys, folder: Path) -> list[Demand]:
    """List the requirements and averages of an entry.

    Args:
        place: the key of the entry, for messages.
        keys: the entry.
        folder: folder of the suite file.

    Raises:
        ConfigError: the entry has none, or one of them has another form or the name of another.
        UnusableDataset: the errors of a judge cannot be read.
    """
    demands = list(_iter_demands(place, keys, folder))
    if not demands:
        raise ConfigError(f"{place}: there is no requirement; add `require` or `average`")
    keys_by_label: dict[str, str] = {}
    for demand in demands:
        if (key := keys_by_label.setdefault(demand.label, demand.key)) != demand.key:
            raise ConfigError(f"{demand.key}: {demand.label!r} is also {key}; rename one")
    return demands


def _iter_demands(place: str, keys: CaseKeys, folder: Path) -> Iterator[Demand]:
    """Yield the requirements and averages of an entry."""
    require = keys.require
    # a single requirement needs no list
    if isinstance(require, str) or is_assertion(require):
        require = [require]
    if isinstance(require, list | tuple):
        for index, entry in enumerate(require):
            key = f"{place}.require[{index}]"
            yield Demand(key, format_label(key, entry), entry)
    elif isinstance(require, Mapping):
        with prefix_errors(f"{place}.require"):
            check_names(require)
        for label, entry in require.items():
            key = f"{place}.require.{label}"
            format_label(key, entry)
            yield Demand(key, label, entry, has_name=True)
    elif require is not None:
        raise ConfigError(
            f"{place}.require: {quote_value(require)} is neither a list nor a mapping; write one"
        )
    for label, average in (keys.average or {}).items():
        key = f"{place}.average.{label}"
        if keys.prompts is not None and (columns := list_columns(label)):
            raise ConfigError(f"{key}: an average has one name for all rows; remove {columns[0]!r}")
        if isinstance(average, str):
            yield _parse_average(key, label, average)
        else:
            yield _build_average(key, label, average, folder)


def _parse_average(key: str, label: str, text: str) -> Demand:
    """Parse an average such as `mean P=? [ F correct > 0 ] >= 0.7`."""
    if (match := _MEAN.fullmatch(text)) is None:
        raise ConfigError(
            f"{key}: {text!r} is no mean; write mean P=? [ … ] >= 0.7, or mean polarity >= 10"
        )
    word, probability, probability_threshold, score, score_threshold = match.groups(default="")
    threshold_text = probability_threshold + score_threshold
    with prefix_errors(key):
        threshold = parse_threshold(threshold_text) if threshold_text.strip() else None
    # without a threshold nobody knows whether the largest or the smallest is the worst
    if word == "worst" and threshold is None:
        raise ConfigError(f"{key}: {text!r} has no threshold; write {text.strip()} <= 0.01")
    scope = Scope.WORST if word == "worst" else Scope.ROWS
    return _create_average(key, label, (probability, score), threshold, Statistic(scope))


def _build_average(key: str, label: str, keys: AverageKeys, folder: Path) -> Demand:
    """Build an average from its keys."""
    if (match := _OF.fullmatch(keys.of)) is None:
        raise ConfigError(
            f"{key}.of: {keys.of!r} is no probability; write P=? [ … ], or a quantifier"
        )
    limits = (("at_least", ">=", keys.at_least), ("at_most", "<=", keys.at_most))
    threshold = None
    for name, comparison, number in limits:
        if number is not None:
            with prefix_errors(f"{key}.{name}"):
                threshold = _parse_limit(comparison, number)
    truth = None
    if keys.truth is not None:
        with prefix_errors(f"{key}.truth"):
            truth = JudgeErrors.read(keys.truth, folder)
    statistic = Statistic(Scope(keys.about), _find_figure(key, keys), keys.clusters, truth=truth)
    return _create_average(key, label, match.groups(default=""), threshold, statistic)


def _create_average(
    key: str,
    label: str,
    averaged: Sequence[str],
    threshold: Threshold | None,
    statistic: Statistic,
) -> Demand:
    """Create an average of a probability or of the scores of a quantifier; the other is empty."""
    probability, score = averaged
    return Demand(
        key,
        label,
        probability or score,
        has_name=True,
        mean_threshold=threshold,
        is_average=True,
        is_score=bool(score),
        statistic=statistic,
    )


def _parse_limit(comparison: str, number: int | float | str) -> Threshold:
    """Parse a limit, exactly as written."""
    try:
        return parse_threshold(f"{comparison} {Decimal(str(number)):f}")
    except InvalidOperation as error:
        raise ConfigError(f"{quote_value(number)}: no number; write one such as 0.7") from error


def _find_figure(key: str, keys: AverageKeys) -> RowFigure | None:
    """Return the figure of a row that an average is about; None for its probability."""
    if keys.all_of is not None:
        return RowFigure(keys.all_of)
    if keys.any_of is not None:
        return RowFigure(keys.any_of, is_all=False)
    if keys.rows_with is None:
        return None
    with prefix_errors(f"{key}.rows_with"):
        return RowFigure(reached=parse_threshold(keys.rows_with))


def format_label(key: str, entry: Any) -> str:
    """Return the label of a requirement without a name."""
    if isinstance(entry, str):
        with prefix_errors(key):
            check_query_text(entry)
        return " ".join(entry.split())
    if not isinstance(entry, Mapping):
        raise ConfigError(
            f"{key}: {quote_value(entry)} is no requirement; write P>=0.95 [ … ] or an assertion"
        )
    return format_assertion(entry)
