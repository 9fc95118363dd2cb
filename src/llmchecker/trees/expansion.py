"""Growing the tree of an alpha-k-bounded text generation process.

Gross et al. (2025), Definition III.4 and Algorithm 1, level by level and in batches.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache, partial
from typing import Literal

import numpy as np

from llmchecker.deployed.chat import Start
from llmchecker.models.protocols import Continuations, LanguageModel
from llmchecker.trees.outlook import Watch
from llmchecker.trees.selection import Selection, select
from llmchecker.trees.shards import Shard, is_split
from llmchecker.trees.store import StoredDistributions
from llmchecker.trees.text_tree import NO_TOKEN, Kind, TextTree, Truncation

EndOfSequence = Literal["terminal", "ordinary"]
Progress = Callable[[int, int, int], None]
"""Called with the step, the nodes of that step already expanded, and all nodes of that step."""


def grow_tree(
    model: LanguageModel,
    start: Start,
    truncation: Truncation,
    end_of_sequence: EndOfSequence = "terminal",
    progress: Progress = lambda step, done, total: None,
    stored: StoredDistributions | None = None,
    shard: Shard | None = None,
    watch: Watch | None = None,
) -> TextTree:
    """Grow the tree of all texts that the bounded process can write after `start`.

    Algorithm 1 of Gross et al. (2025), one level at a time: every text of a level is expanded
    before the next level begins, in batches, and no beginning of a text is computed twice.

    Args:
        end_of_sequence: `terminal` ends a text at an end-of-sequence token, `ordinary` goes on.
        progress: told after every batch how far the level is.
        stored: known distributions of this model after this start string, which are not computed
            again; new ones are added to them. The tree is the same with and without.
        shard: grow only this part of the tree, which `merge_shards` puts together with the others.
        watch: told after every batch, so that it ends what becomes too large.

    Raises:
        ConfigError: the tree is expected to exceed the limits of `watch`.
    """
    prompt = model.encode(start)
    continuations = cache(lambda: model.continuations(prompt, truncation.length - 1))
    ends = sorted(model.end_tokens) if end_of_sequence == "terminal" else []
    levels = [_root()]
    texts = [_texts(model, np.array([prompt]), np.array([Kind.TEXT]))]
    frontier = _Frontier(np.empty((1, 0), dtype=np.int64), np.zeros(1, dtype=np.int64), np.ones(1))
    size, is_shard = 1, shard is not None
    for step in range(1, truncation.length + 1):
        if shard is not None and is_split(step - 1, len(frontier), shard.count, truncation.length):
            frontier, shard = frontier.rows(shard.part(frontier.masses)), None
        if len(frontier) == 0:
            break
        extended = step < truncation.length
        children, done, born, going_on = [], 0, 0, 0
        for rows, selection in selections(
            continuations, stored, frontier.suffixes, truncation.alpha, truncation.k, extended
        ):
            children.append(_children(selection, rows, step, ends))
            done += len(rows)
            progress(step, done, len(frontier))
            if watch is not None:
                born += len(children[-1].kind)
                going_on += int((children[-1].kind == Kind.TEXT).sum())
                watch.told(step, done, len(frontier), born, going_on)
        level = _joined(children).by_parent()
        levels.append(level.below(frontier.uids))
        frontier = frontier.extended(level, size)
        before = np.broadcast_to(prompt, (len(frontier), len(prompt)))
        texts.append(_texts(model, np.column_stack([before, frontier.suffixes]), level.kind))
        frontier = frontier.rows(level.kind == Kind.TEXT)
        size += len(level.kind)
    columns = {name: getattr(_joined(levels), name) for name in _NAMES}
    return TextTree(
        model=model.name,
        truncation=truncation,
        **columns,
        text=np.concatenate(texts),
        is_shard=is_shard,
    )


def selections(
    continuations: Callable[[], Continuations],
    stored: StoredDistributions | None,
    suffixes: np.ndarray,
    alpha: float,
    k: int,
    extended: bool,
) -> Iterator[tuple[np.ndarray, Selection]]:
    """Yield row numbers of suffixes, and what is selected after them; stored ones come first.

    Args:
        continuations: opens the continuations of the prompt; called if a suffix must be computed.
        stored: known distributions, which are not computed again; new ones are added to them.
        suffixes: (n, d) int64, the tokens after the prompt.
        extended: whether longer suffixes that begin with these will be asked for.
    """
    missing = np.ones(len(suffixes), dtype=bool)
    if stored is not None:
        for rows, selection in stored.select(suffixes, alpha, k):
            missing[rows] = False
            yield rows, selection
    computed = np.flatnonzero(missing)
    if len(computed) == 0:
        return
    top = partial(select, alpha=alpha, k=k)
    done = 0
    try:
        for selection in continuations().map(top, suffixes[computed], extended):
            rows = computed[done : done + len(selection.counts)]
            done += len(rows)
            if stored is not None:
                stored.add(suffixes[rows], selection)
            yield rows, selection
    finally:
        # what an interrupted growth has computed is not computed again
        if stored is not None:
            stored.save()


@dataclass(frozen=True)
class _Columns:
    """The columns of a tree, or of some of its rows, but for the text."""

    parent: np.ndarray
    step: np.ndarray
    token: np.ndarray
    probability: np.ndarray
    kind: np.ndarray

    def below(self, uids: np.ndarray) -> "_Columns":
        """The same rows, their parents given by uid instead of by place in the level above."""
        return _Columns(uids[self.parent], self.step, self.token, self.probability, self.kind)

    def by_parent(self) -> "_Columns":
        """The same rows, sorted by parent; siblings keep their order."""
        order = np.argsort(self.parent, kind="stable")
        return _Columns(*(getattr(self, name)[order] for name in _NAMES))


@dataclass(frozen=True)
class _Frontier:
    """States of one level: their tokens after the prompt, their uids and their probabilities."""

    suffixes: np.ndarray
    uids: np.ndarray
    masses: np.ndarray

    def __len__(self) -> int:
        return len(self.uids)

    def rows(self, chosen: slice | np.ndarray) -> "_Frontier":
        """Some of the states."""
        return _Frontier(self.suffixes[chosen], self.uids[chosen], self.masses[chosen])

    def extended(self, level: _Columns, size: int) -> "_Frontier":
        """The states of the next level, whose first uid is `size`."""
        return _Frontier(
            np.column_stack([self.suffixes[level.parent], level.token]),
            size + np.arange(len(level.token)),
            self.masses[level.parent] * level.probability,
        )


_NAMES = tuple(field.name for field in fields(_Columns))


def _root() -> _Columns:
    return _Columns(
        parent=np.array([-1]),
        step=np.array([0]),
        token=np.array([NO_TOKEN]),
        probability=np.array([1.0]),
        kind=np.array([Kind.TEXT], dtype=np.int8),
    )


def _children(
    selection: Selection, parents: np.ndarray, step: int, ends: Sequence[int]
) -> _Columns:
    """The children of some texts: for each its selected tokens, then its rest if there is one."""
    n, width = len(parents), selection.counts.max()
    tokens = np.column_stack([selection.tokens[:, :width], np.full(n, NO_TOKEN)])
    probabilities = np.column_stack([selection.probabilities[:, :width], selection.rest])
    present = np.column_stack(
        [np.arange(width) < selection.counts[:, np.newaxis], selection.rest > 0]
    )
    token = tokens[present]
    kind = np.full(len(token), Kind.TEXT, dtype=np.int8)
    kind[token == NO_TOKEN] = Kind.REST
    kind[np.isin(token, ends)] = Kind.END
    return _Columns(
        parent=np.repeat(parents, present.sum(axis=1)),
        step=np.full(len(token), step),
        token=token,
        probability=probabilities[present],
        kind=kind,
    )


def _joined(parts: Sequence[_Columns]) -> _Columns:
    return _Columns(*(np.concatenate([getattr(part, name) for part in parts]) for name in _NAMES))


def _texts(model: LanguageModel, sequences: np.ndarray, kind: np.ndarray) -> np.ndarray:
    """Decode every text from its whole token sequence; None for `rest`."""
    texts = np.full(len(sequences), None, dtype=object)
    written = kind != Kind.REST
    texts[written] = model.decode(sequences[written].tolist())
    return texts
