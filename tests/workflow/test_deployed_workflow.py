"""Chats and decoding in the workflow: answers are exact, and kept until something changes."""

import csv
import json
import shutil

import pytest
from helpers.project import EMPTY, Project

pytestmark = pytest.mark.slow

TEMPLATE = "{% for m in messages %}{{ m['role'] + ': ' + m['content'] }}{% endfor %} assistant:"


@pytest.mark.long
def test_a_chat_with_a_decoded_model_is_checked_exactly(tmp_path, random_model):
    """Lower bound and upper bound agree, a second run has nothing to do, and another decoding
    grows the tree again."""
    model = shutil.copytree(random_model("gpt2"), tmp_path / "chatting")
    (model / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    about = {"label": "Chatting", "source": f"path:{model}", "decoding": {"top_k": 2}}
    experiment = {"label": "Chat", "interest": "Length", "start": "chat", "alpha": 1, "k": 9}
    config = EMPTY | {
        "models": {"chatting": about},
        "start_strings": {"chat": [{"system": "{kind}"}, {"user": 'Is it "so"?'}]},
        "quantifiers": {"long": {"type": "length", "unit": "characters"}},
        "experiments": [experiment | {"L": 3, "queries": ["P=? [ F long > 6 ]"]}],
    }
    project = Project(tmp_path, config)
    verdict = "results/checks/chatting/chat/alpha1.0_k9_L3"
    run = project.snakemake("--cores", "1", "results/tables/table2.md")
    assert run.returncode == 0, run.stdout
    (file,) = (tmp_path / verdict).glob("*.json")
    found = json.loads(file.read_text(encoding="utf-8"))
    assert found["upper"] == pytest.approx(found["lower"], rel=1e-12, abs=0)
    record = json.loads((tmp_path / "results/trees/chatting/chat/alpha1.0_k9_L3.json").read_text())
    assert record["makings"][0]["decoding"] == {"top_k": 2}
    assert record["nodes"] <= 1 + 2 + 4
    assert project.planned("results/tables/table2.md") == {}
    project.write_config(config | {"models": {"chatting": about | {"decoding": "greedy"}}})
    assert "trees_chatting" in project.planned("results/tables/table2.md")


@pytest.mark.long
def test_experiments_with_decodings_of_their_own_have_their_own_trees(tmp_path, random_model):
    """Grown by one job or by several, each tree is that of its decoding; answers ask with it, and
    the table names it."""
    about = {"label": "M", "source": f"path:{random_model('gpt2')}", "decoding": {"top_k": 3}}
    asked = {"label": "A", "interest": "Length", "start": "s", "L": 3}
    asked |= {"queries": ["P=? [ F long > 6 ]"]}
    cut, greedy = {"alpha": 1, "k": 9}, {"decoding": "greedy"}
    config = EMPTY | {
        "models": {"m": about},
        "start_strings": {"s": "The player"},
        "quantifiers": {"long": {"type": "length", "unit": "characters"}},
        "answer": {"passes": 99},
        "experiments": [
            asked | cut,
            asked | cut | greedy,
            asked | cut | {"decoding": {"top_k": 2}, "shards": 2},
            asked | greedy,
        ],
    }
    project = Project(tmp_path, config)
    table = "results/tables/table2.csv"
    run = project.snakemake("--cores", "1", table)
    assert run.returncode == 0, run.stdout
    records = [
        json.loads(file.read_text()) for file in (tmp_path / "results/trees/m/s").glob("*.json")
    ]
    found = sorted((r["nodes"], str(r["makings"][0]["decoding"])) for r in records)
    once = (3, "{'do_sample': False}")
    assert found == [once, (7, "{'top_k': 2}"), (13, "{'top_k': 3}")]
    with (tmp_path / table).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    asked = ("top_k 3", "greedy", "top_k 2", "greedy")
    assert [row["model"] for row in rows] == [f"M, {decoding}" for decoding in asked]
    assert all(row["lower"] == pytest.approx(row["upper"]) for row in map(floats, rows))
    assert project.planned(table) == {}


def floats(row: dict[str, str]) -> dict[str, float]:
    """The bounds of a row."""
    return {name: float(row[name]) for name in ("lower", "upper")}
