"""Outputs of a suite by those who read them: the schema of SARIF, and inspect_ai."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.application_suite import run_application_suite
from jsonschema.validators import validator_for

from llmchecker.suites.inspect_log import write_inspect_log
from llmchecker.suites.sarif import write_sarif
from llmchecker.suites.verdicts import Status

TOOLS = Path(__file__).parents[2] / ".venv-peers"
SCHEMA = TOOLS / "npm/node_modules/@microsoft/jest-sarif/lib/schemas/sarif-2.1.0-rtm.5.json"


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return run_application_suite(tmp_path_factory.mktemp("suite") / "a suite.yaml")


@pytest.mark.parametrize("allow_unknown", [True, False])
def test_sarif_is_valid(result, allow_unknown, tmp_path):
    """Annotations of every kind of result meet the schema of SARIF 2.1.0."""
    path = tmp_path / "results.sarif"
    # of an interrupted run, one more kind of result, and one that failed
    holds, violated, unknown, late = result.results
    results = (
        replace(holds, status=Status.UNFINISHED, answer=None),
        *(violated, unknown),
        replace(late, status=Status.ERROR, answer=None, error="out of order"),
    )
    write_sarif(replace(result, results=results), path, allow_unknown=allow_unknown)
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    checks = validator_for(schema)(schema, format_checker=validator_for(schema).FORMAT_CHECKER)
    log = json.loads(path.read_text(encoding="utf-8"))
    rules = [each["ruleId"] for each in log["runs"][0]["results"]]
    assert rules == ["VIOLATED", "UNKNOWN", "ERROR", "ERROR"]
    assert "incomplete" in log["runs"][0]["results"][-1]["message"]["text"]
    assert [error.message for error in checks.iter_errors(log)] == []
    # the schema does refuse what is no SARIF
    log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"] = 0
    assert list(checks.iter_errors(log))


def test_inspect_reads_the_log(result, tmp_path):
    """inspect_ai finds the file in its folder, and reads each sample without a change."""
    path = write_inspect_log(result, tmp_path / "logs")
    program = (
        "import json, sys\n"
        "from inspect_ai.log import list_eval_logs, read_eval_log\n"
        "(path,) = list_eval_logs(sys.argv[1])\n"
        "log = read_eval_log(path)\n"
        "print(json.dumps([[s.id, s.scores['llmchecker'].value, s.output.completion]"
        " for s in log.samples]))\n"
    )
    done = subprocess.run(
        [TOOLS / "inspect/bin/python", "-c", program, path.parent],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {tuple(each) for each in json.loads(done.stdout)} >= {
        ("capital: paris", "C", "Paris."),
        ("capital: rome", "I", "Paris."),
        ("capital: sure", "N", "Paris."),
        ("talk: late", "I", "Paris."),
    }
