"""Sums over a tree are compared with Storm for each answer of the workflow."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.trees import by_hand

from llmchecker.checking import storm, tree_sums
from llmchecker.checking.answer import Answer
from llmchecker.checking.check import check_query
from llmchecker.checking.crosscheck import compare_evaluators
from llmchecker.checking.decided_mass import Mass
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.config import paths
from llmchecker.config.plan import Check, TreeSpec
from llmchecker.errors import CheckFailed
from llmchecker.interfaces.snakemake.check_jobs import answer_checks
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.scores import write_scores
from llmchecker.trees.text_tree import StateKind
from llmchecker.utils.atomic_files import read_json_with_digest, write_json_with_digest
from llmchecker.utils.interval import Interval
from llmchecker.utils.job_logging import job_log

TEXT, REST, END = StateKind.TEXT, StateKind.REST, StateKind.END
# 0 ─ 1/2 → 1 ─ 3/4 → 4, 1 ─ 1/4 → rest; 0 ─ 1/4 → end 2; 0 ─ 1/4 → rest 3
TREE = by_hand([(0, 0.5, TEXT), (0, 0.25, END), (0, 0.25, REST), (1, 0.75, TEXT), (1, 0.25, REST)])
SCORES = {"gender": np.array([0, 1, 2, 99, -1, 99])}
RANGES = {"gender": (-2, 2)}
NEGATIVE = "P=? [ F gender < 0 ]"


def answer(query: str) -> Answer:
    return check_query(ScoredTree(TREE, SCORES, RANGES), parse(query))


def compare(found: Answer) -> dict:
    return compare_evaluators(found, ScoredTree(TREE, SCORES, RANGES))


@pytest.mark.parametrize(
    ("query", "figures"),
    [
        (NEGATIVE, [(3 / 8, 3 / 8, 3 / 4)]),
        ("P=? [ G gender >= 0 ]", [(1 / 4, 1 / 4, 5 / 8)]),
        ("P>=0.5 [ X !(gender > 0) ]", [(1 / 4, 0, 1 / 4)]),
        ("E [ F (step = 2 & gender < 0) ]", [(3 / 8, 3 / 8, 3 / 4)]),
        ("A [ F<=1 step = 1 ]", [(1, 1, 1)]),
        ('P=? [ F "end" ]', [(1 / 4, 1 / 4, 5 / 8)]),
        ("P=? [ F gender < 0 || X gender = 1 ]", [(3 / 8, 3 / 8, 3 / 4), (1 / 8, 0, 3 / 8)]),
    ],
)
def test_both_evaluators_have_the_numbers_of_the_drawn_tree(query, figures):
    """Value, least and greatest probability of each path formula are fractions by both."""
    outcome = compare(answer(query))
    assert outcome["compared"] is True
    assert outcome["figures"] == ["value", "lower", "upper"]
    for evaluator in ("sums", "storm"):
        assert [tuple(found.values()) for found in outcome[evaluator]] == [
            pytest.approx(expected, abs=1e-12) for expected in figures
        ]


@pytest.mark.parametrize(
    "query",
    [
        'P=? [ F "rest" ]',
        "P=? [ F P>0.5 [ X gender < 0 ] ]",
        "P>=0.5 [ F gender > 0 ] & E [ F gender < 0 ]",
        "gender = 0 & E [ F gender < 0 ]",
        'R{"gender"}=? [ I=1 ]',
    ],
)
def test_other_queries_are_evaluated_by_storm_alone(query):
    """Nothing is compared for labels of the tree, nested and combined formulas and rewards."""
    outcome = compare(answer(query))
    assert outcome["compared"] is False
    assert "Storm alone" in outcome["reason"]


QUERIES = [
    NEGATIVE,
    "P>=0.1 [ F gender < 0 ]",
    "E [ F gender < 0 ]",
    "P=? [ F gender < 0 || X gender = 1 ]",
]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("factor", [1 - 1e-8, 1 + 1e-8])
def test_an_error_of_storm_is_found(query, factor, monkeypatch):
    """A probability that Storm computes too large or too small ends the job, by query and name."""
    found = answer(query)
    compute_values = storm.compute_values
    monkeypatch.setattr(storm, "compute_values", lambda *given: compute_values(*given) * factor)
    with pytest.raises(CheckFailed, match=r"value is .* by sums over the tree, but .* by Storm"):
        compare(found)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize(
    ("is_whole_model", "part", "name"),
    [(False, "satisfied", "value"), (True, "satisfied", "lower"), (True, "undecided", "upper")],
)
def test_an_error_of_the_sums_is_found(query, is_whole_model, part, name, monkeypatch):
    """A mass that is too large ends the job, in the bounded process or for the whole model."""
    split_mass = tree_sums.TreeSums.split_mass

    def split_wrongly(sums, path):
        mass = split_mass(sums, path)
        if sums._is_whole_model != is_whole_model:
            return mass
        old = getattr(mass, part)
        wrong = Mass(old.value * (1 + 1e-8) + 1e-8, old.relative_error, old.absolute_error)
        return replace(mass, **{part: wrong})

    monkeypatch.setattr(tree_sums.TreeSums, "split_mass", split_wrongly)
    with pytest.raises(CheckFailed, match=f"{name} is .* by sums over the tree"):
        compare(answer(query))


@pytest.mark.parametrize(
    ("query", "change"),
    [
        (NEGATIVE, {"bounded": 3 / 8 + 1e-8}),
        (NEGATIVE, {"certain": Interval(3 / 8 + 1e-8, 3 / 4)}),
        (NEGATIVE, {"certain": Interval(3 / 8, 3 / 4 - 1e-8)}),
        ("P>=0.1 [ F gender < 0 ]", {"bounded": False}),
        ("P>=0.1 [ F gender < 0 ]", {"certain": Interval(False, False)}),
        ("P=? [ F gender < 0 || X gender = 1 ]", {"certain": Interval(0.1, 0.2)}),
    ],
)
def test_a_wrong_answer_is_found(query, change):
    """An answer that differs from Storm's ends the job although the sums are right."""
    with pytest.raises(CheckFailed, match="by Storm; please report this"):
        compare(replace(answer(query), **change))


def test_a_small_probability_is_compared_by_its_digits(monkeypatch):
    """1e-20 instead of 2e-20 is an error, though both are 0 to 1e-9."""
    tree = by_hand([(0, 1.0, END), (0, 1e-20, END)])
    scores = {"gender": np.array([0, 1, -1])}
    found = check_query(ScoredTree(tree, scores, RANGES), parse(NEGATIVE))
    assert compare_evaluators(found, ScoredTree(tree, scores, RANGES))["compared"] is True
    compute_values = storm.compute_values
    monkeypatch.setattr(storm, "compute_values", lambda *given: compute_values(*given) * 2)
    with pytest.raises(CheckFailed, match="value is 1e-20"):
        compare_evaluators(found, ScoredTree(tree, scores, RANGES))


def test_the_file_of_a_check_has_the_comparison(tmp_path, monkeypatch):
    """The job writes the answer with both evaluators' numbers, and ends where they differ."""
    monkeypatch.chdir(tmp_path)
    check = Check(TreeSpec("m", "start", TREE.truncation), parse(NEGATIVE))
    TREE.write(paths.tree_file(check.tree))
    write_scores(SCORES["gender"], TREE, paths.scores_file(check.tree, "gender"))
    tree_record = {"seconds": 1.0, "makings": [], "fingerprint": "tree"}
    write_json_with_digest(tree_record, paths.tree_record(check.tree))
    scores_record = {"seconds": 1.0, "quantifier": "state"}
    write_json_with_digest(scores_record, paths.scores_record(check.tree, "gender"))
    output = paths.verdict_file(check)
    with job_log(tmp_path / "log") as work:
        answer_checks([check], [()], [{}], RANGES, {"gender": "state"}, "code", [output], work)
    assert Answer.read(output).bounded == pytest.approx(3 / 8)
    outcome = read_json_with_digest(output)["evaluators"]
    assert outcome["compared"] is True
    ((sums,), (by_storm,)) = outcome["sums"], outcome["storm"]
    assert sums == pytest.approx(by_storm)
    monkeypatch.setattr(storm, "compute_values", lambda *_: np.array([0.5]))
    with pytest.raises(SystemExit), job_log(tmp_path / "log") as work:
        answer_checks([check], [()], [{}], RANGES, {"gender": "state"}, "other", [output], work)
    assert f"{NEGATIVE}: value is 0.375 by sums" in (tmp_path / "log").read_text()
