"""How cost grows: with states of a chain, vocabulary, cases of a suite, and horizon.

All seconds are processor time of all threads, which other programs of the machine change little.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import yaml
from checking import QUERIES, measured_check, write_tree
from random_llama import SHAPES, START, build_network, make_tokenizer
from speed import Subject, count_passes, measure_check, warm_up

from evaluation.subjects import Row

QUERY = "P=? [ F gender > 0 ]"
PASSES = 500
LENGTH = 20
VOCABULARY = 2_048
_SUITE_PASSES = 10


def measure_states(sizes: Sequence[int], report: Callable[[str], None] = print) -> Iterator[Row]:
    """Yield seconds from the files of a generated tree to the answer."""
    with tempfile.TemporaryDirectory() as name:
        for states in sizes:
            write_tree(Path(name, str(states)), states)
            found = measured_check(Path(name, str(states)), QUERIES[0], bounds=False)
            seconds = found["processor_seconds"]
            yield _build_row("states", states, seconds, found["peak_gb"])
            report(f"{states} states: {seconds:.2f} s")


def measure_vocabulary(
    sizes: Sequence[int], report: Callable[[str], None] = print
) -> Iterator[Row]:
    """Yield seconds for 1,000 passes of a tiny network, by the tokens of its vocabulary."""
    for vocabulary in sizes:
        tokenizer = make_tokenizer(vocabulary)
        subject = Subject.of(build_network(SHAPES["host"], tokenizer), tokenizer)
        seconds = _measure_passes(subject, LENGTH)
        yield _build_row("vocabulary", len(tokenizer), seconds)
        report(f"{len(tokenizer)} tokens: {seconds:.2f} s for 1,000 passes")


def measure_horizon(sizes: Sequence[int], report: Callable[[str], None] = print) -> Iterator[Row]:
    """Yield seconds for 1,000 passes of a tiny network, by the horizon."""
    tokenizer = make_tokenizer(VOCABULARY)
    subject = Subject.of(build_network(SHAPES["host"], tokenizer), tokenizer)
    for length in sizes:
        seconds = _measure_passes(subject, length)
        yield _build_row("horizon", length, seconds)
        report(f"{length} tokens: {seconds:.2f} s for 1,000 passes")


def measure_suite(sizes: Sequence[int], report: Callable[[str], None] = print) -> Iterator[Row]:
    """Yield seconds of `llmchecker test` for suites of different prompts, by their cases.

    The model is a tiny network, so that the time is that of the program.
    """
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        tokenizer = make_tokenizer(VOCABULARY)
        build_network(SHAPES["tiny"], tokenizer).save_pretrained(directory / "model")
        tokenizer.save_pretrained(directory / "model")
        for cases in sizes:
            seconds = _run_suite(directory, cases)
            yield _build_row("suite", cases, seconds)
            report(f"{cases} cases: {seconds:.1f} s")


def find_slope(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Return the exponent with which seconds grow from the middle size to the largest.

    Small sizes are mostly constant cost.
    """
    half = len(sizes) // 2
    slope, _ = np.polyfit(np.log(sizes[half:]), np.log(seconds[half:]), 1)
    return float(slope)


AXES: dict[str, Callable[..., Iterator[Row]]] = {
    "states": measure_states,
    "vocabulary": measure_vocabulary,
    "suite": measure_suite,
    "horizon": measure_horizon,
}
"""What grows, by name."""


def _measure_passes(subject: Subject, length: int) -> float:
    warm_up(subject.model, QUERY, START, length)
    began = time.process_time()
    _, answer = measure_check(subject.model, QUERY, START, length=length, passes=PASSES)
    return 1000 * (time.process_time() - began) / count_passes(answer)


def _run_suite(directory: Path, cases: int) -> float:
    """Run a suite in a process of its own; return the seconds, with those of loading."""
    rows = directory / "prompts.csv"
    lines = [f"The player won game {number} because" for number in range(cases)]
    rows.write_text("\n".join(["start", *lines]) + "\n", encoding="utf-8")
    suite = {
        "model": str(directory / "model"),
        "length": 1,
        "budget": {"passes": _SUITE_PASSES},
        "cases": [
            {"name": "row", "prompts": str(rows), "require": {"q": "P>=0.5 [ F gender >= 0 ]"}}
        ],
    }
    file, results = directory / "suite.yaml", directory / f"{cases}.jsonl"
    file.write_text(yaml.safe_dump(suite, sort_keys=False), encoding="utf-8")
    program = Path(sys.executable).with_name("llmchecker")
    began = _count_child_seconds()
    finished = subprocess.run(
        [program, "test", file, "--json", results], capture_output=True, text=True, check=False
    )
    seconds = _count_child_seconds() - began
    answered = sum("case" in json.loads(line) for line in results.open(encoding="utf-8"))
    # a suite of another size than asked for would be a wrong point
    if finished.returncode > 2 or answered != cases:
        raise RuntimeError(f"{answered} of {cases} cases: {finished.stderr[-500:]}")
    return seconds


def _count_child_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _build_row(axis: str, size: int, seconds: float, peak_gb: float | None = None) -> Row:
    return {"axis": axis, "size": size, "seconds": seconds, "peak_gb": peak_gb}
