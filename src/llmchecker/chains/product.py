"""A path formula as reachability: the product of a process with the formula's progression.

A state of the product is a state of the process together with what the formula still demands of the
paths that come there. One `satisfied` state stands for all states where nothing is left to be
satisfied, and one `violated` state for all where the demand cannot be met any more. Every path
comes to one of the two. So the probability of any path formula is that of reaching `satisfied`,
which is a sum of products of transitions; this includes step bounds and nested temporal operators.
Whether it is 0 or 1 is a question about the graph, which no rounding touches.

Automata decide LTL in this way (Vardi 1985, Courcoubetis and Yannakakis 1995). Here the automaton
consists of demands, and end components need no analysis, since the only cycles are the loops of
single states.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from llmchecker.chains.transitions import Transitions, consecutive, merged
from llmchecker.queries.formulas import Formula, Label, is_proposition, subformulas
from llmchecker.queries.progression import Progression

SATISFIED_STATE, VIOLATED_STATE = 0, 1
"""The first two states of every product. They stand for the demands with the same numbers."""


@dataclass(frozen=True)
class Process:
    """A chain or a decision process, and what is known of its states.

    Its only cycles are the loops of single states.

    Attributes:
        transitions: of n states.
        truths: (n,) bool for each atom, literal and label: the states in which it holds.
        silent: (n,) bool, the states that are no part of a path, because they only choose between
            the states of one step. What holds there is not read.
        fate: (n,) int8, 1 in states where every undecided path formula counts as satisfied, -1
            where it counts as violated, and 0 elsewhere.
        relative_error: the largest relative error of a probability that is computed from the
            process; see `transitions.relative_error`.
    """

    transitions: Transitions
    truths: Mapping[Formula, np.ndarray]
    silent: np.ndarray
    fate: np.ndarray
    relative_error: float

    def __len__(self) -> int:
        return len(self.transitions)


@dataclass(frozen=True)
class Product:
    """The product of a process and a path formula.

    Attributes:
        transitions: of the product's states; state 0 is `satisfied`, state 1 is `violated`.
        starts: (m,) int64, for each start the state of the product in which its paths begin.
    """

    transitions: Transitions
    starts: np.ndarray


def product(
    process: Process,
    path: Formula,
    starts: np.ndarray,
    extra: Mapping[Label, np.ndarray] | None = None,
) -> Product:
    """Return the part of the product that is reachable from the starts.

    On a tree with one start the product is no larger than the tree. With several starts it has at
    most as many states as there are pairs of a start and a state below it.

    Args:
        process: the chain or decision process.
        path: a path formula without P, E and A.
        starts: (m,) int64, distinct states in which paths begin.
        extra: (n,) bool for each label of the path formula that `process.truths` does not hold.

    Raises:
        CheckFailed: the formula can leave too many demands.
    """
    transitions = process.transitions
    reader = _Reader(process, path, extra or {})
    first = reader.read(starts, np.full(len(starts), reader.progression.start))
    keys, edges = _explored(transitions, reader, starts, first)
    states = keys % len(process)

    def place(states: np.ndarray, demands: np.ndarray) -> np.ndarray:
        found = 2 + np.searchsorted(keys, demands * len(process) + states)
        return np.where(demands <= VIOLATED_STATE, demands, found)

    sources, source_demands, entries, target_demands = edges
    choices = np.concatenate([[1, 1], transitions.choices[states]])
    groups = np.concatenate([[0], np.cumsum(choices)[:-1]])
    choice = transitions.rows[entries] - transitions.groups[sources]
    loops = np.arange(2)
    rows, columns, values = merged(
        [
            (loops, loops, np.ones(2)),
            (
                groups[place(sources, source_demands)] + choice,
                place(transitions.columns[entries], target_demands),
                transitions.values[entries],
            ),
        ]
    )
    return Product(Transitions(groups, rows, columns, values), place(starts, first))


def _explored(
    transitions: Transitions, reader: "_Reader", starts: np.ndarray, demands: np.ndarray
) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """The reachable undecided pairs of a state and a demand, and the edges from them.

    A pair is known by the number demand * n + state; the pairs are returned in rising order. An
    edge
    is four numbers: its source, the demand there, its entry in the process's matrix, and the demand
    at its target.
    """
    n = len(transitions)
    count = np.diff(transitions.first)
    seen = np.empty(0, dtype=np.int64)
    new = np.unique((demands * n + starts)[demands > VIOLATED_STATE])
    edges: list[tuple[np.ndarray, ...]] = [(np.empty(0, dtype=np.int64),) * 4]
    while len(new):
        states = new % n
        entries = consecutive(transitions.first[states], count[states])
        sources = np.repeat(new, count[states])
        after = reader.read(transitions.columns[entries], sources // n)
        edges.append((sources % n, sources // n, entries, after))
        seen = np.union1d(seen, new)
        open_ = after > VIOLATED_STATE
        reached = np.unique(after[open_] * n + transitions.columns[entries][open_])
        new = np.setdiff1d(reached, seen, assume_unique=True)
    return seen, tuple(np.concatenate(column) for column in zip(*edges, strict=True))


class _Reader:
    """Tells what is left of a demand once a path has come to a state."""

    def __init__(self, process: Process, path: Formula, extra: Mapping[Label, np.ndarray]) -> None:
        self.progression = Progression(path)
        self._process = process
        propositions = list(dict.fromkeys(f for f in subformulas(path) if is_proposition(f)))
        known = {**process.truths, **extra}
        self._valuations, self._of = _valuations(
            propositions, [known[p] for p in propositions], len(process)
        )

    def read(self, states: np.ndarray, demands: np.ndarray) -> np.ndarray:
        """(m,) int64: the demands that are left after the states.

        In a state that only leads to itself everything is decided.

        Args:
            states: (m,) the states to which paths come.
            demands: (m,) the demands with which they come.
        """
        process = self._process
        left = demands.copy()
        fate = process.fate[states]
        is_open = demands > VIOLATED_STATE
        left[is_open & (fate > 0)] = SATISFIED_STATE
        left[is_open & (fate < 0)] = VIOLATED_STATE
        read = is_open & (fate == 0) & ~process.silent[states]
        absorbing = process.transitions.absorbing[states[read]]
        width = 2 * len(self._valuations)
        situations = demands[read] * width + 2 * self._of[states[read]] + absorbing
        distinct, inverse = np.unique(situations, return_inverse=True)
        after = [self._decided(*divmod(code, width)) for code in distinct.tolist()]
        left[read] = np.array(after, dtype=np.int64)[inverse]
        return left

    def _decided(self, demand: int, situation: int) -> int:
        number, absorbing = divmod(situation, 2)
        valuation = self._valuations[number]
        if absorbing:
            return (
                SATISFIED_STATE if self.progression.forever(demand, valuation) else VIOLATED_STATE
            )
        return self.progression.after(demand, valuation)


def _valuations(
    propositions: Sequence[Formula], truths: Sequence[np.ndarray], n: int
) -> tuple[list[dict[Formula, bool]], np.ndarray]:
    """The distinct valuations, and (n,) int64, for each state the position of its valuation."""
    of = np.zeros(n, dtype=np.int64)
    for truth in truths:
        # renumbered each time, so that numbers stay below 2 n
        _, of = np.unique(2 * of + truth, return_inverse=True)
    _, first = np.unique(of, return_index=True)
    valuations = [
        {p: bool(truth[i]) for p, truth in zip(propositions, truths, strict=True)}
        for i in first.tolist()
    ]
    return valuations, of
