"""How much of a tree's probability satisfies or violates a path formula, whatever follows.

A text is decided once every continuation gives the path formula the same truth. The probability of
the formula under the whole model is D + U p. D is the mass that is decided true. U is the mass that
is not decided, all of it in `rest`. p is the probability that the model satisfies the formula from
there. D and D + U are the tightest bounds that the tree allows, and equal those of `whole_model`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from llmchecker.queries.formulas import STEP
from llmchecker.queries.reading import OpenReading, Reading
from llmchecker.trees.text_tree import Kind, TextTree

UNDECIDED = -1


@dataclass(frozen=True)
class Decided:
    """What a tree decides of one path formula.

    Attributes:
        satisfied: the mass that is decided true, a correctly rounded sum.
        violated: the mass that is decided false, also a correctly rounded sum.
        places: (m,) int64, the `rest` states whose texts are not decided, by rising uid.
        masses: (m,) float64, the probability of each of these states.
        pending: (m,) int64, what the formula still needs there, by the numbers of the reading.
    """

    satisfied: float
    violated: float
    places: np.ndarray
    masses: np.ndarray
    pending: np.ndarray

    @property
    def undecided(self) -> float:
        """U, the mass that is not decided."""
        return math.fsum(self.masses)


def decide(
    tree: TextTree, scores: Mapping[str, np.ndarray], reading: Reading | OpenReading
) -> Decided:
    """Read a path formula along every text of a tree.

    Args:
        tree: the texts.
        scores: (n,) integers for each quantifier of the formula; those of `rest` are not read.
        reading: of the path formula, with the tree's horizon.
    """
    columns = {STEP: tree.step, **scores}
    words = reading.words(columns, tree.kind == Kind.END)
    resting = tree.kind == Kind.REST
    # nothing is known of a `rest` itself; what may follow depends on the text that it comes after
    words[resting] = words[tree.parent[resting]]
    pending, mass = _along(tree, words, reading)
    leaves = np.flatnonzero(~tree.internal)
    truth = np.full(len(tree), UNDECIDED)
    for place, key in distinct(
        pending[leaves], words[leaves], tree.kind[leaves], tree.step[leaves]
    ):
        number, word, kind, step = key
        found = (
            reading.truth(number, step, word)
            if kind == Kind.REST
            else reading.forever(number, word)
        )
        truth[leaves[place]] = UNDECIDED if found is None else found
    places = leaves[truth[leaves] == UNDECIDED]
    places = places[mass[places] > 0]
    sums = [math.fsum(mass[leaves[truth[leaves] == value]]) for value in (True, False)]
    return Decided(*sums, places, mass[places], pending[places])


def _along(
    tree: TextTree, words: np.ndarray, reading: Reading | OpenReading
) -> tuple[np.ndarray, np.ndarray]:
    """What is pending at every state's own step, and the probability of its path, (n,) each."""
    pending = np.full(len(tree), reading.start)
    mass = tree.probability.copy()
    first_of_step = np.searchsorted(tree.step, np.arange(1, tree.step[-1] + 2))
    for begin, end in pairwise(first_of_step):
        parent = tree.parent[begin:end]
        mass[begin:end] *= mass[parent]
        for place, (number, word) in distinct(pending[parent], words[parent]):
            pending[begin:end][place] = reading.after(number, word)
    return pending, mass


def distinct(*columns: np.ndarray) -> list[tuple[np.ndarray, tuple[int, ...]]]:
    """For each distinct row of some columns, the positions at which it stands, and the row.

    Few situations differ on a level of thousands of texts, so each is worked out only once.

    Args:
        columns: (n,) integers or truth values each.
    """
    if len(columns[0]) == 0:
        return []
    code = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        values = np.unique(column)
        code = code * len(values) + np.searchsorted(values, column)
        _, code = np.unique(code, return_inverse=True)
    counts = np.bincount(code)
    # numpy sorts numbers of 16 bits by radix, which takes a tenth of the time
    small = code.astype(np.uint16) if len(counts) <= 2**16 else code
    order = np.argsort(small, kind="stable")
    parts = np.split(order, np.cumsum(counts)[:-1])
    rows = zip(*(column[[part[0] for part in parts]].tolist() for column in columns), strict=True)
    return list(zip(parts, rows, strict=True))
