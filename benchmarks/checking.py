"""What checking costs: time and memory from the parquet file to the verdict, bounds, front ends.

Run as a program it measures one check, in a process of its own so that its peak memory is known:
`python benchmarks/checking.py DIRECTORY QUERY`.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas  # noqa: F401 - pyarrow imports it at its first read, which is not the tree's cost
import stormpy
from generated_tree import RANGES, generated_scores, generated_tree

from llmchecker import bounding, chaos, jani, markov_chain, prism, scores, storm
from llmchecker.properties import parse
from llmchecker.text_tree import TextTree

QUERIES = (
    "P=? [ F gender > 0 ]",
    "P=? [ G readability > 5997 ]",
    "P=? [ (F gender > 0) & (G polarity > -30) ]",
    "P=? [ F<=5 gender > 0 ]",
)
LANGUAGES = {"prism": prism, "jani": jani}


def write_tree(directory: Path, states: int, seed: int = 1) -> None:
    """Write a generated tree and its scores to a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    tree = generated_tree(states, seed)
    tree.write(directory / "tree.parquet")
    for name, column in generated_scores(tree, seed).items():
        scores.write(column, tree, directory / f"{name}.parquet")


def measured_check(directory: Path, query: str) -> dict[str, float]:
    """Measure one check of a tree that `write_tree` wrote, in a new process.

    Returns:
        states; seconds and peak_gb from the parquet files to the verdict; read_seconds of it for
        reading; bounds_seconds for the bounds, which come after it; bounds_ratio, of these seconds
        to those of building and checking the chain alone.
    """
    command = [sys.executable, __file__, str(directory), query]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def measured_front_end(directory: Path, states: int, language: str) -> dict[str, float]:
    """Measure Storm's front end on a generated tree: states and seconds for the whole model.

    Args:
        language: `prism` or `jani`; the file is written to the directory, which is not measured.
    """
    tree = generated_tree(states, seed=1)
    gender = {"gender": generated_scores(tree, seed=1)["gender"]}
    path = directory / f"{states}.{language}"
    LANGUAGES[language].write(tree, gender, path)
    began = time.perf_counter()
    if language == "prism":
        program = stormpy.parse_prism_program(str(path))
    else:
        program, _ = stormpy.parse_jani_model(str(path))
    model = stormpy.build_model(program)
    return {"states": model.nr_states, "seconds": time.perf_counter() - began}


def fitted_exponent(states: Sequence[float], seconds: Sequence[float]) -> float:
    """Return the power of the states with which the seconds grow: least squares of logarithms."""
    slope, _ = np.polyfit(np.log(states), np.log(seconds), 1)
    return float(slope)


def _check(directory: Path, text: str) -> dict[str, float]:
    query = parse(text)
    names = sorted({name for atom in query.atoms for name in atom.variables} - {"step"})
    times = [time.perf_counter()]
    tree = TextTree.read(directory / "tree.parquet")
    values = scores.read_all(tree, [directory / f"{name}.parquet" for name in names])
    times.append(time.perf_counter())
    chain = markov_chain.build(tree, values)
    verdict = storm.check(chain, query)
    times.append(time.perf_counter())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    process = chaos.complete(tree, values, query, RANGES)
    bounded = verdict.bounded(bounding.bounds(process, query))
    times.append(time.perf_counter())
    if not bounded.lower - 1e-9 <= verdict.value <= bounded.upper + 1e-9:
        raise SystemExit(f"{text}: {verdict.value} is not within the bounds")
    read, plain, bounds = np.diff(times).tolist()
    return {
        "states": len(tree),
        "seconds": read + plain,
        "read_seconds": read,
        "peak_gb": peak,
        "bounds_seconds": bounds,
        "bounds_ratio": bounds / plain,
    }


if __name__ == "__main__":
    print(json.dumps(_check(Path(sys.argv[1]), sys.argv[2])))
