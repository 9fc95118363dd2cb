"""Logs of inspect_ai: a sample for each requirement."""

import pytest
import yaml

import llmchecker as lc
from llmchecker.suites.inspect_log import format_inspect_log

SUITE = {
    "length": 5,
    "budget": {"answers": 60},
    "cases": [
        {
            "name": "capital",
            "user": "Where?",
            "require": {
                "paris": {"contains": "Paris", "at_least": 0.5},
                "rome": {"contains": "Rome", "at_least": 0.5},
                "sure": {"contains": "Paris", "at_least": 0.999},
            },
        },
        {
            "name": "talk",
            "turns": [{"user": "Hi"}, {"user": "Bye"}],
            "require": {"late": "P<=0.1 [ F (turn = 2 & paris > 0) ]"},
        },
    ],
    "properties": {"paris": {"type": "pattern", "pattern": "Paris"}},
}


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    path = tmp_path_factory.mktemp("inspect") / "suite.yaml"
    path.write_text(yaml.safe_dump(SUITE))
    return lc.suite(path, models=[lc.texts(lambda messages: "Paris.", name="app")]).run().result


def test_each_requirement_is_a_sample_with_its_verdict(result):
    """Verdicts are grades, and the messages are the prompt and an answer that was given."""
    log = format_inspect_log(result)
    found = {
        each["id"]: (
            each["scores"]["llmchecker"]["value"],
            [(message["role"], message["content"]) for message in each["messages"]],
        )
        for each in log["samples"]
    }
    short = [("user", "Where?"), ("assistant", "Paris.")]
    long = [("user", "Hi"), ("assistant", "Paris."), ("user", "Bye"), ("assistant", "Paris.")]
    assert found == {
        "capital: paris": ("C", short),
        "capital: rome": ("I", short),
        "capital: sure": ("N", short),
        "talk: late": ("I", long),
    }
    (score,) = log["results"]["scores"]
    assert {name: each["value"] for name, each in score["metrics"].items()} == {
        **{"holds": 1, "violated": 2},
        **{"unknown": 1, "error": 0},
    }
