"""The jobs of suites give the verdicts of the command, and a table of all of them."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.suites import OpenTable, load, words_model

from llmchecker.checking import runs
from llmchecker.errors import ConfigError
from llmchecker.interfaces.snakemake import suite_jobs
from llmchecker.suites import session
from llmchecker.suites.kept_cases import restore_cases
from llmchecker.trees.shards import Shard
from llmchecker.utils.job_logging import job_log

PROPERTIES = {"he": {"type": "pattern", "pattern": " he"}}
CASE = {"start": "once", "require": ["P>=0.2 [ F he = 1 ]", "P>=0.99 [ F he = 1 ]"]}


def load_configured(folder, cases, monkeypatch, **keys):
    """A suite of a configuration, which the jobs run on a table."""
    suite = load(folder, cases, properties=PROPERTIES, **keys)
    monkeypatch.setattr(session, "open_model", lambda *_, **__: OpenTable(words_model()))
    return suite


def test_a_job_writes_results_a_page_and_a_row_for_each_verdict(tmp_path, monkeypatch):
    """A job leaves no unfinished log, and the table has the verdicts of the results."""
    suite = load_configured(tmp_path, [CASE], monkeypatch)
    folder = tmp_path / "results/suites/words"
    output = SimpleNamespace(results=f"{folder}/m.jsonl", page=f"{folder}/m.html")
    with job_log(tmp_path / "log") as work:
        suite_jobs.compute_verdicts(suite, 1, output, tmp_path / "kept", "code", work)
    assert sorted(path.name for path in folder.iterdir()) == ["m.html", "m.jsonl"]
    table = suite_jobs.build_suites_table([output.results], {"m": "Words"})
    assert table["verdict"].tolist() == ["HOLDS", "VIOLATED"]
    assert set(table["suite"]) == {"words"}
    assert set(table["page"]) == {"suites/words/m.html"}
    assert set(table["model"]) == {"Words"}
    # both are decided by bounds alone
    assert table["certain"].all()
    assert table[["low", "high"]].isna().all(axis=None)
    assert (table["upper"] - table["lower"]).between(0, 1).all()


@pytest.mark.parametrize("count", [2, 3])
def test_shards_give_the_results_of_one_job(tmp_path, monkeypatch, count):
    """Each shard evaluates whole prompts, no case twice, and the last job evaluates nothing."""
    starts = ("once", "once he", "once she", "once it", "once he he")
    cases = [CASE | {"start": start} for start in starts]
    suite = load_configured(tmp_path, cases, monkeypatch, budget={"passes": 8})
    evaluated, evaluate = [], runs.answer_side_by_side

    def record(opened, questions, *users, **options):
        evaluated.append(list(questions))
        return evaluate(opened, questions, *users, **options)

    monkeypatch.setattr(runs, "answer_side_by_side", record)
    whole, joined = (
        SimpleNamespace(results=f"{tmp_path}/{name}.jsonl", page=f"{tmp_path}/{name}.html")
        for name in ("whole", "joined")
    )
    absent = tmp_path / "absent"
    shards = [f"{tmp_path}/{number}-of-{count}.jsonl" for number in range(1, count + 1)]
    with job_log(tmp_path / "log") as work:
        suite_jobs.compute_verdicts(suite, 1, whole, tmp_path / "kept", "code", work)
        evaluated.clear()
        for number, file in enumerate(shards):
            suite_jobs.compute_shard(suite, Shard(number, count), 1, file, absent, "code", work)
        assert len(evaluated) == count
        suite_jobs.compute_verdicts(suite, 1, joined, absent, "code", work, shards)
    assert len(evaluated) == count
    asked = [(each.prompt, each.query.text) for part in evaluated for each in part]
    questions = [case.question for case in suite.cases]
    assert sorted(asked) == sorted((each.prompt, each.query.text) for each in questions)
    prompts = [{question.prompt for question in part} for part in evaluated]
    assert sum(map(len, prompts)) == len(set.union(*prompts)) == len(starts)
    assert read_without_times(joined.results) == read_without_times(whole.results)


def read_without_times(file):
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    return [{**json.loads(line), "seconds": None} for line in lines]


def test_a_shard_of_another_suite_is_refused(tmp_path, monkeypatch):
    """Results of a suite with another seed never become results of this one."""
    other = load_configured(tmp_path, [CASE], monkeypatch, seed=1)
    shard = f"{tmp_path}/1-of-1.jsonl"
    output = SimpleNamespace(results=f"{tmp_path}/m.jsonl", page=f"{tmp_path}/m.html")
    with job_log(tmp_path / "log") as work:
        suite_jobs.compute_shard(other, Shard(0, 1), 1, shard, tmp_path / "kept", "code", work)
        suite = load_configured(tmp_path, [CASE], monkeypatch)
        with pytest.raises(ConfigError, match="results of another suite"):
            suite_jobs.compute_verdicts(suite, 1, output, tmp_path / "kept", "code", work, [shard])


def test_a_new_case_leaves_certain_results_as_they_are(tmp_path, monkeypatch):
    """A job of a changed suite evaluates what is new or uncertain, and joins it with the rest."""
    evaluated, evaluate = [], runs.answer_side_by_side

    def record(opened, questions, *users, **options):
        evaluated.extend(question.query.text for question in questions)
        return evaluate(opened, questions, *users, **options)

    monkeypatch.setattr(runs, "answer_side_by_side", record)

    def run(cases, name, code="code", **keys):
        evaluated.clear()
        suite = load_configured(tmp_path, cases, monkeypatch, **{"budget": {"passes": 2}} | keys)
        output = SimpleNamespace(results=f"{tmp_path}/{name}", page=f"{tmp_path}/{name}.html")
        with job_log(tmp_path / "log") as work:
            suite_jobs.compute_verdicts(suite, 1, output, tmp_path / "kept", code, work)
        lines = read_without_times(output.results)[1:]
        return sorted(evaluated), {line["query"]: line for line in lines}

    certain, uncertain = CASE["require"]
    asked, first = run([CASE], "first")
    assert asked == [certain, uncertain]
    assert [first[query]["certain"] for query in asked] == [True, False]
    new = {"start": "once", "require": "P>=0.1 [ F he = 1 ]"}
    asked, second = run([new, CASE], "second")
    assert asked == [new["require"], uncertain]
    for key in ("status", "certain", "examples"):
        assert second[certain][key] == first[certain][key]
    for end in ("lower", "upper"):
        assert second[certain]["answer"][end] == first[certain]["answer"][end]
    # no interval holds less often than its share of the suite's confidence
    confidences = [line["answer"]["confidence"] for line in second.values()]
    assert all(each is None or each >= 1 - 0.01 / 3 for each in confidences)
    # another start, budget or code
    other = [CASE | {"start": "once he"}]
    assert run(other, "third")[0] == [certain, uncertain]
    assert run(other, "fourth")[0] == [uncertain]
    assert run(other, "fifth", budget={"passes": 4})[0] == [certain, uncertain]
    assert run(other, "sixth", "other", budget={"passes": 4})[0] == [certain, uncertain]


def test_damaged_kept_results_are_not_used(tmp_path, monkeypatch, caplog):
    """A changed digit, or a line that is cut, costs the evaluation of the case."""
    suite = load_configured(tmp_path, [CASE], monkeypatch)
    kept, log = tmp_path / "kept", tmp_path / "log.jsonl"
    output = SimpleNamespace(results=f"{tmp_path}/m.jsonl", page=f"{tmp_path}/m.html")
    with job_log(tmp_path / "log") as work:
        suite_jobs.compute_verdicts(suite, 1, output, kept, "code", work)
    content = kept.read_text()
    assert restore_cases(suite, "code", kept, log, suite.cases) == 2
    log.unlink()
    kept.write_text(content.replace("HOLDS", "VIOLATED"))
    assert restore_cases(suite, "code", kept, log, suite.cases) == 1
    log.unlink()
    kept.write_text("{}\n")
    assert restore_cases(suite, "code", kept, log, suite.cases) == 0
