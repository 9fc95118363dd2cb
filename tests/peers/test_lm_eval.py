"""Choices by likelihood, beside lm-evaluation-harness on the same model and questions."""

import json
import os
import subprocess
from pathlib import Path

import pytest

import llmchecker as lc

LM_EVAL = Path(__file__).parents[2] / ".venv-servers/lm_eval/bin/lm_eval"
QUESTIONS = [
    ("The capital of France is", ["Paris", "the city of Rome", "Zürich"], 0),
    ("Two plus two is", ["five", "four", "a number between three and five"], 1),
    ("Question: What do bees make?\nAnswer:", ["honey", "milk and cheese"], 0),
    ("Question: Which is a colour?\nAnswer:", ["table", "blue", "to run"], 1),
    ("The opposite of hot is", ["very warm indeed", "cold", "naïve", "日本"], 1),
    ("Ice is frozen", ["water", "milk", "fire"], 2),
]


def test_accuracies_and_likelihoods_are_those_of_the_harness(smollm2, tmp_path):
    """Each logarithm agrees to float32's precision, and each row has the same three accuracies."""
    rows = [
        {"prompt": prompt, "choices": choices, "answer": answer}
        for prompt, choices, answer in QUESTIONS
    ]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    task = {
        "task": "rows",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(tmp_path / "rows.json")}},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "{{prompt}}",
        "doc_to_choice": "choices",
        "doc_to_target": "answer",
        "metric_list": [{"metric": name} for name in ("acc", "acc_norm", "acc_bytes")],
    }
    (tmp_path / "rows.yaml").write_text(json.dumps(task))
    command = [LM_EVAL, "--model", "hf", "--tasks=rows", "--device=cpu", "--log_samples"]
    command += [f"--model_args=pretrained={smollm2},dtype=float32", f"--include_path={tmp_path}"]
    command += [f"--output_path={tmp_path / 'found'}"]
    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        command, env=os.environ | offline, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    (file,) = (tmp_path / "found").rglob("samples_rows_*.jsonl")
    theirs = sorted(
        map(json.loads, file.read_text(encoding="utf-8").splitlines()),
        key=lambda each: each["doc_id"],
    )
    report = lc.rate_choices(lc.load(smollm2), rows)
    report.write(tmp_path / "predictions.jsonl")
    text = (tmp_path / "predictions.jsonl").read_text(encoding="utf-8")
    ours = list(map(json.loads, text.splitlines()))
    assert len(ours) == len(theirs) == len(rows)
    for own, other in zip(ours, theirs, strict=True):
        # a likelihood and whether it is the greedy one
        expected = [float(response[0][0]) for response in other["resps"]]
        assert own["log_probabilities"] == pytest.approx(expected, abs=2e-3)
        for name in ("acc", "acc_norm", "acc_bytes"):
            assert own[name] == other[name]
    assert 0 < report.acc < 1
