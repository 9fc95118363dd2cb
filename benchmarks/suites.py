"""A suite of 100 requirements next to samples of other programs: `make bench-suites`.

`llmchecker test` decides two requirements of each of the 50 questions in suite_questions.csv.
transformers' `generate` and lm-evaluation-harness sample each answer a thousand times, on a part of
the questions, as all would take about two hours each. Writes suites.md, and the figures to
suites.json.
"""

import argparse
import csv
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import yaml
from other_programs import Generator, Sampling, format_table, sample_by_harness
from plain_sampling import Proportion

from llmchecker.config import paths
from llmchecker.suites.multiple_testing import split_confidence
from llmchecker.utils.atomic_files import atomic_write, write_json

MODEL = "smollm2-135m"
QUESTIONS = Path(__file__).with_name("suite_questions.csv")
SAMPLING = Sampling(temperature=0.2, top_p=0.9, length=20, samples=1000, at_once=0)
BATCH_SIZES = (32, 100, 250)
CONFIDENCE, PASSES = 0.99, 2000
LEAST_RIGHT, MOST_WRONG = 0.9, 0.01
EVERY = 25
"""Other programs sample the first of so many questions."""

DEFINITIONS = {
    "seconds": "of the whole program for all questions, loading included; for samples, the seconds "
    "of loading, and those of the measured questions scaled to all",
    "measured_questions": "the questions that were measured",
    "decided": "decided requirements of the questions that all programs measured",
    "all_decided": "decided requirements of all measured questions",
    "contradictions": "requirements that samples decide otherwise than `llmchecker test`",
    "ratio": "seconds divided by those of `llmchecker test`",
}

Question = Mapping[str, str]
Verdicts = dict[str, bool | None]
"""Whether a requirement holds by the name of its case; None if it is undecided."""


def main(arguments: list[str] | None = None) -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(prog="suites.py", description=__doc__)
    parser.add_argument("--config", type=Path, default=Path("config.yaml"))
    parser.add_argument("--output", type=Path, default=Path("results/benchmarks"))
    parser.add_argument("--only-test", action="store_true", help="no samples, for a profile")
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    with QUESTIONS.open(encoding="utf-8", newline="") as file:
        questions = list(csv.DictReader(file))
    verdicts, seconds = run_suite(options.config)
    print(f"llmchecker test: {seconds:.1f} s, {count_decided(verdicts)} decided", flush=True)
    if options.only_test:
        return
    table = compare(questions, verdicts, seconds)
    text = format_page(table)
    print(text)
    write_json(table, options.output / "suites.json")
    with atomic_write(options.output / "suites.md") as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def run_suite(config: Path) -> tuple[Verdicts, float]:
    """Run the suite in a process of its own; return its verdicts and the seconds."""
    suite = {
        "model": MODEL,
        "config": str(config.resolve()),
        "decoding": {"temperature": SAMPLING.temperature, "top_p": SAMPLING.top_p},
        "length": SAMPLING.length,
        "confidence": CONFIDENCE,
        "budget": {"passes": PASSES},
        "properties": {
            name: {"type": "pattern", "pattern": rf"(?i)\b{{{column}}}"}
            for name, column in (("right", "answer"), ("wrong", "wrong"))
        },
        "cases": [
            {
                "name": "question",
                "prompts": str(QUESTIONS),
                "require": {
                    "right": f"P>={LEAST_RIGHT} [ F right = 1 ]",
                    "wrong": f"P<={MOST_WRONG} [ F wrong = 1 ]",
                },
            }
        ],
    }
    with tempfile.TemporaryDirectory() as name:
        file, results = Path(name, "suite.yaml"), Path(name, "results.jsonl")
        file.write_text(yaml.safe_dump(suite, sort_keys=False), encoding="utf-8")
        program = Path(sys.executable).with_name("llmchecker")
        began = time.monotonic()
        # violated requirements are expected, errors are not
        finished = subprocess.run(
            [program, "test", file, "--json", results], stdout=subprocess.DEVNULL, check=False
        )
        seconds = time.monotonic() - began
        if finished.returncode > 2:
            raise RuntimeError(f"llmchecker test ended with {finished.returncode}")
        lines = map(json.loads, results.read_text(encoding="utf-8").splitlines())
        statuses = {line["case"]: line["status"] for line in lines if "case" in line}
    outcomes = {"HOLDS": True, "VIOLATED": False, "UNKNOWN": None}
    return {case: outcomes[status] for case, status in statuses.items()}, seconds


def compare(
    questions: Sequence[Question], verdicts: Verdicts, seconds: float
) -> dict[str, dict[str, float]]:
    """The figures of `DEFINITIONS` for each program."""
    measured = {index: questions[index] for index in range(0, len(questions), EVERY)}
    cases = [name_case(index, kind) for index in measured for kind in ("right", "wrong")]
    found = {"llmchecker test": (verdicts, seconds, len(questions))}
    texts = [question["user"] for question in measured.values()]
    began = time.monotonic()
    generator = Generator(paths.model_directory(MODEL))
    own_loading = time.monotonic() - began
    # both programs sample in batches of the same size
    plan = replace(SAMPLING, at_once=find_best_size(generator, texts[0]))
    for name, (answers, sampling, loading) in {
        "`generate`": (*sample_by_generate(generator, texts, plan), own_loading),
        "lm-evaluation-harness": sample_in_harness(texts, plan),
    }.items():
        decided = {
            case: verdict
            for (index, question), several in zip(measured.items(), answers, strict=True)
            for case, verdict in judge(index, question, several, len(verdicts)).items()
        }
        scaled = loading + sampling / len(measured) * len(questions)
        found[f"{SAMPLING.samples} samples by {name}"] = decided, scaled, len(measured)
    return {
        name: {
            "seconds": program_seconds,
            "measured_questions": count,
            "decided": count_decided({case: decided[case] for case in cases}),
            "all_decided": count_decided(decided),
            "contradictions": sum(
                None not in (verdict, verdicts[case]) and verdict != verdicts[case]
                for case, verdict in decided.items()
            ),
            "ratio": program_seconds / seconds,
        }
        for name, (decided, program_seconds, count) in found.items()
    }


def sample_by_generate(
    generator: Generator, texts: Sequence[str], plan: Sampling
) -> tuple[list[list[str]], float]:
    """Sample answers to each question by `generate`; return them and the seconds."""
    began = time.monotonic()
    answers = [generator.sample(text, plan) for text in texts]
    return answers, time.monotonic() - began


def find_best_size(generator: Generator, text: str) -> int:
    """Find the batch size that samples fastest."""

    def seconds_a_sample(size: int) -> float:
        batch = replace(SAMPLING, samples=size, at_once=size)
        # the first batch of a shape allocates
        return min(_seconds(lambda: generator.sample(text, batch)) for _ in range(2)) / size

    size = min(BATCH_SIZES, key=seconds_a_sample)
    print(f"generate: batches of {size} are the fastest", flush=True)
    return size


def sample_in_harness(texts: Sequence[str], plan: Sampling) -> tuple[list[list[str]], float, float]:
    """Sample by lm-evaluation-harness; return answers, and seconds of sampling and of loading.

    The seconds of loading are those of a run with two samples of one question.
    """
    directory = paths.model_directory(MODEL)
    _, loading = sample_by_harness(directory, texts[:1], replace(plan, samples=2))
    answers, seconds = sample_by_harness(directory, texts, plan)
    return answers, seconds - loading, loading


def judge(index: int, question: Question, answers: Sequence[str], cases: int) -> Verdicts:
    """The verdicts of sampled answers, with the confidence that a suite gives each case."""
    confidence = split_confidence(CONFIDENCE, cases)

    def ends(column: str) -> tuple[float, float]:
        satisfying = sum(contains_word(answer, question[column]) for answer in answers)
        return Proportion(satisfying, len(answers)).interval(confidence)

    low, high = ends("answer")
    right = True if low >= LEAST_RIGHT else False if high < LEAST_RIGHT else None
    low, high = ends("wrong")
    wrong = True if high <= MOST_WRONG else False if low > MOST_WRONG else None
    return {name_case(index, "right"): right, name_case(index, "wrong"): wrong}


def contains_word(answer: str, beginning: str) -> bool:
    """Return whether a word of an answer begins with these letters, as the suite's patterns do."""
    return re.search(rf"(?i)\b{re.escape(beginning)}", answer) is not None


def name_case(index: int, requirement: str) -> str:
    """The name of the suite's case for a question and a requirement."""
    return f"question, row {index + 1}: {requirement}"


def count_decided(verdicts: Verdicts) -> int:
    """The number of requirements that hold or are violated."""
    return sum(verdict is not None for verdict in verdicts.values())


def format_page(table: dict[str, dict[str, float]]) -> str:
    """The table with its definitions."""
    return (
        f"# Two requirements of each of 50 answers of {MODEL}\n\n"
        f"P>={LEAST_RIGHT} of the right answer and P<={MOST_WRONG} of a wrong one; temperature "
        f"{SAMPLING.temperature}, top-p {SAMPLING.top_p}, {SAMPLING.length} tokens; all verdicts "
        f"together with confidence {CONFIDENCE}.\n\n{format_table(table, DEFINITIONS)}"
    )


def _seconds(function: Callable[[], object]) -> float:
    began = time.monotonic()
    function()
    return time.monotonic() - began


if __name__ == "__main__":
    main()
