"""Intervals from samples cover the truth as often as they say; a seed gives the same samples."""

from collections import Counter
from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
import torch
from helpers import oracle
from helpers.random_tables import QUANTIFIERS, RANGES, START, table_model, whole_tree
from scipy.stats import binomtest, chisquare, norm

from llmchecker.checking.anytime import path_sampler, token_sampler
from llmchecker.checking.anytime.confidence_intervals import compute_proportion_interval
from llmchecker.checking.anytime.decided_mass import split_mass
from llmchecker.checking.anytime.path_sampler import (
    PathSampler,
    _compute_required_samples,
    estimate_probability,
)
from llmchecker.errors import InvalidEstimate
from llmchecker.models.distribution import Distributions
from llmchecker.models.transformers.load import load_model
from llmchecker.properties.logic.monitor import Monitor
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.scores import score_tree
from llmchecker.trees.expansion import build_tree
from llmchecker.trees.text_tree import Truncation

LENGTH = 3
RARE = ("F", None, ("atom", "gender", ">", 2))


class Asked:
    """A formula on a truncated tree of a table model, and its true probability."""

    def __init__(self, seed: int, formula, alpha: float = 0.5, k: int = 2) -> None:
        self.model = table_model(seed)
        self.tree = build_tree(self.model, START, Truncation(alpha, k, LENGTH))
        path = parse(f"P=? [ {oracle.written(formula)} ]").root.path
        self.reading = Monitor(path, LENGTH, RANGES)
        columns = {name: score_tree(each, self.tree) for name, each in QUANTIFIERS.items()}
        self.decided = split_mass(self.tree, columns, self.reading)
        whole = whole_tree(self.model, LENGTH)
        known = {name: score_tree(each, whole) for name, each in QUANTIFIERS.items()}
        exact = oracle.Tree(
            whole.parent, whole.probability, whole.kind, {"step": whole.step, **known}
        )
        self.true = exact.probability_of(formula)

    def share(self) -> float:
        """How much of the undecided mass satisfies the formula."""
        undecided = Fraction(self.decided.undecided_mass)
        satisfying = self.true - Fraction(self.decided.satisfied_mass)
        return min(1.0, max(0.0, float(satisfying / undecided))) if undecided else 0.0

    def sampler(self) -> PathSampler:
        return PathSampler(
            self.model,
            self.model.encode(START),
            self.tree,
            self.decided,
            self.reading,
            QUANTIFIERS,
            "terminal",
        )

    def estimate(self, samples: int, seed: int, confidence: float = 0.95):
        return estimate_probability(self.sampler(), samples, confidence, seed)


@pytest.fixture(scope="module")
def rare() -> Asked:
    """A formula that is true of one in a hundred texts of the undecided mass or fewer."""
    for seed in range(100):
        asked = Asked(seed, RARE)
        if 1 / 500 < asked.share() < 1 / 50:
            return asked
    raise AssertionError("no seed gives a rare event")


def misses_too_often(misses: int, repetitions: int) -> bool:
    """Whether an interval of confidence 0.95 would miss so often less than once in a million."""
    return binomtest(misses, repetitions, 0.05, alternative="greater").pvalue < 1e-6


@pytest.mark.long
def test_intervals_cover_the_truth(rare):
    """Over 2,000 seeds the interval misses the truth no more often than its confidence allows;
    the Wald interval, of the same samples, misses far more often."""
    misses, of_wald = 0, 0
    for seed in range(2000):
        found = rare.estimate(60, seed)
        misses += not found.low <= rare.true <= found.high
        share = found.satisfying / found.samples
        half = norm.ppf(0.975) * sqrt(share * (1 - share) / found.samples)
        low, high = (
            rare.decided.satisfied_mass + rare.decided.undecided_mass * p
            for p in (share - half, share + half)
        )
        of_wald += not low <= rare.true <= high
    assert not misses_too_often(misses, 2000)
    assert misses_too_often(of_wald, 2000)


def test_samples_are_drawn_as_the_model_writes():
    """The texts that 4,000 samples decide true are as frequent as their share of the mass."""
    for seed in range(5):
        asked = Asked(seed, ("F", None, ("atom", "polarity", ">", 0)), alpha=0.2)
        share = asked.share()
        found = asked.estimate(4000, seed=1)
        assert binomtest(found.satisfying, 4000, share).pvalue > 1e-6
    assert 0 < share < 1


def test_every_text_of_the_rest_is_drawn_in_proportion():
    """The first tokens of samples from one rest are distributed as the model's, the tree's own
    tokens left out, whether all tokens are told or some."""
    probabilities = np.array([0.4, 0.3, 0.15, 0.1, 0.05])
    numbers, followed = path_sampler._draw_uniform(5, 0, 3000, 1)[:, 0], np.array([0, 1])
    whole = Distributions.from_probabilities(torch.from_numpy(probabilities[np.newaxis]))
    of_whole = whole.sample_by_inversion(0, numbers, followed)
    of_told = token_sampler._sample_listed(np.arange(4), probabilities[:4], 0.05, numbers, followed)
    for drawn, last in ((of_whole, 4), (of_told, token_sampler._UNLISTED_TOKEN)):
        counts = Counter(drawn.tolist())
        assert set(counts) == {2, 3, last}
        expected = [3000 * p / 0.3 for p in probabilities[2:]]
        assert chisquare([counts[token] for token in (2, 3, last)], expected).pvalue > 1e-6


def test_more_samples_extend_fewer_and_batches_change_none(rare, monkeypatch):
    """Samples 0 to 99 are the same in a run of 100, of 300, and of any number side by side."""
    counts = [rare.estimate(n, seed=7).satisfying for n in (100, 300)]
    sampler = rare.sampler()
    truths = sampler.decide_samples(7, 0, 300)
    assert [truths[:100].sum(), truths.sum()] == counts
    monkeypatch.setattr(path_sampler, "SAMPLE_BATCH_SIZE", 7)
    assert [rare.estimate(n, seed=7).satisfying for n in (100, 300)] == counts
    assert not np.array_equal(truths, sampler.decide_samples(8, 0, 300))


def test_samples_of_a_transformer_do_not_depend_on_threads_or_memory(random_model):
    """The same seed gives the same samples with other threads and other memory."""
    path = parse("P=? [ F step = 3 ]").root.path
    reading = Monitor(path, 4, {})
    truths = []
    for threads, memory in ((1, 2**30), (2, 2**22)):
        model = load_model(random_model("gpt2"), threads=threads, memory_bytes=memory)
        tree = build_tree(model, "he said", Truncation(0.5, 2, 4))
        found = split_mass(tree, {}, reading)
        sampler = PathSampler(model, model.encode("he said"), tree, found, reading, {}, "terminal")
        truths.append(sampler.decide_samples(0, 0, 200))
    assert np.array_equal(*truths)


def test_progress_rises_with_every_token_to_all_samples(rare):
    """Progress is told within a batch of samples too, never falls, and ends at all of them."""
    told = []
    estimate_probability(
        rare.sampler(), 50, 0.95, 0, progress=lambda done, total: told.append((done, total))
    )
    assert len(told) > 2
    assert told == sorted(told)
    assert told[-1] == (50, 50)


def test_all_decided_takes_no_samples():
    """Where nothing is undecided the estimate is the decided mass, and the model is not asked."""
    asked = Asked(1, RARE, alpha=1.0, k=9)
    found = asked.estimate(50, seed=0)
    assert (found.samples, found.passes) == (0, 0)
    assert found.low <= asked.true <= found.high <= found.low + 1e-12
    assert found.low <= found.estimate <= found.high


def test_the_number_of_samples_suffices_however_they_come_out():
    """With as many samples as are asked for, the interval at the worst count is narrow enough."""
    n = _compute_required_samples(0.1, 0.8, 0.95)
    widths = [np.diff(compute_proportion_interval(s, n, 0.95))[0] * 0.8 for s in range(n + 1)]
    assert max(widths) <= 0.1 + 1e-12


@pytest.mark.parametrize("confidence", [0.0, 1.0, float("nan"), -1])
def test_an_impossible_confidence_is_refused(confidence, rare):
    """A confidence outside of (0, 1) is refused by its value."""
    with pytest.raises(InvalidEstimate, match="confidence is"):
        rare.estimate(10, 0, confidence)


def test_no_samples_are_refused_where_something_is_undecided(rare):
    """To ask for no samples is a mistake, not an interval."""
    with pytest.raises(InvalidEstimate, match="samples is 0"):
        rare.estimate(0, 0)
