"""One token of look-ahead: sums over the whole vocabulary, and the next token of samples.

It runs where the probabilities are. For each text it sums the probabilities of each class of
tokens, weighs the sums by what the classes lead to, lists the most probable tokens, and draws
undecided tokens by inversion. A few numbers for each text return to the host.

Sums have a fixed order, so that equal inputs give equal bits on every call. All terms are positive,
so a sum of few terms is as precise as they are: small probabilities keep their digits.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from llmchecker.checking.anytime.product_automaton import Row
from llmchecker.models.distribution import Distributions
from llmchecker.models.servers.top_logprobs import TopLogprobs

LEAST_UNLISTED = float(np.finfo(np.float64).eps)
"""The least probability of the tokens that a model does not list."""

UNLISTED = -1
"""The drawn token where the model does not list it."""

_BLOCK_SIZE = 512
"""Number of tokens of one class that are summed at once."""


@dataclass(frozen=True)
class StepResult:
    """The next tokens of n texts, without those that are known already.

    Attributes:
        sums: (n, values) float64, the values of the decided tokens, weighted by probability.
        tokens: (n, k) int64, the most probable tokens.
        probabilities: (n, k) float64, of these.
        undecided: (n,) float64, the probability of all undecided tokens.
        undecided_rest: (n,) float64, the same without the listed tokens.
        rest: (n,) float64, the probability of all tokens that are not listed.
        drawn: (n, draws) int64, undecided tokens; `UNLISTED` for a token that the model does not
            list. Arbitrary where no token is undecided.
        positions: (n, draws) int64, the rank of each drawn token in `tokens`; k if it is not there.
        drawn_probabilities: (n, draws) float64.
    """

    sums: np.ndarray
    tokens: np.ndarray
    probabilities: np.ndarray
    undecided: np.ndarray
    undecided_rest: np.ndarray
    rest: np.ndarray
    drawn: np.ndarray
    positions: np.ndarray
    drawn_probabilities: np.ndarray

    def select(self, rows: np.ndarray | int) -> "StepResult":
        """Return the results of some of the texts; those of one text without its axis."""
        return StepResult(*(column[rows] for column in vars(self).values()))

    @classmethod
    def concatenate(cls, parts: Sequence["StepResult"]) -> "StepResult":
        """Join the results of consecutive texts."""
        if len(parts) == 1:
            return parts[0]
        # the numbers of draws are those of the whole request, and equal
        return cls(*(np.concatenate([getattr(p, name) for p in parts]) for name in vars(parts[0])))


class ClassOrder:
    """The tokens of a vocabulary, sorted by class, in blocks of at most `_BLOCK_SIZE` of one class.

    Attributes:
        class_of: (vocabulary,) int64, the class of each token.

    Args:
        class_of: likewise.
    """

    def __init__(self, class_of: np.ndarray) -> None:
        self.class_of = class_of
        order = np.argsort(class_of, kind="stable")
        ordered = class_of[order]
        starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        lengths = np.diff(np.append(starts, len(order)))
        # the number of each token within its class begins a block
        within = np.arange(len(order)) - np.repeat(starts, lengths)
        is_first = within % _BLOCK_SIZE == 0
        block_of = np.empty(len(order), dtype=np.int64)
        block_of[order] = np.cumsum(is_first) - 1
        starts = np.flatnonzero(is_first)
        self._columns = {
            "order": torch.from_numpy(order),
            "class_of": torch.from_numpy(class_of.astype(np.int64)),
            "block_of": torch.from_numpy(block_of),
            "starts": torch.from_numpy(starts),
            "lengths": torch.from_numpy(np.diff(np.append(starts, len(order)))),
            "block_classes": torch.from_numpy(ordered[starts].astype(np.int64)),
        }

    @property
    def block_count(self) -> int:
        """Number of blocks."""
        return len(self._columns["starts"])

    @property
    def max_terms(self) -> int:
        """The largest number of terms of a sum over the vocabulary."""
        return int(self._columns["lengths"].max()) + self.block_count

    def compute_step(
        self,
        distributions: Distributions | TopLogprobs,
        rows: Sequence[Row],
        values: Sequence[np.ndarray],
        known: Sequence[np.ndarray],
        uniforms: np.ndarray,
        k: int,
    ) -> StepResult:
        """Compute the next tokens of n texts.

        Args:
            distributions: n distributions.
            rows: the row of each text.
            values: (values, classes) float64 for each text, 0 for undecided classes.
            known: tokens of each text that are neither summed, listed nor drawn.
            uniforms: (n, draws) float64 from [0, 1).
            k: number of listed tokens.
        """
        weights, totals = distributions.weights(), distributions.totals
        device = weights.device
        self._columns = {name: column.to(device) for name, column in self._columns.items()}
        k = min(k, weights.shape[1])
        unlisted = torch.zeros(len(weights), dtype=torch.float64, device=device)
        if distributions.listed_tokens < weights.shape[1]:
            # rounding must not hide that other tokens exist
            unlisted = (1 - weights.sum(dim=1)).clamp(min=LEAST_UNLISTED)
        if any(map(len, known)):
            for index, tokens in enumerate(known):
                weights[index, torch.from_numpy(tokens).to(device)] = 0
            top_weights, top_tokens = weights.topk(k, dim=1)
            top = top_weights / totals
        else:
            top, top_tokens = distributions.top_k(k)
            top_weights = weights.gather(1, top_tokens)
        weights.scatter_(1, top_tokens, 0.0)
        blocks = self._sum_blocks(weights) / totals
        is_open, class_values = _stack_rows(rows, values, device)
        classes = self._columns["block_classes"]
        top_classes = self._columns["class_of"][top_tokens]
        open_top = top * is_open.gather(1, top_classes)
        open_blocks = blocks * is_open[:, classes]
        # not a matrix product, whose order of addition depends on the number of texts
        sums = (blocks[:, None, :] * class_values[:, :, classes]).sum(dim=2)
        top_values = class_values.gather(
            2, top_classes[:, None, :].expand(-1, class_values.shape[1], -1)
        )
        sums += (top[:, None, :] * top_values).sum(dim=2)
        undecided_rest = open_blocks.sum(dim=1) + unlisted
        options = torch.cat([open_top, open_blocks, unlisted[:, None]], dim=1)
        numbers = torch.from_numpy(uniforms).to(device)
        drawn, positions, drawn_weights = self._draw(
            options, numbers, weights, top_tokens, top_weights
        )
        columns = (
            sums,
            top_tokens,
            top,
            undecided_rest + open_top.sum(dim=1),
            undecided_rest,
            blocks.sum(dim=1) + unlisted,
            drawn,
            positions,
            drawn_weights / totals,
        )
        return StepResult(*(column.cpu().numpy() for column in columns))

    def _sum_blocks(self, weights: Tensor) -> Tensor:
        """Return (n, blocks) the sums of blocks, each in the order of its tokens."""
        # on a processor additions are in order, and tokens need not be sorted
        if weights.device.type == "cpu":
            sums = torch.zeros((len(weights), self.block_count), dtype=torch.float64)
            return sums.scatter_add_(1, self._columns["block_of"].expand(len(weights), -1), weights)
        return self.sum_sorted(weights)

    def sum_sorted(self, weights: Tensor) -> Tensor:
        """Return (n, blocks) the sums of blocks in a fixed order, on any device."""
        ordered = weights.index_select(1, self._columns["order"])
        lengths = self._columns["lengths"].expand(len(weights), -1).contiguous()
        return torch.segment_reduce(ordered, "sum", lengths=lengths, axis=1, unsafe=True)

    def _draw(
        self,
        options: Tensor,
        numbers: Tensor,
        weights: Tensor,
        top_tokens: Tensor,
        top_weights: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Draw tokens by inversion: an option first, then a token of its block.

        Args:
            options: (n, k + blocks + 1), the probabilities of undecided listed tokens, blocks, and
                tokens that the model does not list.
            numbers: (n, draws) from [0, 1).
            weights: (n, vocabulary), 0 for listed tokens.
            top_tokens, top_weights: (n, k).
        """
        n, draws = numbers.shape
        k = top_tokens.shape[1]
        if draws == 0:
            empty = torch.empty((n, 0), dtype=torch.int64, device=options.device)
            return empty, empty, numbers
        cumulative = options.cumsum(dim=1)
        targets = numbers * cumulative[:, -1:]
        index = _search(cumulative, targets)
        is_top, is_unlisted = index < k, index == options.shape[1] - 1
        block = (index - k).clamp(min=0, max=self.block_count - 1)
        # the place of the target within its option's share
        share = options.gather(1, index)
        position = (targets - (cumulative.gather(1, index) - share)) / share.clamp(min=_TINY)
        lengths = self._columns["lengths"][block]
        offsets = torch.arange(int(lengths.max()), device=options.device)
        places = self._columns["starts"][block][..., None] + offsets
        tokens = self._columns["order"][places.clamp(max=weights.shape[1] - 1)]
        members = weights.gather(1, tokens.reshape(n, -1)).reshape(tokens.shape)
        members = members * (offsets < lengths[..., None])
        inner = members.cumsum(dim=2).flatten(0, 1)
        target = position.clamp(0, 1).reshape(-1, 1) * inner[:, -1:]
        chosen = _search(inner, target).reshape(n, draws, 1)
        tokens = tokens.gather(2, chosen).squeeze(2)
        top_index = index.clamp(max=k - 1)
        tokens = torch.where(is_top, top_tokens.gather(1, top_index), tokens)
        drawn_weights = torch.where(
            is_top, top_weights.gather(1, top_index), members.gather(2, chosen).squeeze(2)
        )
        tokens = torch.where(is_unlisted, UNLISTED, tokens)
        return tokens, torch.where(is_top, index, k), drawn_weights


_TINY = float(np.finfo(np.float64).tiny)


def _search(cumulative: Tensor, targets: Tensor) -> Tensor:
    """Return the first index whose cumulative weight exceeds each target.

    Rounding may lift a target to the total: then it is the first index that reaches the total,
    whose weight is not 0.
    """
    index = torch.searchsorted(cumulative, targets.contiguous(), right=True)
    last = torch.searchsorted(cumulative, cumulative[:, -1:].contiguous())
    return torch.minimum(index, last)


def _stack_rows(
    rows: Sequence[Row], values: Sequence[np.ndarray], device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return (n, classes) whether a class is undecided, and (n, values, classes) float64."""
    # many texts share a row, which is copied to the device once
    numbers = [row.number for row in rows]
    firsts = {number: index for index, number in reversed(list(enumerate(numbers)))}
    place_of = {number: place for place, number in enumerate(firsts)}
    is_open = np.stack([rows[index].is_undecided for index in firsts.values()])
    weights = np.stack([values[index] for index in firsts.values()])
    places = torch.tensor([place_of[number] for number in numbers], device=device)
    return (
        torch.from_numpy(is_open).to(device)[places],
        torch.from_numpy(weights).to(device)[places],
    )
