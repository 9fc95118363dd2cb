"""Expansion of the tree of an alpha-k-bounded text generation process.

Gross et al. (2025), Definition III.4 and Algorithm 1, level by level and in batches.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from os.path import commonprefix

import numpy as np

from llmchecker.models.decoding.answer_reader import AnswerReader, find_prompt_reader
from llmchecker.models.decoding.chat_template import Start
from llmchecker.models.decoding.settings import check_thinking
from llmchecker.models.distribution import Distributions
from llmchecker.models.interface import LanguageModel, Prefix
from llmchecker.models.transformers.batching import join_prompt
from llmchecker.trees.distribution_cache import PromptDistributions
from llmchecker.trees.growth_forecast import GrowthMonitor
from llmchecker.trees.selection import Selection, select_tokens
from llmchecker.trees.shards import Shard, is_split
from llmchecker.trees.text_tree import (
    NO_TOKEN,
    StateKind,
    TextTree,
    Truncation,
    find_ended,
)

ProgressCallback = Callable[[int, int, int], None]
"""Callback of the step, its expanded nodes so far, and all its nodes."""
_STATES = np.dtype(
    [
        ("parent", np.int64),
        ("step", np.int64),
        ("token", np.int64),
        ("probability", np.float64),
        ("kind", np.int8),
    ]
)
"""The columns of a `TextTree` without its texts."""


def build_tree(
    model: LanguageModel,
    start: Start,
    truncation: Truncation,
    progress: ProgressCallback = lambda step, done, total: None,
    distributions: PromptDistributions | None = None,
    shard: Shard | None = None,
    monitor: GrowthMonitor | None = None,
) -> TextTree:
    """Build the tree of all texts of the bounded process after `start`.

    Algorithm 1 of Gross et al. (2025), one level at a time: every text of a level is expanded
    before the next level begins. Texts are expanded in batches, and no prefix is computed twice.

    Args:
        model: the language model.
        start: the start string or chat.
        truncation: alpha, k and the horizon L.
        progress: callback after every batch with the progress of the level.
        distributions: cached distributions of this model after this start string. New distributions
            are added to it. The tree is the same with and without a cache.
        shard: the part of the tree to build, for `merge_shards`; None for the whole tree.
        monitor: resource limits, checked after every batch.

    Raises:
        ConfigError: the forecast of the tree exceeds the limits of `monitor`.
        UnusableText: the model's grammar excludes a thought that the start begins.
    """
    prompt = model.encode(start) if distributions is None else distributions.prompt
    # opened on first use: a fully cached tree needs no pass of the model over the prompt
    reader = find_prompt_reader(model, start, prompt)
    last_step = reader.limit_length(truncation.length)
    continuations = cache(lambda: model.open_prefix(prompt, last_step - 1))
    end_tokens = sorted(model.end_tokens)
    if reader.marks is not None and reader.marks.is_open:
        check_thinking(model)
    levels = [np.array([(-1, 0, NO_TOKEN, 1.0, StateKind.TEXT)], dtype=_STATES)]
    texts = [decode_texts(model, np.array([prompt]), np.array([StateKind.TEXT]))]
    frontier = _Frontier(np.empty((1, 0), dtype=np.int64), np.zeros(1, dtype=np.int64), np.ones(1))
    size, is_shard = 1, shard is not None
    for step in range(1, last_step + 1):
        # above the split every shard expands the whole level, so that all shards agree on it
        if shard is not None and is_split(step - 1, len(frontier), shard.count, truncation.length):
            frontier, shard = frontier.select(shard.select_texts(frontier.masses)), None
        if len(frontier) == 0:
            break
        # the last level has no children, so the model need not keep its attention cache
        will_extend = step < last_step
        children, done, child_count, open_count = [], 0, 0, 0
        with _saved(distributions):
            for rows, selection in _iter_selections(
                continuations,
                distributions,
                frontier.continuations,
                truncation.alpha,
                truncation.k,
                will_extend,
            ):
                children.append(_build_children(selection, rows, step, end_tokens))
                if step == reader.max_tokens:
                    _end_texts(children[-1])
                done += len(rows)
                progress(step, done, len(frontier))
                if monitor is not None:
                    child_count += len(children[-1])
                    open_count += int((children[-1]["kind"] == StateKind.TEXT).sum())
                    monitor.update(step, done, len(frontier), child_count, open_count)
        # batches arrive in any order, since cached distributions come first
        level = np.concatenate(children)
        level = level[np.argsort(level["parent"], kind="stable")]
        levels.append(level)
        uids, frontier = frontier.uids, frontier.extend(level, size)
        level["parent"] = uids[level["parent"]]
        # whole sequences, because a character may consist of several tokens
        sequences = join_prompt(prompt, frontier.continuations)
        level_texts = decode_texts(model, sequences, level["kind"])
        if reader.stop:
            is_cut = step == last_step
            _apply_stops(level, level_texts, texts[0][0], reader, is_cut=is_cut)
        texts.append(level_texts)
        # all others are terminal
        frontier = frontier.select(level["kind"] == StateKind.TEXT)
        size += len(level)
    states = np.concatenate(levels)
    return TextTree(
        model=model.name,
        truncation=truncation,
        **{name: np.ascontiguousarray(states[name]) for name in _STATES.names or ()},
        text=np.concatenate(texts),
        is_shard=is_shard,
        messages=None if isinstance(start, str) else start.as_text,
        marks=reader.marks,
    )


def _end_texts(states: np.ndarray) -> None:
    """End the texts of states that have the largest number of tokens of an answer."""
    states["kind"][states["kind"] == StateKind.TEXT] = StateKind.MAX_TOKENS


def _apply_stops(
    level: np.ndarray, texts: np.ndarray, start: str, reader: AnswerReader, *, is_cut: bool
) -> None:
    """End the texts of a level that have a stop, and leave out what stops end or hold back.

    Args:
        level: the states.
        texts: (n,) str, their texts with all that the model wrote.
        start: the text of the prompt.
        reader: the reader.
        is_cut: whether no token follows the level.
    """
    for row, text in enumerate(texts):
        if text is None:
            continue
        kept = len(commonprefix((start, text)))  # noqa: RUF071 - by character, not by path
        is_whole = is_cut or bool(find_ended(level["kind"][row]))
        reading = reader.read(text[kept:], is_whole=is_whole)
        texts[row] = text[:kept] + reading.output
        if reading.has_stopped:
            level["kind"][row] = StateKind.END


def _iter_selections(
    open_prefix: Callable[[], Prefix],
    distributions: PromptDistributions | None,
    continuations: np.ndarray,
    alpha: float,
    k: int,
    will_extend: bool,
) -> Iterator[tuple[np.ndarray, Selection]]:
    """Yield row numbers of continuations and the selections after them.

    Stored selections come first.

    Args:
        open_prefix: returns the prompt's prefix; called only if a distribution must be computed.
        distributions: cached distributions; new distributions are added to it, and the caller
            saves them.
        continuations: (n, d) int64, token ids after the prompt.
        alpha: probability that the selected tokens hold together, from 0 to 1.
        k: maximum number of selected tokens.
        will_extend: whether later calls pass longer continuations that begin with these.
    """
    is_missing = np.ones(len(continuations), dtype=bool)
    if distributions is not None:
        for rows, selection in distributions.select(continuations, alpha, k):
            is_missing[rows] = False
            yield rows, selection
    missing_rows = np.flatnonzero(is_missing)
    if len(missing_rows) == 0:
        return
    # selected inside the model's batches, so that no full distributions are kept
    select_top = partial(_select, alpha=alpha, k=k)
    for positions, selection in open_prefix().map_next(
        select_top, continuations[missing_rows], will_extend
    ):
        rows = missing_rows[positions]
        if distributions is not None:
            distributions.add(continuations[rows], selection)
        yield rows, selection


def _select(
    rows: np.ndarray, distributions: Distributions, alpha: float, k: int
) -> tuple[np.ndarray, Selection]:
    return rows, select_tokens(distributions, alpha, k)


@contextmanager
def _saved(distributions: PromptDistributions | None) -> Iterator[None]:
    """Save the new distributions of a block, also after an interrupt."""
    try:
        yield
    finally:
        # the next run reads these distributions from the cache
        if distributions is not None:
            distributions.save()


@dataclass(frozen=True)
class _Frontier:
    """States of a level: token ids after the prompt, uids, path probabilities."""

    continuations: np.ndarray
    uids: np.ndarray
    masses: np.ndarray

    def __len__(self) -> int:
        return len(self.uids)

    def select(self, rows: slice | np.ndarray) -> "_Frontier":
        """Return a subset of the states."""
        return _Frontier(self.continuations[rows], self.uids[rows], self.masses[rows])

    def extend(self, level: np.ndarray, size: int) -> "_Frontier":
        """Return the states of the next level.

        Args:
            level: the states of that level; their parents are positions in this one.
            size: first uid of that level.
        """
        return _Frontier(
            np.column_stack([self.continuations[level["parent"]], level["token"]]),
            size + np.arange(len(level)),
            self.masses[level["parent"]] * level["probability"],
        )


def _build_children(
    selection: Selection, parents: np.ndarray, step: int, end_tokens: Sequence[int]
) -> np.ndarray:
    """Return the children of texts: each text's selected tokens, then its rest.

    A rest of 0 is left out.
    """
    n, width = len(parents), selection.counts.max()
    tokens = np.column_stack([selection.tokens[:, :width], np.full(n, NO_TOKEN)])
    probabilities = np.column_stack([selection.probabilities[:, :width], selection.rest])
    is_present = np.column_stack(
        [np.arange(width) < selection.counts[:, np.newaxis], selection.rest > 0]
    )
    children = np.empty(is_present.sum(), dtype=_STATES)
    children["parent"] = np.repeat(parents, is_present.sum(axis=1))
    children["step"] = step
    children["token"] = token = tokens[is_present]
    children["probability"] = probabilities[is_present]
    # the rest has no token of its own
    is_rest, has_ended = token == NO_TOKEN, np.isin(token, end_tokens)
    children["kind"] = np.select([is_rest, has_ended], [StateKind.REST, StateKind.END])
    return children


def decode_texts(model: LanguageModel, sequences: np.ndarray, kind: np.ndarray) -> np.ndarray:
    """Decode the texts of states, each from its full token sequence.

    The last character of a text that ended may be incomplete. A text that may go on is left
    without the bytes of such a character.

    Args:
        model: the language model.
        sequences: (n, length) int64, the token ids of prompt and continuation.
        kind: (n,) the `StateKind` of each state.

    Returns:
        (n,) str; None for `rest`.
    """
    texts = np.full(len(sequences), None, dtype=object)
    for text_kind, decode in (
        (StateKind.TEXT, model.decode_unfinished),
        (StateKind.END, model.decode),
        (StateKind.MAX_TOKENS, model.decode),
    ):
        is_kind = kind == text_kind
        texts[is_kind] = decode(sequences[is_kind].tolist())
    return texts
