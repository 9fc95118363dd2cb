"""Growing the tree of an alpha-k-bounded text generation process.

Gross et al. (2025), Definition III.4 and Algorithm 1, level by level and in batches.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from torch import Tensor

from llmchecker.errors import InvalidBound
from llmchecker.language_models import LanguageModel
from llmchecker.text_tree import NO_TOKEN, Bounds, Kind, TextTree

CANCELLATION = 1e-6
"""A rest below this is summed from its own tokens: 1 - sum would lose its digits."""

EndOfSequence = Literal["terminal", "ordinary"]
Progress = Callable[[int, int, int], None]
"""Called with the step, the nodes of that step already expanded, and all nodes of that step."""


@dataclass(frozen=True)
class Selection:
    """What TOP(alpha, k) selects in each of n distributions.

    Args:
        tokens: (n, m) int64, by falling probability; row i selects its first `counts[i]`.
        probabilities: (n, m) float64, of these tokens.
        counts: (n,) int64, at least 1.
        rest: (n,) float64, the probability of all tokens that are not selected.
    """

    tokens: np.ndarray
    probabilities: np.ndarray
    counts: np.ndarray
    rest: np.ndarray


def top_alpha_k(probabilities: Tensor, alpha: float, k: int) -> Selection:
    """Select the most probable tokens of each row until they hold `alpha`, at most `k`.

    Implements TOP(alpha, k), Definition III.4 of Gross et al. (2025). Ties go to the smaller token
    id. The selection is never empty, and never renormalised: what it leaves out is the row's
    `rest`. With alpha = 1 no rounding of a sum ends it early. A token of probability 0 is never
    selected, since no text goes on with it.

    Args:
        probabilities: (n, vocabulary) float64, rows summing to 1.

    Raises:
        InvalidBound: alpha outside [0, 1] or k < 1.
    """
    if not 0 <= alpha <= 1 or k < 1:
        raise InvalidBound(f"alpha={alpha!r}, k={k!r}: alpha must lie in [0, 1], k be at least 1")
    values, tokens = _most_probable(probabilities, min(k, probabilities.shape[1]))
    needed = values > 0
    if alpha < 1:
        needed[:, 1:] &= values.cumsum(dim=1)[:, :-1] < alpha
    counts = needed.sum(dim=1)
    width = int(counts.max())
    values, tokens, needed = values[:, :width], tokens[:, :width], needed[:, :width]
    return Selection(
        tokens=tokens.cpu().numpy(),
        probabilities=values.cpu().numpy(),
        counts=counts.cpu().numpy(),
        rest=_rest(probabilities, tokens, values, needed).cpu().numpy(),
    )


def _most_probable(probabilities: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest values of each row and where they stand, by falling value, then position."""
    beyond = min(k + 1, probabilities.shape[1])
    values, tokens = probabilities.topk(beyond, dim=1)
    tokens, order = tokens.sort(dim=1)
    values, order = values.gather(1, order).sort(dim=1, descending=True, stable=True)
    tokens = tokens.gather(1, order)
    if beyond > k:
        # topk may have taken any of the equal values that straddle the k-th place
        tied = (values[:, k - 1] == values[:, k]).nonzero().squeeze(1)
        if len(tied):
            ordered = probabilities[tied].sort(dim=1, descending=True, stable=True)
            values[tied], tokens[tied] = ordered.values[:, :beyond], ordered.indices[:, :beyond]
    return values[:, :k], tokens[:, :k]


def _rest(probabilities: Tensor, tokens: Tensor, values: Tensor, selected: Tensor) -> Tensor:
    rest = 1 - (values * selected).sum(dim=1)
    small = (rest < CANCELLATION).nonzero().squeeze(1)
    if len(small):
        others = probabilities[small]
        rest[small] = others.scatter(1, tokens[small], values[small] * ~selected[small]).sum(dim=1)
    return rest


def grow(
    model: LanguageModel,
    start: str,
    bounds: Bounds,
    end_of_sequence: EndOfSequence = "terminal",
    progress: Progress = lambda step, done, total: None,
) -> TextTree:
    """Grow the tree of all texts that the bounded process can write after `start`.

    Algorithm 1 of Gross et al. (2025), one level at a time: every text of a level is expanded
    before the next level begins, in batches, and no beginning of a text is computed twice.

    Args:
        end_of_sequence: `terminal` ends a text at an end-of-sequence token, `ordinary` goes on.
        progress: told after every batch how far the level is.
    """
    prompt = model.encode(start)
    continuations = model.continuations(prompt)
    ends = sorted(model.end_tokens) if end_of_sequence == "terminal" else []
    levels = [_root()]
    suffixes = np.empty((1, 0), dtype=np.int64)
    uids = np.zeros(1, dtype=np.int64)
    size = 1
    for step in range(1, bounds.length + 1):
        if len(suffixes) == 0:
            break
        children = []
        done = 0
        for batch in continuations.probabilities(suffixes, extended=step < bounds.length):
            selection = top_alpha_k(batch, bounds.alpha, bounds.k)
            rows = np.arange(done, done + len(batch))
            children.append(_children(selection, rows, step, ends))
            done += len(batch)
            progress(step, done, len(suffixes))
        level = _joined(children)
        texts = np.flatnonzero(level.kind == Kind.TEXT)
        going_on = level.parent[texts]
        levels.append(level.below(uids))
        suffixes = np.column_stack([suffixes[going_on], level.token[texts]])
        uids = size + texts
        size += len(level.kind)
    return _tree(model, prompt, bounds, _joined(levels))


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
    n, width = selection.tokens.shape
    tokens = np.column_stack([selection.tokens, np.full(n, NO_TOKEN)])
    probabilities = np.column_stack([selection.probabilities, selection.rest])
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
    names = ("parent", "step", "token", "probability", "kind")
    return _Columns(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def _tree(
    model: LanguageModel, prompt: Sequence[int], bounds: Bounds, columns: _Columns
) -> TextTree:
    return TextTree(
        model=model.name,
        bounds=bounds,
        parent=columns.parent,
        step=columns.step,
        token=columns.token,
        probability=columns.probability,
        kind=columns.kind,
        text=_texts(model, prompt, columns),
    )


def _texts(model: LanguageModel, prompt: Sequence[int], columns: _Columns) -> np.ndarray:
    """Decode every text from its whole token sequence; None for `rest`."""
    sequences: list[tuple[int, ...] | None] = [tuple(prompt)]
    rows = zip(columns.parent.tolist(), columns.token.tolist(), columns.kind.tolist(), strict=True)
    for parent, token, kind in list(rows)[1:]:
        sequences.append(None if kind == Kind.REST else (*sequences[parent], token))
    texts = np.full(len(sequences), None, dtype=object)
    written = [uid for uid, sequence in enumerate(sequences) if sequence is not None]
    texts[written] = model.decode([sequences[uid] for uid in written])
    return texts
