"""The parts of `make bench` that answer queries measure every figure that they define."""

import math

import bench
import host_cost
import narrowing
import pytest
import real_models
from helpers.figure_names import find_mismatches

SIZES = bench.QUICK


@pytest.fixture(scope="module")
def directory(random_model):
    """A small random model with a tokenizer."""
    return random_model("llama")


@pytest.mark.long
def test_the_hosts_cost_is_measured_for_each_kind_of_quantifier(directory):
    """Words, a pattern and JSON are checked at 5 and 40 tokens."""
    figures = host_cost.measure(directory, passes=30)
    assert not find_mismatches(figures, host_cost.DEFINITIONS)
    for name in ("words", "pattern", "json"):
        for length in (5, 40):
            assert 0 < figures[f"{name}.L{length}.passes"] <= 30


@pytest.mark.long
def test_the_speed_of_a_model_is_measured(directory):
    """Every figure of growth and of passes is found, and ratios are those of their parts."""
    growing, passes = real_models.measure_speed(directory, SIZES.models)
    assert not find_mismatches(growing, real_models.GROWING_DEFINITIONS)
    assert not find_mismatches(passes, real_models.PASSES_DEFINITIONS)
    ratio = growing["nodes_per_second"] / growing["reference_nodes_per_second"]
    assert growing["speedup_over_reference"] == pytest.approx(ratio)


@pytest.mark.long
def test_equal_seconds_are_compared(directory):
    """Plain samples take at least the seconds of the check, and the ratio is that of the widths."""
    figures = real_models.measure_equal_seconds(directory, SIZES.models)
    assert not find_mismatches(figures, real_models.SECONDS_DEFINITIONS)
    for length in real_models.LENGTHS:
        ratio = figures[f"L{length}.check_width"] / figures[f"L{length}.plain_width"]
        assert figures[f"L{length}.width_ratio"] == ratio
        assert figures[f"L{length}.plain_seconds"] >= figures[f"L{length}.check_seconds"]


@pytest.mark.long
def test_equal_passes_are_compared(directory):
    """No way makes more passes than its budget, and each query has the ratios of its widths."""
    efforts = SIZES.efforts
    figures, points = narrowing.measure("tiny", directory, efforts)
    figures |= narrowing.find_largest(figures, ["tiny"])
    definitions = [f"estimate.{name}" for name in narrowing.ESTIMATE_DEFINITIONS]
    definitions += [f"refine.{name}" for name in narrowing.REFINE_DEFINITIONS]
    assert not find_mismatches(figures, definitions)
    assert all(math.isfinite(value) for value in figures.values())
    assert {point.way for point in points} == set(narrowing.WAYS)
    assert all(
        point.passes <= efforts.passes[-1] for point in points if point.way != narrowing.PAPER
    )


def test_a_page_of_some_parts_has_no_empty_topics():
    """benchmarks.md explains the figures that were measured and no others."""
    text = bench.markdown({"host.first_seconds": 1.5}, ["width"])
    assert "## The host's cost" in text
    assert "| `host.first_seconds` | 1.5 |" in text
    assert text.count("## ") == 1
    assert "(width.svg)" in text
    assert "(cost.svg)" not in text
