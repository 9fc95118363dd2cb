"""A tree and the scores of its texts, which are a discrete-time Markov chain.

State `uid` of the chain is row `uid` of the tree. The chain has the probabilities of the tree
unchanged, without renormalisation, so that Storm computes with the numbers of the tree. The
children of a state may therefore add up to 1 only within rounding. A `TextTree` allows 1e-9, which
Storm tolerates. A child of probability 0 has no transition and is not reachable.
"""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np

from llmchecker.checking.markov.product import MarkovProcess
from llmchecker.checking.markov.sparse_matrix import TransitionMatrix, merge_entries
from llmchecker.errors import InvalidTree, UnknownName
from llmchecker.properties import scores
from llmchecker.properties.logic.ast import (
    LABELS,
    STEP,
    Atom,
    Formula,
    Label,
    evaluate_proposition,
)
from llmchecker.properties.logic.query import Query
from llmchecker.properties.logic.valuations import ScoreRange
from llmchecker.properties.quantifiers.interface import Quantifier, collect_ranges
from llmchecker.trees.selection import CANCELLATION_THRESHOLD
from llmchecker.trees.text_tree import StateKind, TextTree, check_complete, find_ended
from llmchecker.utils.number_format import format_count

_log = logging.getLogger(__name__)

_UNIT_ROUNDOFF = 2.0**-53
"""The largest relative error of one rounded float64 operation."""


@dataclass(frozen=True, eq=False)
class ScoredTree:
    """A tree of n states with the scores of its texts.

    Attributes:
        tree: the states and their probabilities.
        scores: (n,) integers for each quantifier, by name; those of `rest` states are ignored.
        ranges: the declared range of each quantifier; one that is missing has no limits.

    Raises:
        InvalidTree: scores are not one integer for each state, a quantifier is named `step`, or a
            text is not finished.
    """

    tree: TextTree
    scores: Mapping[str, np.ndarray]
    ranges: Mapping[str, ScoreRange] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_complete(self.tree)
        # both would be the same variable of the chain
        if STEP in self.scores:
            raise InvalidTree(f"quantifier {STEP}: the tree has a column of that name; rename it")
        n = len(self.tree)
        for name, column in self.scores.items():
            if np.shape(column) != (n,) or not np.issubdtype(np.asarray(column).dtype, np.integer):
                raise InvalidTree(
                    f"scores of {name}: not one integer for each of {format_count(n, 'state')}; "
                    "score the tree again"
                )

    def __len__(self) -> int:
        return len(self.tree)

    @cached_property
    def variables(self) -> dict[str, np.ndarray]:
        """(n,) int64 each, by name: `step` and the scores."""
        columns = {name: np.asarray(column, np.int64) for name, column in self.scores.items()}
        return {STEP: self.tree.step, **columns}

    @cached_property
    def is_rest(self) -> np.ndarray:
        """(n,) bool: the states that represent all tokens that were not selected."""
        is_rest: np.ndarray = self.tree.kind == StateKind.REST
        return is_rest

    @cached_property
    def is_end(self) -> np.ndarray:
        """(n,) bool: the states whose text has ended."""
        return find_ended(self.tree.kind)

    @cached_property
    def transitions(self) -> TransitionMatrix:
        """The matrix of the chain: an edge to each possible child, and a loop on each leaf."""
        tree = self.tree
        children = 1 + np.flatnonzero(tree.probability[1:] > 0)
        leaves = np.flatnonzero(~tree.internal)
        rows, columns, values = merge_entries(
            [
                (tree.parent[children], children, tree.probability[children]),
                (leaves, leaves, np.ones(len(leaves))),
            ]
        )
        return TransitionMatrix(np.arange(len(tree)), rows, columns, values)

    @cached_property
    def relative_error(self) -> float:
        """A limit above the relative error of a probability that is computed from the tree.

        The probability of a path formula is a sum of products of transitions. No term is negative,
        and no operation subtracts. Each step down the tree multiplies, and adds at most as many
        terms as a state has children, in any order. So a step errs by at most that many unit
        roundoffs of its result (Higham 2002, "Accuracy and Stability of Numerical Algorithms",
        section 3.1). The errors of the steps add up.

        The children of a state may also fail to add up to 1. Equivalent ways to write a sum then
        differ by that defect, so it is added to the error of a step. Finally the error is doubled:
        a bound that is moved outwards by it is beyond every value that is computed from the tree.
        """
        parent = self.tree.parent[1:]
        sums = np.bincount(parent, weights=self.tree.probability[1:], minlength=1)
        defects = np.abs(sums - 1)[np.bincount(parent, minlength=1) > 0]
        # a few operations more than terms, since Storm divides by 1 minus the loop, here by 1
        step_error = (2 * self._max_children + 4) * _UNIT_ROUNDOFF + float(defects.max(initial=0))
        return 2 * (int(self.tree.step[-1]) + 1) * step_error if len(parent) else 0.0

    @cached_property
    def step_rest_error(self) -> float:
        """A limit above the absolute error that the `rest` states of a step add to a probability.

        The probability of `rest` is 1 minus the sum of its siblings. So it errs by a unit roundoff
        for each of them, in either direction, which is more than a relative error of a small
        `rest`. All `rest` states of a step together have at most the probability 1 of their
        parents. The error is doubled as the relative one.
        """
        return 2 * (self._max_children + 2) * _UNIT_ROUNDOFF

    @cached_property
    def rest_error(self) -> float:
        """A limit above the absolute error that all `rest` states add to a probability."""
        depth = int(self.tree.step[-1])
        return depth * self.step_rest_error if self.is_difference.any() else 0.0

    @cached_property
    def is_difference(self) -> np.ndarray:
        """(n,) bool: the `rest` states whose probability is 1 minus a sum.

        A `rest` below `CANCELLATION_THRESHOLD` is a sum itself where all tokens are known, and 1
        minus a sum where a server lists few tokens.
        """
        probability = self.tree.probability
        # 1 minus a float64 from 0 to 1 is a whole number of unit roundoffs, and a small sum is not
        is_subtracted = probability % _UNIT_ROUNDOFF == 0
        is_subtracted |= probability >= CANCELLATION_THRESHOLD
        # the `rest` of a text without selected tokens is exactly 1, and without other tokens 0
        is_difference: np.ndarray = (
            self.is_rest & (probability > 0) & (probability < 1) & is_subtracted
        )
        return is_difference

    @cached_property
    def _max_children(self) -> int:
        return int(np.bincount(self.tree.parent[1:], minlength=1).max())

    def build_process(self, query: Query) -> MarkovProcess:
        """Build the process of a query. Atoms over quantifiers are false in `rest`.

        Raises:
            UnknownName: an atom names a variable that the tree does not have.
        """
        n = len(self)
        # the labels too: a formula may use them without an atom
        propositions: tuple[Formula, ...] = (*query.atoms, *query.literals, *map(Label, LABELS))
        return MarkovProcess(
            transitions=self.transitions,
            labeling={proposition: self.evaluate(proposition) for proposition in propositions},
            # a chain has no states between the steps, and its `rest` is a leaf like others
            silent=np.zeros(n, dtype=bool),
            forced_truth=np.zeros(n, dtype=np.int8),
            relative_error=self.relative_error,
            rest_error=self.rest_error,
        )

    def evaluate(self, formula: Formula) -> np.ndarray:
        """Return (n,) bool: the states in which a propositional formula holds.

        An atom over a quantifier is unknown in `rest` and counts as false there.

        Raises:
            UnknownName: an atom names a variable that the tree does not have.
        """

        def evaluate_atom(atom: Atom) -> np.ndarray:
            self.check_variables(atom.variables)
            holds = atom.evaluate(self.variables)
            # the step of `rest` is known, its scores are not
            return holds if atom.is_step_only else holds & ~self.is_rest

        labels = {"rest": self.is_rest, "end": self.is_end}
        return evaluate_proposition(formula, evaluate_atom, labels)

    def find_scores(self, quantifier: str) -> np.ndarray:
        """Return (n,) int64: the score of each state's text; 0 in `rest`.

        The score of a `rest` state is unknown.

        Raises:
            UnknownName: the tree does not have the quantifier.
        """
        self.check_variables({quantifier})
        return np.where(self.is_rest, 0, self.variables[quantifier])

    def find_reached(self, stop: np.ndarray) -> np.ndarray:
        """Return (n,) bool: the states that are reachable without leaving `stop` states.

        Args:
            stop: (n,) bool.
        """
        # a state of probability 0 is not reachable
        is_reached = self.tree.probability > 0
        for level in self.tree.levels:
            parents = self.tree.parent[level]
            is_reached[level] &= is_reached[parents] & ~stop[parents]
        return is_reached

    def count_explored(self, stop: np.ndarray) -> tuple[int, int]:
        """Count the states and transitions that are reachable without leaving `stop` states.

        Args:
            stop: (n,) bool. Each of these states has a loop as its only transition.
        """
        is_reached = self.find_reached(stop)
        states = int(is_reached.sum())
        loops = int((is_reached & (stop | ~self.tree.internal)).sum())
        # an edge leads to each state but the root
        return states, states - 1 + loops

    def check_variables(self, names: Collection[str]) -> None:
        """Check that the tree has variables of these names.

        Raises:
            UnknownName: it lacks one.
        """
        # sorted, so that the message does not depend on the order of a set
        unknown_names = sorted(set(names).difference(self.variables))
        if unknown_names:
            known_names = ", ".join(self.variables)
            raise UnknownName(
                f"variable {unknown_names[0]}: the chain lacks it; its variables are {known_names}"
            )

    @classmethod
    def from_quantifiers(cls, tree: TextTree, quantifiers: Mapping[str, Quantifier]) -> Self:
        """Score the texts of a tree by the quantifiers of a query, each by its name.

        Raises:
            ConfigError: a score is no integer, or out of the range of its quantifier.
        """
        columns = {}
        for name, quantifier in quantifiers.items():
            _log.info("scoring %d states: %s", len(tree), name)
            columns[name] = scores.score_tree(quantifier, tree, name)
        return cls(tree, columns, collect_ranges(quantifiers))

    def check_ranges(self) -> None:
        """Check that the scores keep what their quantifiers declare.

        Raises:
            InvalidTree: a score is outside the range of its quantifier, or a final score changes.
        """
        is_known = ~self.is_rest
        for name, column in self.scores.items():
            low, high, *final_scores = self.ranges.get(name, (None, None))
            min_score, max_score = int(column[is_known].min()), int(column[is_known].max())
            if (low is not None and min_score < low) or (high is not None and max_score > high):
                raise InvalidTree(
                    f"{name}: scores from {min_score} to {max_score} exceed the declared range "
                    f"{low} to {high}; correct the quantifier's range"
                )
            # a final score limits all continuations, so a change would make the bounds wrong
            before = column[self.tree.parent]
            if (is_known & np.isin(before, final_scores) & (column != before))[1:].any():
                raise InvalidTree(
                    f"{name}: a text loses a score that its quantifier declares final; correct its "
                    f"final scores {', '.join(map(str, final_scores))}"
                )
