"""Cost of checking: time and memory from the parquet file to the verdict, bounds, front ends.

Run as a program it measures one check, in a process of its own so that its peak memory is known:
`python benchmarks/checking.py DIRECTORY QUERY`, with `--bounds` the bounds too.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas  # noqa: F401 - pyarrow imports it at its first read, which is not the tree's cost
import stormpy
from generated_tree import RANGES, generated_scores, generated_tree

from llmchecker.checking.bounded_value import check_chain
from llmchecker.checking.bounds import compute_bounds as whole_model_bounds
from llmchecker.checking.markov.jani import write_jani
from llmchecker.checking.markov.prism import write_prism
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.scores import read_all_scores, write_scores
from llmchecker.trees.text_tree import TextTree

QUERIES = (
    "P=? [ F gender > 0 ]",
    "P=? [ G readability > 5997 ]",
    "P=? [ (F gender > 0) & (G polarity > -30) ]",
    "P=? [ F<=5 gender > 0 ]",
)
WRITERS = {"prism": write_prism, "jani": write_jani}

DEFINITIONS = {
    "check.seconds.{states}": "wall time from the parquet files of a generated tree and its scores "
    f"to the verdict on `{QUERIES[0]}`",
    "check.read_seconds.{states}": "the part of these seconds that reads the files",
    "check.processor_seconds.{states}": "processor time of the same check, which depends less on "
    "other programs of the machine",
    "check.seconds_ratio": "`check.seconds` of the largest tree over those of the tree before it, "
    "which has a tenth of its states",
    "check.peak_gb.{states}": "peak memory of the process that does it, imports included",
    "check.exponent": "the power of the states with which these seconds grow, by least squares of "
    "logarithms; without the smallest tree, whose time is mostly fixed cost",
    "check.slowest_seconds.{states}": "as `check.seconds.{states}`, for the slowest of all queries",
    "bounds.cost_ratio.{query}": "time for the bounds on the tree on which all queries are "
    "asked, over the time for building and checking its chain",
    "bounds.cost_ratio": "the largest of these",
    "{language}.seconds.{states}": "processor time of Storm's front end, from a file of the chain "
    "to the model; the query is not asked",
    "{language}.exponent": "the power of the states with which these seconds grow",
}
"""What each figure is."""


def write_tree(directory: Path, states: int, seed: int = 1) -> None:
    """Write a generated tree and its scores to a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    tree = generated_tree(states, seed)
    tree.write(directory / "tree.parquet")
    for name, column in generated_scores(tree, seed).items():
        write_scores(column, tree, directory / f"{name}.parquet")


def measured_check(directory: Path, query: str, bounds: bool = True) -> dict[str, float]:
    """Measure one check of a tree that `write_tree` wrote, in a new process.

    Returns:
        states; seconds, processor_seconds and peak_gb from the parquet files to the verdict;
        read_seconds of it for reading; with bounds, bounds_seconds for them, which come after it,
        and bounds_ratio, of these seconds to those of building and checking the chain alone.
    """
    command = [sys.executable, __file__, str(directory), query, *["--bounds"] * bounds]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def measured_front_end(directory: Path, states: int, language: str) -> dict[str, float]:
    """Measure Storm's front end on a generated tree: states and seconds for the whole model.

    The seconds are processor time, of which other programs on the machine take less away.

    Args:
        language: `prism` or `jani`; the file is written to the directory, which is not measured.
    """
    tree = generated_tree(states, seed=1)
    gender = {"gender": generated_scores(tree, seed=1)["gender"]}
    path = directory / f"{states}.{language}"
    WRITERS[language](ScoredTree(tree, gender), path)
    began = time.process_time()
    if language == "prism":
        program = stormpy.parse_prism_program(str(path))
    else:
        program, _ = stormpy.parse_jani_model(str(path))
    model = stormpy.build_model(program)
    return {"states": model.nr_states, "seconds": time.process_time() - began}


def fitted_exponent(states: Sequence[float], seconds: Sequence[float]) -> float:
    """Return the power of the states with which the seconds grow: least squares of logarithms."""
    slope, _ = np.polyfit(np.log(states), np.log(seconds), 1)
    return float(slope)


def _check(directory: Path, text: str, bounds: bool) -> dict[str, float]:
    query = parse(text)
    names = sorted({name for atom in query.atoms for name in atom.variables} - {"step"})
    processor_began = time.process_time()
    times = [time.perf_counter()]
    tree = TextTree.read(directory / "tree.parquet")
    values = read_all_scores(tree, [directory / f"{name}.parquet" for name in names])
    times.append(time.perf_counter())
    chain = ScoredTree(tree, values, RANGES)
    verdict = check_chain(chain, query)
    times.append(time.perf_counter())
    read, plain = np.diff(times).tolist()
    figures = {
        "states": len(tree),
        "seconds": read + plain,
        "read_seconds": read,
        "processor_seconds": time.process_time() - processor_began,
        "peak_gb": _peak_gb(),
    }
    if bounds:
        began = time.perf_counter()
        bounds, _ = whole_model_bounds(chain, query)
        figures["bounds_seconds"] = time.perf_counter() - began
        figures["bounds_ratio"] = figures["bounds_seconds"] / plain
        if not bounds.lower - 1e-9 <= verdict.bounded <= bounds.upper + 1e-9:
            raise SystemExit(f"{text}: {verdict.bounded} is not within the bounds")
    return figures


def _peak_gb() -> float:
    """The most memory that this program has had.

    Not `getrusage`, which counts what the program that started this one had before.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024 / 1e9


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("query")
    parser.add_argument("--bounds", action="store_true")
    arguments = parser.parse_args()
    print(json.dumps(_check(arguments.directory, arguments.query, arguments.bounds)))
