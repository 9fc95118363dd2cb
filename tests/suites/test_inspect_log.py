"""Logs of inspect_ai: a sample for each requirement."""

import pytest
from helpers.application_suite import run_application_suite

from llmchecker.suites.inspect_log import format_inspect_log


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return run_application_suite(tmp_path_factory.mktemp("inspect") / "suite.yaml")


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
