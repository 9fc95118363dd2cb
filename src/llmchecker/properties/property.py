"""A property: a query over known quantifiers, with its path formulas and monitors."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import Any

from llmchecker.properties.logic.ast import Expectation, Formula, PathQuantifier
from llmchecker.properties.logic.continuation import reads_last_state
from llmchecker.properties.logic.monitor import (
    MAX_ATOMS,
    HorizonMonitor,
    Monitor,
    find_path_formulas,
)
from llmchecker.properties.logic.query import Query
from llmchecker.properties.logic.valuations import ScoreRange
from llmchecker.properties.quantifiers.interface import JudgesAnswers, Quantifier, collect_ranges
from llmchecker.utils.interval import PROBABILITIES, Interval


@dataclass(frozen=True)
class Property:
    """A query with known names, and values for refinement and sampling.

    Each derived value is computed at most once. The monitors keep their results, so that a
    refinement and the samplers after it share them.

    Attributes:
        query: the parsed query.
        quantifiers: the quantifiers that the query names, by name.
        length: the horizon L in tokens.
        notes: notes on every answer, as of a judge.
        assertion: the assertion that the query stands for, as in a suite; None for none.
        limit: for a number, a threshold that ends the work once an interval excludes it; None
            for none.
    """

    query: Query
    quantifiers: Mapping[str, Quantifier]
    length: int
    notes: tuple[str, ...] = ()
    assertion: Mapping[str, Any] | None = None
    limit: Decimal | None = None

    def create_quantifiers(self) -> "Property":
        """Return a copy that keeps its quantifiers, which a suite creates on each access.

        So thousands of waiting and finished cases have no quantifiers and monitors in memory.
        """
        return replace(self, quantifiers=dict(self.quantifiers))

    @cached_property
    def ranges(self) -> dict[str, ScoreRange]:
        """The declared range of each quantifier."""
        return collect_ranges(self.quantifiers)

    @property
    def value_range(self) -> Interval:
        """All values of the query's number: probabilities, or scores, infinite without a range."""
        root = self.query.root
        if not isinstance(root, Expectation):
            return PROBABILITIES
        # later entries of a range are final scores, not limits
        low, high = self.ranges.get(root.quantifier, (None, None))[:2]
        if (count := root.count_scores()) == 0:
            return Interval(0.0, 0.0)
        return Interval(
            -math.inf if low is None else float(count * low),
            math.inf if high is None else float(count * high),
        )

    @cached_property
    def end_scores(self) -> frozenset[str]:
        """Names of the quantifiers that need to score whole texts only, not their beginnings."""
        return frozenset(
            name
            for name, quantifier in self.quantifiers.items()
            if isinstance(quantifier, JudgesAnswers)
            and self.paths
            and all(reads_last_state(path, name) for path in self.paths)
        )

    @cached_property
    def paths(self) -> tuple[Formula, ...]:
        """The path formulas whose probabilities answer the query; see `find_path_formulas`."""
        return find_path_formulas(self.query)

    @cached_property
    def monitors(self) -> tuple[Monitor | HorizonMonitor, ...]:
        """The monitors that guide a refinement: one for each path, at least one.

        If single texts do not decide the query, the monitor counts every text as undecided until it
        ends. For an expected score a text is undecided until the step of that score.
        """
        if isinstance(self.query.root, Expectation):
            # texts after the step of the score cannot change it
            return (HorizonMonitor(self.length, self.query.root.last_step),)
        monitors = tuple(Monitor(path, self.length, self.ranges) for path in self.paths)
        return monitors or (HorizonMonitor(self.length),)

    @property
    def has_sums(self) -> bool:
        """Whether the texts that a check decides bound the answer, without Storm."""
        return bool(self.paths) or self.estimation_obstacle is None

    @cached_property
    def estimation_obstacle(self) -> str | None:
        """The reason why samples cannot estimate the answer; None if they can.

        They can for P=?, for P compared with a threshold, for conditionals, and for expected scores
        of a quantifier with a range, but not for sums of scores. E and A are about one path or
        every path, which a share of samples does not decide.
        """
        match self.query.root:
            case Expectation(is_sum=True):
                return "a sample has the score of one step, not a sum; ask for each score by I=n"
            case Expectation(quantifier):
                if math.isfinite(self.value_range.width):
                    return None
                return (
                    f"{quantifier} has no least or no greatest score, and without both no number "
                    "of samples bounds its mean"
                )
            case PathQuantifier():
                return "E and A ask for some path or every path, of which samples say nothing"
        atoms = len(self.query.atoms)
        if atoms > MAX_ATOMS:
            return f"samples are read for at most {MAX_ATOMS} comparisons, not {atoms}"
        if self.paths:
            return None
        return 'single texts do not decide a query with a P, E or A inside another, or with "rest"'
