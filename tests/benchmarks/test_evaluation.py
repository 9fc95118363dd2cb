"""The evaluation's jobs on tables, with numbers of the oracle, and its baselines by enumeration."""

import itertools
import os
import statistics
from math import comb, log, sqrt

import numpy as np
import pandas as pd
import pytest
from evaluation import (
    baselines,
    beaver,
    closest,
    coverage,
    growth,
    job,
    reach,
    row_claims,
    subjects,
    worth,
)
from evaluation.figures import FIGURES
from helpers.anytime_checks import Kind, spread_model
from helpers.forked_snakemake import run_snakemake
from helpers.random_tables import START, ReadBalance
from plain_sampling import ModelPool

from conftest import ROOT

LENGTH = 3
QUANTIFIERS = {"gender": ReadBalance("b", "a"), "polarity": ReadBalance("c", "d")}
ORACLE = {
    "reachability": (("F", None, ("atom", "gender", ">", 0)), None),
    "safety": (("G", None, ("atom", "gender", "=", 0)), None),
    "rare event": (("F", None, ("atom", "gender", ">", 1)), None),
    "LTL": (("F", None, ("G", None, ("atom", "gender", ">", 0))), None),
    "conditional": (
        ("F", None, ("atom", "gender", ">", 0)),
        ("F", None, ("!", ("atom", "gender", "=", 0))),
    ),
    "opaque quantifier": (("F", None, ("atom", "polarity", ">=", 30)), None),
}
"""The queries of the evaluation as formulas of the oracle."""
ROUNDING = 1e-9


@pytest.fixture
def subject():
    """A table with a subject's interface."""
    return subjects.Subject("table", spread_model(1), START, QUANTIFIERS)


def find_truth(query, table=None):
    path, given = ORACLE[query]
    kind = Kind(path, given, length=LENGTH, quantifiers=QUANTIFIERS)
    return float(kind.find_truth(table or spread_model(1)))


def contains(low, high, truth):
    return low - ROUNDING <= truth <= high + ROUNDING


@pytest.mark.parametrize("mean", [0.05, 0.3, 0.5, 0.9])
def test_intervals_of_bits_miss_as_seldom_as_they_claim(mean):
    """Over all sequences of ten bits, each interval misses the mean with at most its error."""
    error, count = 0.2, 10
    ever_missed = 0.0
    for bits in itertools.product([False, True], repeat=count):
        lows, highs = baselines.compute_betting_ends(bits, 1 - error)
        if ((lows > mean) | (highs < mean)).any():
            ever_missed += mean ** sum(bits) * (1 - mean) ** (count - sum(bits))
    assert ever_missed <= error
    for find_interval in (baselines.find_exact_interval, baselines.find_okamoto_interval):
        missed = 0.0
        for true in range(count + 1):
            low, high = find_interval([True] * true + [False] * (count - true), 1 - error)
            if not low <= mean <= high:
                missed += comb(count, true) * mean**true * (1 - mean) ** (count - true)
        assert missed <= error


def test_the_betting_interval_is_that_of_its_definition():
    """The ends after 40 bits are where the literal hedged capital reaches 2/alpha."""
    chance, confidence = np.random.default_rng(0), 0.9
    bits = (chance.random(40) < 0.7).tolist()

    def is_excluded(mean):
        capital = [1.0, 1.0]
        seen, squares, variance = 0.0, 0.0, 0.25
        for number, bit in enumerate(bits, 1):
            bet = sqrt(2 * log(2 / (1 - confidence)) / (variance * number * log(1 + number)))
            capital[0] *= 1 + min(bet, 0.5 / mean) * (bit - mean)
            capital[1] *= 1 - min(bet, 0.5 / (1 - mean)) * (bit - mean)
            if max(capital) >= 2 / (1 - confidence):
                return True
            seen += bit
            squares += (bit - (0.5 + seen) / (number + 1)) ** 2
            variance = (0.25 + squares) / (number + 1)
        return False

    low, high = baselines.find_betting_interval(bits, confidence)
    step = 2 / baselines.GRID
    assert is_excluded(low - step)
    assert is_excluded(high + step)
    assert not is_excluded(low + step)
    assert not is_excluded(high - step)


def test_wald_decides_as_by_hand():
    """With an odds ratio of 3 and an error of 1/10, two more bits of a kind decide."""
    settings = {"threshold": 0.5, "margin": 0.25, "error": 0.1}
    assert baselines.find_decision([True, True, False], **settings) == (True, 2)
    assert baselines.find_decision([True, False, False, False], **settings) == (False, 4)
    assert baselines.find_decision([True, False], **settings) == (None, 2)


def test_plain_samples_of_a_model_have_its_probabilities(subject):
    """Of 4,096 samples, as many satisfy each query as the oracle expects, within 5 deviations."""
    pool = ModelPool(subject.model, START, LENGTH, quantifiers=QUANTIFIERS)
    for _ in range(64):
        pool.draw_batch()
    for name, formula in subjects.QUERIES.items():
        truths, truth = pool.find_truths(formula, 4096), find_truth(name)
        deviation = sqrt(truth * (1 - truth) / len(truths))
        assert abs(sum(truths) / len(truths) - truth) <= 5 * deviation


def test_reach_has_intervals_around_the_truth(subject):
    """Bounds contain the enumerated truth, certain ones narrow, and every row has its budget."""
    sizes = reach.Sizes(lengths=[LENGTH], passes=[10, 60])
    rows = list(reach.measure(subject, "temperature-1", sizes, report=lambda line: None))
    assert [(row["query"], row["passes"]) for row in rows] == [
        (query, passes) for query in subjects.QUERIES for passes in (10, 60)
    ]
    for row in rows:
        assert row["problem"] == ""
        assert row["certain_passes"] <= row["passes"]
        assert row["plain_passes"] <= row["passes"]
        for low, high in (("lower", "upper"), ("low", "high"), ("plain_low", "plain_high")):
            assert contains(row[low], row[high], find_truth(row["query"])), (row, low)
    # 21 texts are shorter than the horizon, so 60 passes visit all
    assert all(row["certain"] <= ROUNDING for row in rows if row["passes"] == 60)


def test_worth_compares_the_same_bits_and_decides_rightly(subject):
    """Intervals of all methods contain the truth, and decisions agree with it."""
    sizes = worth.Sizes([LENGTH], passes=15, seconds=1, margins=[0.2], queries=["reachability"])
    rows = list(worth.measure(subject, "temperature-1", sizes, report=lambda line: None))
    truth = find_truth("reachability")
    widths = {row["method"]: row for row in rows if row["budget"] == "passes"}
    assert set(widths) == {worth.PACKAGE, *baselines.INTERVALS}
    assert len({row["samples"] for name, row in widths.items() if name != worth.PACKAGE}) == 1
    assert all(contains(row["low"], row["high"], truth) for row in widths.values())
    decisions = {row["method"]: row for row in rows if row["budget"] == "decision"}
    assert set(decisions) == {worth.PACKAGE, worth.WALD, "betting"}
    for row in decisions.values():
        expected = "HOLDS" if truth >= row["amount"] else "VIOLATED"
        assert row["verdict"] in (expected, "UNKNOWN")
    assert decisions[worth.PACKAGE]["verdict"] != "UNKNOWN"


def test_bounds_of_beaver_contain_the_truth_and_meet():
    """The literal frontier's bounds contain the enumerated truth, narrow, and end in it."""
    table = spread_model(2)
    found = list(beaver.iter_bounds(table, START, lambda text: "b" not in text, LENGTH, 100))
    quantifiers = {"gender": _CountOf("b")}
    kind = Kind(("G", None, ("atom", "gender", "=", 0)), length=LENGTH, quantifiers=quantifiers)
    truth = float(kind.find_truth(table))
    widths = [each.upper - each.lower for each in found]
    assert all(contains(each.lower, each.upper, truth) for each in found)
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] <= ROUNDING
    # texts without `b` before the last token: 1 + 3 + 9
    assert found[-1].passes == 13


class _CountOf:
    """How often a text has a letter."""

    minimum = maximum = None

    def __init__(self, letter):
        self.letter = letter

    def __call__(self, start, continuation):
        return (start + continuation).count(self.letter)


def test_the_closest_verifier_has_the_same_constraint():
    """Both bounds contain the same truth, and both are exact once all texts are visited."""
    constraint = closest.Constraint(START, "b")
    sizes = closest.Sizes(LENGTH, [3, 50], {"no b": constraint})
    first, last = closest.measure("t", spread_model(2), sizes, report=lambda line: None)
    assert last["width"] <= ROUNDING
    assert last["beaver_width"] <= ROUNDING
    assert last["lower"] == pytest.approx(last["beaver_lower"], abs=ROUNDING)
    for prefix in ("", "beaver_"):
        assert contains(first[f"{prefix}lower"], first[f"{prefix}upper"], last["lower"])


def test_few_passes_are_worth_as_much_as_those_of_the_closest_verifier():
    """Of a constraint that any token may violate, the widths after few passes are BEAVER's."""
    constraint, ratios = closest.Constraint(START, "b"), []
    for seed in range(12):
        sizes = closest.Sizes(6, [10, 20, 40], {"no b": constraint})
        ratios += [
            row["width"] / row["beaver_width"]
            for row in closest.measure("t", spread_model(seed), sizes, report=lambda line: None)
        ]
    assert statistics.fmean(ratios) < 1.005


@pytest.mark.parametrize("constraint", closest.CONSTRAINTS.values(), ids=closest.CONSTRAINTS)
def test_constraints_are_prefix_closed_and_read_alike(constraint):
    """Once a text violates a constraint, all longer ones do, for the pattern and the quantifier."""
    keeps, quantifier = constraint.build_check(), constraint.quantifier
    expected = int(not constraint.is_forbidden)
    for text in (" kay@enron.com is", " strcpy(to, from);", " stupid fool", " x + y", " 3 * (x) z"):
        truths = [keeps(text[:end]) for end in range(len(text) + 1)]
        scores = [quantifier(START, text[:end]) for end in range(len(text) + 1)]
        assert truths == sorted(truths, reverse=True)
        assert truths == [score == expected for score in scores]


@pytest.mark.parametrize("access", [*coverage.ACCESSES, coverage.BITS])
def test_coverage_counts_runs_and_never_misses_for_certain(access):
    """A few runs of each access are counted, and no certain bound misses the truth."""
    sizes = coverage.Sizes(seeds=3, confidences=(0.99,), tables=1, passes=15)
    rows = list(coverage.measure(access, sizes, report=lambda line: None))
    assert {row["query"] for row in rows} == set(coverage.KINDS)
    assert all(row["runs"] == 3 and row["certain_misses"] == 0 for row in rows)
    assert all(row["misses"] <= 1 for row in rows if "last" in row["method"])


def test_a_wrong_truth_is_missed(monkeypatch):
    """Coverage counts a miss for every run if the truth is wrong, also for the certain bounds."""
    monkeypatch.setattr(coverage, "find_tables", lambda *_: [(spread_model(0), 2)])
    sizes = coverage.Sizes(seeds=2, confidences=(0.99,), tables=1, passes=15)
    for row in coverage.measure("logits", sizes, report=lambda line: None):
        assert row["certain_misses"] == 2


def test_a_wrong_truth_of_rows_is_missed(monkeypatch):
    """Each claim about rows is counted once, and a truth outside of all intervals is missed."""
    misses = row_claims._misses
    monkeypatch.setattr(row_claims, "_misses", lambda interval, truth: misses(interval, truth + 2))
    sizes = coverage.Sizes(seeds=2, confidences=(0.8,))
    rows = list(coverage.measure(coverage.ROWS, sizes, report=lambda line: None))
    claims = [name for names in row_claims.CLAIMS for name in names]
    assert [row["query"] for row in rows] == claims
    assert all(row["misses"] == 2 for row in rows if not row["query"].startswith("watch"))


def test_growth_has_a_row_for_each_size():
    """Sizes are those asked for, and the exponent of a square is 2."""
    rows = list(growth.measure_states([200, 400], report=lambda line: None))
    assert [row["size"] for row in rows] == [200, 400]
    assert growth.find_slope([1, 2, 4, 8], [5, 6, 16, 64]) == pytest.approx(2)


@pytest.mark.long
def test_a_suite_of_each_size_runs_whole():
    """A suite of so many rows answers so many cases."""
    (row,) = growth.measure_suite([5], report=lambda line: None)
    assert row["size"] == 5


@pytest.mark.long
def test_every_table_has_a_figure(tmp_path, subject):
    """Each question's rows are drawn, from the file alone."""
    quiet = {"report": lambda line: None}
    widths = worth.Sizes([LENGTH], passes=15, seconds=1, margins=[], queries=["reachability"])
    ten = coverage.Sizes(seeds=2, tables=1, passes=10)
    constraints = {"no b": closest.Constraint(START, "b")}
    rows = {
        "reach": reach.measure(subject, "published", reach.Sizes([1, 2], [10]), **quiet),
        "worth": worth.measure(subject, "published", widths, **quiet),
        "coverage": coverage.measure(coverage.BITS, ten, **quiet),
        "growth": growth.measure_states([200, 400], **quiet),
        "closest": closest.measure(
            "t", subject.model, closest.Sizes(2, [2, 4], constraints), **quiet
        ),
    }
    assert set(rows) == set(FIGURES) == set(job.list_parts(job.read_config(), "quick"))
    for question, found in rows.items():
        part, table = tmp_path / f"{question}_part.csv", tmp_path / f"{question}.csv"
        job.write_table(pd.DataFrame(list(found)), part)
        job.main(["table", str(table), str(part), str(part)])
        assert len(pd.read_csv(table)) == 2 * len(pd.read_csv(part))
        job.main(["draw", question, str(table), str(tmp_path / f"{question}.png")])
        assert (tmp_path / f"{question}.png").stat().st_size > 1000


def test_the_configuration_has_a_decoding_for_every_model():
    """Both sizes name models with a published decoding, and settings for every question."""
    config = job.read_config()
    for size in ("quick", "whole"):
        assert set(config[size]["models"]) <= set(config["published"])
        for question, parts in job.list_parts(config, size).items():
            assert config[size][question]
            assert parts
    for settings in [*config["decodings"].values(), *config["published"].values()]:
        assert isinstance(settings, dict)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("target", ["evaluation_quick", "evaluation"])
def test_the_target_resolves(target):
    """Snakemake plans every part, table and figure, and the fetching of each model."""
    arguments = ["--nocolor", "--snakefile", "benchmarks/evaluation/Snakefile", "--cores", "2"]
    arguments += ["--dry-run", "--nolock", "--forceall", target]
    done = run_snakemake(arguments, ROOT, os.environ)
    assert done.returncode == 0, done.stdout
    size = "quick" if target.endswith("quick") else "whole"
    parts = job.list_parts(job.read_config(), size)
    count = sum(map(len, parts.values()))
    assert f"evaluation_part {count}" in " ".join(done.stdout.split())


def test_the_page_has_the_numbers_of_the_tables(monkeypatch):
    """Cells, ratios and the list of rows in which sampling is as good are those of the rows."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    from evaluation_page import build_evaluation_page

    where = {"model": "m", "decoding": "d", "query": "q", "horizon": "4"}
    reached = [
        where | {"passes": "9", "certain": "0.9", "interval": "0.9", "plain": "0.9"},
        where | {"passes": "99", "certain": "0.75", "interval": "0.25", "plain": "0.125"},
        where | {"horizon": "8", "passes": "99", "certain": "0", "interval": "0", "plain": "0.5"},
    ]
    methods = {"LLMChecker": "0.3", "Clopper-Pearson": "0.2", "Okamoto": "0.4", "betting": "0.6"}
    compared = [
        where | {"budget": "seconds", "amount": "5", "method": name, "width": w, "samples": "7"}
        for name, w in methods.items()
    ]
    missed = {"access": "texts", "method": "m", "confidence": "0.8", "certain_misses": "0"}
    missed |= {"runs": "50", "misses": "3"}
    grown = [{"axis": "states", "size": str(10**n), "seconds": str(2 * 10**n)} for n in range(4)]
    bounds = {"lower": "0.25", "upper": "0.5", "width": "0.25"}
    beside = {f"beaver_{name}": value for name, value in bounds.items()}
    tables = {
        "reach": reached,
        "worth": compared,
        "coverage": [missed, missed],
        "growth": grown,
        "closest": [
            {"model": "m", "constraint": "c", "horizon": "4", "passes": "9"} | bounds | beside
        ],
    }
    run = {"size": "quick", "commit": "c", "processor": "p", "cores": "2", "date": "2026-01-02T"}
    text = build_evaluation_page(tables, run)
    assert "| m | d | q | 0.75 / 0.25 / 0.12 | 0 / 0 / 0.5 |\n" in text
    assert "all after 99 passes" in text
    assert "1 have an exact answer for certain" in text
    assert "narrower, in 1: d, q, 4 tokens." in " ".join(text.split())
    assert "- d, q, 4 tokens, equal seconds: 1.50\n" in text
    assert "| texts | m | 0.8 | 100 | 6 | 0.0600 | 1 | 0 |\n" in text
    assert "| 1.00 |\n" in text
    assert "| m | c | 9 | 0.2500 to 0.5000 | 0.2500 to 0.5000 | 1.000 |\n" in text
