"""Tokens that are chosen from a distribution by random numbers."""

import numpy as np
import pytest
import torch

from llmchecker.models.distribution import Distributions, find_by_inversion

VOCABULARY = 20_000
"""Larger than the parts that are summed at once."""
EXTREMES = [0.0, np.nextafter(0, 1), 0.5, np.nextafter(1, 0)]


@pytest.mark.parametrize("given", ["logits", "probabilities"])
def test_numbers_choose_what_the_inverse_of_the_whole_distribution_chooses(given):
    """By parts of the vocabulary a number chooses the very token that one long sum of all
    probabilities chooses."""
    generator = np.random.default_rng(7)
    logits = torch.from_numpy(generator.normal(0, 3, (2, VOCABULARY)))
    # at least one part without any weight
    logits[0, : VOCABULARY // 2] = -torch.inf
    distributions = Distributions.from_logits(logits)
    if given == "probabilities":
        distributions = Distributions.from_probabilities(distributions.probabilities())
    numbers = np.concatenate([EXTREMES, generator.random(2000)])
    for row in (0, 1):
        left = distributions.probabilities()[row].numpy()
        chosen = distributions.sample_by_inversion(row, numbers)
        sums = left.cumsum()
        expected = np.searchsorted(sums, numbers * sums[-1], side="right")
        # the two sums differ in their last digits, which only an extreme number can feel
        assert np.array_equal(chosen[len(EXTREMES) :], expected[len(EXTREMES) :])
        assert (left[chosen] > 0).all()
        assert chosen[0] == np.flatnonzero(left)[0]


def test_excluded_tokens_are_listed_last_and_keep_the_weights_of_others():
    """Without some tokens the others keep their weights and order, and these have none."""
    logits = torch.tensor([[0.5, 2.0, 1.0, 2.0], [3.0, 1.0, 0.0, 2.0]])
    given = torch.tensor([[0.5, 0.25, 0.125, 0.125], [0.1, 0.2, 0.3, 0.4]], dtype=torch.float64)
    excluded = [np.array([1]), np.array([0, 3])]
    rows, tokens = torch.arange(2), torch.arange(4).expand(2, 4)
    for whole, first in (
        (Distributions.from_logits(logits), [[3, 2, 0], [1, 2]]),
        (Distributions.from_probabilities(given), [[0, 2, 3], [2, 1]]),
    ):
        without, before = whole.exclude(excluded), whole.gather_weights(rows, tokens)
        weights = without.gather_weights(rows, tokens)
        for row, (left, order) in enumerate(zip(excluded, first, strict=True)):
            assert weights[row, left].tolist() == [0.0] * len(left)
            others = np.setdiff1d(np.arange(4), left)
            assert torch.equal(weights[row, others], before[row, others])
            assert without.top_tokens(4)[row, : len(order)].tolist() == order
        assert torch.equal(whole.gather_weights(rows, tokens), before)


def test_an_extreme_number_chooses_an_index_with_a_weight():
    """Without weight an index is not chosen, even if a product is rounded up to the whole sum."""
    sums = np.array([0.0, 0.0, 0.25, 0.25, 1.0, 1.0])
    targets = np.array([0.0, 0.2, 0.25, np.nextafter(1, 0), 1.0])
    assert find_by_inversion(sums, targets).tolist() == [2, 2, 4, 4, 4]


@pytest.mark.parametrize("k", [1, 3, 40])
def test_equal_probabilities_are_listed_by_rising_token(k):
    """The k largest probabilities are the first of a stable sort, also among many zeros."""
    logits = np.random.default_rng(0).integers(-2, 3, (6, 5000)).astype(np.float32)
    logits[3:] = -np.inf
    logits[3:, [17, 4000, 4001]] = [1.0, 0.0, 1.0]
    distributions = Distributions.from_logits(torch.from_numpy(logits))
    expected = np.argsort(-logits, axis=1, kind="stable")[:, :k]
    probabilities, tokens = distributions.top_k(k)
    assert np.array_equal(tokens.numpy(), expected)
    assert torch.equal(probabilities, distributions.probabilities().gather(1, tokens))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("spread", [1.0, 3.0, 1000.0])
def test_the_listed_tokens_are_the_first_of_all_tokens_in_order(seed, spread):
    """Those of a small vocabulary too, with ties, and where most weights are 0 in float64."""
    rng = np.random.default_rng(seed)
    vocabulary = int(rng.integers(20, 300))
    k = int(rng.integers(1, 20))
    logits = np.round(rng.normal(size=(3, vocabulary)) * spread).astype(np.float32)
    distributions = Distributions.from_logits(torch.from_numpy(logits))
    for row, listed in zip(
        distributions.probabilities().tolist(), distributions.top_k(k)[1], strict=True
    ):
        order = sorted(range(vocabulary), key=lambda token, row=row: (-row[token], token))
        assert listed.tolist() == order[:k]
