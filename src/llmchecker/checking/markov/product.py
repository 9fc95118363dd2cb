"""A path formula as reachability: the product with its progression.

A state of the product is a pair: a state of the process and the obligation of the formula after
the paths that lead there. The state `satisfied` represents all pairs whose obligation is met, and
`violated` all pairs whose obligation cannot be met any more. Every path reaches one of the two. So
the probability of any path formula is that of reaching `satisfied`, which is a sum of products of
transitions; this includes step bounds and nested temporal operators. Whether it is 0 or 1 depends
on the graph alone, without rounding.

Automata decide LTL in this way (Vardi 1985, Courcoubetis and Yannakakis 1995). Here the automaton
consists of obligations, and end components need no analysis, since the only cycles are the loops of
single states.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from llmchecker.checking.markov.sparse_matrix import (
    TransitionMatrix,
    concatenate_ranges,
    group_codes,
    group_truths,
    merge_entries,
)
from llmchecker.properties.logic.ast import Formula, Label, is_proposition, subformulas
from llmchecker.properties.logic.progression import Progression

SATISFIED_STATE, VIOLATED_STATE = 0, 1
"""The first two states of every product.

They represent the obligations with the same numbers.
"""


@dataclass(frozen=True)
class MarkovProcess:
    """A chain or a decision process, and the data of its n states.

    Its only cycles are the loops of single states.

    Attributes:
        transitions: the transition matrix of the n states.
        labeling: (n,) bool for each atom, literal and label: the states in which it holds.
        silent: (n,) bool, the states that are no part of a path, because they only choose between
            the states of a step. Formulas ignore their labels.
        forced_truth: (n,) int8, 1 in states where every undecided path formula counts as satisfied,
            -1 where it counts as violated, and 0 elsewhere.
        relative_error: the largest relative error of a probability that is computed from the
            process; see `ScoredTree.relative_error`.
        rest_error: the largest absolute error that `rest` adds; see `ScoredTree.rest_error`.
    """

    transitions: TransitionMatrix
    labeling: Mapping[Formula, np.ndarray]
    silent: np.ndarray
    forced_truth: np.ndarray
    relative_error: float
    rest_error: float

    def __len__(self) -> int:
        return len(self.transitions)


@dataclass(frozen=True)
class Product:
    """The product of a process and a path formula.

    Attributes:
        transitions: matrix of the product; state 0 is `satisfied`, state 1 is `violated`.
        starts: (m,) int64, for each start the state of the product in which its paths begin.
        rest_edges: (2, e) int64, sources and targets of the edges from a text into its `rest`,
            without those that lead to `violated`.
    """

    transitions: TransitionMatrix
    starts: np.ndarray
    rest_edges: np.ndarray


def build_product(
    process: MarkovProcess,
    path: Formula,
    starts: np.ndarray,
    extra_labels: Mapping[Label, np.ndarray] | None = None,
) -> Product:
    """Build the part of the product that is reachable from the starts.

    On a tree with one start the product is no larger than the tree. With several starts it has at
    most as many states as pairs of a start and a state below it.

    Args:
        process: the chain or decision process.
        path: a path formula without P, E and A.
        starts: (m,) int64, distinct states in which paths begin.
        extra_labels: (n,) bool for each label of the path formula that `process.labeling` does not
            contain.

    Raises:
        CheckFailed: the formula has too many obligations.
    """
    transitions = process.transitions
    tracker = _ObligationTracker(process, path, extra_labels or {})
    # the start state is part of the path, so the formula reads it first
    first_obligations = tracker.progress(
        starts, np.full(len(starts), tracker.progression.initial_obligation)
    )
    keys, edges = _explore(transitions, tracker, starts, first_obligations)
    states = keys % len(process)

    def find_state(states: np.ndarray, demands: np.ndarray) -> np.ndarray:
        # the first two states are `satisfied` and `violated`
        undecided_states = 2 + np.searchsorted(keys, demands * len(process) + states)
        return np.where(demands <= VIOLATED_STATE, demands, undecided_states)

    sources, source_obligations, entries, target_obligations = edges
    # the two decided states have one choice each, their loop
    choices = np.concatenate([[1, 1], transitions.choice_counts[states]])
    groups = np.concatenate([[0], np.cumsum(choices)[:-1]])
    # a state of the product has the choices of its state of the process
    choice = transitions.rows[entries] - transitions.row_groups[sources]
    loops = np.arange(2)
    source_states = find_state(sources, source_obligations)
    target_states = find_state(transitions.columns[entries], target_obligations)
    rows, columns, values = merge_entries(
        [
            (loops, loops, np.ones(2)),
            (groups[source_states] + choice, target_states, transitions.values[entries]),
        ]
    )
    is_rest = process.labeling[Label("rest")]
    # in a decision process all states below a `rest` have the label too
    is_rest_edge = is_rest[transitions.columns[entries]] & ~is_rest[sources]
    is_rest_edge &= target_states != VIOLATED_STATE
    return Product(
        TransitionMatrix(groups, rows, columns, values),
        find_state(starts, first_obligations),
        np.stack([source_states[is_rest_edge], target_states[is_rest_edge]]),
    )


def _explore(
    transitions: TransitionMatrix,
    tracker: "_ObligationTracker",
    starts: np.ndarray,
    obligations: np.ndarray,
) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """Return the reachable undecided pairs of state and obligation, and edges.

    The number of a pair is obligation * n + state; the pairs are returned in rising order. An edge
    is four numbers: its source, the obligation there, its entry in the process's matrix, and the
    obligation at its target.
    """
    n = len(transitions)
    count = np.diff(transitions.entry_offsets)
    visited = np.empty(0, dtype=np.int64)
    # decided pairs become the two final states, so they need no exploration
    frontier = _sort_distinct((obligations * n + starts)[obligations > VIOLATED_STATE])
    edges: list[tuple[np.ndarray, ...]] = [(np.empty(0, dtype=np.int64),) * 4]
    while len(frontier):
        states = frontier % n
        entries = concatenate_ranges(transitions.entry_offsets[states], count[states])
        sources = np.repeat(frontier, count[states])
        target_obligations = tracker.progress(transitions.columns[entries], sources // n)
        edges.append((sources % n, sources // n, entries, target_obligations))
        visited = _sort_distinct(np.concatenate((visited, frontier)))
        is_undecided = target_obligations > VIOLATED_STATE
        targets = _sort_distinct(
            target_obligations[is_undecided] * n + transitions.columns[entries][is_undecided]
        )
        # a pair may be reachable along paths of different lengths
        frontier = np.setdiff1d(targets, visited, assume_unique=True)
    return visited, tuple(np.concatenate(column) for column in zip(*edges, strict=True))


class _ObligationTracker:
    """The progression of obligations along the paths of a process."""

    def __init__(
        self, process: MarkovProcess, path: Formula, extra_labels: Mapping[Label, np.ndarray]
    ) -> None:
        self.progression = Progression(path)
        self._process = process
        propositions = list(
            dict.fromkeys(formula for formula in subformulas(path) if is_proposition(formula))
        )
        labeling = dict(process.labeling) | dict(extra_labels)
        truths: dict[Formula, np.ndarray] = {
            proposition: labeling[proposition] for proposition in propositions
        }
        representatives, self._valuation_of = group_truths(
            truths.values(), np.zeros(len(process), dtype=np.int64)
        )
        self._valuations = [
            {proposition: bool(truth[state]) for proposition, truth in truths.items()}
            for state in representatives.tolist()
        ]

    def progress(self, states: np.ndarray, obligations: np.ndarray) -> np.ndarray:
        """Return (m,) int64: the obligations after the given states.

        In a state that only leads to itself every obligation is decided.

        Args:
            states: (m,) the states that paths reach.
            obligations: (m,) the obligations of these paths before the states.
        """
        process = self._process
        remaining = obligations.copy()
        forced_truth = process.forced_truth[states]
        is_open = obligations > VIOLATED_STATE
        # an unconstrained `rest` decides every formula at once
        remaining[is_open & (forced_truth > 0)] = SATISFIED_STATE
        remaining[is_open & (forced_truth < 0)] = VIOLATED_STATE
        # a silent state is no part of a path, so its obligation is unchanged
        is_progressed = is_open & (forced_truth == 0) & ~process.silent[states]
        is_absorbing = process.transitions.absorbing[states[is_progressed]]
        width = 2 * len(self._valuations)
        # few situations differ, so each is progressed only once
        situations = (
            obligations[is_progressed] * width
            + 2 * self._valuation_of[states[is_progressed]]
            + is_absorbing
        )
        distinct_situations, inverse = group_codes(situations)
        next_obligations = [
            self._progress_one(*divmod(code, width)) for code in distinct_situations.tolist()
        ]
        remaining[is_progressed] = np.array(next_obligations, dtype=np.int64)[inverse]
        return remaining

    def _progress_one(self, obligation: int, code: int) -> int:
        valuation_index, is_absorbing = divmod(code, 2)
        valuation = self._valuations[valuation_index]
        # the path repeats this state for ever, so the obligation is decided now
        if is_absorbing:
            return (
                SATISFIED_STATE
                if self.progression.holds_under_stutter(obligation, valuation)
                else VIOLATED_STATE
            )
        # the path continues, so the rest of the obligation is left to its next state
        return self.progression.progress(obligation, valuation)


def _sort_distinct(values: np.ndarray) -> np.ndarray:
    """Return the distinct values of an integer array, in rising order."""
    # `np.unique` hashes the values first, which takes many times longer if most are distinct.
    values = np.sort(values)
    distinct: np.ndarray = values[np.diff(values, prepend=values[:1] - 1) != 0]
    return distinct
