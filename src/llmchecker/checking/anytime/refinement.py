"""Best-first refinement: the texts whose visit narrows the bounds of a query most.

The next batch contains texts of one length: the batch with the most undecided probability, where
texts near the horizon count more.

BEAVER (arXiv:2512.05439) expands one leaf a pass for prefix-closed constraints. Here a batch is
expanded at once, and the constraint is any path formula.
"""

import math
from operator import itemgetter

import numpy as np

from llmchecker.checking.anytime.explored_tree import ExploredTree

_MAX_BATCH_TEXTS = 384
"""The largest number of texts in a batch."""

_MIN_BATCH_LIMIT = 128
"""The largest number of texts in the first batches of a check with many passes.

A smaller batch takes a model about as long.
"""

_BATCH_GROWTH_DIVISOR = 4
"""The number of earlier visits for each text of a later batch.

In a large first batch many texts would be texts that its own results show to matter little.
"""

_HORIZON_WEIGHT = 1 / 4
"""The weight of a text relative to a text with one more token.

Both have equal undecided probability. A visit of a text one token before the horizon decides all of
its probability. A visit of any other text decides at first only the probability of the next token.
With 1 the same passes gave wider bounds, from nine times as many texts.
"""

_HORIZON_CAP = 4
"""The largest counted number of tokens before the last that a text lacks."""

_WEIGHTS = _HORIZON_WEIGHT ** np.arange(_HORIZON_CAP + 1)
"""The weight of a text by the number of tokens that it lacks.

For the choice of a batch it is at least the share that visits before the last token decided so far.
So a constraint that many tokens violate is searched by the mass of texts, whatever their length.
That share is mostly of probable texts, which are visited first, so it forecasts no later visits.
"""

_BATCH_SHARE = 1 / 8
"""The least share of the largest gain for a text to join the batch.

About as many passes then lead to the same width as with one text at a time, and batches are full:
with 1/2 they were half as full.
"""


def select_batch(
    tree: ExploredTree, max_texts: float = _MAX_BATCH_TEXTS, first_texts: float = math.inf
) -> np.ndarray:
    """Select the texts of the next batch; none where nothing is left to visit.

    A batch contains texts of one length, so that the model can evaluate them together. Each has at
    least `_BATCH_SHARE` of the largest gain among them. The batch with the largest total gain comes
    next. Batches grow, since earlier results choose the texts of later ones better.

    Args:
        tree: the explored tree.
        max_texts: the largest number of texts.
        first_texts: the largest number of texts of the first batches.
    """
    first_limit = max(1, min(_MIN_BATCH_LIMIT, first_texts))
    max_texts = int(min(max_texts, max(first_limit, tree.passes // _BATCH_GROWTH_DIVISOR)))
    mass = tree.undecided_mass
    # a second evaluation shows nothing of the tokens that a model does not list
    can_visit = (mass > 0) & (tree.lists_next | ~tree.is_visited)
    rows = np.flatnonzero(can_visit)
    gain = _compute_gains(tree, rows, mass, tree.early_decided_share)
    steps = tree.step[rows]
    largest = np.zeros(tree.length + 1)
    np.maximum.at(largest, steps, gain)
    # few texts gain enough, so that the others are read once
    is_candidate = gain >= _BATCH_SHARE * largest[steps]
    rows, gain, steps = rows[is_candidate], gain[is_candidate], steps[is_candidate]
    batches = []
    for step in np.unique(steps):
        members = np.flatnonzero(steps == step)
        # stable, so that of equal masses the text that was found first comes first
        members = members[np.argsort(-gain[members], kind="stable")[:max_texts]]
        batches.append((gain[members].sum(), members))
    members = max(batches, key=itemgetter(0))[1] if batches else np.arange(0)
    selected: np.ndarray = rows[members]
    return selected


def expect_decided_share(tree: ExploredTree, rows: np.ndarray) -> float:
    """Return the share of all undecided mass that a visit of texts is expected to decide."""
    mass = tree.undecided_mass
    return float(_compute_gains(tree, rows, mass).sum() / mass.sum())


def _compute_gains(
    tree: ExploredTree, rows: np.ndarray, mass: np.ndarray, least_weight: float = 0.0
) -> np.ndarray:
    """Return (n,) float64: the mass that a visit of each text is expected to decide.

    Args:
        tree: the explored tree.
        rows: (n,) int64, the texts.
        mass: the undecided mass of all texts.
        least_weight: the least weight of a text.
    """
    # beyond the cap, a longer distance to the horizon lowers the weight no further
    missing_tokens = np.clip(tree.length - 1 - tree.step[rows], 0, _HORIZON_CAP)
    weights = np.maximum(_WEIGHTS, least_weight)[missing_tokens]
    # a visit of a rest only lists texts, which need further visits
    weights = np.where(tree.is_visited[rows], _HORIZON_WEIGHT, 1.0) * weights
    gains: np.ndarray = mass[rows] * weights
    return gains
