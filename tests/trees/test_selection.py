"""TOP(alpha, k), against the paper's definition written literally."""

import numpy as np
import pytest
import torch
from helpers import reference
from hypothesis import given
from hypothesis import strategies as st

from llmchecker.errors import InvalidBound
from llmchecker.models.distribution import Distributions
from llmchecker.models.servers.top_logprobs import TopLogprobs
from llmchecker.trees.selection import (
    MIN_LISTED_TOKENS,
    Selection,
    reselect_tokens,
    select_tokens,
)


def select(rows: torch.Tensor, alpha, k) -> Selection:
    """The selection of TOP(alpha, k) in rows of probabilities."""
    return select_tokens(Distributions.from_probabilities(rows), alpha, k)


def selected(probabilities, alpha, k) -> list[int]:
    """The tokens that TOP(alpha, k) selects in one distribution."""
    selection = select(torch.tensor([probabilities], dtype=torch.float64), alpha, k)
    return selection.tokens[0, : selection.counts[0]].tolist()


@pytest.mark.parametrize(
    ("alpha", "k", "tokens"),
    [
        (0.0, 4, [1]),
        (0.5, 4, [1]),
        (0.51, 4, [1, 0]),
        (0.75, 4, [1, 0]),
        (0.76, 4, [1, 0, 2]),
        (1.0, 4, [1, 0, 2, 3]),
        (1.0, 9, [1, 0, 2, 3]),
        (1.0, 2, [1, 0]),
        (0.9, 1, [1]),
    ],
)
def test_smallest_prefix_that_holds_alpha(alpha, k, tokens):
    """Of (1/4, 1/2, 1/8, 1/8) the fewest most probable tokens with at least alpha, at most k."""
    assert selected([0.25, 0.5, 0.125, 0.125], alpha, k) == tokens


@pytest.mark.parametrize("k", range(1, 9))
def test_ties_go_to_the_smaller_token(k):
    """Among equally probable tokens the smaller ids are selected, in rising order."""
    assert selected([0.125] * 8, 1.0, k) == list(range(k))


def test_ties_at_the_last_place():
    """Of three tokens that tie for the second place, the one with the smallest id gets it."""
    assert selected([0.2, 0.1, 0.3, 0.2, 0.2], 1.0, 2) == [2, 0]


def test_rest_is_what_is_left_not_renormalised():
    """Two selected of (1/2, 1/4, 1/8, 1/8) leave a rest of 1/4, and keep 1/2 and 1/4."""
    selection = select(torch.tensor([[0.5, 0.25, 0.125, 0.125]], dtype=torch.float64), 0.7, 9)
    assert selection.rest.tolist() == [0.25]
    assert selection.probabilities[0, :2].tolist() == [0.5, 0.25]


def test_tiny_rest_keeps_its_digits():
    """A rest of 2**-70 is neither 0 nor lost in rounding, and alpha = 1 selects k tokens still."""
    row = torch.tensor([[1.0, 2.0**-60, 2.0**-70]], dtype=torch.float64)
    selection = select(row, 1.0, 2)
    assert selection.counts.tolist() == [2]
    assert selection.rest.tolist() == [2.0**-70]


def test_impossible_tokens_are_never_selected():
    """A token of probability 0 is not selected even when alpha = 1 and k would allow it."""
    assert selected([0.5, 0.0, 0.5], 1.0, 3) == [0, 2]


@pytest.mark.parametrize(("alpha", "k"), [(-0.1, 1), (1.1, 1), (float("nan"), 1), (0.5, 0)])
def test_selection_bounds_are_checked(alpha, k):
    """alpha outside [0, 1] and k below 1 are refused."""
    with pytest.raises(InvalidBound):
        selected([1.0], alpha, k)


@given(
    weights=st.lists(st.lists(st.integers(0, 5), min_size=6, max_size=6).filter(any), min_size=1),
    alpha=st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0]),
    k=st.integers(1, 8),
)
def test_selection_agrees_with_the_definition(weights, alpha, k):
    """On rows with many ties the batch selects what Definition III.4 selects token by token."""
    rows = torch.tensor(weights, dtype=torch.float64) / torch.tensor(weights).sum(1, keepdim=True)
    selection = select(rows, alpha, k)
    for number, row in enumerate(rows.tolist()):
        expected = [t for t in reference.select(row, alpha, k) if row[t] > 0]
        if alpha == 1:
            order = sorted(range(len(row)), key=lambda t: (-row[t], t))
            expected = [t for t in order if row[t] > 0][:k]
        count = selection.counts[number]
        assert selection.tokens[number, :count].tolist() == expected
        assert selection.rest[number] == pytest.approx(1 - sum(row[t] for t in expected), abs=1e-15)


def peaked(seed: int, rows: int, vocabulary: int) -> torch.Tensor:
    """Distributions like a language model's, with equal values among the large and the small."""
    logits = torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(seed)) * 4
    return torch.softmax(logits.round(decimals=1).double(), dim=1)


@pytest.mark.parametrize("vocabulary", [40, 1_000, 5_000, 40_007, 65_536])
@pytest.mark.parametrize("k", [1, 5, 60])
def test_selection_in_large_vocabularies(vocabulary, k):
    """Whatever the size of the vocabulary, the tokens are those of a full stable sort."""
    rows = peaked(vocabulary + k, 7, vocabulary)
    selection = select(rows, 1.0, k)
    order = rows.sort(dim=1, descending=True, stable=True)
    assert np.array_equal(selection.tokens[:, :k], order.indices[:, :k].numpy())
    assert np.array_equal(selection.probabilities[:, :k], order.values[:, :k].numpy())


@given(
    seed=st.integers(0, 10**6),
    first=st.tuples(st.sampled_from([0.0, 0.5, 0.9, 1.0]), st.integers(1, 50)),
    second=st.tuples(st.sampled_from([0.0, 0.3, 0.8, 0.95, 1.0]), st.integers(1, 50)),
)
def test_reselecting_gives_the_bits_of_selecting(seed, first, second):
    """From what one selection reports another is made to the same bits, or is not made at all."""
    rows = peaked(seed, 5, 1_000)
    stored = select(rows, *first)
    known = (
        np.arange(stored.tokens.shape[1])
        < np.maximum(stored.counts, MIN_LISTED_TOKENS)[:, np.newaxis]
    )
    values = np.where(known, stored.probabilities, np.nan)
    selection, enough = reselect_tokens(stored.tokens, values, *second)
    expected = select(rows, *second)
    for row in np.flatnonzero(enough):
        count = expected.counts[row]
        assert selection.counts[row] == count
        assert selection.rest[row] == expected.rest[row]
        assert np.array_equal(selection.tokens[row, :count], expected.tokens[row, :count])
        assert np.array_equal(
            selection.probabilities[row, :count], expected.probabilities[row, :count]
        )
    assert enough[(expected.counts < MIN_LISTED_TOKENS) & (expected.rest > 1e-6)].all()


def test_reselecting_refuses_what_it_cannot_know():
    """Where the stored tokens run out before alpha is held, or the rest is tiny, it says so."""
    rows = torch.full((1, 1_000), 1 / 1_000, dtype=torch.float64)
    stored = select(rows, 0.0, 1)
    assert [
        reselect_tokens(*heads(stored), alpha, 900)[1].item() for alpha in (0.01, 0.9, 1.0)
    ] == [
        True,
        False,
        False,
    ]
    sure = select(torch.tensor([[1.0, 2.0**-60, 0.0]], dtype=torch.float64), 0.5, 1)
    assert reselect_tokens(*heads(sure), 0.5, 1)[1].tolist() == [False]


def heads(selection: Selection) -> tuple[np.ndarray, np.ndarray]:
    return selection.tokens, selection.probabilities


@pytest.mark.parametrize(
    ("listed", "k", "rest"),
    [
        ([0.75, 0.25], 2, 2.0**-52),
        ([1.0, 1e-20], 1, 2.0**-52),
        ([0.5, 0.25], 2, 0.25),
        # no token is less probable than one of probability 0
        ([1.0, 0.0], 2, 0.0),
        ([1.0, 0.0], 1, 0.0),
    ],
)
def test_tokens_that_a_server_does_not_list_have_a_positive_probability(listed, k, rest):
    """Where listed probabilities add up to 1, the others are what rounding may hide."""
    tokens = np.array([[0, 1]])
    probabilities = np.array([listed])
    selection = select_tokens(TopLogprobs(tokens, probabilities, 5), 1.0, k)
    assert selection.rest.tolist() == [rest]
    reselected, is_complete = reselect_tokens(tokens, probabilities, 1.0, k, min_rest=0.0)
    assert is_complete.all()
    assert reselected.rest.tolist() == [rest]
