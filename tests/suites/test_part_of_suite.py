"""A part of a suite runs: cases by name, those that failed last, and up to the first failure."""

import json

import pytest
from helpers.suites import HE, load, run, words_model, write_suite

from llmchecker.errors import ConfigError
from llmchecker.suites.load import load_suite
from llmchecker.suites.selection import read_last_failed, select_by_name, write_last_failed
from llmchecker.suites.suite_file import RunKeys
from llmchecker.suites.verdicts import Status
from llmchecker.suites.watch import WatchedSuite

X = {"x": {"type": "pattern", "pattern": " he"}}
HOLDS = f"P>={HE / 2:.3f} [ F x = 1 ]"
VIOLATED = f"P<={HE / 2:.3f} [ F x = 1 ]"
CASES = [
    {"name": "Refund", "start": "once", "require": [HOLDS]},
    {"name": "greeting", "start": "once", "require": [VIOLATED]},
    {"name": "refusal", "start": "once", "require": [HOLDS]},
]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache folder of the user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_a_filter_runs_the_cases_with_its_text_and_keeps_the_others(tmp_path):
    """Selected cases have the results of a whole run, in whose log they and the others remain."""
    suite, log = load(tmp_path, CASES, properties=X), tmp_path / "results.jsonl"
    whole = run(suite)
    selected = select_by_name(suite, "REF")
    part = run(suite, log=log, selected=selected)
    assert [result.case for result in part.results] == [f"Refund: {HOLDS}", f"refusal: {HOLDS}"]
    assert [r.answer for r in part.results] == [whole.results[0].answer, whole.results[2].answer]
    assert part.counts.exit_status() == 0
    assert not json.loads(log.read_text().splitlines()[0])["complete"]
    rest = run(suite, log=log, selected=select_by_name(suite, "greet"))
    assert rest.counts.exit_status() == 1
    assert len(log.read_text().splitlines()) == 1 + len(CASES)
    with pytest.raises(ConfigError, match="--filter: no case of suite has 'absent' in its name"):
        select_by_name(suite, "absent")


def test_an_average_is_selected_with_all_of_its_rows(tmp_path):
    """The name of an average selects its rows; a part of the rows has no average."""
    entry = {"name": "rows", "prompts": "rows.csv", "average": {"mean he": "mean P=? [ F x = 1 ]"}}
    suite = load(tmp_path, [entry, *CASES], {"rows_csv": "start\nonce\nonce he\n"}, properties=X)
    part = suite.select(select_by_name(suite, "mean he"))
    assert (len(part.cases), len(part.averages)) == (2, 1)
    assert suite.select(select_by_name(suite, "row 1")).averages == ()


def test_the_first_failure_ends_the_run(tmp_path):
    """With fail-fast, later cases are unfinished, and the run is violated."""
    cases = [CASES[1], CASES[0]]
    result = run(load(tmp_path, cases, properties=X, budget={"passes": 100}), is_failing_fast=True)
    assert Status.VIOLATED in [found.status for found in result.results]
    assert result.counts.exit_status() == 1


def test_the_cases_that_failed_last_are_selected(tmp_path):
    """A run stores its failures; a later part of the cases changes only its own."""
    suite, path = load(tmp_path, CASES, properties=X), tmp_path / "suite.yaml"
    assert read_last_failed(path, suite) is None
    write_last_failed(path, suite, run(suite))
    failed = frozenset({("m", f"greeting: {VIOLATED}")})
    assert read_last_failed(path, suite) == failed
    write_last_failed(path, suite, run(suite, selected=select_by_name(suite, "ref")))
    assert read_last_failed(path, suite) == failed
    never = words_model(he=0.0)
    write_last_failed(path, suite, run(suite, never, selected=failed))
    assert read_last_failed(path, suite) is None


def test_a_failed_case_is_selected_after_a_change_of_its_threshold(tmp_path):
    """A requirement without a name failed last, also with another threshold; others did not."""
    path = tmp_path / "suite.yaml"
    suite = load(tmp_path, CASES, properties=X)
    write_last_failed(path, suite, run(suite))
    changed = VIOLATED.replace("P<=", "P<")
    cases = [CASES[0], CASES[1] | {"require": [changed, HOLDS.replace("F", "G")]}, CASES[2]]
    found = read_last_failed(path, load(tmp_path, cases, properties=X))
    assert found == {("m", f"greeting: {changed}")}
    # the failed requirement is still there, so a second threshold is another requirement
    cases[1] = CASES[1] | {"require": [VIOLATED, changed]}
    found = read_last_failed(path, load(tmp_path, cases, properties=X))
    assert found == {("m", f"greeting: {VIOLATED}")}


def test_keys_of_the_command_line_replace_those_of_the_suite(tmp_path):
    """Budget, horizon, confidence and seed hold for all cases, also for those with their own."""
    cases = [CASES[0], {**CASES[2], "budget": {"passes": 7}, "length": 2}]
    path = write_suite(tmp_path, {"cases": cases, "properties": X})
    changes = RunKeys(passes=11, length=1, confidence=0.9, seed=5)
    suite = load_suite(path, changes=changes)
    assert {case.question.budget.passes for case in suite.cases} == {11}
    assert {case.question.length for case in suite.cases} == {1}
    assert (suite.confidence, suite.seed) == (0.9, 5)


def test_a_watched_suite_changes_with_its_files(tmp_path):
    """A new content of the suite or of a table that it names is a change; another file is not."""
    entry = {"prompts": "rows.csv", "require": [HOLDS]}
    write_suite(tmp_path, {"cases": [entry], "properties": X}, rows_csv="start\nonce\n")
    watched = WatchedSuite(tmp_path / "suite.yaml")
    (tmp_path / "other.csv").write_text("start\n")
    assert not watched.has_changed()
    for name in ("rows.csv", "suite.yaml"):
        with (tmp_path / name).open("a") as file:
            file.write("\n")
        assert watched.has_changed()
        assert not watched.has_changed()
