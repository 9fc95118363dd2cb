"""What `rest` hides, as chaos: every continuation that a language model could have.

The bounded process says nothing of the texts in `rest`. Here each `rest` is replaced by a
nondeterministic choice of what such a text may be: at each step up to the horizon L any consistent
truth values of the atoms over quantifiers, going on to the next step or ended there for good. The
language model itself is one way, at random, to resolve these choices; so the least and the greatest
probability over all ways bound the probability under the whole model, all tokens included.

The process is smaller than the tree, for two reasons that change no bound:

- Leaves in which the same atoms hold are one state: they are probabilistically bisimilar (Larsen
  and Skou 1991, "Bisimulation through Probabilistic Testing").
- Time must go on step by step, as it does in the model. In general, therefore, the choice about a
  `rest` is made one step before it, by its parent, whose transitions stand in the matrix once for
  each choice. Most queries cannot count steps, though: without X and step bounds they are invariant
  under stuttering (Lamport 1983, "What Good is Temporal Logic?"). For these a `rest` first repeats
  its parent: it leads to the chaos state of the parent's step in which the atoms have the parent's
  truth values, and the choice is made there, once for all such parents.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from llmchecker.errors import InvalidTree
from llmchecker.queries.formulas import (
    STEP,
    Atom,
    Expectation,
    Label,
    PathQuantifier,
    Probability,
    Root,
    Temporal,
    subformulas,
)
from llmchecker.queries.query import Query
from llmchecker.queries.valuations import Range, valuations
from llmchecker.trees.text_tree import Kind, TextTree

MAX_PACKED = 48
"""Atoms, at most, whose truth values are packed with a step into 64 bits."""

Entries = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Rows, columns and values of entries of a transition matrix."""


@dataclass(frozen=True)
class DecisionProcess:
    """An MDP of n states and r rows, one row a choice, with initial state 0.

    Args:
        groups: (n,) int64, the first row of each state.
        rows, columns, values: the entries of the transition matrix, by row.
        truths: (n,) bool each, where an atom holds.
        least, greatest: (n,) float64 each, by quantifier: what a state's text can score. The two
            are equal but in `rest`, where they are the limits of the range, infinite without one.
        rest: (n,) bool, the states whose text holds a token that was not selected.
        end: (n,) bool, the states whose text has ended.
    """

    groups: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    truths: Mapping[Atom, np.ndarray]
    rest: np.ndarray
    end: np.ndarray
    least: Mapping[str, np.ndarray] = field(default_factory=dict)
    greatest: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.groups)


def complete(
    tree: TextTree,
    scores: Mapping[str, np.ndarray],
    query: Query,
    ranges: Mapping[str, Range],
) -> DecisionProcess:
    """Replace every `rest` of a tree by chaos, in time linear in its states.

    Args:
        tree: the bounded process.
        scores: (n,) integers for each quantifier, by name; what stands in `rest` is not read.
        query: what will be asked; the process serves it, and maybe no other.
        ranges: of each quantifier, so that no continuation scores what no text can.

    Raises:
        InvalidTree: a text scores outside the range of its quantifier.
    """
    atoms = query.atoms
    chaos = _chaos(tree.truncation.length, atoms, ranges)
    known = {STEP: tree.step, **scores}
    truths = {atom: atom.holds(known) for atom in atoms}
    places = _places(tree, truths, query)
    shown = places.shown
    groups, entries = _matrix(tree, chaos, places, _repeating(tree, chaos, truths, query))
    n = len(groups) - 1
    rows, columns, values = _merged(entries)
    limits = {name: ranges.get(name, (None, None)) for name in scores}
    lows, highs = ({name: limit[i] for name, limit in limits.items()} for i in (0, 1))
    return DecisionProcess(
        groups=groups[:-1],
        rows=rows,
        columns=columns,
        values=values,
        truths={
            atom: np.concatenate([truth[shown], chaos.truths[:, number]])
            for number, (atom, truth) in enumerate(truths.items())
        },
        rest=np.arange(n) >= len(shown),
        end=np.concatenate([tree.kind[shown] == Kind.END, chaos.end]),
        least=_with_limit(scores, shown, n, lows, -np.inf),
        greatest=_with_limit(scores, shown, n, highs, np.inf),
    )


def stutter_invariant(root: Root) -> bool:
    """Whether a query cannot tell a path from one that repeats some of its states.

    It then has no X, no step bound and no expected score. One P, E or A inside another counts as
    able to tell, since its truth in a state is not that in the next; so does "rest", in which a
    path stands that repeats the parent of a `rest`.
    """
    for formula in subformulas(root):
        match formula:
            case Expectation() | Label("rest"):
                return False
            case Temporal(operator, _, bound) if operator == "X" or bound is not None:
                return False
            case Probability(_, _, path) | PathQuantifier(_, path):
                if any(isinstance(f, Probability | PathQuantifier) for f in subformulas(path)):
                    return False
    return True


@dataclass(frozen=True)
class _Places:
    """Which state of the process stands for a state of the tree.

    Args:
        of: (n,) int64, the state of the process; -1 for `rest`, which has none.
        shown: (m,) int64, for each state of the process but those of chaos, one that it stands for.
    """

    of: np.ndarray
    shown: np.ndarray


def _places(tree: TextTree, truths: Mapping[Atom, np.ndarray], query: Query) -> _Places:
    """Give each text that goes on a state, and each kind of leaf: those in which the same holds."""
    known = tree.kind != Kind.REST
    internal, leaves = np.flatnonzero(known & tree.internal), np.flatnonzero(known & ~tree.internal)
    if isinstance(query.root, Expectation) or len(truths) > MAX_PACKED:
        kind = np.arange(len(leaves))
    else:
        kind = _codes(tree.kind[leaves], [truth[leaves] for truth in truths.values()])
    _, first, number = np.unique(kind, return_index=True, return_inverse=True)
    of = np.full(len(tree), -1)
    of[internal] = np.arange(len(internal))
    of[leaves] = len(internal) + number
    return _Places(of, np.concatenate([internal, leaves[first]]))


def _repeating(
    tree: TextTree, chaos: "_Chaos", truths: Mapping[Atom, np.ndarray], query: Query
) -> np.ndarray | None:
    """(n,) int64: for the parent of a `rest` the chaos state that repeats it, and -1 elsewhere.

    None where the query could tell the difference.
    """
    if not stutter_invariant(query.root) or len(truths) > MAX_PACKED:
        return None
    repeated = np.full(len(tree), -1)
    parents = tree.parent[tree.kind == Kind.REST]
    repeated[parents] = chaos.alike(
        tree.step[parents], [truth[parents] for truth in truths.values()]
    )
    return repeated


def _matrix(
    tree: TextTree, chaos: "_Chaos", places: _Places, repeating: np.ndarray | None
) -> tuple[np.ndarray, list[Entries]]:
    """The first row of each state, with the number of rows behind; and the entries, in parts."""
    possible = tree.probability > 0
    possible[0] = False  # nothing leads to the root
    edges = np.flatnonzero(possible & (tree.kind != Kind.REST))
    rests = np.flatnonzero(possible & (tree.kind == Kind.REST))
    parent, resting = places.of[tree.parent[edges]], places.of[tree.parent[rests]]
    known = len(places.shown)
    ongoing = np.flatnonzero(~chaos.end & (chaos.step < tree.truncation.length))
    n = known + len(chaos.step)

    choices = np.ones(n, dtype=np.int64)
    if repeating is None:
        choices[resting] = chaos.width[tree.step[rests]]
    choices[known + ongoing] = chaos.width[chaos.step[ongoing] + 1]
    groups = np.concatenate([[0], np.cumsum(choices)])
    if repeating is None:
        next_step = known + chaos.first[tree.step[rests]]
        into_rest = _to_each(groups, resting, next_step, tree.probability[rests])
    else:
        into_rest = groups[resting], known + repeating[tree.parent[rests]], tree.probability[rests]

    terminal = np.ones(n, dtype=bool)
    terminal[np.concatenate([parent, resting, known + ongoing])] = False
    loops = np.flatnonzero(terminal)
    next_step = known + chaos.first[chaos.step[ongoing] + 1]
    return groups, [
        _for_each_choice(groups, parent, places.of[edges], tree.probability[edges]),
        into_rest,
        _to_each(groups, known + ongoing, next_step, np.ones(len(ongoing))),
        (groups[loops], loops, np.ones(len(loops))),
    ]


def _merged(parts: Sequence[Entries]) -> Entries:
    """All entries by row and column, those with the same row and column as their sum."""
    rows, columns, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((columns, rows))
    rows, columns = rows[order], columns[order]
    first = np.flatnonzero(np.append(True, (np.diff(rows) != 0) | (np.diff(columns) != 0)))
    return rows[first], columns[first], np.add.reduceat(values[order], first)


def _with_limit(
    scores: Mapping[str, np.ndarray],
    shown: np.ndarray,
    n: int,
    limits: Mapping[str, int | None],
    without: float,
) -> dict[str, np.ndarray]:
    """(n,) float64 each: the scores of the known states, then in chaos the limit."""
    filled = {}
    for name, limit in limits.items():
        filled[name] = np.full(n, without if limit is None else limit, dtype=np.float64)
        filled[name][: len(shown)] = scores[name][shown]
    return filled


@dataclass(frozen=True)
class _Chaos:
    """The chaos states, by step: each consistent valuation of the atoms, going on and ended.

    Args:
        step, end: (m,) of each state.
        truths: (m, atoms) bool.
        first, width: (L + 1,) for each step its first state and the number of its states.
    """

    step: np.ndarray
    end: np.ndarray
    truths: np.ndarray
    first: np.ndarray
    width: np.ndarray

    def alike(self, step: np.ndarray, truths: Sequence[np.ndarray]) -> np.ndarray:
        """(m,) int64: the states of these steps, going on, in which the atoms are true alike.

        Args:
            step: (m,) of each state to look for.
            truths: (m,) bool for each atom, at most `MAX_PACKED` of them.
        """
        going_on = np.flatnonzero(~self.end)
        codes = _codes(self.step[going_on], self.truths[going_on].T)  # rising, as they are made
        wanted = _codes(step, truths)
        found = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
        if np.any(codes[found] != wanted):
            raise InvalidTree("a text scores outside the range that its quantifier declares")
        return going_on[found]


def _codes(numbers: np.ndarray, truths: Iterable[np.ndarray]) -> np.ndarray:
    """(m,) int64: the numbers, each followed by the truth values of its atoms as binary digits."""
    code = numbers.astype(np.int64)
    for truth in truths:
        code = 2 * code + truth
    return code


def _chaos(length: int, atoms: Sequence[Atom], ranges: Mapping[str, Range]) -> _Chaos:
    by_step = [valuations(atoms, step, ranges) for step in range(length + 1)]
    counts = np.array([len(truths) for truths in by_step])
    width = 2 * counts
    step = np.repeat(np.arange(length + 1), width)
    first = np.concatenate([[0], np.cumsum(width)[:-1]])
    return _Chaos(
        step=step,
        end=np.arange(len(step)) - first[step] >= counts[step],
        truths=np.concatenate([np.concatenate([truths, truths]) for truths in by_step]),
        first=first,
        width=width,
    )


def _for_each_choice(
    groups: np.ndarray, states: np.ndarray, targets: np.ndarray, values: np.ndarray
) -> Entries:
    """Entries that lead from every choice of a state to the same target."""
    count = groups[states + 1] - groups[states]
    rows = np.repeat(groups[states], count) + _within(count)
    return rows, np.repeat(targets, count), np.repeat(values, count)


def _to_each(
    groups: np.ndarray, states: np.ndarray, first: np.ndarray, values: np.ndarray
) -> Entries:
    """Entries that lead from the i-th choice of a state to the i-th target from `first` on."""
    count = groups[states + 1] - groups[states]
    choice = _within(count)
    rows = np.repeat(groups[states], count) + choice
    return rows, np.repeat(first, count) + choice, np.repeat(values, count)


def _within(count: np.ndarray) -> np.ndarray:
    """0, 1, … up to each count, one after the other."""
    behind = np.cumsum(count)
    return np.arange(count.sum()) - np.repeat(behind - count, count)
