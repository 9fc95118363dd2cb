"""What `rest` hides, as chaos: every continuation that a language model could have.

The bounded process says nothing of the texts in `rest`. Here a nondeterministic choice replaces
each `rest`. At each step up to the horizon L the text may show any consistent truth values of the
atoms over quantifiers, and it may end there for good or go on. The language model itself is one
randomised way to make these choices. So the least and the greatest probability over all ways bound
the probability under the whole model, all tokens included.

A text keeps final scores (see `final_scores`). So there is chaos of its own for every combination
of final scores that texts before a `rest` have.

The choice of each step is made in one state. This state is silent: it is no part of any path, and a
path formula does not read it (see `product`). Thanks to it, the states and transitions of chaos
grow with the number of valuations and not with its square, and the parents of `rest` need no
choices of their own. Leaves in which the same atoms hold become one state: they are
probabilistically bisimilar (Larsen and Skou 1991, "Bisimulation through Probabilistic Testing").

If the atoms can have more than `MOST_VALUATIONS` combinations of truth values, a `rest` is free
instead: every formula may hold there and may fail. The bounds are then wider, never wrong.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from llmchecker.chains.markov_chain import require_finished
from llmchecker.chains.product import Process
from llmchecker.chains.transitions import Entries, Transitions, consecutive, merged, relative_error
from llmchecker.errors import InvalidTree
from llmchecker.queries.final_scores import FinalScores
from llmchecker.queries.formulas import STEP, Atom, Formula, Label
from llmchecker.queries.query import Query
from llmchecker.queries.valuations import Range, TooManyValuations, valuations
from llmchecker.trees.text_tree import Kind, TextTree

MAX_PACKED = 48
"""The largest number of atoms whose truth values are packed into 64 bits beside the kind."""
MOST_VALUATIONS = 4096
"""The largest number of combinations of the atoms' truth values in one step."""


@dataclass(frozen=True)
class DecisionProcess(Process):
    """A tree in which chaos replaces `rest`. State 0 is the root.

    The label "rest" is on the states whose text holds a token that was not selected.

    Attributes:
        free: whether a `rest` is free because the atoms have too many valuations.
    """

    free: bool


def complete(
    tree: TextTree,
    scores: Mapping[str, np.ndarray],
    query: Query,
    score_ranges: Mapping[str, Range],
) -> DecisionProcess:
    """Replace every `rest` of a tree by chaos, in time linear in its states.

    Args:
        tree: the bounded process.
        scores: (n,) integers for each quantifier, by name; those of `rest` are not read.
        query: what will be asked, but not an expected score. The process fits its atoms only.
        score_ranges: the declared range of each quantifier; no continuation scores outside of it.

    Raises:
        InvalidTree: a text scores outside the range of its quantifier, or is not finished.
    """
    require_finished(tree)
    _require_within(tree, scores, score_ranges)
    atoms, length = query.atoms, tree.truncation.length
    final = FinalScores(query.variables - {STEP}, score_ranges)
    combinations = final.combinations(scores, len(tree))[tree.parent]
    kinds, kind = np.unique(np.where(tree.kind == Kind.REST, combinations, 0), return_inverse=True)
    try:
        chaos = _together([_chaos(length, atoms, final.ranges_after(each)) for each in kinds])
    except TooManyValuations:
        chaos = _chaos_that_is_free(length, len(atoms), len(kinds))
    known = {STEP: tree.step, **scores}
    truths = {atom: atom.holds(known) for atom in atoms}
    places = _places(tree, list(truths.values()))
    m, n = len(places.shown), len(places.shown) + len(chaos)
    marks: dict[Formula, np.ndarray] = {
        atom: np.concatenate([truth[places.shown], chaos.truths[:, number]])
        for number, (atom, truth) in enumerate(truths.items())
    }
    marks[Label("rest")] = np.arange(n) >= m
    marks[Label("end")] = np.concatenate([tree.kind[places.shown] == Kind.END, chaos.end])
    marks.update((literal, np.full(n, literal.value)) for literal in query.literals)
    return DecisionProcess(
        transitions=_transitions(tree, chaos, kind.ravel(), places),
        truths=marks,
        silent=np.concatenate([np.zeros(m, dtype=bool), chaos.silent]),
        fate=np.concatenate([np.zeros(m, dtype=np.int8), chaos.fate]),
        relative_error=relative_error(tree.parent[1:], tree.probability[1:], int(tree.step[-1])),
        free=bool(chaos.fate.any()),
    )


def _require_within(
    tree: TextTree, scores: Mapping[str, np.ndarray], score_ranges: Mapping[str, Range]
) -> None:
    known = tree.kind != Kind.REST
    for name, column in scores.items():
        low, high, *final = score_ranges.get(name, (None, None))
        least, greatest = int(column[known].min()), int(column[known].max())
        if (low is not None and least < low) or (high is not None and greatest > high):
            raise InvalidTree(
                f"a text scores outside the range that its quantifier declares: {name} is from "
                f"{least} to {greatest}, declared is {low} to {high}"
            )
        before = column[tree.parent]
        if (known & np.isin(before, final) & (column != before))[1:].any():
            raise InvalidTree(
                f"a text loses a score of {name} that its quantifier declares final, which are "
                f"{', '.join(map(str, final))}"
            )


@dataclass(frozen=True)
class _Places:
    """Which state of the process stands for which states of the tree.

    Attributes:
        of: (n,) int64, for each state of the tree the state of the process; -1 for `rest`.
        shown: (m,) int64, for each state of the process but those of chaos, one of the states of
            the tree that it stands for.
    """

    of: np.ndarray
    shown: np.ndarray


def _places(tree: TextTree, truths: Sequence[np.ndarray]) -> _Places:
    """Give a state to each text that goes on, and one to all leaves in which the same holds."""
    known = tree.kind != Kind.REST
    internal, leaves = np.flatnonzero(known & tree.internal), np.flatnonzero(known & ~tree.internal)
    if len(truths) > MAX_PACKED:
        kind = np.arange(len(leaves))
    else:
        kind = _codes(tree.kind[leaves], [truth[leaves] for truth in truths])
    _, first, number = np.unique(kind, return_index=True, return_inverse=True)
    of = np.full(len(tree), -1)
    of[internal] = np.arange(len(internal))
    of[leaves] = len(internal) + number
    return _Places(of, np.concatenate([internal, leaves[first]]))


def _codes(numbers: np.ndarray, truths: Iterable[np.ndarray]) -> np.ndarray:
    """(m,) int64: the numbers, each followed by the truth values of its atoms as binary digits."""
    code = numbers.astype(np.int64)
    for truth in truths:
        code = 2 * code + truth
    return code


def _transitions(tree: TextTree, chaos: "_Chaos", kind: np.ndarray, places: _Places) -> Transitions:
    """The matrix of tree and chaos. Edges into `rest` lead to the choice of its step instead.

    Args:
        kind: (n,) int64, which of the kinds of chaos a `rest` becomes.
    """
    possible = tree.probability > 0
    possible[0] = False  # nothing leads to the root
    edges = np.flatnonzero(possible & (tree.kind != Kind.REST))
    rests = np.flatnonzero(possible & (tree.kind == Kind.REST))
    parent, resting = places.of[tree.parent[edges]], places.of[tree.parent[rests]]
    m = len(places.shown)
    choices = np.concatenate([np.ones(m, dtype=np.int64), chaos.choices])
    groups = np.concatenate([[0], np.cumsum(choices)[:-1]])
    leaves = np.setdiff1d(np.arange(m), np.concatenate([parent, resting]))
    # a state of chaos has a row for each choice, with one entry each
    rows = np.arange(groups[-1] + choices[-1] - m) + m
    parts: list[Entries] = [
        (groups[parent], places.of[edges], tree.probability[edges]),
        (groups[resting], m + chaos.choice[kind[rests], tree.step[rests]], tree.probability[rests]),
        (groups[leaves], leaves, np.ones(len(leaves))),
        (rows, m + chaos.targets, np.ones(len(rows))),
    ]
    rows, columns, values = merged(parts)
    return Transitions(groups, rows, columns, values)


@dataclass(frozen=True)
class _Chaos:
    """The states of chaos: for each step two for each valuation, and one to choose between them.

    There may be several kinds of chaos, each after other final scores.

    Attributes:
        truths: (m, atoms) bool; false in the choosing states, where they mean nothing.
        end: (m,) bool, whether the text has ended for good.
        silent, fate: (m,) as those of a `Process`.
        choices: (m,) int64, the number of choices in each state.
        targets: (choices.sum(),) int64, the state of chaos to which each choice leads.
        choice: (kinds, L + 1) int64, the state in which the choice of each step is made.
    """

    truths: np.ndarray
    end: np.ndarray
    silent: np.ndarray
    fate: np.ndarray
    choices: np.ndarray
    targets: np.ndarray
    choice: np.ndarray

    def __len__(self) -> int:
        return len(self.end)


def _chaos(length: int, atoms: Sequence[Atom], score_ranges: Mapping[str, Range]) -> _Chaos:
    """Chaos of the steps 0 to `length`.

    Raises:
        TooManyValuations: the atoms have more than `MOST_VALUATIONS` in some step.
    """
    by_step = [
        valuations(atoms, step, score_ranges, most=MOST_VALUATIONS) for step in range(length + 1)
    ]
    counts = np.array([len(truths) for truths in by_step])
    # The states of all steps come first, for each step those that go on and then those that have
    # ended. The choosing states follow.
    step = np.repeat(np.arange(length + 1), 2 * counts)
    first = np.concatenate([[0], np.cumsum(2 * counts)[:-1]])
    m = len(step)
    ended = np.arange(m) - first[step] >= counts[step]
    choice = m + np.arange(length + 1)
    # a text at the horizon does not go on
    onward = np.where(ended | (step == length), np.arange(m), choice[np.minimum(step + 1, length)])
    truths = np.concatenate([np.concatenate([known, known]) for known in by_step])
    return _Chaos(
        truths=np.concatenate([truths, np.zeros((length + 1, len(atoms)), dtype=bool)]),
        end=np.append(ended, np.zeros(length + 1, dtype=bool)),
        silent=np.arange(m + length + 1) >= m,
        fate=np.zeros(m + length + 1, dtype=np.int8),
        choices=np.append(np.ones(m, dtype=np.int64), 2 * counts),
        targets=np.append(onward, consecutive(first, 2 * counts)),
        choice=choice[np.newaxis],
    )


def _together(kinds: Sequence[_Chaos]) -> _Chaos:
    """The states of several kinds of chaos, one after the other."""
    first = np.cumsum([0, *map(len, kinds)])
    columns = {
        name: np.concatenate([getattr(kind, name) for kind in kinds])
        for name in ("truths", "end", "silent", "fate", "choices")
    }
    return _Chaos(
        **columns,
        targets=np.concatenate([i + kind.targets for i, kind in zip(first, kinds, strict=False)]),
        choice=np.concatenate([i + kind.choice for i, kind in zip(first, kinds, strict=False)]),
    )


def _chaos_that_is_free(length: int, atoms: int, kinds: int) -> _Chaos:
    """A choice between two states: all that is not decided holds in one and fails in the other."""
    return _Chaos(
        truths=np.zeros((3, atoms), dtype=bool),
        end=np.zeros(3, dtype=bool),
        silent=np.array([True, False, False]),
        fate=np.array([0, 1, -1], dtype=np.int8),
        choices=np.array([2, 1, 1]),
        targets=np.array([1, 2, 1, 2]),
        choice=np.zeros((kinds, length + 1), dtype=np.int64),
    )
