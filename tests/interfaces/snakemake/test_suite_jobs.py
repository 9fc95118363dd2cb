"""The jobs of suites give the verdicts of the command, and a table of all of them."""

from types import SimpleNamespace

from helpers.suites import OpenTable, load, words_model

from llmchecker.config.keys import ExpansionConfig
from llmchecker.interfaces.snakemake import suite_jobs
from llmchecker.utils.job_logging import job_log

CASE = {"start": "once", "require": ["P>=0.2 [ F he = 1 ]", "P>=0.99 [ F he = 1 ]"]}


def test_a_job_writes_results_a_page_and_a_row_for_each_verdict(tmp_path, monkeypatch):
    """A job leaves no unfinished log, and the table has the verdicts of the results."""
    properties = {"he": {"type": "pattern", "pattern": " he"}}
    suite = load(tmp_path, [CASE], properties=properties)
    object.__setattr__(suite, "config", SimpleNamespace(expansion=ExpansionConfig()))
    monkeypatch.setattr(suite_jobs, "open_deployment", lambda *_, **__: OpenTable(words_model()))
    folder = tmp_path / "results/suites/words"
    output = SimpleNamespace(results=f"{folder}/m.jsonl", page=f"{folder}/m.html")
    with job_log(tmp_path / "log") as work:
        suite_jobs.compute_verdicts(suite, 1, output, work)
    assert sorted(path.name for path in folder.iterdir()) == ["m.html", "m.jsonl"]
    table = suite_jobs.build_suites_table([output.results], {"m": "Words"})
    assert table["verdict"].tolist() == ["HOLDS", "VIOLATED"]
    assert set(table["suite"]) == {"words"}
    assert set(table["model"]) == {"Words"}
    # both are decided by bounds alone
    assert table["certain"].all()
    assert table[["low", "high"]].isna().all(axis=None)
    assert (table["upper"] - table["lower"]).between(0, 1).all()
