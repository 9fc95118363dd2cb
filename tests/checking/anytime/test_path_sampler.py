"""A round of samples has the exact mean, and its values keep their range."""

from contextlib import suppress

import numpy as np
import pytest
from helpers.anytime_checks import (
    Kind,
    copied,
    expected_score,
    plant,
    refine,
    serve,
    spread_model,
)
from helpers.random_tables import QUANTIFIERS, READ_QUANTIFIERS, Balance, table_model

from llmchecker.checking.anytime.continuation_sampler import ContinuationRound
from llmchecker.checking.anytime.control_variates import CORRECTION_LIMITS, TextPredictor
from llmchecker.checking.anytime.path_sampler import SampleRound, split_tree

MANY_A = ("F", None, ("atom", "gender", ">", 1))
NO_D = ("G", None, ("atom", "polarity", ">=", 0))
LTL = ("F", None, ("G", None, ("atom", "gender", ">", 0)))
KINDS = [
    Kind(MANY_A),
    Kind(NO_D),
    Kind(LTL),
    Kind(MANY_A, quantifiers=QUANTIFIERS),
    Kind(MANY_A, quantifiers={**READ_QUANTIFIERS, "polarity": QUANTIFIERS["polarity"]}),
    Kind(LTL, quantifiers=QUANTIFIERS),
    expected_score(3),
    expected_score(2),
]


class Sampled:
    """An explored tree, and rounds of samples from it.

    Args:
        kind: the kind of query.
        model: the table.
        passes: the passes that have refined the tree.
        listed_tokens: number of tokens that a visit lists.
    """

    def __init__(self, kind: Kind, model, passes: int = 2, listed_tokens: int = 2) -> None:
        self.tree, self.server = plant(kind.ask(), model, listed_tokens)
        self.estimand, self.predictor = self.tree.estimand, TextPredictor()
        while self.tree.passes < passes and refine(self.tree, self.server, 1):
            pass

    def draw(self, count: int, first: int = 0, seed: int = 0) -> SampleRound:
        """Draw a round of samples."""
        part = split_tree(self.tree)
        is_server = not self.tree.lists_vocabulary
        round_class = ContinuationRound if is_server else SampleRound
        samples = round_class(self.tree, self.estimand, part, self.predictor, seed, first, count)
        serve(samples.run(), self.server)
        return samples


def is_mean(values: np.ndarray, mean: float) -> bool:
    """Return whether a mean is within 4.5 standard errors."""
    error = values.std() / np.sqrt(len(values)) + 1e-9
    return abs(values.mean() - mean) < 4.5 * error


def teach_at_random(sampled: Sampled) -> None:
    """Teach a predictor random values of the situations of a tree."""
    chance = np.random.default_rng(0)
    situations = chance.integers(1 + sampled.tree.situation.max(), size=300)
    sampled.predictor.learn(situations, chance.random(300) < 0.5, chance.random(300).round())


@pytest.mark.few(12)
@pytest.mark.parametrize("is_taught", [False, True])
@pytest.mark.parametrize("listed_tokens", [1, 5])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.query)
def test_the_mean_of_a_round_is_the_truth(kind, listed_tokens, is_taught):
    """Decided part plus U times a value has the enumerated mean, on the first tree and on the one
    that samples have extended, whether tokens are read or opaque, and for every limit of control
    variates, whatever they predict; values keep their range, and corrections have mean 0."""
    table = table_model(5)
    for earlier in (0, 3):
        sampled = Sampled(kind, table, listed_tokens=listed_tokens)
        truth = (float(kind.find_truth(table)) - sampled.estimand.offset) / sampled.estimand.size
        # a tree that a few samples have extended has drawn rows too
        if earlier:
            sampled.draw(earlier, first=10_000)
        if is_taught:
            teach_at_random(sampled)
        # nothing is left to sample where all tokens are listed and few steps matter
        if split_tree(sampled.tree).total == 0:
            assert listed_tokens == 5
            continue
        samples = sampled.draw(1500)
        part = samples.part
        assert samples.is_complete.all()
        assert samples.denominator == pytest.approx(1.0)
        assert samples.numerator.min() >= 0
        assert samples.numerator.max() <= 1 + 1e-12
        for limits, corrections in zip(CORRECTION_LIMITS, samples.corrections.sums, strict=True):
            below, above = limits
            values = samples.numerator - corrections
            assert is_mean(part.numerator + part.total * values, truth)
            assert is_mean(corrections, 0.0)
            assert corrections.min() >= -below - 1e-12
            assert corrections.max() <= above + 1e-12


@pytest.mark.parametrize("quantifiers", [READ_QUANTIFIERS, QUANTIFIERS])
def test_the_mean_of_a_server_s_samples_is_the_truth(quantifiers):
    """Of a model that lists two tokens of five, the samples have the enumerated mean, also where
    they reach texts that samples of an earlier round have visited."""
    kind, table = Kind(MANY_A, length=4, quantifiers=quantifiers), table_model(5)
    table.listed_tokens = 2
    for earlier in (0, 5, 100):
        sampled = Sampled(kind, table)
        if earlier:
            sampled.draw(earlier, first=10_000)
        samples = sampled.draw(1500)
        part = samples.part
        assert is_mean(
            part.numerator + part.total * samples.numerator, float(kind.find_truth(table))
        )


def test_the_means_of_a_conditional_give_the_truth():
    """The ratio of both means, with their decided parts, is the enumerated conditional."""
    kind, table = Kind(MANY_A, NO_D), spread_model(1)
    samples = Sampled(kind, table).draw(3000)
    part, truth = samples.part, float(kind.find_truth(table))
    assert (samples.numerator <= samples.denominator + 1e-12).all()
    numerator = part.numerator + part.total * samples.numerator
    denominator = part.denominator + part.total * samples.denominator
    assert is_mean(numerator - truth * denominator, 0.0)


class Costly(Balance):
    """A quantifier that scores batches, as a network does, and counts its calls."""

    calls = 0

    def score_batch(self, texts) -> list[int]:
        self.calls += len(texts)
        return [self(*text) for text in texts]


def test_look_ahead_makes_values_vary_less_and_spares_costly_calls():
    """Scores one token ahead make values vary less; a costly quantifier is called on visited texts
    only, and its values still have the enumerated mean."""
    table = copied(spread_model(2), 3)
    costly = {"gender": Costly("a", "b"), "polarity": Costly("c", "d")}
    kinds = [Kind(MANY_A, quantifiers=each) for each in (READ_QUANTIFIERS, QUANTIFIERS, costly)]
    runs = [Sampled(kind, table) for kind in kinds]
    drawn = [run.draw(800) for run in runs]
    deviations = [samples.part.total * samples.numerator.std() for samples in drawn]
    assert max(deviations[:2]) < 0.9 * deviations[2]
    values = drawn[2].part.numerator + drawn[2].part.total * drawn[2].numerator
    assert is_mean(values, float(kinds[0].find_truth(spread_model(2))))
    tree = runs[2].tree
    # an end adds no text to score, and equal texts of one visit are scored once
    visited = (tree.is_visited & ~tree.has_ended).sum()
    assert 0 < costly["gender"].calls <= visited < len(tree)


def test_a_tree_splits_into_decided_sums_and_undecided_leaves():
    """Numerator, complement and undecided mass add up, and leaves are undecided."""
    for seed in range(10):
        tree = Sampled(Kind(NO_D), table_model(seed), passes=seed).tree
        part = split_tree(tree)
        assert tree.decided.sum() + part.total == pytest.approx(1, abs=1e-12)
        assert part.denominator == pytest.approx(tree.decided[:2].sum(), abs=1e-12)
        assert tree.is_undecided[part.leaves].all()


def test_an_interrupted_round_counts_samples_before_the_first_incomplete_one():
    """After every request the complete samples have the values of an uninterrupted round."""
    kind, model = Kind(MANY_A), copied(spread_model(2), 3)
    whole = Sampled(kind, model).draw(20)
    counts = []
    for most in range(1, 5):
        sampled = Sampled(kind, model)
        part = split_tree(sampled.tree)
        samples = SampleRound(sampled.tree, sampled.estimand, part, sampled.predictor, 0, 0, 20)
        serve(samples.run(), sampled.server, most)
        complete = samples.is_complete
        assert np.array_equal(samples.numerator[complete], whole.numerator[complete])
        assert complete[: samples.complete_count].all()
        counts.append(samples.complete_count)
    assert counts == sorted(counts)


@pytest.mark.parametrize(("share", "kept"), [(0.0, 0), (0.1, 2), (0.5, 10), (0.98, 20), (1.0, 20)])
def test_samples_before_the_dropped_ones_keep_their_values(share, kept):
    """After its first request, a round goes on with the first samples, whose values stay."""
    kind, model = Kind(MANY_A), copied(spread_model(2), 3)
    whole = Sampled(kind, model).draw(20)
    sampled = Sampled(kind, model)
    part = split_tree(sampled.tree)
    samples = SampleRound(sampled.tree, sampled.estimand, part, sampled.predictor, 0, 0, 20)
    requests = samples.run()
    request = requests.send(sampled.server.answer(next(requests)))
    samples.drop_last(share)
    with suppress(StopIteration):
        while True:
            request = requests.send(sampled.server.answer(request))
    count = samples.complete_count
    assert np.array_equal(samples.numerator[:count], whole.numerator[:count])
    # a dropped sample may still be complete by the answer that was under way
    assert kept <= count
    assert (count == 20) == (kept == 20)


def test_a_seed_and_a_first_sample_determine_a_round():
    """Equal seeds and numbers give equal rounds, and other ones give other values."""
    kind, model = Kind(MANY_A), copied(spread_model(2), 3)

    def draw(seed: int, first: int) -> list[float]:
        return Sampled(kind, model).draw(30, first, seed).numerator.tolist()

    assert draw(3, 0) == draw(3, 0)
    assert len({tuple(draw(*key)) for key in ((3, 0), (4, 0), (3, 30))}) == 3
