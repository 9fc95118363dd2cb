"""Shards: parts of a tree, split at a level and merged afterwards.

Down to the split level, every shard equals the whole tree. Below that level, a shard holds the
descendants of a run of adjacent texts. So a level of the tree is the concatenation of the shards'
levels. The states have the uids of an unsplit tree.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llmchecker.errors import InvalidBound, InvalidTree
from llmchecker.trees.text_tree import StateKind, TextTree, sort_breadth_first

_TEXTS_PER_SHARD = 8
"""Texts per shard at which a level is split, for shards of similar size."""


@dataclass(frozen=True)
class Shard:
    """One part of a tree.

    Args:
        number: int, number of the part, from 0.
        count: int, number of all parts.

    Raises:
        InvalidBound: the number is not below the count.
    """

    number: int
    count: int

    def __post_init__(self) -> None:
        if not 0 <= self.number < self.count:
            raise InvalidBound(
                f"shard {self.number} of {self.count}: no such shard; use 1 to {self.count}"
            )

    def __str__(self) -> str:
        return f"shard {self.number + 1} of {self.count}"

    def select_texts(self, masses: np.ndarray) -> slice:
        """Return the texts of the split level that belong to this shard.

        Args:
            masses: (n,) float64, probability of each text of that level.

        Returns:
            A run of adjacent texts with about 1 / count of the total mass; it may be empty.
        """
        # the middle of each text's mass decides, so that a heavy text goes to one shard only
        shares = (np.cumsum(masses) - masses / 2) / masses.sum()
        owners = np.minimum((shares * self.count).astype(np.int64), self.count - 1)
        first, stop = np.searchsorted(owners, [self.number, self.number + 1])
        return slice(int(first), int(stop))


def is_split(step: int, texts: int, count: int, length: int) -> bool:
    """Return whether a tree in `count` shards is split at a level.

    Args:
        step: number of generated tokens of the level's texts.
        texts: number of open texts of the level.
        count: number of shards.
        length: horizon L in tokens.
    """
    return texts >= _TEXTS_PER_SHARD * count or step == length - 1


def merge_shards(shards: Sequence[TextTree]) -> TextTree:
    """Merge all shards of a tree, in the order of their numbers.

    Raises:
        InvalidTree: the shards differ above the split level.
    """
    first_shard = shards[0]
    shared_count = _count_shared_states(first_shard, len(shards))
    for index, shard in enumerate(shards):
        if not (
            # probabilities may differ in their last bits between machines, so they are not compared
            np.array_equal(shard.token[:shared_count], first_shard.token[:shared_count])
            and np.array_equal(shard.kind[:shared_count], first_shard.kind[:shared_count])
        ):
            raise InvalidTree(
                f"shard {index + 1} of {len(shards)}: of another tree than shard 1; expand all "
                "with one model, start string and truncation, on equal machines"
            )
    parents, start = [first_shard.parent[:shared_count]], shared_count
    for shard in shards:
        own = shard.parent[shared_count:]
        # shared states keep their rows; the others come after those of earlier shards
        parents.append(np.where(own < shared_count, own, own + start - shared_count))
        start += len(own)

    def merge(columns: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate([columns[0], *(column[shared_count:] for column in columns[1:])])

    step = merge([shard.step for shard in shards])
    order, parent = sort_breadth_first(np.concatenate(parents), step)
    return TextTree(
        first_shard.model,
        first_shard.truncation,
        parent=parent,
        step=step[order],
        token=merge([shard.token for shard in shards])[order],
        probability=merge([shard.probability for shard in shards])[order],
        kind=merge([shard.kind for shard in shards])[order],
        text=merge([np.asarray(shard.text) for shard in shards])[order],
        messages=first_shard.messages,
        marks=first_shard.marks,
    )


def _count_shared_states(tree: TextTree, count: int) -> int:
    """Return the number of states down to the split level."""
    texts = np.bincount(
        tree.step[tree.kind == StateKind.TEXT], minlength=tree.truncation.length + 1
    )
    step = next(
        step
        for step in range(tree.truncation.length)
        # a level without texts ends the tree before a split
        if texts[step] == 0 or is_split(step, texts[step], count, tree.truncation.length)
    )
    return int(np.searchsorted(tree.step, step, side="right"))
