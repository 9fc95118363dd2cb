"""Tasks of inspect_ai that end when their score has a verdict, by its own runner and mock model."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-peers/inspect/bin/python"
COUNT = 400
PROGRAM = """
import json, random, sys
from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import match
import llmchecker as lc

def answer(input, tools, tool_choice, config):
    output = ModelOutput.from_content("mockllm/model", input[-1].text)
    # without it, tokens are counted by a file that is downloaded
    output.usage = ModelUsage()
    return output

def run(right, shuffled=True, epochs=1, seed=0, **required):
    samples = [Sample(input="yes" if i < right else "no", target="yes") for i in range(COUNT)]
    data = MemoryDataset(samples)
    if shuffled:
        data.shuffle(seed)
    stopping = lc.EarlyStopping(**required)
    task = Task(data, scorer=match(), epochs=epochs, early_stopping=stopping)
    model = get_model("mockllm/model", custom_outputs=answer, memoize=False)
    (log,) = eval(task, model=model, display="none", log_dir=sys.argv[1], max_samples=8)
    if log.status != "success":
        return log.error.message
    summary = log.results.early_stopping
    return {**summary.metadata, "stopped": len(summary.early_stops),
            "completed": len(log.samples), "outcome": str(stopping.decision.outcome)}

print(json.dumps([run(**each) for each in json.loads(sys.argv[2])]))
"""


def run_tasks(folder: Path, *tasks: dict[str, object]):
    """The summary of each task, or its error."""
    program = PROGRAM.replace("COUNT", str(COUNT))
    return json.loads(run_program(program, folder, json.dumps(tasks)).splitlines()[-1])


def run_program(program: str, folder: Path, *arguments: str) -> str:
    """The output of a program in the environment of inspect_ai, with its logs in a folder."""
    done = subprocess.run(
        [PYTHON, "-c", program, folder, *arguments],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_task_ends_with_its_verdict(tmp_path):
    """The verdict is that of all samples, after at most half of them, and the log has it."""
    tasks = [
        {"right": 380, "at_least": 0.8},
        {"right": 220, "at_least": 0.8},
        {"right": 8, "at_most": 0.1},
        {"right": 100, "at_most": 0.1},
    ]
    found = run_tasks(tmp_path, *({**task, "seed": seed} for seed in (1, 2) for task in tasks))
    assert [each["verdict"] for each in found] == ["HOLDS", "VIOLATED"] * 4
    for each in found:
        assert each["verdict"] == each["outcome"]
        assert each["confidence"] == 0.99
        assert each["samples"] == COUNT
        assert each["completed"] + each["stopped"] == COUNT
        assert each["completed"] <= COUNT / 2


def test_the_task_of_the_page_runs(tmp_path):
    """The page's task ends with a verdict of its two samples."""
    page = (ROOT / "docs/how-to/other_tools.md").read_text(encoding="utf-8")
    (tmp_path / "samples.jsonl").write_text(re.search(r"```json\n(.*?)```", page, re.DOTALL)[1])
    program = re.search(r"```python\n(.*?)```", page, re.DOTALL)[1] + (
        "from inspect_ai import eval\n"
        "from inspect_ai.model import ModelOutput, ModelUsage, get_model\n"
        "output = ModelOutput.from_content('mockllm/model', 'Paris or Rome')\n"
        "output.usage = ModelUsage()\n"
        "model = get_model('mockllm/model', custom_outputs=[output] * 2)\n"
        "(log,) = eval(capitals(), model=model, display='none', log_dir='logs')\n"
        "print(log.results.early_stopping.metadata)\n"
    )
    assert "'verdict': 'HOLDS', 'confidence': None" in run_program(program, tmp_path)


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        ({"shuffled": False}, "the data set is not shuffled"),
        ({"epochs": 2}, "the task has 2 epochs"),
    ],
)
def test_samples_in_no_random_order_are_refused(task, reason, tmp_path):
    """A task whose order of samples is not random ends with the reason, and has no verdict."""
    (found,) = run_tasks(tmp_path, {"right": 380, "at_least": 0.8, **task})
    assert reason in found
