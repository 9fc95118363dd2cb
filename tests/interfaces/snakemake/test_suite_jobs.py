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
        suite_jobs.compute_verdicts(suite, 1, output, work)
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
    shards = [f"{tmp_path}/{number}-of-{count}.jsonl" for number in range(1, count + 1)]
    with job_log(tmp_path / "log") as work:
        suite_jobs.compute_verdicts(suite, 1, whole, work)
        evaluated.clear()
        for number, file in enumerate(shards):
            suite_jobs.compute_shard(suite, Shard(number, count), 1, file, work)
        assert len(evaluated) == count
        suite_jobs.compute_verdicts(suite, 1, joined, work, shards)
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
        suite_jobs.compute_shard(other, Shard(0, 1), 1, shard, work)
        suite = load_configured(tmp_path, [CASE], monkeypatch)
        with pytest.raises(ConfigError, match="results of another suite"):
            suite_jobs.compute_verdicts(suite, 1, output, work, [shard])
