"""An MDP abstraction of `rest`: every continuation of a language model.

The bounded process contains no texts below `rest`. Here a nondeterministic choice replaces each
`rest`. At each step up to the horizon L the text may show any consistent truth values of the atoms
over quantifiers. It may end there for good or continue. The language model itself is a randomised
way to make these choices. So the least and the greatest probability over all ways bound the
probability under the whole model, all tokens included.

A text keeps final scores (see `continuation_ranges`). So every combination of final scores of texts
before a `rest` has a component of its own in the abstraction.

The choice of each step is made in one state. This state is silent: it is no part of any path, and a
path formula ignores it (see `product`). With it the abstraction grows linearly with the number of
valuations, not with its square. The parents of `rest` need no choices of their own. Leaves in which
the same atoms hold become one state: they are probabilistically bisimilar (Larsen and Skou 1991,
"Bisimulation through Probabilistic Testing").

If the atoms can have more than `MAX_VALUATIONS` combinations of truth values, a `rest` is
unconstrained instead: every formula may hold there and may fail. The bounds are then wider, never
wrong.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from llmchecker.checking.markov.product import MarkovProcess
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.checking.markov.sparse_matrix import (
    Entries,
    TransitionMatrix,
    concatenate_ranges,
    group_codes,
    group_truths,
    merge_entries,
)
from llmchecker.properties.logic.ast import STEP, Atom, Formula, Label
from llmchecker.properties.logic.continuation_ranges import ContinuationRanges
from llmchecker.properties.logic.query import Query
from llmchecker.properties.logic.valuations import (
    ScoreRange,
    TooManyValuations,
    enumerate_valuations,
)
from llmchecker.trees.text_tree import StateKind, TextTree, find_ended

MAX_VALUATIONS = 4096
"""The largest number of combinations of the atoms' truth values in one step."""


@dataclass(frozen=True)
class MarkovDecisionProcess(MarkovProcess):
    """A tree in which nondeterministic choices replace `rest`. State 0 is the root.

    The label "rest" is on the states whose text has a token that was not selected.

    Attributes:
        is_unconstrained: whether a `rest` allows everything, as the atoms have too many valuations.
    """

    is_unconstrained: bool


def abstract_rest(scored: ScoredTree, query: Query) -> MarkovDecisionProcess:
    """Build the decision process of a tree, in time linear in the tree's states.

    Args:
        scored: the bounded process. No continuation scores outside of a declared range.
        query: a query without an expected score. The process is valid for its atoms only.

    Raises:
        InvalidTree: a score is outside the range of its quantifier.
    """
    scored.check_ranges()
    tree, atoms = scored.tree, query.atoms
    length = tree.truncation.length
    ranges = ContinuationRanges(atoms, scored.ranges)
    # a `rest` has no scores: its parent's final scores limit it
    combinations = ranges.number_texts(scored.scores, len(tree))[tree.parent]
    distinct_combinations, component_of = group_codes(np.where(scored.is_rest, combinations, 0))
    try:
        rest_mdp = _join_mdps(
            [
                _build_rest_mdp(length, atoms, ranges.narrow_ranges(combination))
                for combination in distinct_combinations
            ]
        )
    # wider bounds are better than none
    except TooManyValuations:
        rest_mdp = _build_unconstrained_mdp(length, len(atoms), len(distinct_combinations))
    truths = {atom: atom.evaluate(scored.variables) for atom in atoms}
    state_of, representatives = _map_states(tree, list(truths.values()))
    m, n = len(representatives), len(representatives) + len(rest_mdp)
    labeling: dict[Formula, np.ndarray] = {
        atom: np.concatenate([truth[representatives], rest_mdp.valuations[:, index]])
        for index, (atom, truth) in enumerate(truths.items())
    }
    # every state of the abstraction has a token outside the tree
    labeling[Label("rest")] = np.arange(n) >= m
    labeling[Label("end")] = np.concatenate([find_ended(tree.kind[representatives]), rest_mdp.end])
    labeling.update((literal, np.full(n, literal.value)) for literal in query.literals)
    return MarkovDecisionProcess(
        transitions=_build_transitions(
            tree, rest_mdp, component_of, state_of, len(representatives)
        ),
        labeling=labeling,
        silent=np.concatenate([np.zeros(m, dtype=bool), rest_mdp.silent]),
        forced_truth=np.concatenate([np.zeros(m, dtype=np.int8), rest_mdp.forced_truth]),
        # choices have probability 1, so only the tree's probabilities have errors
        relative_error=scored.relative_error,
        rest_error=scored.rest_error,
        is_unconstrained=bool(rest_mdp.forced_truth.any()),
    )


def _map_states(tree: TextTree, truths: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Map each internal text to its own state, and equal leaves to one state.

    Leaves are equal if the same atoms hold in them.

    Returns:
        (n,) int64, for each state of the tree the state of the process, -1 for `rest`; and (m,)
        int64, for each state of the process outside the abstraction, a state of the tree that it
        represents.
    """
    is_known = tree.kind != StateKind.REST
    internal, leaves = (
        np.flatnonzero(is_known & tree.internal),
        np.flatnonzero(is_known & ~tree.internal),
    )
    found, groups = group_truths(
        [truth[leaves] for truth in truths], tree.kind[leaves].astype(np.int64)
    )
    # a `rest` has no state: its parent's edge leads to the abstraction
    state_of = np.full(len(tree), -1)
    state_of[internal] = np.arange(len(internal))
    state_of[leaves] = len(internal) + groups
    return state_of, np.concatenate([internal, leaves[found]])


def _build_transitions(
    tree: TextTree,
    rest_mdp: "_RestMDP",
    component_of: np.ndarray,
    state_of: np.ndarray,
    m: int,
) -> TransitionMatrix:
    """Build the matrix of tree and abstraction.

    Edges into `rest` lead to the choice of its step.

    Args:
        component_of: (n,) int64, the component of the abstraction that replaces a `rest`.
        state_of: (n,) int64, as in `_map_states`.
        m: number of states of the process outside the abstraction.
    """
    # an edge of probability 0 would make its target reachable in the graph
    is_possible = tree.probability > 0
    is_possible[0] = False  # nothing leads to the root
    edges = np.flatnonzero(is_possible & (tree.kind != StateKind.REST))
    rest_edges = np.flatnonzero(is_possible & (tree.kind == StateKind.REST))
    parents, rest_parents = (
        state_of[tree.parent[edges]],
        state_of[tree.parent[rest_edges]],
    )
    choices = np.concatenate([np.ones(m, dtype=np.int64), rest_mdp.choice_counts])
    groups = np.concatenate([[0], np.cumsum(choices)[:-1]])
    # a state without an edge gets a loop, since no row may be empty
    is_leaf = np.ones(m, dtype=bool)
    is_leaf[parents] = is_leaf[rest_parents] = False
    leaves = np.flatnonzero(is_leaf)
    # a state of the abstraction has a row for each choice, with one entry each
    rows = np.arange(groups[-1] + choices[-1] - m) + m
    parts: list[Entries] = [
        (groups[parents], state_of[edges], tree.probability[edges]),
        (
            groups[rest_parents],
            m + rest_mdp.choice_states[component_of[rest_edges], tree.step[rest_edges]],
            tree.probability[rest_edges],
        ),
        (groups[leaves], leaves, np.ones(len(leaves))),
        (rows, m + rest_mdp.targets, np.ones(len(rows))),
    ]
    rows, columns, values = merge_entries(parts)
    return TransitionMatrix(groups, rows, columns, values)


@dataclass(frozen=True)
class _RestMDP:
    """The states below `rest`: two per step and valuation, and choosing states.

    It may have several components, one for each combination of final scores.

    Attributes:
        valuations: (m, atoms) bool; false and without meaning in the choosing states.
        end: (m,) bool, whether the text has ended for good.
        silent, forced_truth: (m,) as in a `MarkovProcess`.
        choice_counts: (m,) int64, the number of choices in each state.
        targets: (choice_counts.sum(),) int64, the target state of each choice.
        choice_states: (components, L + 1) int64, the state in which the choice of each step is
            made.
    """

    valuations: np.ndarray
    end: np.ndarray
    silent: np.ndarray
    forced_truth: np.ndarray
    choice_counts: np.ndarray
    targets: np.ndarray
    choice_states: np.ndarray

    def __len__(self) -> int:
        return len(self.end)


def _build_rest_mdp(
    length: int, atoms: Sequence[Atom], score_ranges: Mapping[str, ScoreRange]
) -> _RestMDP:
    """Build the component of the steps 0 to `length`.

    Raises:
        TooManyValuations: the atoms have more than `MAX_VALUATIONS` in some step.
    """
    # atoms without the step have the same valuations in every step
    has_step = any(STEP in atom.variables for atom in atoms)
    steps = range(length + 1) if has_step else range(1)
    truth_tables = [
        enumerate_valuations(atoms, step, score_ranges, max_rows=MAX_VALUATIONS) for step in steps
    ] * (1 if has_step else length + 1)
    counts = np.array([len(truths) for truths in truth_tables])
    # The states of all steps come first, for each step the unfinished and then the ended states.
    # The choosing states follow.
    step = np.repeat(np.arange(length + 1), 2 * counts)
    first_states = np.concatenate([[0], np.cumsum(2 * counts)[:-1]])
    m = len(step)
    has_ended = np.arange(m) - first_states[step] >= counts[step]
    choice_states = m + np.arange(length + 1)
    # a text at the horizon has no next step
    next_states = np.where(
        has_ended | (step == length), np.arange(m), choice_states[np.minimum(step + 1, length)]
    )
    # each valuation twice: unfinished and ended
    truths = np.concatenate(
        [np.concatenate([truth_table, truth_table]) for truth_table in truth_tables]
    )
    return _RestMDP(
        valuations=np.concatenate([truths, np.zeros((length + 1, len(atoms)), dtype=bool)]),
        end=np.append(has_ended, np.zeros(length + 1, dtype=bool)),
        silent=np.arange(m + length + 1) >= m,
        forced_truth=np.zeros(m + length + 1, dtype=np.int8),
        choice_counts=np.append(np.ones(m, dtype=np.int64), 2 * counts),
        targets=np.append(next_states, concatenate_ranges(first_states, 2 * counts)),
        # one component; `_join_mdps` adds the others
        choice_states=choice_states[np.newaxis],
    )


def _join_mdps(components: Sequence[_RestMDP]) -> _RestMDP:
    """Join several components, one after the other."""
    offsets = np.cumsum([0, *map(len, components)])
    columns = {
        name: np.concatenate([getattr(component, name) for component in components])
        for name in ("valuations", "end", "silent", "forced_truth", "choice_counts")
    }
    return _RestMDP(
        **columns,
        targets=np.concatenate(
            [
                offset + component.targets
                for offset, component in zip(offsets, components, strict=False)
            ]
        ),
        choice_states=np.concatenate(
            [
                offset + component.choice_states
                for offset, component in zip(offsets, components, strict=False)
            ]
        ),
    )


def _build_unconstrained_mdp(length: int, atom_count: int, component_count: int) -> _RestMDP:
    """Build a choice of two states: undecided formulas all hold or all fail."""
    return _RestMDP(
        valuations=np.zeros((3, atom_count), dtype=bool),
        end=np.zeros(3, dtype=bool),
        silent=np.array([True, False, False]),
        # the first state chooses between the two outcomes
        forced_truth=np.array([0, 1, -1], dtype=np.int8),
        choice_counts=np.array([2, 1, 1]),
        targets=np.array([1, 2, 1, 2]),
        choice_states=np.zeros((component_count, length + 1), dtype=np.int64),
    )
