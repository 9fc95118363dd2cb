"""One token of look-ahead: sums over the whole vocabulary, and the next token of samples.

It runs where the probabilities are. For each text it sums the probabilities of each class of
tokens, weighs the sums by what the classes lead to, lists the most probable tokens, and draws
undecided tokens by inversion. A few numbers for each text return to the host.

Sums have a fixed order, so that equal inputs give equal bits on every call. All terms are positive,
so a sum of few terms is as precise as they are: small probabilities keep their digits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from llmchecker.checking.anytime.product_automaton import TextRows
from llmchecker.models.device import compute_running_sums
from llmchecker.models.distribution import Distributions
from llmchecker.models.servers.settings import LEAST_UNLISTED
from llmchecker.models.servers.top_logprobs import TopLogprobs
from llmchecker.trees.text_tree import NO_TOKEN
from llmchecker.utils.row_groups import count_within

_BLOCK_SIZE = 512
"""Number of tokens of one class that are summed at once."""


@dataclass(frozen=True)
class StepResult:
    """The next tokens of n texts, without those that are known already.

    Attributes:
        sums: (n, values) float64, the values of the decided tokens, weighted by probability.
        tokens: (n, k) int64, the most probable tokens. Arbitrary where the probability is 0.
        probabilities: (n, k) float64, of these.
        undecided: (n,) float64, the probability of all undecided tokens.
        undecided_rest: (n,) float64, the same without the listed tokens.
        rest: (n,) float64, the probability of all tokens that are not listed.
        drawn: (n, draws) int64, undecided tokens that the model lists. Arbitrary where no token is
            drawn or undecided.
        positions: (n, draws) int64, the rank of each drawn token in `tokens`; the size of the
            vocabulary if it is not there.
        drawn_probabilities: (n, draws) float64; 0 where no token is drawn.
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

    @property
    def mass(self) -> np.ndarray:
        """(n,) float64: the probability of all tokens that are not known already."""
        mass: np.ndarray = self.rest + self.probabilities.sum(axis=1)
        return mass

    def scale(
        self, undecided: np.ndarray, decided: np.ndarray, is_open: np.ndarray
    ) -> "StepResult":
        """Return the results with scaled probabilities, but for `sums` and `rest`.

        Args:
            undecided, decided: (n,) float64, the factors of undecided and of decided tokens.
            is_open: (n, k) bool, whether each listed token is undecided.
        """
        factors = np.where(is_open, undecided[:, np.newaxis], decided[:, np.newaxis])
        return replace(
            self,
            probabilities=self.probabilities * factors,
            undecided=self.undecided * undecided,
            undecided_rest=self.undecided_rest * undecided,
            drawn_probabilities=self.drawn_probabilities * undecided[:, np.newaxis],
        )

    def select(self, rows: np.ndarray | int) -> "StepResult":
        """Return the results of some of the texts; those of one text without its axis."""
        return StepResult(*(column[rows] for column in vars(self).values()))

    @classmethod
    def concatenate(cls, parts: Sequence["StepResult"]) -> "StepResult":
        """Join the results of consecutive texts."""
        if len(parts) == 1:
            return parts[0]
        width = max(part.tokens.shape[1] for part in parts)
        columns = zip(*(vars(part._widen(width)).values() for part in parts), strict=True)
        # the numbers of draws are those of the whole request, and equal
        return cls(*map(np.concatenate, columns))

    @classmethod
    def join(cls, parts: Sequence["StepResult"], positions: Sequence[np.ndarray]) -> "StepResult":
        """Join the results of texts that were answered in any order.

        Args:
            parts: the results.
            positions: the positions of the texts of each, which together are 0 to n - 1.
        """
        order, joined = np.concatenate(positions), cls.concatenate(parts)
        return joined if (np.diff(order) == 1).all() else joined.select(np.argsort(order))

    def _widen(self, width: int) -> "StepResult":
        """Return the results with at least `width` listed tokens, the further ones without mass."""
        missing = ((0, 0), (0, width - self.tokens.shape[1]))
        return replace(
            self,
            tokens=np.pad(self.tokens, missing),
            probabilities=np.pad(self.probabilities, missing),
        )


class ClassOrder:
    """The tokens of a vocabulary, sorted by class, in blocks of at most `_BLOCK_SIZE` of one class.

    Attributes:
        class_of: (vocabulary,) int64, the class of each token.

    Args:
        class_of: likewise.
    """

    def __init__(self, class_of: np.ndarray) -> None:
        self.class_of = class_of
        sizes = np.bincount(class_of)
        counts = -(-sizes // _BLOCK_SIZE)
        within = count_within(class_of)
        # neighbouring tokens are in different blocks, whose sums a processor adds at once
        block_of = (np.cumsum(counts) - counts)[class_of] + within % counts[class_of]
        order = np.argsort(block_of, kind="stable")
        place_of = np.empty_like(order)
        place_of[order] = np.arange(len(order))
        lengths = np.bincount(block_of)
        starts = np.cumsum(lengths) - lengths
        self._columns = {
            "order": torch.from_numpy(order),
            "place_of": torch.from_numpy(place_of),
            "block_of": torch.from_numpy(block_of),
            "class_of": torch.from_numpy(class_of.astype(np.int64)),
            "starts": torch.from_numpy(starts),
            "lengths": torch.from_numpy(lengths),
            "block_classes": torch.from_numpy(class_of[order[starts]].astype(np.int64)),
        }

        self._max_length = int(self._columns["lengths"].max())

    @property
    def block_count(self) -> int:
        """Number of blocks."""
        return len(self._columns["starts"])

    @property
    def max_terms(self) -> int:
        """The largest number of terms of a sum over the vocabulary."""
        return self._max_length + self.block_count

    def compute_step(
        self,
        distributions: Distributions | TopLogprobs,
        rows: TextRows,
        values: np.ndarray,
        known: Sequence[np.ndarray],
        uniforms: np.ndarray,
        is_drawn: np.ndarray,
        k: np.ndarray,
    ) -> StepResult:
        """Compute the next tokens of n texts.

        Args:
            distributions: n distributions.
            rows: the row of each text.
            values: (rows, values, classes) float64, 0 for undecided classes.
            known: tokens of each text that are neither summed, listed nor drawn.
            uniforms: (n, draws) float64 from [0, 1).
            is_drawn: (n, draws) bool, the numbers that draw a token.
            k: (n,) int64, number of tokens to list; more may be listed on an accelerator.
        """
        k = np.minimum(k, distributions.listed_tokens)
        if isinstance(distributions, Distributions) and distributions.row_maxima is not None:
            top_tokens, top, blocks, totals = self._sum_logits(distributions, known, k)
        else:
            visible = distributions.exclude(known) if any(map(len, known)) else distributions
            top_tokens = visible.top_tokens(int(k.max()))
            self._columns = {name: c.to(top_tokens.device) for name, c in self._columns.items()}
            top, blocks, totals = self._sum_probabilities(visible.probabilities(), top_tokens)
        device = top_tokens.device
        unlisted = torch.zeros(len(top), dtype=torch.float64, device=device)
        if distributions.listed_tokens < len(self.class_of):
            # rounding must not hide that other tokens exist
            unlisted = (1 - distributions.probabilities().sum(dim=1)).clamp(min=LEAST_UNLISTED)
        # many texts share a row, which is copied to the device once; other batches use other rows
        used, row_numbers = np.unique(rows.row_of, return_inverse=True)
        row_of, row_is_open, row_values = (
            torch.from_numpy(column).to(device)
            for column in (
                row_numbers,
                np.stack([rows.rows[index].is_undecided for index in used]),
                values[used],
            )
        )
        classes = self._columns["block_classes"]
        top_classes = self._columns["class_of"][top_tokens]
        open_top = top * row_is_open[row_of[:, None], top_classes]
        open_blocks = blocks * row_is_open[:, classes][row_of]
        # not a matrix product, whose order of addition depends on the number of texts
        sums = (blocks[:, None, :] * row_values[:, :, classes][row_of]).sum(dim=2)
        sums += (top[:, :, None] * row_values[row_of[:, None], :, top_classes]).sum(dim=1)
        undecided_rest = open_blocks.sum(dim=1) + unlisted
        options = torch.cat([open_top, open_blocks], dim=1)
        undecided = undecided_rest + open_top.sum(dim=1)
        rest = blocks.sum(dim=1) + unlisted
        drawn = self._draw(options, uniforms, is_drawn, distributions, top_tokens, known, totals)
        # one copy to the host, in which token ids are exact
        masses = torch.stack([undecided, undecided_rest, rest], dim=1)
        columns = [sums, top_tokens.double(), top, masses]
        ends = np.cumsum([column.shape[1] for column in columns[:-1]])
        parts = np.split(torch.cat(columns, dim=1).cpu().numpy(), ends, axis=1)
        host_sums, tokens, probabilities, host_masses = parts
        open_mass, open_rest, rest_mass = host_masses.T
        return StepResult(
            host_sums,
            tokens.astype(np.int64),
            probabilities,
            open_mass,
            open_rest,
            rest_mass,
            *drawn,
        )

    def _sum_probabilities(
        self, probabilities: Tensor, top_tokens: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the probabilities of listed tokens, the sums of blocks without them, and 1.

        The sums have a fixed order on any device.

        Args:
            probabilities: (n, vocabulary) float64.
            top_tokens: (n, k) int64, the listed tokens.
        """
        ordered = probabilities.index_select(1, self._columns["order"])
        places = self._columns["place_of"][top_tokens]
        top = ordered.gather(1, places)
        ordered.scatter_(1, places, 0.0)
        lengths = self._columns["lengths"].expand(len(ordered), -1).contiguous()
        blocks = torch.segment_reduce(ordered, "sum", lengths=lengths, axis=1, unsafe=True)
        return top, blocks, torch.ones_like(blocks[:, :1])

    def _sum_logits(
        self, distributions: Distributions, known: Sequence[np.ndarray], k: np.ndarray
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the most probable tokens, the same for logits, and the totals of their weights.

        Each row stays in the processor's cache from the logits to the sums.

        Args:
            distributions: n distributions on a processor.
            known: tokens of each text that count in the total only.
            k: (n,) int64, numbers of listed tokens.
        """
        n, vocabulary_size = len(distributions), len(self.class_of)
        tokens, top = np.empty((n, k.max()), dtype=np.int64), np.zeros((n, k.max()))
        blocks = torch.zeros((n, self.block_count), dtype=torch.float64)
        totals = np.empty((n, 1))
        buffer = torch.empty(vocabulary_size, dtype=torch.float64)
        weights = buffer.numpy()
        for row, count in enumerate(k.tolist()):
            distributions.write_weights(row, buffer)
            totals[row] = weights[known[row]].sum()
            weights[known[row]] = 0.0
            found = distributions.find_largest(row, min(count + len(known[row]), vocabulary_size))
            listed = found[np.argsort(-weights[found], kind="stable")[:count]]
            # shorter rows end with tokens that are left out of the sums, with probability 0
            tokens[row, :count], tokens[row, count:] = listed, listed[0]
            top[row, :count] = weights[listed]
            weights[listed] = 0.0
            blocks[row].scatter_add_(0, self._columns["block_of"], buffer)
        totals += (blocks.numpy().sum(axis=1) + top.sum(axis=1))[:, np.newaxis]
        total = torch.from_numpy(totals)
        return torch.from_numpy(tokens), torch.from_numpy(top) / total, blocks / total, total

    def _draw(
        self,
        options: Tensor,
        uniforms: np.ndarray,
        is_drawn: np.ndarray,
        distributions: Distributions | TopLogprobs,
        top_tokens: Tensor,
        known: Sequence[np.ndarray],
        totals: Tensor,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draw tokens by inversion: an option first, then a token of its block.

        Args:
            options: (n, k + blocks), the probabilities of undecided listed tokens and of blocks.
            uniforms, is_drawn: (n, draws), as in `compute_step`.
            distributions: n distributions.
            top_tokens: (n, k) int64, the listed tokens.
            known: tokens of each text that are not drawn.
            totals: (n, 1), of the weights.

        Returns:
            (n, draws) the tokens, their positions among the listed ones and their probabilities, as
            in `StepResult`.
        """
        k, device = top_tokens.shape[1], options.device
        drawn = (
            np.zeros(uniforms.shape, dtype=np.int64),
            np.full(uniforms.shape, len(self.class_of)),
            np.zeros(uniforms.shape),
        )
        text, draw = np.nonzero(is_drawn)
        if len(text) == 0:
            return drawn
        texts = torch.from_numpy(text).to(device)
        draws = torch.from_numpy(draw).to(device)
        cumulative = compute_running_sums(options)
        targets = torch.from_numpy(uniforms).to(device) * cumulative[:, -1:]
        index, target = _search(cumulative, targets)[texts, draws], targets[texts, draws]
        is_top = index < k
        share = options[texts, index]
        token, probability = top_tokens[texts, index.clamp(max=k - 1)], share.clone()
        # most drawn tokens are listed, so that few blocks are read
        inner = (~is_top).nonzero().squeeze(1)
        if len(inner):
            text_of, option, weight = texts[inner], index[inner], share[inner]
            # the place of the target within its option's share
            passed = cumulative[text_of, option] - weight
            position = ((target[inner] - passed) / weight.clamp(min=_TINY)).clamp(0, 1)
            left_out = _append_tokens(top_tokens, known)
            tokens, members = self._gather_blocks(option - k, text_of, distributions, left_out)
            sums = compute_running_sums(members)
            chosen = _search(sums, position[:, None] * sums[:, -1:])
            token[inner] = tokens.gather(1, chosen).squeeze(1)
            probability[inner] = members.gather(1, chosen).squeeze(1) / totals[text_of, 0]
        positions = torch.where(is_top, index, len(self.class_of))
        # one copy to the host, as above
        found = torch.stack([token.double(), positions.double(), probability]).cpu().numpy()
        for column, numbers in zip(drawn, found, strict=True):
            column[text, draw] = numbers
        return drawn

    def _gather_blocks(
        self,
        blocks: Tensor,
        texts: Tensor,
        distributions: Distributions | TopLogprobs,
        left_out: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Return (m, length) the tokens of blocks, and their weights after a text.

        Tokens that are left out or beyond the end of a block have the weight 0.

        Args:
            blocks, texts: (m,) int64.
            distributions: n distributions.
            left_out: (n, j) int64, tokens that are not drawn from a block, or `NO_TOKEN`.
        """
        starts, lengths = (self._columns[name][blocks, None] for name in ("starts", "lengths"))
        offsets = torch.arange(self._max_length, device=blocks.device)
        places = (starts + offsets).clamp(max=len(self.class_of) - 1)
        tokens = self._columns["order"][places]
        weights = distributions.gather_weights(texts, tokens) * (offsets < lengths)
        left_out = left_out[texts]
        positions = self._columns["place_of"][left_out.clamp(min=0)] - starts
        is_member = (left_out != NO_TOKEN) & (positions >= 0) & (positions < lengths)
        # a further column takes what is in other blocks
        weights = torch.cat([weights, torch.zeros_like(weights[:, :1])], dim=1)
        weights.scatter_(1, torch.where(is_member, positions, len(offsets)), 0.0)
        return tokens, weights[:, :-1]


_TINY = float(np.finfo(np.float64).tiny)


def _search(cumulative: Tensor, targets: Tensor) -> Tensor:
    """Return the first index whose cumulative weight exceeds each target.

    Rounding may lift a target to the total: then it is the first index that reaches the total,
    whose weight is not 0.
    """
    index = torch.searchsorted(cumulative, targets.contiguous(), right=True)
    last = torch.searchsorted(cumulative, cumulative[:, -1:].contiguous())
    return torch.minimum(index, last)


def _append_tokens(tokens: Tensor, others: Sequence[np.ndarray]) -> Tensor:
    """Append further tokens to each row; shorter rows end with `NO_TOKEN`."""
    lengths = np.array(list(map(len, others)))
    if (width := int(lengths.max())) == 0:
        return tokens
    padded = np.full((len(others), width), NO_TOKEN)
    padded[np.arange(width) < lengths[:, np.newaxis]] = np.concatenate(others)
    # one copy to an accelerator for all rows
    return torch.cat([tokens, torch.from_numpy(padded).to(tokens.device)], dim=1)
