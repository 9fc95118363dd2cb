"""The bounded text generation process as a discrete-time Markov chain, in arrays.

A chain has the rows of its tree: state `uid` is row `uid`. It takes the tree's probabilities as
they are and renormalises nothing, so that Storm computes with the numbers of the tree. The children
of a state may therefore add up to 1 only within rounding. A `TextTree` allows 1e-9, which Storm
tolerates. A child of probability 0 has no transition and is not reachable.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import NamedTuple

import numpy as np

from llmchecker.chains.product import Process
from llmchecker.chains.transitions import Transitions, consecutive, relative_error
from llmchecker.errors import InvalidTree, UnknownName
from llmchecker.queries.formulas import LABELS, STEP, Atom, Connective, Formula, Label, Literal
from llmchecker.queries.query import Query
from llmchecker.trees.text_tree import Kind, TextTree


class Size(NamedTuple):
    """The size of a chain or of a part of it."""

    states: int
    transitions: int


@dataclass(frozen=True)
class MarkovChain:
    """A DTMC of n states and m transitions with initial state 0, and what is known of its states.

    Attributes:
        row_pointers: (n + 1,) int64; the transitions of a state s are the entries
            row_pointers[s] up to row_pointers[s + 1] of `columns` and `values`.
        columns: (m,) int64, successors, rising within a row.
        values: (m,) float64, probabilities above 0.
        variables: (n,) int64 each, by name: `step` and the quantifiers. In a `rest` state the
            quantifiers are unknown: what their columns hold there means nothing.
        rest: (n,) bool, the states that stand for all tokens that were not selected.
        end: (n,) bool, the states whose text has ended.
    """

    row_pointers: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    variables: Mapping[str, np.ndarray]
    rest: np.ndarray
    end: np.ndarray

    def __len__(self) -> int:
        return len(self.rest)

    @cached_property
    def transitions(self) -> Transitions:
        """The matrix, with one choice in each state."""
        rows = np.repeat(np.arange(len(self)), np.diff(self.row_pointers))
        return Transitions(np.arange(len(self)), rows, self.columns, self.values)

    @cached_property
    def relative_error(self) -> float:
        """The largest relative error of a probability that is computed from the chain."""
        depth = int(self.variables[STEP].max())
        return relative_error(self.transitions.rows, self.values, depth)

    def process(self, query: Query) -> Process:
        """Return the process that answers a query. Atoms over quantifiers are false in `rest`.

        Raises:
            UnknownName: an atom names a variable that the chain does not have.
        """
        n = len(self)
        propositions = (*query.atoms, *query.literals, *map(Label, LABELS))
        return Process(
            transitions=self.transitions,
            truths={proposition: self.satisfying(proposition) for proposition in propositions},
            silent=np.zeros(n, dtype=bool),
            fate=np.zeros(n, dtype=np.int8),
            relative_error=self.relative_error,
        )

    def satisfying(self, formula: Formula) -> np.ndarray:
        """Return (n,) bool: the states in which a formula without P and temporal operators holds.

        An atom over a quantifier is unknown in `rest` and counts as false there.

        Raises:
            UnknownName: an atom names a variable that the chain does not have.
        """
        match formula:
            case Literal(value):
                return np.full(len(self), value)
            case Label(name):
                return self.rest if name == "rest" else self.end
            case Atom():
                self._require(formula.variables)
                holds = formula.holds(self.variables)
                return holds if formula.over_step_only else holds & ~self.rest
            case Connective(operator, operands):
                truths = [self.satisfying(operand) for operand in operands]
        match operator:
            case "!":
                return ~truths[0]
            case "=>":
                return ~truths[0] | truths[1]
            case "&":
                return reduce(np.logical_and, truths)
            case "|":
                return reduce(np.logical_or, truths)

    def scores(self, quantifier: str) -> np.ndarray:
        """Return (n,) int64: the score of each state's text; 0 in `rest`, whose score is unknown.

        Raises:
            UnknownName: the chain does not have the quantifier.
        """
        self._require({quantifier})
        return np.where(self.rest, 0, self.variables[quantifier])

    def explored(self, stop: np.ndarray) -> Size:
        """Return the size of the part that is reachable from state 0 if some states are not left.

        Args:
            stop: (n,) bool, the states that are not left. Each has a loop as its only transition.
        """
        reached = np.zeros(len(self), dtype=bool)
        last = np.empty(len(self), dtype=np.int64)
        frontier = np.zeros(1, dtype=np.int64)
        while len(frontier):
            reached[frontier] = True
            successors = self.columns[self._entries(frontier[~stop[frontier]])]
            frontier = _distinct(successors[~reached[successors]], last)
        out_degree = np.where(stop, 1, np.diff(self.row_pointers))
        return Size(int(reached.sum()), int(out_degree[reached].sum()))

    def _require(self, names: Collection[str]) -> None:
        unknown = sorted(set(names).difference(self.variables))
        if unknown:
            known = ", ".join(self.variables)
            raise UnknownName(f"the chain has no variable {unknown[0]}; it has {known}")

    def _entries(self, states: np.ndarray) -> np.ndarray:
        """Return the indices into `columns` of all transitions of the states."""
        first = self.row_pointers[states]
        return consecutive(first, self.row_pointers[states + 1] - first)


def _distinct(states: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Return each state once, in time linear in the number of states given.

    Args:
        states: with repetitions.
        last: room for one number for each state of the chain; it is overwritten.
    """
    # of equal states the last one to be written stays
    places = np.arange(len(states))
    last[states] = places
    return states[last[states] == places]


def build(tree: TextTree, scores: Mapping[str, np.ndarray]) -> MarkovChain:
    """Return the chain of a tree, in time linear in its states.

    Args:
        tree: the states and their probabilities.
        scores: (n,) integers for each quantifier, by name; those of `rest` are not read.

    Raises:
        InvalidTree: scores are not one integer for each state, a quantifier is named `step`, or a
            text is not finished.
    """
    require_finished(tree)
    n = len(tree)
    if STEP in scores:
        raise InvalidTree(
            f"a quantifier cannot be named {STEP}: the tree has a column of that name"
        )
    for name, column in scores.items():
        if np.shape(column) != (n,) or not np.issubdtype(np.asarray(column).dtype, np.integer):
            raise InvalidTree(f"the scores of {name} must be one integer for each of {n} states")
    edges = 1 + np.flatnonzero(tree.probability[1:] > 0)
    terminals = np.flatnonzero(~tree.internal)
    rows = np.concatenate([tree.parent[edges], terminals])
    # `rows` is two rising runs, which a stable sort merges in linear time
    order = np.argsort(rows, kind="stable")
    return MarkovChain(
        row_pointers=np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))]),
        columns=np.concatenate([edges, terminals])[order],
        values=np.concatenate([tree.probability[edges], np.ones(len(terminals))])[order],
        variables={STEP: tree.step}
        | {name: np.asarray(column, np.int64) for name, column in scores.items()},
        rest=tree.kind == Kind.REST,
        end=tree.kind == Kind.END,
    )


def require_finished(tree: TextTree) -> None:
    """Check that every text without children has ended or stands at the horizon.

    The chain would take a text that just stops for one that stays as it is for ever, though the
    model goes on from there.

    Raises:
        InvalidTree: a text without children has not ended and stands before the horizon.
    """
    early = (tree.kind == Kind.TEXT) & ~tree.internal & (tree.step < tree.truncation.length)
    if np.any(early):
        uid = int(np.flatnonzero(early)[0])
        raise InvalidTree(
            f"state {uid} has no children, though its text has not ended and stands at step "
            f"{int(tree.step[uid])} of {tree.truncation.length}: the tree is not whole"
        )
