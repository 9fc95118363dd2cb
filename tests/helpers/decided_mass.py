"""The mass of a tree that surely satisfies or violates a path formula.

A text is decided once every continuation gives the path formula the same truth. The probability of
the formula under the whole model is D + U p. D is the mass that is decided true. U is the mass that
is not decided, all of it in `rest`. p is the probability that the model satisfies the formula from
there. D and D + U are the tightest bounds that the tree allows, and equal the bounds of `bounds`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from llmchecker.checking.anytime.product_automaton import UNDECIDED
from llmchecker.checking.row_groups import group_rows
from llmchecker.properties.logic.ast import STEP
from llmchecker.properties.logic.monitor import HorizonMonitor, Monitor
from llmchecker.trees.text_tree import StateKind, TextTree


@dataclass(frozen=True)
class DecidedMass:
    """The decided and undecided mass of a path formula on a tree.

    Attributes:
        satisfied_mass: the mass that is decided true, a correctly rounded sum.
        violated_mass: the mass that is decided false, also a correctly rounded sum.
        rest_states: (m,) int64, the `rest` states whose texts are not decided, by rising uid.
        rest_masses: (m,) float64, the probability of each of these states.
        obligations: (m,) int64, the formula's obligation at each of these states, by the numbers of
            the monitor.
    """

    satisfied_mass: float
    violated_mass: float
    rest_states: np.ndarray
    rest_masses: np.ndarray
    obligations: np.ndarray

    @property
    def undecided_mass(self) -> float:
        """U, the mass that is not decided."""
        return math.fsum(self.rest_masses)


def split_mass(
    tree: TextTree, scores: Mapping[str, np.ndarray], monitor: Monitor | HorizonMonitor
) -> DecidedMass:
    """Split a tree's mass into satisfied, violated and undecided mass.

    Args:
        tree: the texts.
        scores: (n,) integers for each quantifier of the formula; scores of `rest` are ignored.
        monitor: monitor of the path formula, with the tree's horizon.
    """
    columns = {STEP: tree.step, **scores}
    letters = monitor.compute_letters(columns, tree.kind == StateKind.END)
    is_rest = tree.kind == StateKind.REST
    # a `rest` has no letter of its own; its continuations depend on its parent's final scores
    letters[is_rest] = letters[tree.parent[is_rest]]
    obligations, mass = _run_monitor(tree, letters, monitor)
    leaves = np.flatnonzero(~tree.internal)
    truth = np.full(len(tree), UNDECIDED)
    for positions, key in group_rows(
        obligations[leaves], letters[leaves], tree.kind[leaves], tree.step[leaves]
    ):
        obligation, letter, kind, step = key
        decision = (
            # only a `rest` continues: other leaves repeat their letter for ever
            monitor.decide(obligation, step, letter)
            if kind == StateKind.REST
            else monitor.holds_under_stutter(obligation, letter)
        )
        truth[leaves[positions]] = UNDECIDED if decision is None else decision
    undecided_states = leaves[truth[leaves] == UNDECIDED]
    # no sample can begin at a state of probability 0
    undecided_states = undecided_states[mass[undecided_states] > 0]
    sums = [math.fsum(mass[leaves[truth[leaves] == value]]) for value in (True, False)]
    return DecidedMass(
        *sums, undecided_states, mass[undecided_states], obligations[undecided_states]
    )


def _run_monitor(
    tree: TextTree, letters: np.ndarray, monitor: Monitor | HorizonMonitor
) -> tuple[np.ndarray, np.ndarray]:
    """Return (n,) the obligation at every state, and (n,) its probability."""
    obligations = np.full(len(tree), monitor.initial_obligation)
    mass = tree.probability.copy()
    # states are sorted by step, so the states of a step are one slice
    row_bounds = np.searchsorted(tree.step, np.arange(1, tree.step[-1] + 2))
    for begin, end in pairwise(row_bounds):
        parents = tree.parent[begin:end]
        mass[begin:end] *= mass[parents]
        for positions, (obligation, letter) in group_rows(obligations[parents], letters[parents]):
            obligations[begin:end][positions] = monitor.progress(obligation, letter)
    return obligations, mass
