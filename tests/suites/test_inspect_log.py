"""Logs of inspect_ai: a sample for each requirement, which the package itself reads."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

import llmchecker as lc
from llmchecker.suites.inspect_log import format_inspect_log, write_inspect_log

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


def test_inspect_reads_the_log(result, tmp_path):
    """The package finds the file in its folder, and reads each sample without a change.

    An environment with inspect_ai is the folder `INSPECT_ENVIRONMENT`.
    """
    environment = os.environ.get("INSPECT_ENVIRONMENT")
    if environment is None:
        pytest.skip("INSPECT_ENVIRONMENT names no environment with inspect_ai")
    path = write_inspect_log(result, tmp_path / "logs")
    program = (
        "import json, sys\n"
        "from inspect_ai.log import list_eval_logs, read_eval_log\n"
        "(path,) = list_eval_logs(sys.argv[1])\n"
        "log = read_eval_log(path)\n"
        "print(json.dumps([[s.id, s.scores['llmchecker'].value, s.output.completion,"
        " [m.text for m in s.messages]] for s in log.samples]))\n"
    )
    python = Path(environment) / "bin/python"
    done = subprocess.run(
        [python, "-c", program, path.parent], capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    assert [each[:3] for each in json.loads(done.stdout)] == [
        ["capital: paris", "C", "Paris."],
        ["capital: rome", "I", "Paris."],
        ["capital: sure", "N", "Paris."],
        ["talk: late", "I", "Paris."],
    ]
