"""Samples of a partial tree's undecided texts, with exact look-ahead.

A round draws texts from the undecided part of the tree as it is at the start of the round. At each
text the model's most probable next tokens are added to the tree. What they decide counts with its
exact mass, and the sample goes on among the undecided tokens. So a sample returns a number in
[0, 1] and not a bit (Rao-Blackwell). The next round begins with the larger tree.

The seed and the number of a sample determine its random numbers, which come from a counter-based
generator (Salmon et al. 2011, "Parallel Random Numbers: As Easy as 1, 2, 3").
"""

import math
from collections.abc import Generator
from dataclasses import dataclass
from itertools import product

import numpy as np

from llmchecker.checking.anytime.control_variates import TextPredictor
from llmchecker.checking.anytime.estimand import Estimand
from llmchecker.checking.anytime.partial_tree import (
    ModelRequest,
    PartialTree,
    Selections,
    TailRequest,
)

CORRECTION_LIMITS = np.array([(0.0, 0.0), *product((0.1, 0.3, 0.6, 1.0), repeat=2)])
"""The largest negative and positive sums of a sample's control variates, of which one is chosen.

A larger limit lets them remove more variance, but widens the range of the values.
"""

_MIN_EXACT_SHARE = 1 / 16
"""The least share of a sample that goes on for certain.

A smaller undecided share is drawn against the decided share, so that few samples spend passes on
it. That adds little variance and keeps every value in [0, 1].
"""

_MIN_VISITS = 2
"""The number of visits that select tokens from the `rest` of every text.

The second one needs no second evaluation of a text in the same round.
"""
_MIN_VISIT_MASS = 1 / 512
"""The least probability of a `rest` that a later visit splits.

From a smaller one the model samples a single token, which saves scoring thousands of texts.
"""

_TINY = np.finfo(np.float64).tiny

_ModelSteps = Generator[ModelRequest | TailRequest, Selections | np.ndarray, None]
"""Steps that yield requests to the model and receive its selections or sampled tokens."""


@dataclass(frozen=True)
class UndecidedPart:
    """The decided sums of a partial tree, and its undecided leaves.

    Attributes:
        numerator, denominator: the sums over decided texts, weighted by their probabilities.
        leaves: (m,) int64, the texts with undecided `rest`, which is all of an unvisited text.
        weights: (m,) float64, the probability of each of these.
        total: the sum of the weights, U.
    """

    numerator: float
    denominator: float
    leaves: np.ndarray
    weights: np.ndarray
    total: float


def split_tree(tree: PartialTree, estimand: Estimand) -> UndecidedPart:
    """Split a partial tree into decided sums and undecided leaves."""
    is_undecided = tree.is_undecided
    # a text counts at the first of its ancestors that decides the query
    is_first = ~is_undecided & is_undecided[tree.parent]
    is_first[0] = not is_undecided[0]
    decided = np.flatnonzero(is_first)
    numerators, denominators = estimand.compute_contributions(tree, decided)
    masses = tree.mass[decided]
    open_mass = tree.mass * tree.rest
    leaves = np.flatnonzero(is_undecided & (tree.step < tree.length) & (open_mass > 0))
    weights = open_mass[leaves]
    return UndecidedPart(
        math.fsum(masses * numerators),
        math.fsum(masses * denominators),
        leaves,
        weights,
        math.fsum(weights),
    )


class SampleRound:
    """One round of samples.

    Args:
        tree: the tree, which grows by the texts that the samples visit.
        estimand: the estimated quantity.
        part: the undecided part of the tree, which must not be empty.
        predictor: the predictor, which has learned from earlier rounds only.
        seed: seed of all samples.
        first: number of the first sample of the round.
        count: number of samples.

    Attributes:
        part: the undecided part at the start of the round.
        numerator, denominator: (count,) float64, the samples' values from the undecided part.
        corrections: (limits, count) float64, the sums of control variates by their limit.
        is_complete: (count,) bool.
    """

    def __init__(
        self,
        tree: PartialTree,
        estimand: Estimand,
        part: UndecidedPart,
        predictor: TextPredictor,
        seed: int,
        first: int,
        count: int,
    ) -> None:
        self.part = part
        self.numerator, self.denominator = np.zeros((2, count))
        self.corrections = np.zeros((len(CORRECTION_LIMITS), count))
        self.is_complete = np.zeros(count, dtype=bool)
        self._tree, self._estimand = tree, estimand
        self._predictor = predictor
        self._weight = np.ones(count)
        self._draws = np.zeros(count, dtype=np.int64)
        # a draw for the leaf, and one for each visit
        self._uniforms = _draw_uniforms(seed, first, count, 1 + tree.length * (tree.max_visits + 1))
        self._evaluated_nodes: set[int] = set()
        self._history: list[tuple[np.ndarray, ...]] = []
        self._node, self._visit = self._draw_leaves()

    @property
    def complete_count(self) -> int:
        """The number of complete samples before the first incomplete one."""
        incomplete = np.flatnonzero(~self.is_complete)
        return int(incomplete[0]) if len(incomplete) else len(self.is_complete)

    def run(self) -> _ModelSteps:
        """Yield requests to the model until all samples are complete."""
        tree = self._tree
        while len(active := np.flatnonzero(~self.is_complete)):
            # texts of one length and visit form a batch; the shortest come first
            keys = tree.step[self._node[active]] * (tree.max_visits + 1) + self._visit[active]
            group = active[keys == keys.min()]
            is_unlisted = self._is_unlisted(group)
            if is_unlisted.any():
                yield from self._sample_unlisted(group[is_unlisted])
                continue
            nodes = np.unique(self._node[group])
            missing = nodes[tree.visits[nodes] < self._visit[group[0]]]
            for batch in tree.split_batches(missing):
                request = tree.build_request(batch, self._count_passes(batch))
                tree.add_children(batch, (yield request), request.passes)
            self._advance(group)

    def _count_passes(self, nodes: np.ndarray) -> int:
        """Return the number of texts that no earlier request of this round evaluated."""
        new_nodes = set(nodes.tolist()) - self._evaluated_nodes
        self._evaluated_nodes |= new_nodes
        return len(new_nodes)

    def _is_unlisted(self, group: np.ndarray) -> np.ndarray:
        """Return for each sample whether the model samples its next token from a `rest`."""
        tree, visit = self._tree, int(self._visit[group[0]])
        if visit > tree.max_visits:
            return np.ones(len(group), dtype=bool)
        if visit <= _MIN_VISITS:
            return np.zeros(len(group), dtype=bool)
        nodes = self._node[group].tolist()
        rests = np.array([tree.find_visit(uid, visit - 1).rest for uid in nodes])
        return tree.mass[nodes] * rests < _MIN_VISIT_MASS

    def learn(self, predictor: TextPredictor) -> None:
        """Teach a predictor the complete samples, from each of their texts on."""
        for samples, nodes, is_rest, numerators, weights in self._history:
            use = self.is_complete[samples] & (weights > 0)
            rows = samples[use]
            values = (self.numerator[rows] - numerators[use]) / weights[use]
            predictor.learn(self._tree, nodes[use], is_rest[use], values)

    def _draw_leaves(self) -> tuple[np.ndarray, np.ndarray]:
        """Draw the text where each sample begins, and return the number of its next visit."""
        part, tree = self.part, self._tree
        sums = part.weights.cumsum()
        samples = np.arange(len(self._draws))
        uniforms = self._draw(samples)
        indices = np.searchsorted(sums, uniforms * sums[-1], side="right").clip(max=len(sums) - 1)
        leaves = part.leaves[indices]
        is_rest = tree.visits[part.leaves] > 0
        predictions = self._predictor.predict(tree, part.leaves, is_rest.astype(np.int64))
        mean = float(part.weights @ predictions / sums[-1])
        self._correct(samples, predictions[indices], mean, predictions, 1.0)
        return leaves, tree.visits[leaves] + 1

    def _advance(self, group: np.ndarray) -> None:
        """Move samples on by one visit of their texts."""
        nodes = self._node[group]
        self._history.append(
            (
                group,
                nodes,
                (self._visit[group] > 1).astype(np.int64),
                self.numerator[group].copy(),
                self._weight[group].copy(),
            )
        )
        order = np.argsort(nodes, kind="stable")
        boundaries = np.flatnonzero(np.diff(nodes[order])) + 1
        for samples in np.split(group[order], boundaries):
            self._advance_from(int(self._node[samples[0]]), int(self._visit[samples[0]]), samples)

    def _advance_from(self, node: int, visit_number: int, samples: np.ndarray) -> None:
        """Move samples on by one visit of the same text."""
        tree, visit = self._tree, self._tree.find_visit(node, visit_number)
        children = np.arange(visit.children.start, visit.children.stop)
        probabilities = tree.probability[children]
        is_undecided = (tree.truth[:, children] < 0).any(axis=0)
        undecided = children[is_undecided]
        decided_probabilities = probabilities[~is_undecided]
        contributions = [
            decided_probabilities @ column
            for column in self._estimand.compute_contributions(tree, children[~is_undecided])
        ]
        decided_share = decided_probabilities.sum()
        options = np.append(probabilities[is_undecided], visit.rest)
        undecided_share = options.sum()
        # the children and the remaining rest have the probability of the visited rest
        total = decided_share + undecided_share
        weight = self._weight[samples]
        goes_on = weight * (undecided_share / total) >= _MIN_EXACT_SHARE
        is_rest = np.zeros(len(options), dtype=np.int64)
        is_rest[-1] = 1
        predictions = self._predictor.predict(tree, np.append(undecided, node), is_rest)
        next_nodes, next_visits = np.append(undecided, node), np.ones(len(options), dtype=np.int64)
        next_visits[-1] = visit_number + 1
        # the decided share counts exactly for samples of much weight
        self._add(samples[goes_on], [c / total for c in contributions])
        self._weight[samples[goes_on]] *= undecided_share / total
        self._choose(samples[goes_on], options, predictions, next_nodes, next_visits)
        # other samples draw it against the undecided share
        if decided_share == 0 or not (~goes_on).any():
            self._choose(samples[~goes_on], options, predictions, next_nodes, next_visits)
            return
        shares = [c / decided_share for c in contributions]
        is_decided = self._choose(
            samples[~goes_on],
            np.append(options, decided_share),
            np.append(predictions, shares[0]),
            np.append(next_nodes, node),
            np.append(next_visits, visit_number),
        ) == len(options)
        ended = samples[~goes_on][is_decided]
        self._add(ended, shares)
        self.is_complete[ended] = True

    def _add(self, samples: np.ndarray, shares: list[float]) -> None:
        """Add contributions to samples, in proportion to their weights."""
        self.numerator[samples] += self._weight[samples] * shares[0]
        self.denominator[samples] += self._weight[samples] * shares[1]

    def _choose(
        self,
        samples: np.ndarray,
        options: np.ndarray,
        predictions: np.ndarray,
        next_nodes: np.ndarray,
        next_visits: np.ndarray,
    ) -> np.ndarray:
        """Draw an option for each sample, and return the index of each drawn option.

        Args:
            samples: the samples.
            options: (m,) float64, weights of the options.
            predictions: (m,) float64, of the options.
            next_nodes, next_visits: (m,) int64, the text and the number of its visit to go on with.
        """
        if len(samples) == 0:
            return samples
        sums = options.cumsum()
        # a product that is rounded up to the whole sum would select an option after the last
        last = np.flatnonzero(options)[-1]
        choices = np.searchsorted(sums, self._draw(samples) * sums[-1], side="right").clip(max=last)
        mean = float(options @ predictions / sums[-1])
        possible = predictions[options > 0]
        self._correct(samples, predictions[choices], mean, possible, self._weight[samples])
        self._node[samples], self._visit[samples] = next_nodes[choices], next_visits[choices]
        return choices

    def _sample_unlisted(self, group: np.ndarray) -> _ModelSteps:
        """Let the model sample a token from the `rest` of a text."""
        tree = self._tree
        nodes = self._node[group]
        # all samples of a group have the same number of visits, and many continue the same text
        visit_count = int(self._visit[group[0]]) - 1
        child_tokens = {uid: tree.child_tokens(uid, visit_count) for uid in set(nodes.tolist())}
        excluded = [child_tokens[uid] for uid in nodes.tolist()]
        continuations = tree.collect_continuations(nodes)
        # a server samples in a request of its own
        passes = self._count_passes(nodes) if tree.lists_vocabulary else len(nodes)
        tokens = yield TailRequest(continuations, passes, excluded, self._draw(group))
        tree.passes += passes
        texts = tree.add_unlisted(nodes, tokens)
        self._node[group], self._visit[group] = texts, 1
        is_decided = ~(tree.truth[:, texts] < 0).any(axis=0)
        decided = group[is_decided]
        numerators, denominators = self._estimand.compute_contributions(tree, texts[is_decided])
        self.numerator[decided] += self._weight[decided] * numerators
        self.denominator[decided] += self._weight[decided] * denominators
        self.is_complete[decided] = True

    def _draw(self, samples: np.ndarray) -> np.ndarray:
        """Return the next random number of each sample."""
        uniforms = self._uniforms[samples, self._draws[samples]]
        self._draws[samples] += 1
        return uniforms

    def _correct(
        self,
        samples: np.ndarray,
        drawn: np.ndarray,
        mean: float,
        possible: np.ndarray,
        weight: np.ndarray | float,
    ) -> None:
        """Add the control variate of a draw, within the limits of the sums.

        Args:
            samples: the samples.
            drawn: (n,) the prediction of what each sample drew.
            mean: the exact mean of the predictions.
            possible: the predictions of everything that could be drawn.
            weight: the weight of the samples after the draw.
        """
        largest, least = float(possible.max()) - mean, mean - float(possible.min())
        sums = self.corrections[:, samples]
        below, above = CORRECTION_LIMITS.T[:, :, np.newaxis]
        # the factor is chosen before the draw: whatever is drawn, the sum stays within its limits
        room_above = (above - sums) / np.maximum(weight * largest, _TINY)
        room_below = (below + sums) / np.maximum(weight * least, _TINY)
        factors = np.minimum(room_above, room_below).clip(0.0, 1.0)
        self.corrections[:, samples] = sums + factors * (weight * (drawn - mean))


def _draw_uniforms(seed: int, first: int, count: int, draws: int) -> np.ndarray:
    """Draw (count, draws) float64 in [0, 1) by seed and sample number."""
    # a stream for each sample: its numbers do not depend on the batch
    streams = (np.random.Philox(key=(seed << 64) | n) for n in range(first, first + count))
    return np.stack([np.random.Generator(stream).random(draws) for stream in streams])
