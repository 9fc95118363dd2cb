"""Tokens that are chosen from a distribution by random numbers."""

import numpy as np
import pytest
import torch

from llmchecker.errors import InvalidDistribution
from llmchecker.models.distribution import Distributions, find_by_inversion

VOCABULARY = 20_000
"""Larger than the parts that are summed at once."""
EXTREMES = [0.0, np.nextafter(0, 1), 0.5, np.nextafter(1, 0)]


@pytest.mark.parametrize("given", ["logits", "probabilities"])
def test_numbers_choose_what_the_inverse_of_the_whole_distribution_chooses(given):
    """By parts of the vocabulary a number chooses the very token that one long sum of all
    probabilities chooses, with and without tokens that are excluded."""
    generator = np.random.default_rng(7)
    logits = torch.from_numpy(generator.normal(0, 3, (2, VOCABULARY)))
    # at least one part without any weight
    logits[0, : VOCABULARY // 2] = -torch.inf
    distributions = Distributions.from_logits(logits)
    if given == "probabilities":
        distributions = Distributions.from_probabilities(distributions.probabilities())
    numbers = np.concatenate([EXTREMES, generator.random(2000)])
    for row in (0, 1):
        for excluded in (0, 1, 50, VOCABULARY - 3):
            without = generator.permutation(VOCABULARY)[:excluded]
            left = distributions.probabilities()[row].numpy().copy()
            left[without] = 0
            if not left.any():
                continue
            chosen = distributions.sample_by_inversion(row, numbers, without)
            sums = left.cumsum()
            expected = np.searchsorted(sums, numbers * sums[-1], side="right")
            # the two sums differ in their last digits, which only an extreme number can feel
            assert np.array_equal(chosen[len(EXTREMES) :], expected[len(EXTREMES) :])
            assert (left[chosen] > 0).all()
            assert chosen[0] == np.flatnonzero(left)[0]


def test_what_is_left_of_nothing_is_refused():
    """Where all tokens with a probability above 0 are excluded, no token is chosen."""
    one = Distributions.from_probabilities(torch.tensor([[0.0, 0.25, 0.75]], dtype=torch.float64))
    assert one.sample_by_inversion(0, np.array(EXTREMES), np.array([1])).tolist() == [2] * 4
    with pytest.raises(InvalidDistribution, match="all remaining tokens have probability 0"):
        one.sample_by_inversion(0, np.array([0.5]), np.array([1, 2]))


def test_an_extreme_number_chooses_an_index_with_a_weight():
    """Without weight an index is not chosen, even if a product is rounded up to the whole sum."""
    sums = np.array([0.0, 0.0, 0.25, 0.25, 1.0, 1.0])
    targets = np.array([0.0, 0.2, 0.25, np.nextafter(1, 0), 1.0])
    assert find_by_inversion(sums, targets).tolist() == [2, 2, 4, 4, 4]
