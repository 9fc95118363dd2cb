"""Prompts come from data sets of the hub at a commit, in every format."""

import json

import pytest
from helpers.fake_hub import COMMIT, make_client_new, point_client_at, serving
from helpers.suites import load

from llmchecker.errors import LLMCheckerError

ROWS = [{"start": "once", "answer": " he"}, {"start": "once she", "answer": " it"}]


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub on a port of this machine."""
    make_client_new(tmp_path, monkeypatch)
    with serving() as served:
        point_client_at(served.address, monkeypatch)
        yield served


def case(file: str) -> dict:
    prompts = {"source": f"hf:owner/name@{COMMIT}", "file": file}
    return {"prompts": prompts, "require": [{"contains": "{answer}", "at_least": 0.1}]}


def test_a_data_set_of_the_hub_gives_the_prompts(hub, tmp_path):
    """CSV and JSON lines of a data set give the rows as cases."""
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    hub.files = {
        "test.csv": b"start,answer\nonce, he\nonce she, it\n",
        "data/test.jsonl": lines.encode(),
    }
    for file in hub.files:
        suite = load(tmp_path, [case(file)])
        assert [found.question.prompt for found in suite.cases] == ["once", "once she"]
        assert suite.cases[1].question.asked.quantifiers["contains"].pattern == r"\ it"


def test_a_file_that_the_data_set_lacks_is_refused(hub, tmp_path):
    """An absent file is refused with the source."""
    hub.files = {"test.csv": b"start\nonce\n"}
    with pytest.raises(LLMCheckerError, match="owner/name"):
        load(tmp_path, [case("other.csv")])
