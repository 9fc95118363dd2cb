"""Estimating the expected score of a quantifier after some steps.

It is A + U s. A is the sum of the scores that a tree tells, weighted by their probabilities. U is
the probability of all `rest` up to that step, and s the expected score of the texts that lie there.
Samples of these texts give an interval for s, as their scores lie within the range of the
quantifier.
"""

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from llmchecker.deciding.bounded_means import mean_interval, values_for
from llmchecker.deciding.decided import decide
from llmchecker.deciding.estimates import Estimate
from llmchecker.deciding.estimation import AT_ONCE, Sampler, tell
from llmchecker.deployed.chat import Start
from llmchecker.models.protocols import LanguageModel
from llmchecker.quantifiers.quantifier import Quantifier
from llmchecker.queries.formulas import Expectation
from llmchecker.queries.reading import OpenReading
from llmchecker.scoring.scores import score_texts
from llmchecker.trees.expansion import EndOfSequence
from llmchecker.trees.store import StoredDistributions
from llmchecker.trees.text_tree import Kind, TextTree


class ScoreSampler(Sampler):
    """Draws texts of the step that an expected score is asked for, from the `rest` of a tree.

    Args:
        model, start, tree, end_of_sequence, stored: as in `Sampler`.
        scores: (n,) integers of the tree's states; those of `rest` are not read.
        asked: the expected score.
        quantifier: with a least and a greatest score.
    """

    def __init__(
        self,
        model: LanguageModel,
        start: Start,
        tree: TextTree,
        scores: np.ndarray,
        asked: Expectation,
        quantifier: Quantifier,
        end_of_sequence: EndOfSequence,
        stored: StoredDistributions | None = None,
    ) -> None:
        reading = OpenReading(asked.step)
        decided = decide(tree, {}, reading)
        super().__init__(model, start, tree, decided, reading, {}, end_of_sequence, stored)
        self._asked, self._quantifier = asked, quantifier
        self._start = tree.start
        known = (tree.kind != Kind.REST) & (tree.step == asked.step)
        known |= (tree.kind == Kind.END) & (tree.step < asked.step)
        self.known = math.fsum(tree.path_probability[known] * scores[known])
        self.least, self.greatest = quantifier.minimum, quantifier.maximum

    def samples_for(self, width: float, confidence: float, most: int) -> int:
        """The number of samples that give an interval of at most some width."""
        whole = self.decided.undecided * (self.greatest - self.least)
        return 1 if whole == 0 else values_for(width / whole, confidence, most)

    def scores(
        self,
        seed: int,
        first: int,
        behind: int,
        told: Callable[[float], None] = lambda share: None,
    ) -> np.ndarray:
        """(behind - first,) int64: the scores of samples with these numbers."""
        texts = self.texts(seed, first, behind, told)
        return score_texts(self._quantifier, self._start, texts, self._asked.quantifier)


def estimate_score(
    sampler: ScoreSampler,
    samples: int,
    confidence: float,
    seed: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Estimate | None:
    """Estimate an expected score; arguments and result are those of `estimation.estimate`."""
    undecided = sampler.decided.undecided
    if undecided == 0:
        return Estimate(*[sampler.known] * 3, confidence, 0, None, 0, seed)
    asked_before, parts = sampler.passes, []
    for first in range(0, samples, AT_ONCE):
        if stopped():
            return None
        behind = min(samples, first + AT_ONCE)
        told = partial(tell, progress, first, behind, samples)
        parts.append(sampler.scores(seed, first, behind, told))
    least, size = sampler.least, max(1, sampler.greatest - sampler.least)
    values = (np.concatenate(parts) - least) / size
    interval = mean_interval(values, confidence)
    # more than the rounding error of the sums and products behind an end
    outward = 64 * np.finfo(np.float64).eps * (abs(sampler.known) + abs(least) + size)

    def whole(mean: float) -> float:
        return sampler.known + undecided * (least + size * mean)

    low = max(whole(0), whole(interval[0])) - outward
    high = min(whole(1), whole(interval[1])) + outward
    return Estimate(
        estimate=min(high, max(low, whole(float(values.mean())))),
        low=low,
        high=high,
        confidence=confidence,
        samples=samples,
        satisfying=None,
        passes=sampler.passes - asked_before,
        seed=seed,
    )
