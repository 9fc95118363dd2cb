"""Sampled answers to chat questions by other programs, and tables that compare them.

transformers' `generate` runs in this process, lm-evaluation-harness in an environment of its own,
which `tests/servers/install.sh` makes.
"""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from real_servers import ENVIRONMENTS
from transformers import AutoModelForCausalLM, AutoTokenizer

from llmchecker.utils.atomic_files import write_json


@dataclass(frozen=True)
class Sampling:
    """How answers are sampled.

    Attributes:
        temperature, top_p: the decoding.
        length: largest number of tokens of an answer.
        samples: number of answers to each question.
        at_once: number of answers of a batch.
    """

    temperature: float
    top_p: float
    length: int
    samples: int
    at_once: int

    @property
    def settings(self) -> dict[str, float | bool]:
        """The settings of `generate` that both programs take."""
        # 0 turns off the 50 most probable tokens to which transformers cuts by default
        return {
            "do_sample": True,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "top_k": 0,
        }


class Generator:
    """A model in transformers, loaded from its directory in float32."""

    def __init__(self, directory: str) -> None:
        self._tokenizer = AutoTokenizer.from_pretrained(directory)
        self._network = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
        torch.manual_seed(0)

    def sample(self, question: str, sampling: Sampling) -> list[str]:
        """Sample answers to a question by `generate`."""
        asked = self._tokenizer.apply_chat_template(
            [{"role": "user", "content": question}],
            add_generation_prompt=True,
            return_tensors="pt",
            return_dict=True,
        )
        answers: list[str] = []
        while len(answers) < sampling.samples:
            texts = self._network.generate(
                **asked,
                **sampling.settings,
                max_new_tokens=sampling.length,
                num_return_sequences=min(sampling.at_once, sampling.samples - len(answers)),
                pad_token_id=self._tokenizer.eos_token_id,
            )
            answers += self._tokenizer.batch_decode(
                texts[:, asked["input_ids"].shape[1] :], skip_special_tokens=True
            )
        return answers


def sample_by_harness(
    directory: str, questions: Sequence[str], sampling: Sampling
) -> tuple[list[list[str]], float]:
    """Sample answers by lm-evaluation-harness, to which each question is an item of a task.

    Returns:
        The answers to each question, and the seconds of the whole program.
    """
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        write_json([{"question": question} for question in questions], scratch / "questions.json")
        task = {
            "task": "questions",
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": str(scratch / "questions.json")}},
            "test_split": "test",
            "output_type": "generate_until",
            "doc_to_text": "{{question}}",
            "doc_to_target": "yes",
            "repeats": sampling.samples,
            "generation_kwargs": {
                "until": [],
                "max_gen_toks": sampling.length,
                **sampling.settings,
            },
            "metric_list": [{"metric": "exact_match"}],
        }
        write_json(task, scratch / "questions.yaml")
        began = time.monotonic()
        command = [str(ENVIRONMENTS / "lm_eval/bin/lm_eval"), "--model", "hf", "--tasks=questions"]
        command += [f"--model_args=pretrained={directory},dtype=float32", "--apply_chat_template"]
        command += [f"--batch_size={sampling.at_once}", "--log_samples"]
        command += [f"--include_path={scratch}", f"--output_path={scratch / 'found'}"]
        offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(scratch / "cache")}
        subprocess.run(command, check=True, env=os.environ | offline, stdout=subprocess.DEVNULL)
        seconds = time.monotonic() - began
        (file,) = (scratch / "found").rglob("samples_questions_*.jsonl")
        items = map(json.loads, file.read_text(encoding="utf-8").splitlines())
        found = {item["doc"]["question"]: item["resps"] for item in items}
    # one response is a list of all repeats
    return [list(found[question][0]) for question in questions], seconds


def format_table(found: dict[str, dict[str, float]], definitions: dict[str, str]) -> str:
    """Format figures as a table with a row for each program, and what its columns are."""
    lines = ["| way | " + " | ".join(definitions) + " |", "| --- |" + " ---: |" * len(definitions)]
    lines += [
        f"| {way} | " + " | ".join(f"{figures[name]:.4g}" for name in definitions) + " |"
        for way, figures in found.items()
    ]
    lines += ["", *(f"- `{name}`: {sentence}." for name, sentence in definitions.items())]
    return "\n".join(lines) + "\n"
