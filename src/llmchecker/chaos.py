"""What `rest` hides, as chaos: every continuation that a language model could have.

The bounded process says nothing of the texts in `rest`. Here each `rest` is replaced by a
nondeterministic choice of what such a text may be: at each step up to the horizon L any consistent
truth values of the atoms over quantifiers, going on to the next step or ended there for good. The
language model itself is one way, at random, to resolve these choices; so the least and the greatest
probability over all ways bound the probability under the whole model, all tokens included.

The choice about a `rest` is made one step before it, by its parent: so time goes on step by step,
as it does in the model.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from llmchecker.formulas import STEP, Arithmetic, Atom, Number, Operation, Variable
from llmchecker.text_tree import Kind, TextTree

Range = tuple[int | None, int | None]
"""The least and the greatest score of a quantifier, None where there is none."""

MAX_ENUMERATED = 100_000
"""Combinations of scores that are tried one by one, at most."""


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
    atoms: Sequence[Atom],
    ranges: Mapping[str, Range],
) -> DecisionProcess:
    """Replace every `rest` of a tree by chaos.

    Args:
        tree: the bounded process.
        scores: (n,) integers for each quantifier, by name; what stands in `rest` is not read.
        atoms: the atoms whose truth matters.
        ranges: of each quantifier, so that no continuation scores what no text can.
    """
    chaos = _chaos(tree.bounds.length, atoms, ranges)
    kept = np.flatnonzero(tree.kind != Kind.REST)
    place = np.full(len(tree), -1)
    place[kept] = np.arange(len(kept))
    edges = kept[1:][tree.probability[kept[1:]] > 0]
    parent = place[tree.parent[edges]]
    rests = np.flatnonzero((tree.kind == Kind.REST) & (tree.probability > 0))
    resting = place[tree.parent[rests]]

    # a state that has a rest has a choice for each chaos state of the next step
    first_chaos, width = len(kept) + chaos.first, chaos.width
    n = len(kept) + len(chaos.step)
    choices = np.ones(n, dtype=np.int64)
    choices[resting] = width[tree.step[rests]]
    goes_on = np.flatnonzero(~chaos.end & (chaos.step < tree.bounds.length))
    choices[len(kept) + goes_on] = width[chaos.step[goes_on] + 1]
    groups = np.concatenate([[0], np.cumsum(choices)])

    terminal = np.ones(n, dtype=bool)
    terminal[np.concatenate([parent, resting, len(kept) + goes_on])] = False
    loops = np.flatnonzero(terminal)
    parts = [
        _for_each_choice(groups, parent, place[edges], tree.probability[edges]),
        _to_each(groups, resting, first_chaos[tree.step[rests]], tree.probability[rests]),
        _to_each(
            groups,
            len(kept) + goes_on,
            first_chaos[chaos.step[goes_on] + 1],
            np.ones(len(goes_on)),
        ),
        (groups[loops], loops, np.ones(len(loops))),
    ]
    rows, columns, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((columns, rows))
    limits = [(name, ranges.get(name, (None, None))) for name in scores]
    known = {STEP: tree.step[kept]} | {name: column[kept] for name, column in scores.items()}
    return DecisionProcess(
        groups=groups[:-1],
        rows=rows[order],
        columns=columns[order],
        values=values[order],
        truths={
            atom: np.concatenate([atom.holds(known), chaos.truths[:, number]])
            for number, atom in enumerate(atoms)
        },
        rest=np.arange(n) >= len(kept),
        end=np.concatenate([tree.kind[kept] == Kind.END, chaos.end]),
        least=_with_limit(scores, kept, n, [(name, low) for name, (low, _) in limits], -np.inf),
        greatest=_with_limit(scores, kept, n, [(name, high) for name, (_, high) in limits], np.inf),
    )


def _with_limit(
    scores: Mapping[str, np.ndarray],
    kept: np.ndarray,
    n: int,
    limits: Sequence[tuple[str, int | None]],
    without: float,
) -> dict[str, np.ndarray]:
    """(n,) float64 each: the scores of the kept states, then in the others the limit."""
    filled = {}
    for name, limit in limits:
        filled[name] = np.full(n, without if limit is None else limit, dtype=np.float64)
        filled[name][: len(kept)] = scores[name][kept]
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


def _chaos(length: int, atoms: Sequence[Atom], ranges: Mapping[str, Range]) -> _Chaos:
    by_step = [np.empty((0, len(atoms)), dtype=bool)]
    by_step += [valuations(atoms, step, ranges) for step in range(1, length + 1)]
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
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Entries that lead from every choice of a state to the same target."""
    count = groups[states + 1] - groups[states]
    rows = np.repeat(groups[states], count) + _within(count)
    return rows, np.repeat(targets, count), np.repeat(values, count)


def _to_each(
    groups: np.ndarray, states: np.ndarray, first: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Entries that lead from the i-th choice of a state to the i-th target from `first` on."""
    count = groups[states + 1] - groups[states]
    choice = _within(count)
    rows = np.repeat(groups[states], count) + choice
    return rows, np.repeat(first, count) + choice, np.repeat(values, count)


def _within(count: np.ndarray) -> np.ndarray:
    """0, 1, … up to each count, one after the other."""
    behind = np.cumsum(count)
    return np.arange(count.sum()) - np.repeat(behind - count, count)


def valuations(atoms: Sequence[Atom], step: int, ranges: Mapping[str, Range]) -> np.ndarray:
    """The truth values that atoms can have together in a text of `step` tokens.

    Atoms over one quantifier are tried on every score that makes a difference, so that `a > 0` and
    `a < 0` are never both true. Where that cannot be done (products of an unbounded quantifier,
    too many scores) every combination counts as possible: bounds are then wider, never wrong.

    Returns:
        (m, atoms) bool, distinct rows.
    """
    if not atoms:
        return np.empty((1, 0), dtype=bool)
    groups = _groups(atoms)
    tables = [_table([atoms[i] for i in group], step, ranges) for group in groups]
    order = np.argsort(list(itertools.chain(*groups)), kind="stable")
    rows = [np.concatenate(parts)[order] for parts in itertools.product(*tables)]
    return np.unique(np.array(rows, dtype=bool).reshape(len(rows), len(atoms)), axis=0)


def _groups(atoms: Sequence[Atom]) -> list[list[int]]:
    """Numbers of atoms, together where they share quantifiers."""
    groups: list[tuple[set[str], list[int]]] = []
    for number, atom in enumerate(atoms):
        names, members = set(atom.variables - {STEP}), [number]
        apart = []
        for other_names, other_members in groups:
            if names & other_names:
                names |= other_names
                members = other_members + members
            else:
                apart.append((other_names, other_members))
        groups = [*apart, (names, members)]
    return [members for _, members in groups]


def _table(atoms: Sequence[Atom], step: int, ranges: Mapping[str, Range]) -> np.ndarray:
    """The truth values that atoms over the same quantifiers can have together."""
    names = sorted(frozenset().union(*(atom.variables for atom in atoms)) - {STEP})
    scores = [_telling_scores(name, atoms, step, ranges[name]) for name in names]
    if any(column is None for column in scores) or np.prod([len(s) for s in scores]) > (
        MAX_ENUMERATED
    ):
        return np.array(list(itertools.product([False, True], repeat=len(atoms))))
    grid = np.meshgrid(*scores, indexing="ij") if names else []
    columns = {name: axis.ravel() for name, axis in zip(names, grid, strict=True)}
    size = len(columns[names[0]]) if names else 1
    columns[STEP] = np.full(size, step)
    return np.unique(np.column_stack([atom.holds(columns) for atom in atoms]), axis=0)


def _telling_scores(
    name: str, atoms: Sequence[Atom], step: int, limits: Range
) -> np.ndarray | None:
    """Scores of a quantifier among which is one of every kind that the atoms tell apart.

    All of them where there are few; else those around the points at which a linear atom over this
    quantifier alone changes; None where an atom is of another form.
    """
    low, high = limits
    if low is not None and high is not None and high - low < MAX_ENUMERATED:
        return np.arange(low, high + 1)
    around = {0}
    for atom in atoms:
        if atom.variables - {STEP} != {name}:
            return None
        difference = Operation("-", atom.left, atom.right)
        if _degree(difference, name) > 1:
            return None
        at_zero, at_one = (_value(difference, {STEP: step, name: score}) for score in (0, 1))
        if at_one != at_zero:
            root = -at_zero // (at_one - at_zero)
            around |= {root - 1, root, root + 1, root + 2}
    around |= {limit for limit in limits if limit is not None}
    return np.array(
        sorted(
            score
            for score in around
            if (low is None or score >= low) and (high is None or score <= high)
        )
    )


def _degree(expression: Arithmetic, name: str) -> int:
    match expression:
        case Operation("*", left, right):
            return _degree(left, name) + _degree(right, name)
        case Operation(_, left, right):
            return max(_degree(left, name), _degree(right, name))
        case Variable(other):
            return int(other == name)
        case Number():
            return 0


def _value(expression: Arithmetic, values: Mapping[str, int]) -> int:
    match expression:
        case Number(value):
            return value
        case Variable(name):
            return values[name]
        case Operation("+", left, right):
            return _value(left, values) + _value(right, values)
        case Operation("-", left, right):
            return _value(left, values) - _value(right, values)
        case Operation("*", left, right):
            return _value(left, values) * _value(right, values)
