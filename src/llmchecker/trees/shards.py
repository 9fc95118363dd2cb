"""One tree grown in parts: split at one of its first levels, merged to the tree of one piece.

Down to the level at which the tree is split, every shard is the tree itself. Below that level it
holds only what grows from a run of neighbouring texts. So a level of the tree is the shards' levels
one after the other, and the states have the uids of a tree that was never split.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llmchecker.errors import InvalidBound, InvalidTree
from llmchecker.trees.text_tree import Kind, TextTree

TEXTS_A_SHARD = 8
"""A level is split once it has this many texts for each shard, so that shards weigh alike."""


@dataclass(frozen=True)
class Shard:
    """One of the parts of a tree: its number, from 0, and the number of all parts.

    Raises:
        InvalidBound: the number is not below the count.
    """

    number: int
    count: int

    def __post_init__(self) -> None:
        if not 0 <= self.number < self.count:
            raise InvalidBound(f"there is no shard {self.number} of {self.count}")

    def __str__(self) -> str:
        return f"shard {self.number + 1} of {self.count}"

    def part(self, masses: np.ndarray) -> slice:
        """Which texts of the level at which the tree is split belong to this shard.

        Args:
            masses: (n,) the probability of each text of that level.

        Returns:
            A run of neighbours that holds about 1 / count of the whole mass; it may be empty.
        """
        share = (np.cumsum(masses) - masses / 2) / masses.sum()
        owner = np.minimum((share * self.count).astype(np.int64), self.count - 1)
        first, behind = np.searchsorted(owner, [self.number, self.number + 1])
        return slice(int(first), int(behind))


def is_split(step: int, texts: int, count: int, length: int) -> bool:
    """Whether a tree in `count` shards is split at a level.

    Args:
        step: how many tokens the texts of the level have.
        texts: how many texts go on at this level.
        length: the horizon L.
    """
    return texts >= TEXTS_A_SHARD * count or step == length - 1


def merge_shards(shards: Sequence[TextTree]) -> TextTree:
    """Put together all shards of a tree, in the order of their numbers.

    Raises:
        InvalidTree: the shards differ above the level at which they were split.
    """
    first = shards[0]
    top = _top(first, len(shards))
    for number, shard in enumerate(shards):
        if not (
            np.array_equal(shard.token[:top], first.token[:top])
            and np.array_equal(shard.kind[:top], first.kind[:top])
        ):
            raise InvalidTree(
                f"shard {number + 1} of {len(shards)} is of another tree than shard 1; grow them "
                "with the same model, start string and truncation, on machines that compute alike"
            )
    # by step, then by shard; within a shard the order is that of the level already
    steps = np.concatenate([shard.step[top:] for shard in shards])
    order = np.argsort(steps, kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = top + np.arange(len(order))
    parents, behind = [], 0
    for shard in shards:
        uids = np.concatenate([np.arange(top), place[behind : behind + len(shard) - top]])
        parents.append(uids[shard.parent[top:]])
        behind += len(shard) - top
    columns = {
        name: np.concatenate([getattr(first, name)[:top], _below(shards, name, top)[order]])
        for name in ("step", "token", "probability", "kind", "text")
    }
    parent = np.concatenate([first.parent[:top], np.concatenate(parents)[order]])
    return TextTree(first.model, first.truncation, parent=parent, **columns)


def _below(shards: Sequence[TextTree], name: str, top: int) -> np.ndarray:
    return np.concatenate([getattr(shard, name)[top:] for shard in shards])


def _top(tree: TextTree, count: int) -> int:
    """The number of states down to the level at which the tree is split."""
    texts = np.bincount(tree.step[tree.kind == Kind.TEXT], minlength=tree.truncation.length + 1)
    step = next(
        step
        for step in range(tree.truncation.length)
        if texts[step] == 0 or is_split(step, texts[step], count, tree.truncation.length)
    )
    return int(np.searchsorted(tree.step, step, side="right"))
