"""Search all runs of random C programs, and compare the verdicts with gcc's sanitizers:

    .venv/bin/python benchmarks/fuzzing.py --programs 500

The program asserts of a random computation that its result is one of those that gcc's runs on all
inputs have; in every second program one of them is left out. A verdict that differs from these
runs is a disagreement, and its program is printed. The counts become a row for each kind in
resources/measured/fuzzing.csv.
"""

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pandas as pd
from verifying import ROOT, read_commit

from llmchecker.utils.atomic_files import atomic_write
from loop_invariants.execution.execution import execute
from loop_invariants.frontend.error_names import ErrorNames
from loop_invariants.ir.instrumentation import Property

sys.path.append(str(ROOT / "packages/loop-invariants/tests"))

from helpers.random_states import KINDS, build_program, run_compiled

RECORD = ROOT / "resources/measured/fuzzing.csv"
COUNTS = ["programs", "verified", "violated", "undecided", "disagreements"]
BATCH = 50
"""Programs that gcc compiles together."""
SECONDS = 5
"""Time limit of the search of a program."""


def main(arguments: list[str] | None = None) -> None:
    """Compare the verdicts on programs of each kind, and record the counts."""
    parser = argparse.ArgumentParser(prog="fuzzing.py", description=__doc__)
    parser.add_argument("--programs", type=int, default=500, help="programs of each kind")
    parser.add_argument("--kind", choices=KINDS, action="append", help="kinds (default: all)")
    parser.add_argument("--output", type=Path, default=RECORD)
    options = parser.parse_args(arguments)
    for kind in options.kind or [kind for kind in KINDS if kind != "all"]:
        counts = count_verdicts(kind, options.programs)
        row = {"kind": kind, **{name: counts[name] for name in COUNTS}, "commit": read_commit()}
        rows = pd.DataFrame([row])
        if options.output.exists():
            rows = pd.concat([pd.read_csv(options.output, dtype={"commit": str}), rows])
        rows = rows.drop_duplicates("kind", keep="last").sort_values("kind")
        with atomic_write(options.output) as partial_file:
            rows.to_csv(partial_file, index=False)


def count_verdicts(kind: str, programs: int) -> Counter[str]:
    """Count the verdicts on programs of a kind, and those that contradict gcc's runs."""
    counts: Counter[str] = Counter(programs=programs)
    for start in range(0, programs, BATCH):
        seeds = range(start, min(start + BATCH, programs))
        texts = [build_program(seed, kind) for seed in seeds]
        with tempfile.TemporaryDirectory() as folder:
            all_results = run_compiled(texts, Path(folder))
        for seed, text, results in zip(seeds, texts, all_results, strict=True):
            values = sorted({value for value in results if value is not None})[seed % 2 :]
            claim = " || ".join(f"r == {value}ul" for value in values) or "0"
            program = text.replace("CLAIM", claim)
            verdict = find_verdict(program)
            counts[verdict] += 1
            expected = "verified" if set(results) <= set(values) else "violated"
            if verdict not in (expected, "undecided"):
                counts["disagreements"] += 1
                print(
                    f"{kind} {seed}: {verdict}, but {expected} by gcc {results}\n{program}",
                    flush=True,
                )
    return counts


def find_verdict(program: str) -> str:
    """Return `verified` or `violated` if the search of all runs decides, else `undecided`."""
    found = execute(program, "random", Property.ASSERT, ErrorNames(), {}, SECONDS)
    if found.is_complete:
        return "verified"
    return "violated" if found.kind and found.is_real else "undecided"


if __name__ == "__main__":
    main()
