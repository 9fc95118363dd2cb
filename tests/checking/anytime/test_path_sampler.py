"""A round of samples has the exact mean, and its values keep their range."""

import numpy as np
import pytest
from helpers.anytime_checks import (
    SHORT_VISITS,
    Kind,
    copied,
    expected_score,
    plant,
    serve,
    spread_model,
)
from helpers.random_tables import table_model

from llmchecker.checking.anytime import partial_tree, path_sampler
from llmchecker.checking.anytime.control_variates import TextPredictor
from llmchecker.checking.anytime.estimand import Estimand
from llmchecker.checking.anytime.path_sampler import (
    CORRECTION_LIMITS,
    SampleRound,
    _draw_uniforms,
    split_tree,
)
from llmchecker.checking.anytime.refinement import select_batch

MANY_A = ("F", None, ("atom", "gender", ">", 1))
NO_D = ("G", None, ("atom", "polarity", ">=", 0))
KINDS = [
    Kind(MANY_A),
    Kind(NO_D),
    Kind(("F", None, ("G", None, ("atom", "gender", ">", 0)))),
    expected_score(3),
    expected_score(2),
]


@pytest.fixture
def _short_visits(monkeypatch):
    monkeypatch.setattr(partial_tree, "_TOKENS_PER_VISIT", SHORT_VISITS)
    monkeypatch.setattr(partial_tree, "_TOKENS_PER_VISIT_AT_HORIZON", SHORT_VISITS)


class Sampled:
    """A partial tree, and rounds of samples from it.

    Args:
        kind: the kind of query.
        model: the table.
        passes: the passes that have refined the tree.
    """

    def __init__(self, kind: Kind, model, passes: int = 2) -> None:
        asked = kind.ask()
        self.tree, self.server = plant(asked, model)
        self.estimand = Estimand.from_query(asked)
        self.predictor = TextPredictor(self.estimand)
        while self.tree.passes < passes and len(batch := select_batch(self.tree, 1)):
            request = self.tree.build_request(batch)
            self.tree.add_children(batch, self.server.answer(request))

    def draw(self, count: int, first: int = 0, seed: int = 0) -> SampleRound:
        """Draw a round of samples."""
        part = split_tree(self.tree, self.estimand)
        samples = SampleRound(self.tree, self.estimand, part, self.predictor, seed, first, count)
        serve(samples.run(), self.server)
        return samples


def learn_at_random(sampled: Sampled) -> None:
    """Teach a predictor random values of the texts of a tree."""
    chance, tree = np.random.default_rng(0), sampled.tree
    uids, is_rest = chance.integers(len(tree), size=200), chance.integers(2, size=200)
    sampled.predictor.learn(tree, uids, is_rest, chance.random(200).round())


def is_mean(values: np.ndarray, mean: float) -> bool:
    """Return whether a mean is within 4.5 standard errors."""
    error = values.std() / np.sqrt(len(values)) + 1e-9
    return abs(values.mean() - mean) < 4.5 * error


@pytest.mark.usefixtures("_short_visits")
@pytest.mark.parametrize("min_mass", [0.0, 1 / 8])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.query)
def test_the_mean_of_a_round_is_the_truth_for_every_limit(kind, min_mass, monkeypatch):
    """Decided part plus U times a value has the enumerated mean, corrected or not, also where the
    model samples unlisted tokens; corrections have mean 0 and values keep their range."""
    monkeypatch.setattr(path_sampler, "_MIN_VISIT_MASS", min_mass)
    table = table_model(5)
    for number in range(2):
        sampled = Sampled(kind, table)
        truth = (float(kind.find_truth(table)) - sampled.estimand.offset) / sampled.estimand.size
        if number == 1:
            # any predictions keep the mean
            learn_at_random(sampled)
        samples = sampled.draw(1500, first=1500 * number)
        part = samples.part
        assert samples.is_complete.all()
        assert samples.denominator == pytest.approx(1.0)
        for limits, corrections in zip(CORRECTION_LIMITS, samples.corrections, strict=True):
            below, above = limits
            values = samples.numerator - corrections
            assert is_mean(part.numerator + part.total * values, truth)
            assert is_mean(corrections, 0.0)
            assert corrections.min() >= -below - 1e-12
            assert corrections.max() <= above + 1e-12
            assert values.min() >= -above - 1e-12
            assert values.max() <= 1 + below + 1e-12


def test_the_means_of_a_conditional_give_the_truth():
    """The ratio of both means, with their decided parts, is the enumerated conditional."""
    kind, table = Kind(MANY_A, NO_D), spread_model(1)
    samples = Sampled(kind, table).draw(3000)
    part, truth = samples.part, float(kind.find_truth(table))
    assert (samples.numerator <= samples.denominator + 1e-12).all()
    numerator = part.numerator + part.total * samples.numerator
    denominator = part.denominator + part.total * samples.denominator
    assert is_mean(numerator - truth * denominator, 0.0)


def test_the_mean_over_every_leaf_and_token_is_exact(monkeypatch):
    """With one uniform number for each 64th and a single draw after the leaf, the mean of the
    values over all combinations is the exact fraction."""
    kind, table = Kind(MANY_A, length=2), spread_model(3)
    sampled = Sampled(kind, table, passes=1)
    grid = (np.arange(64) + 0.5) / 64
    part = split_tree(sampled.tree, sampled.estimand)
    # every leaf's mass is a whole number of 64ths of the root, of which U is a sum
    count = round(part.total * 64)
    leaves = (np.arange(count) + 0.5) / count
    uniforms = np.array([(leaf, token, *[0.5] * 20) for leaf in leaves for token in grid])
    monkeypatch.setattr(path_sampler, "_draw_uniforms", lambda *_: uniforms)
    samples = sampled.draw(len(uniforms))
    found = part.numerator + part.total * samples.numerator.mean()
    assert found == pytest.approx(float(kind.find_truth(table)), abs=1e-12)
    for corrections in samples.corrections:
        assert corrections.mean() == pytest.approx(0, abs=1e-12)


def test_a_tree_splits_into_decided_sums_and_undecided_leaves():
    """Numerator, undecided mass and violated mass add up, and leaves are undecided."""
    for seed in range(10):
        sampled = Sampled(Kind(NO_D), table_model(seed), passes=seed)
        part = split_tree(sampled.tree, sampled.estimand)
        assert part.numerator == pytest.approx(sampled.tree.satisfied_mass(), abs=1e-12)
        decided = sampled.tree.satisfied_mass() + sampled.tree.violated_mass()
        assert part.total == pytest.approx(1 - decided, abs=1e-12)
        assert part.denominator == pytest.approx(decided, abs=1e-12)
        assert sampled.tree.is_undecided[part.leaves].all()


def test_samples_do_not_depend_on_the_others_of_their_round():
    """Samples of one round have the values that they have in rounds of their own."""
    model = copied(spread_model(2), 3)
    together = Sampled(Kind(MANY_A), model).draw(30)
    for first, count in ((0, 7), (7, 23)):
        alone = Sampled(Kind(MANY_A), model).draw(count, first)
        rows = slice(first, first + count)
        assert np.array_equal(alone.numerator, together.numerator[rows])
        assert np.array_equal(alone.corrections, together.corrections[:, rows])


def test_an_interrupted_round_counts_samples_before_the_first_incomplete_one():
    """After every request the complete samples have the values of an uninterrupted round."""
    kind, model = Kind(MANY_A), copied(spread_model(2), 3)
    whole = Sampled(kind, model).draw(20)
    counts = []
    for most in range(1, 5):
        sampled = Sampled(kind, model)
        part = split_tree(sampled.tree, sampled.estimand)
        samples = SampleRound(sampled.tree, sampled.estimand, part, sampled.predictor, 0, 0, 20)
        serve(samples.run(), sampled.server, most)
        complete = samples.is_complete
        assert np.array_equal(samples.numerator[complete], whole.numerator[complete])
        assert complete[: samples.complete_count].all()
        counts.append(samples.complete_count)
    assert counts == sorted(counts)


def test_random_numbers_belong_to_a_seed_and_a_sample():
    """Sample 5 has the same numbers in every round, others have other ones."""
    found = _draw_uniforms(3, 0, 10, 4)
    assert np.array_equal(found[5:7], _draw_uniforms(3, 5, 2, 4))
    assert not np.array_equal(found, _draw_uniforms(4, 0, 10, 4))
    assert len(np.unique(found)) == 40
    assert ((found >= 0) & (found < 1)).all()
