"""The top-p processor keeps the tokens that transformers keeps, and sorts few texts."""

import pytest
import torch
from transformers import TopPLogitsWarper

from llmchecker.models.decoding.top_p import TopPLogitsProcessor

NO_TOKENS = torch.zeros((1, 0), dtype=torch.int64)


@pytest.mark.parametrize("top_p", [0.001, 0.3, 0.9, 0.999])
@pytest.mark.parametrize("deviation", [0.5, 3.0, 8.0])
@pytest.mark.parametrize("vocabulary", [50, 3000, 20_000])
def test_scores_are_those_of_transformers(vocabulary, deviation, top_p):
    """Logits of any spread, also rounded ones with many ties, give equal bits."""
    logits = torch.randn((8, vocabulary), generator=torch.Generator().manual_seed(0)) * deviation
    logits[4:] = logits[4:].round()
    logits[1, ::2] = -torch.inf
    expected = TopPLogitsWarper(top_p)(NO_TOKENS, logits)
    assert torch.equal(TopPLogitsProcessor(top_p)(NO_TOKENS, logits), expected)


@pytest.mark.parametrize("error", [-3e-8, -1e-12, 0.0, 1e-12, 3e-8])
def test_a_nucleus_that_ends_within_a_rounding_error_is_that_of_transformers(error):
    """Two tokens of probability 0.45 and 0.05 reach 0.5 but for an error that a float may lose."""
    probabilities = torch.full((1, 10_000), 0.5 / 9998, dtype=torch.float64)
    probabilities[0, 7], probabilities[0, 70] = 0.45, 0.05
    logits = probabilities.log().float()
    top_p = 0.5 + error
    expected = TopPLogitsWarper(top_p)(NO_TOKENS, logits)
    assert torch.equal(TopPLogitsProcessor(top_p)(NO_TOKENS, logits), expected)


@pytest.mark.parametrize("damage", [torch.nan, torch.inf])
def test_damaged_logits_give_what_transformers_gives(damage):
    """A row with NaN or infinity has the same result, and so do the rows next to it."""
    logits = torch.randn((3, 3000), generator=torch.Generator().manual_seed(1)) * 8
    logits[1, 5] = damage
    expected = TopPLogitsWarper(0.9)(NO_TOKENS, logits)
    found = TopPLogitsProcessor(0.9)(NO_TOKENS, logits)
    assert torch.equal(found.nan_to_num(), expected.nan_to_num())


def test_texts_with_few_probable_tokens_are_not_sorted(monkeypatch):
    """A nucleus of one or two tokens with a clear end needs no sort of the vocabulary."""
    logits = torch.zeros((4, 5000))
    logits[:, 40], logits[2:, 41] = 30.0, 29.0
    expected = TopPLogitsWarper(0.9)(NO_TOKENS, logits)
    monkeypatch.setattr(torch, "sort", None)
    assert torch.equal(TopPLogitsProcessor(0.9)(NO_TOKENS, logits), expected)
