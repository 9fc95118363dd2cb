"""Small text trees for tests: drawn by hand, full, or generated.

Every probability is a whole number of 64ths, so that sums of siblings are exact in float64.
"""

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from llmchecker.trees.text_tree import NO_TOKEN, StateKind, TextTree, Truncation

PARTS = 64


def by_hand(
    states: Sequence[tuple[int, float, StateKind]], *, length: int | None = None, start: str = "w"
) -> TextTree:
    """Return the tree of the states (parent, probability, kind) that follow the start string.

    The token of a state is its row; its text is the parent's with the token's letter appended.
    """
    rows = [(-1, 1.0, StateKind.TEXT), *states]
    step, text = [0], [start]
    for uid, (parent, _, kind) in enumerate(rows[1:], start=1):
        step.append(step[parent] + 1)
        text.append(None if kind is StateKind.REST else text[parent] + chr(ord("a") + uid % 26))
    kinds = np.array([kind for _, _, kind in rows], dtype=np.int8)
    texts = np.empty(len(rows), dtype=object)
    texts[:] = text
    return TextTree(
        model="drawn",
        truncation=Truncation(1.0, PARTS, length or max(1, *step)),
        parent=np.array([parent for parent, _, _ in rows], dtype=np.int64),
        step=np.array(step, dtype=np.int64),
        token=np.where(kinds == StateKind.REST, NO_TOKEN, np.arange(-1, len(rows) - 1)).astype(
            np.int64
        ),
        probability=np.array([probability for _, probability, _ in rows], dtype=np.float64),
        kind=kinds,
        text=texts,
    )


def full(k: int, length: int) -> TextTree:
    """Return the tree in which every text has k equally probable children and a `rest`."""
    states: list[tuple[int, float, StateKind]] = []
    texts = [0]
    for _ in range(length):
        grown = []
        for parent in texts:
            grown += range(len(states) + 1, len(states) + 1 + k)
            states += [(parent, 1 / (k + 1), StateKind.TEXT)] * k + [
                (parent, 1 / (k + 1), StateKind.REST)
            ]
        texts = grown
    return by_hand(states)


@st.composite
def text_trees(
    draw: st.DrawFn, *, max_length: int = 3, max_children: int = 3, start: str = "w"
) -> TextTree:
    """Generate a tree: each text up to the horizon has children, one of which may be its rest."""
    length = draw(st.integers(1, max_length))
    states: list[tuple[int, float, StateKind]] = []
    texts = [0]
    for _ in range(length):
        grown = []
        for parent in texts:
            weights = draw(_weights(max_children))
            has_rest = len(weights) > 1 and draw(st.booleans())
            for position, weight in enumerate(weights):
                last = position == len(weights) - 1
                ends = draw(st.integers(0, 5)) == 0
                kind = (
                    StateKind.REST
                    if has_rest and last
                    else StateKind.END
                    if ends
                    else StateKind.TEXT
                )
                states.append((parent, weight / PARTS, kind))
                if kind is StateKind.TEXT:
                    grown.append(len(states))
        texts = grown
    return by_hand(states, length=length, start=start)


def scores(
    tree: TextTree, names: Sequence[str] = ("gender", "polarity"), *, most: int = 2
) -> st.SearchStrategy[dict[str, np.ndarray]]:
    """Generate integers from -most to most for every state; in `rest` they are a filler."""
    column = st.lists(st.integers(-most, most), min_size=len(tree), max_size=len(tree))
    return st.fixed_dictionaries({name: column.map(np.array) for name in names})


def kept(tree: TextTree, column: np.ndarray, final: int) -> np.ndarray:
    """The same scores, but for texts below one that has a final score, which they have too."""
    column = column.copy()
    for uid in range(1, len(tree)):
        if column[tree.parent[uid]] == final:
            column[uid] = final
    return column


@st.composite
def _weights(draw: st.DrawFn, most: int) -> list[int]:
    """Generate 1 to `most` positive numbers of 64ths that sum to 1, falling but for the last."""
    count = draw(st.integers(1, most))
    cuts = draw(
        st.lists(st.integers(1, PARTS - 1), unique=True, min_size=count - 1, max_size=count - 1)
    )
    weights = np.diff([0, *sorted(cuts), PARTS]).tolist()
    return sorted(weights, reverse=True)


def probabilities_by_path(tree: TextTree) -> dict[tuple[int, ...], float]:
    """The probability of every state given its parent, by the tokens that lead to it."""
    paths: list[tuple[int, ...]] = [()]
    for parent, token in zip(tree.parent[1:].tolist(), tree.token[1:].tolist(), strict=True):
        paths.append((*paths[parent], token))
    return dict(zip(paths, tree.probability.tolist(), strict=True))
