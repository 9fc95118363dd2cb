"""The bounded text generation process as a discrete-time Markov chain.

A chain has the rows of its tree: state `uid` is row `uid`. It uses the tree's probabilities
unchanged, without renormalisation, so that Storm computes with the numbers of the tree. The
children of a state may therefore add up to 1 only within rounding. A `TextTree` allows 1e-9, which
Storm tolerates. A child of probability 0 has no transition and is not reachable.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import NamedTuple

import numpy as np

from llmchecker.checking.markov.product import MarkovProcess
from llmchecker.checking.markov.sparse_matrix import (
    TransitionMatrix,
    compute_relative_error,
    compute_rest_error,
    concatenate_ranges,
)
from llmchecker.errors import InvalidTree, UnknownName
from llmchecker.properties.logic.ast import LABELS, STEP, Atom, Connective, Formula, Label, Literal
from llmchecker.properties.logic.query import Query
from llmchecker.trees.text_tree import StateKind, TextTree, check_complete
from llmchecker.utils.number_format import format_count


class _Size(NamedTuple):
    """The size of a chain or of a part of it."""

    states: int
    transitions: int


@dataclass(frozen=True)
class MarkovChain:
    """A DTMC of n states and m transitions, with initial state 0.

    Attributes:
        row_pointers: (n + 1,) int64; the transitions of a state s are the entries
            row_pointers[s] up to row_pointers[s + 1] of `columns` and `values`.
        columns: (m,) int64, successors, rising within a row.
        values: (m,) float64, probabilities above 0.
        variables: (n,) int64 each, by name: `step` and the quantifiers. In a `rest` state the
            quantifiers are unknown, and their columns hold meaningless numbers there.
        rest: (n,) bool, the states that represent all tokens that were not selected.
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
    def transitions(self) -> TransitionMatrix:
        """The matrix, with one choice in each state."""
        rows = np.repeat(np.arange(len(self)), np.diff(self.row_pointers))
        return TransitionMatrix(np.arange(len(self)), rows, self.columns, self.values)

    @cached_property
    def relative_error(self) -> float:
        """The largest relative error of a probability of the chain."""
        depth = int(self.variables[STEP].max())
        return compute_relative_error(self.transitions.rows, self.values, depth)

    @cached_property
    def rest_error(self) -> float:
        """The largest absolute error that `rest` adds to a probability of the chain."""
        depth = int(self.variables[STEP].max())
        return compute_rest_error(
            self.transitions.rows, self.values, self.rest[self.columns], depth
        )

    def build_process(self, query: Query) -> MarkovProcess:
        """Build the process of a query. Atoms over quantifiers are false in `rest`.

        Raises:
            UnknownName: an atom names a variable that the chain does not have.
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
            UnknownName: an atom names a variable that the chain does not have.
        """
        match formula:
            case Literal(value):
                return np.full(len(self), value)
            case Label(name):
                return self.rest if name == "rest" else self.end
            case Atom():
                self.check_variables(formula.variables)
                holds = formula.evaluate(self.variables)
                # the step of `rest` is known, its scores are not
                return holds if formula.is_step_only else holds & ~self.rest
            case Connective(operator, operands):
                truths = [self.evaluate(operand) for operand in operands]
        match operator:
            case "!":
                return ~truths[0]
            case "=>":
                implication: np.ndarray = ~truths[0] | truths[1]
                return implication
            case "&":
                return reduce(np.logical_and, truths)
            case "|":
                return reduce(np.logical_or, truths)
        raise AssertionError(formula)

    def find_scores(self, quantifier: str) -> np.ndarray:
        """Return (n,) int64: the score of each state's text; 0 in `rest`.

        The score of a `rest` state is unknown.

        Raises:
            UnknownName: the chain does not have the quantifier.
        """
        self.check_variables({quantifier})
        return np.where(self.rest, 0, self.variables[quantifier])

    def compute_explored_size(self, stop: np.ndarray) -> _Size:
        """Compute the size of the part reachable without leaving `stop` states.

        Args:
            stop: (n,) bool, the states that are not left. Each has a loop as its only transition.
        """
        is_reached = np.zeros(len(self), dtype=bool)
        scratch = np.empty(len(self), dtype=np.int64)
        frontier = np.zeros(1, dtype=np.int64)
        while len(frontier):
            is_reached[frontier] = True
            successors = self.columns[self._find_entries(frontier[~stop[frontier]])]
            # two states of a process may share a successor
            frontier = _deduplicate(successors[~is_reached[successors]], scratch)
        # a stop state keeps its loop only
        out_degree = np.where(stop, 1, np.diff(self.row_pointers))
        return _Size(int(is_reached.sum()), int(out_degree[is_reached].sum()))

    def check_variables(self, names: Collection[str]) -> None:
        """Check that the chain has variables of these names.

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

    def _find_entries(self, states: np.ndarray) -> np.ndarray:
        """Return the indices into `columns` of all transitions of the states."""
        first_entries = self.row_pointers[states]
        return concatenate_ranges(first_entries, self.row_pointers[states + 1] - first_entries)


def _deduplicate(states: np.ndarray, scratch: np.ndarray) -> np.ndarray:
    """Return each state once, in time linear in the number of states given.

    Args:
        states: states with repetitions.
        scratch: (n,) int64, a buffer with an entry for each state of the chain; overwritten.
    """
    # the last write to an entry stays, so of equal states only the last matches
    positions = np.arange(len(states))
    scratch[states] = positions
    distinct: np.ndarray = states[scratch[states] == positions]
    return distinct


def build_dtmc(tree: TextTree, scores: Mapping[str, np.ndarray]) -> MarkovChain:
    """Build the chain of a tree, in time linear in its states.

    Args:
        tree: the states and their probabilities.
        scores: (n,) integers for each quantifier, by name; scores of `rest` states are ignored.

    Raises:
        InvalidTree: scores are not one integer for each state, a quantifier is named `step`, or a
            text is not finished.
    """
    check_complete(tree)
    n = len(tree)
    # both would be the same variable of the chain
    if STEP in scores:
        raise InvalidTree(f"quantifier {STEP}: the tree has a column of that name; rename it")
    for name, column in scores.items():
        if np.shape(column) != (n,) or not np.issubdtype(np.asarray(column).dtype, np.integer):
            raise InvalidTree(
                f"scores of {name}: not one integer for each of {format_count(n, 'state')}; "
                "score the tree again"
            )
    # the root has no edge that leads to it
    children = 1 + np.flatnonzero(tree.probability[1:] > 0)
    terminals = np.flatnonzero(~tree.internal)
    counts = np.bincount(tree.parent[children], minlength=n)
    counts[terminals] = 1
    row_pointers = np.concatenate([[0], np.cumsum(counts)])
    # children are in the order of their parents, and terminals have no other entry than a loop
    is_loop = np.zeros(row_pointers[-1], dtype=bool)
    is_loop[row_pointers[terminals]] = True
    columns, values = np.empty(len(is_loop), dtype=np.int64), np.ones(len(is_loop))
    columns[is_loop], columns[~is_loop] = terminals, children
    values[~is_loop] = tree.probability[children]
    return MarkovChain(
        row_pointers=row_pointers,
        columns=columns,
        values=values,
        variables={STEP: tree.step}
        | {name: np.asarray(column, np.int64) for name, column in scores.items()},
        rest=tree.kind == StateKind.REST,
        end=tree.kind == StateKind.END,
    )
