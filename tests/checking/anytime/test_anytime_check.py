"""The passes of a check are divided between samples and refinements."""

import pytest
from helpers.anytime_checks import Kind, copied, plant, serve, spread_model
from helpers.random_tables import READ_QUANTIFIERS

from llmchecker.checking.answer import Progress
from llmchecker.checking.anytime import round_plan
from llmchecker.checking.anytime.anytime_check import AnytimeCheck
from llmchecker.checking.budget import Budget
from llmchecker.models.table_model import TableModel
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.property import Property

KIND = Kind(("F", None, ("atom", "gender", ">", 1)), length=5)
PASSES = 400


@pytest.fixture(autouse=True)
def _small_rounds(monkeypatch):
    """Rounds so small that a few passes have several."""
    monkeypatch.setattr(round_plan, "_MIN_ROUND", 8)
    monkeypatch.setattr(round_plan, "_FIRST_SAMPLES", 8)


def check(seed: int, query: str = KIND.query, **limits) -> Progress:
    """Return the last intervals of a check of a table with two tokens a letter."""
    asked = Property(parse(query), KIND.quantifiers, KIND.length)
    tree, server = plant(asked, copied(spread_model(seed), 2))
    run = AnytimeCheck(tree, asked, Budget(seed=seed, **limits))
    serve(run.run(), server)
    return run.compute_progress()


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(4))
def test_refinements_between_rounds_narrow_the_certain_bounds(seed, monkeypatch):
    """With refinements the bounds are narrower than those of as many passes of samples alone, and
    at most a sixth wider than those of refinement alone."""
    refined = check(seed, passes=PASSES, certain=True)
    mixed = check(seed, passes=PASSES)
    monkeypatch.setattr(round_plan, "_REFINED_SHARE", 0.0)
    sampled = check(seed, passes=PASSES)
    widths = [now.upper - now.lower for now in (mixed, sampled, refined)]
    assert 0 < mixed.samples < sampled.samples
    assert widths[0] < widths[1]
    assert widths[0] < 7 / 6 * widths[2]
    assert mixed.lower <= KIND.find_truth(spread_model(seed)) <= mixed.upper


@pytest.mark.parametrize(
    ("query", "limits"), [(KIND.query.replace("=?", ">0.5"), {}), (KIND.query, {"width": 0.01})]
)
def test_a_threshold_and_a_width_get_samples_only(query, limits, monkeypatch):
    """The share of refinements changes nothing where a threshold or a width ends the work."""
    found = [check(2, query, passes=PASSES, **limits)]
    monkeypatch.setattr(round_plan, "_REFINED_SHARE", 0.0)
    found.append(check(2, query, passes=PASSES, **limits))
    assert found[0].samples > 50
    assert len({(now.lower, now.upper, now.low, now.high) for now in found}) == 1


def test_a_refinement_that_decides_little_is_left_out(monkeypatch):
    """Where no text decides the query before the horizon, the passes of refinements are used for
    more samples."""
    query, length = "P=? [ F gender > 40 ]", 40
    asked = Property(parse(query), KIND.quantifiers, length)
    samples = []
    for least_speed in (0.0, 1 / 4):
        monkeypatch.setattr(round_plan, "_MIN_REFINED_SPEED", least_speed)
        tree, server = plant(asked, copied(spread_model(0), 2))
        run = AnytimeCheck(tree, asked, Budget(passes=1500))
        serve(run.run(), server)
        samples.append(len(run.samples))
    assert samples[0] < samples[1]


def test_a_certain_bound_next_to_one_is_not_one():
    """If 1e-20 of the texts violate a formula, its probability is not certainly 1."""
    model = TableModel(["a", "b", "."], lambda tokens: [1.0, 1e-20, 0.0], frozenset([2]))
    asked = Property(parse("P=? [ G gender > 0 ]"), READ_QUANTIFIERS, 1)
    tree, server = plant(asked, model, 3)
    run = AnytimeCheck(tree, asked, Budget(passes=2, certain=True))
    serve(run.run(), server)
    certain = run.compute_certain_interval()
    assert 1 - 1e-15 < certain.lower < 1 == certain.upper
