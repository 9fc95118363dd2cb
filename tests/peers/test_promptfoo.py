"""Converted configurations of promptfoo, beside promptfoo's own verdicts on the same answers."""

import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest
import yaml

import llmchecker as lc
from llmchecker_promptfoo.convert import convert_promptfoo

PROMPTFOO = Path(__file__).parents[2] / ".venv-peers/npm/node_modules/.bin/promptfoo"
ASSERTIONS = [
    {"type": "contains", "value": "Rome"},
    {"type": "icontains", "value": "rome"},
    {"type": "not-contains", "value": "Rome"},
    {"type": "contains-all", "value": ["R", "{{x}}"]},
    {"type": "starts-with", "value": "{{x}}"},
    {"type": "equals", "value": "Rome?"},
    {"type": "regex", "value": "^\\w+[?!]$"},
    {"type": "is-json"},
    {"type": "word-count", "value": 1},
]
ANSWERS = ["Rome?", "in Rome!", "json", "rome R"]
BOT = """
def call_api(prompt, options, context):
    output = prompt.removeprefix("say ")
    return {"output": '{"R": 1}' if output == "json" else output}
"""


def judge_by_promptfoo(path: Path) -> dict[str, bool]:
    """Whether each test of a configuration passes, by its description."""
    output = path.parent / "output.json"
    switches = ("DISABLE_TELEMETRY", "DISABLE_UPDATE", "DISABLE_REMOTE_GENERATION")
    settings = {
        **{f"PROMPTFOO_{name}": "1" for name in switches},
        "PROMPTFOO_CONFIG_DIR": str(path.parent / "state"),
        "PROMPTFOO_PYTHON": sys.executable,
    }
    subprocess.run(
        [PROMPTFOO, "eval", "--no-cache", "--no-table", "-c", path, "-o", output],
        cwd=path.parent,
        env=os.environ | settings,
        capture_output=True,
        # failed tests have a status of their own
        check=False,
    )
    rows = json.loads(output.read_text(encoding="utf-8"))["results"]["results"]
    return {row["testCase"]["description"]: row["success"] for row in rows}


def judge_by_suite(path: Path) -> dict[str, bool]:
    """Whether each entry of the converted suite holds, with the function of the provider."""
    suite = path.parent / "suite.yaml"
    suite.write_text(convert_promptfoo(path, Decimal("0.5")).text, encoding="utf-8")
    namespace: dict[str, object] = {}
    exec(BOT, namespace)
    call_api = namespace["call_api"]
    model = lc.texts(lambda messages: call_api(messages[-1]["content"], {}, {})["output"])
    result = lc.suite(suite, models=[model]).run().result
    return {each.case.partition(":")[0]: str(each.status) == "HOLDS" for each in result.results}


@pytest.mark.parametrize("prompts", [{}, {"prompts": ["say {{prompt}}"]}])
def test_verdicts_are_those_of_promptfoo(prompts, tmp_path):
    """Without prompts and with one, by a function of Python, every verdict is promptfoo's."""
    tests = [
        {
            "description": f"test {number}",
            "vars": {"prompt": answer, "x": "Rome"},
            "assert": [assertion],
        }
        for number, (answer, assertion) in enumerate(
            (answer, assertion) for answer in ANSWERS for assertion in ASSERTIONS
        )
    ]
    (tmp_path / "bot.py").write_text(BOT)
    path = tmp_path / "promptfooconfig.yaml"
    path.write_text(yaml.safe_dump({**prompts, "providers": ["python:bot.py"], "tests": tests}))
    found = judge_by_suite(path)
    assert len(found) == len(tests)
    assert len(set(found.values())) == 2
    assert found == judge_by_promptfoo(path)
