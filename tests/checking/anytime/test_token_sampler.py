"""Tokens of a `rest` are sampled in proportion to their probabilities."""

from collections import Counter

import numpy as np
import pytest
from helpers.random_tables import START
from scipy.stats import chisquare

from llmchecker.checking.anytime.partial_tree import TailRequest
from llmchecker.checking.anytime.token_sampler import TailSampler
from llmchecker.errors import InvalidEstimate
from llmchecker.models.table_model import TableModel

WEIGHTS = [0.4, 0.3, 0.15, 0.1, 0.05]
MODEL = TableModel([*"abcd", "."], lambda tokens: WEIGHTS, frozenset([4]))


class ListedPrefix:
    """A prefix that samples as a server does, and remembers the seeds."""

    def __init__(self) -> None:
        self.seeds: list[int] = []

    def sample_next(self, continuations, excluded, seeds):
        self.seeds += seeds
        return np.full(len(continuations), 4)


def build_request(count: int, excluded: list[int]) -> TailRequest:
    uniforms = (np.arange(count) + 0.5) / count
    rows = [np.array(excluded, dtype=np.int64)] * count
    return TailRequest(np.zeros((count, 1), dtype=np.int64), count, rows, uniforms)


@pytest.mark.parametrize("is_kept", [False, True])
def test_tokens_are_sampled_in_proportion(is_kept):
    """Over a grid of random numbers each token that is left has its exact share, whether the
    distribution was kept or is computed again."""
    prefix = MODEL.open_prefix(MODEL.encode(START))
    sampler, request = TailSampler(MODEL, lambda: prefix), build_request(300, [0, 1])
    if is_kept:
        one = request.continuations[:1]
        sampler.keep(one, next(prefix.map_next(lambda _, found: found, one)))
    counts = Counter(sampler.sample(request).tolist())
    assert counts == {2: 150, 3: 100, 4: 50}
    assert chisquare([counts[t] for t in (2, 3, 4)], [150, 100, 50]).pvalue == 1


def test_a_model_that_lists_few_tokens_samples_itself():
    """Such a model gets a seed for each random number, below 2^32 - 1."""
    few = TableModel(MODEL.vocabulary, MODEL.distribution, MODEL.end_tokens)
    few.listed_tokens = 3
    prefix = ListedPrefix()
    tokens = TailSampler(few, lambda: prefix).sample(build_request(4, [0, 1, 2]))
    assert tokens.tolist() == [4, 4, 4, 4]
    assert prefix.seeds == [int(u * (2**32 - 1)) for u in (0.125, 0.375, 0.625, 0.875)]


def test_nothing_left_to_sample_is_refused():
    """If all tokens of positive probability are excluded, the error names the `rest`."""
    prefix = MODEL.open_prefix(MODEL.encode(START))
    with pytest.raises(InvalidEstimate, match="rest: nothing is left to sample"):
        TailSampler(MODEL, lambda: prefix).sample(build_request(1, [0, 1, 2, 3, 4]))
