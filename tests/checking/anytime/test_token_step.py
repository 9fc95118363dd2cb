"""A step sums the whole vocabulary by class, and draws undecided tokens in proportion."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from llmchecker.checking.anytime.product_automaton import Row, TextRows
from llmchecker.checking.anytime.token_step import ClassOrder
from llmchecker.models.distribution import Distributions
from llmchecker.models.servers.top_logprobs import TopLogprobs

VOCABULARY, CLASSES = 3000, 40
NO_DRAWS = np.zeros((5, 0))


def random_classes(seed: int) -> np.ndarray:
    """Classes of which one has most tokens, and one has none."""
    chance = np.random.default_rng(seed)
    classes = chance.integers(2, CLASSES, VOCABULARY)
    classes[chance.random(VOCABULARY) < 0.7] = 0
    return classes


def row_of(truth: np.ndarray, number: int) -> Row:
    """A row of which only the truth matters here."""
    zeros = np.zeros((1, len(truth)), dtype=np.int64)
    return Row(
        number,
        truth[np.newaxis],
        zeros,
        zeros,
        zeros,
        zeros,
        zeros,
        zeros[0],
        np.ones(len(truth), bool),
        np.zeros(len(truth), bool),
        zeros[0],
    )


def random_case(seed: int, n: int = 5):
    """Classes, logits, rows with undecided, true and false classes, and their values."""
    chance = np.random.default_rng(seed)
    classes = random_classes(seed)
    logits = torch.from_numpy(chance.normal(0, 4, (n, VOCABULARY)).astype(np.float32))
    logits[0, chance.random(VOCABULARY) < 0.9] = -torch.inf
    rows = [row_of(chance.integers(-1, 2, CLASSES).astype(np.int8), i % 2) for i in range(n)]
    values = [np.where(r.truth[0] == 1, 1.0, 0.0)[np.newaxis].repeat(3, axis=0) for r in rows[:2]]
    return classes, logits, TextRows(tuple(rows[:2]), np.arange(n) % 2), np.stack(values)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("has_known", [False, True])
def test_sums_are_plain_sums_over_all_tokens(seed, has_known):
    """Values, undecided mass and rests are the sums that a loop over the vocabulary finds; listed
    tokens are the most probable ones, as many as each text wants, and known ones count nowhere."""
    classes, logits, rows, values = random_case(seed)
    k = np.array([8, 3, 8, 1, 5])
    known = [np.arange(7 * i * has_known, dtype=np.int64) * 11 for i in range(5)]
    result = ClassOrder(classes).compute_step(
        Distributions.from_logits(logits),
        rows,
        values,
        known,
        NO_DRAWS,
        NO_DRAWS > 0,
        k,
    )
    probabilities = torch.softmax(logits.double(), dim=1).numpy()
    for i in range(5):
        row = rows[i]
        p = probabilities[i].copy()
        p[known[i]] = 0
        is_open = row.truth[0][classes] < 0
        listed = result.tokens[i, : k[i]]
        order = np.lexsort((np.arange(VOCABULARY), -p))[: k[i]]
        assert np.array_equal(listed[p[listed] > 0], order[p[order] > 0])
        is_rest = ~np.isin(np.arange(VOCABULARY), listed)
        close = {"rel": 1e-12, "abs": 0}
        assert result.sums[i, 0] == pytest.approx(math.fsum(p * values[i % 2][0][classes]), **close)
        assert result.undecided[i] == pytest.approx(math.fsum(p[is_open]), **close)
        assert result.undecided_rest[i] == pytest.approx(math.fsum(p[is_open & is_rest]), **close)
        assert result.rest[i] == pytest.approx(math.fsum(p[is_rest]), **close)
        assert result.probabilities[i, : k[i]] == pytest.approx(p[listed], **close)
        assert not result.probabilities[i, k[i] :].any()


@pytest.mark.parametrize("seed", range(3))
def test_a_step_on_probabilities_is_one_on_logits(seed):
    """Sums and draws from probabilities, as on a GPU, are those from logits up to rounding."""
    classes, logits, rows, values = random_case(seed)
    order, uniforms = ClassOrder(classes), np.random.default_rng(seed).random((5, 40))
    known = [np.arange(3), np.arange(0), np.arange(40), np.arange(0), np.arange(0)]
    exact = Distributions.from_probabilities(torch.softmax(logits.double(), dim=1))
    a, b = (
        order.compute_step(d, rows, values, known, uniforms, uniforms > 0.3, np.full(5, 8))
        for d in (Distributions.from_logits(logits), exact)
    )
    for name, column in vars(a).items():
        assert column == pytest.approx(getattr(b, name), rel=1e-12), name
    # the largest class has several blocks
    assert 256 < order.max_terms - order.block_count <= 512


def test_a_text_has_one_result_in_any_batch():
    """The result of a text is the same to the last bit alone and among others."""
    classes, logits, rows, values = random_case(4)
    known, uniforms = [np.arange(i) for i in range(5)], np.full((5, 2), 0.37)
    order = ClassOrder(classes)

    def compute(part: slice):
        return order.compute_step(
            Distributions.from_logits(logits[part]),
            rows.select(np.arange(5)[part]),
            values,
            known[part],
            uniforms[part],
            uniforms[part] > 0,
            np.full(5, 8)[part],
        )

    together = compute(slice(None))
    for i in range(5):
        alone = compute(slice(i, i + 1))
        for name, column in vars(together).items():
            assert np.array_equal(column[i], getattr(alone, name)[0]), name


def test_draws_are_in_proportion_to_undecided_probability():
    """Of evenly spread numbers each undecided token gets its share, and no other token any."""
    classes, logits, rows, values = random_case(9, n=3)
    known = [np.arange(5), np.arange(0), np.arange(40)]
    uniforms = np.tile((np.arange(20_000) + 0.5) / 20_000, (3, 1))
    result = ClassOrder(classes).compute_step(
        Distributions.from_logits(logits),
        rows,
        values,
        known,
        uniforms,
        uniforms >= 0,
        np.array([16, 4, 9]),
    )
    probabilities = torch.softmax(logits.double(), dim=1).numpy()
    for i in range(3):
        row = rows[i]
        p = np.where(row.truth[0][classes] < 0, probabilities[i], 0.0)
        p[known[i]] = 0
        counts = np.bincount(result.drawn[i], minlength=VOCABULARY)
        assert (p[counts > 0] > 0).all()
        frequent = p / p.sum() > 1e-3
        assert frequent.sum() > 20
        expected = np.append(p[frequent], p[~frequent].sum()) / p.sum() * 20_000
        found = np.append(counts[frequent], counts[~frequent].sum())
        assert np.abs(found - expected)[:-1].max() <= 1.001
        assert np.abs(found - expected)[-1] <= 20
        assert chisquare(found, expected).pvalue > 0.99
        assert result.drawn_probabilities[i] == pytest.approx(probabilities[i][result.drawn[i]])
        is_listed = result.positions[i] < 16
        listed = result.tokens[i][result.positions[i][is_listed]]
        assert np.array_equal(listed, result.drawn[i][is_listed])
        assert not np.isin(result.drawn[i][~is_listed], result.tokens[i]).any()


@pytest.mark.parametrize("size", [2, 3, 7])
def test_each_token_of_the_largest_class_is_drawn(size):
    """Of a class that is one whole block every token has its share, from the first to the last."""
    p = np.arange(size, 0, -1) / (size * (size + 1) / 2)
    rows = TextRows((row_of(np.array([-1], dtype=np.int8), 0),), np.zeros(1, dtype=np.int64))
    uniforms = (np.arange(3_000)[np.newaxis] + 0.5) / 3_000
    result = ClassOrder(np.zeros(size, dtype=np.int64)).compute_step(
        Distributions.from_probabilities(torch.from_numpy(p[np.newaxis])),
        rows,
        np.zeros((1, 1, 1)),
        [np.arange(0)],
        uniforms,
        uniforms >= 0,
        np.array([1]),
    )
    counts = np.bincount(result.drawn[0], minlength=size)
    assert np.abs(counts - 3_000 * p).max() <= 1.001


def test_what_a_server_does_not_list_is_undecided():
    """The mass outside the list is undecided, and is never 0."""
    tokens = np.array([[0, 1], [0, 1]])
    listed = TopLogprobs(tokens, np.array([[0.5, 0.2], [0.75, 0.25]]), 5)
    row = row_of(np.array([1, 0], dtype=np.int8), 0)
    rows, values = TextRows((row,), np.zeros(2, dtype=np.int64)), np.array([[[1.0, 0.0]]])
    none = np.zeros((2, 0))
    result = ClassOrder(np.array([0, 1, 1, 1, 1])).compute_step(
        listed, rows, values, [np.arange(0)] * 2, none, none > 0, np.full(2, 2)
    )
    assert result.sums[:, 0].tolist() == [0.5, 0.75]
    assert result.undecided == pytest.approx([0.3, 0], abs=1e-15)
    assert 0 < result.undecided[1] == result.rest[1]
