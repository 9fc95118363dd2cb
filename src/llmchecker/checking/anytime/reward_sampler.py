"""Estimation of the expected score of a quantifier after a number of steps.

The expected score is A + U s. A is the sum of the scores in the tree, weighted by their
probabilities. U is the probability of all `rest` up to that step, and s the expected score of the
texts below them. Samples of these texts give an interval for s, as their scores are within the
range of the quantifier.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from llmchecker.checking.anytime.confidence_intervals import (
    compute_mean_interval,
    compute_required_values,
)
from llmchecker.checking.anytime.decided_mass import split_mass
from llmchecker.checking.anytime.estimate import Estimate
from llmchecker.checking.anytime.path_sampler import SAMPLE_BATCH_SIZE, PathSampler, report_progress
from llmchecker.models.interface import LanguageModel
from llmchecker.properties.logic.ast import Expectation
from llmchecker.properties.logic.monitor import HorizonMonitor
from llmchecker.properties.quantifiers.interface import Quantifier
from llmchecker.properties.scores import score_texts
from llmchecker.trees.distribution_cache import PromptDistributions
from llmchecker.trees.expansion import EndOfSequence
from llmchecker.trees.text_tree import StateKind, TextTree


class RewardSampler(PathSampler):
    """A sampler of texts from `rest` at the step of an expected score.

    Args:
        model, prompt, tree, end_of_sequence, distributions: as in `PathSampler`.
        scores: (n,) integers of the tree's states; scores of `rest` states are ignored.
        expectation: the expected score.
        quantifier: a quantifier with a least and a greatest score.
    """

    def __init__(
        self,
        model: LanguageModel,
        prompt: Sequence[int],
        tree: TextTree,
        scores: np.ndarray,
        expectation: Expectation,
        quantifier: Quantifier,
        end_of_sequence: EndOfSequence,
        distributions: PromptDistributions | None = None,
    ) -> None:
        # a text has its score at this step or at its end, so no formula decides it earlier
        monitor = HorizonMonitor(expectation.step)
        decided_mass = split_mass(tree, {}, monitor)
        super().__init__(
            model, prompt, tree, decided_mass, monitor, {}, end_of_sequence, distributions
        )
        self._expectation, self._quantifier = expectation, quantifier
        self._start = tree.start
        has_score = (tree.kind != StateKind.REST) & (tree.step == expectation.step)
        # a text that has ended keeps its score up to the step
        has_score |= (tree.kind == StateKind.END) & (tree.step < expectation.step)
        self.known_reward = math.fsum(tree.path_probability[has_score] * scores[has_score])
        self.min_score, self.max_score = quantifier.minimum, quantifier.maximum

    def compute_required_samples(self, width: float, confidence: float, max_samples: int) -> int:
        """Compute the number of samples that guarantees an interval width."""
        max_width = self.decided_mass.undecided_mass * (self.max_score - self.min_score)
        # nothing is undecided, or all scores are equal
        return (
            1
            if max_width == 0
            else compute_required_values(width / max_width, confidence, max_samples)
        )

    def score_samples(
        self,
        seed: int,
        first: int,
        stop: int,
        report_share: Callable[[float], None] = lambda share: None,
    ) -> np.ndarray:
        """Return (stop - first,) int64: the scores of samples.

        The samples have the numbers `first` to `stop - 1`.
        """
        texts = self.draw_texts(seed, first, stop, report_share)
        return score_texts(self._quantifier, self._start, texts, self._expectation.quantifier)


def estimate_reward(
    sampler: RewardSampler,
    samples: int,
    confidence: float,
    seed: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Estimate | None:
    """Estimate an expected score, with arguments as in `estimate_probability`."""
    undecided_mass = sampler.decided_mass.undecided_mass
    # a limit above the rounding error of the sums and products of an end
    max_magnitude = max(abs(sampler.min_score), abs(sampler.max_score), 1)
    margin = (sampler.relative_error + 256 * float(np.finfo(np.float64).eps)) * max_magnitude
    # the tree contains every score, so no sample is drawn
    if undecided_mass == 0:
        reward = sampler.known_reward
        return Estimate(reward, reward - margin, reward + margin, confidence, 0, None, 0, seed)
    passes_before, batches = sampler.passes, []
    for first in range(0, samples, SAMPLE_BATCH_SIZE):
        if is_cancelled():
            return None
        stop = min(samples, first + SAMPLE_BATCH_SIZE)
        report_share = partial(report_progress, progress, first, stop, samples)
        batches.append(sampler.score_samples(seed, first, stop, report_share))
    min_score, size = sampler.min_score, max(1, sampler.max_score - sampler.min_score)
    # the interval of a mean needs values from [0, 1]
    values = (np.concatenate(batches) - min_score) / size
    interval = compute_mean_interval(values, confidence)

    def compute_reward(mean: float) -> float:
        return sampler.known_reward + undecided_mass * (min_score + size * mean)

    # no mean is outside the range of the scores
    low = max(compute_reward(0), compute_reward(interval[0])) - margin
    high = min(compute_reward(1), compute_reward(interval[1])) + margin
    return Estimate(
        estimate=min(high, max(low, compute_reward(float(values.mean())))),
        low=low,
        high=high,
        confidence=confidence,
        samples=samples,
        satisfying=None,
        passes=sampler.passes - passes_before,
        seed=seed,
    )
