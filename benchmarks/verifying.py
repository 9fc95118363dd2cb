"""Verify a set of programs without a model, and count its verdicts:

    .venv/bin/python benchmarks/verifying.py "own programs" resources/programs --semantics int32

The counts become a row of resources/measured/programs.csv. A row of the same set, semantics and
seconds is replaced. `docs/measured_pages.py` writes the page from all rows.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from llmchecker.utils.atomic_files import atomic_write
from loop_invariants.ir.expressions import Semantics

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "resources/measured/programs.csv"
KEYS = ["set", "semantics", "seconds"]
COUNTS = ["programs", "verified", "false", "unsupported", "unknown"]
COLUMNS = [*KEYS, *COUNTS, "commit"]

Row = Mapping[str, Any]


def main(arguments: list[str] | None = None) -> None:
    """Verify the programs and record the counts."""
    parser = argparse.ArgumentParser(prog="verifying.py", description=__doc__)
    parser.add_argument("set", help="name of the set on the page")
    parser.add_argument("directory", type=Path, help="the C files")
    parser.add_argument("--semantics", choices=list(Semantics), type=Semantics, required=True)
    parser.add_argument("--seconds", type=float, default=20, help="time limit of each program")
    parser.add_argument("--output", type=Path, default=RECORD)
    options = parser.parse_args(arguments)
    row = {"set": options.set, "semantics": str(options.semantics), "seconds": options.seconds}
    row |= count_verdicts(verify(options.directory, options.semantics, options.seconds))
    write_row(row | {"commit": read_commit()}, options.output)


def verify(directory: Path, semantics: Semantics, seconds: float) -> Mapping[str, Any]:
    """Return the JSON object of `llmchecker verify`, with one program at a time."""
    command = [str(Path(sys.executable).parent / "llmchecker"), "verify", str(directory)]
    command += ["--semantics", semantics, "--seconds", f"{seconds:g}", "--jobs", "1", "--json"]
    # The exit status is not 0 if a program is not verified.
    finished = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", check=False)
    if not finished.stdout:
        raise SystemExit(f"{' '.join(command)}: no result; read its message")
    return json.loads(finished.stdout)


def count_verdicts(found: Mapping[str, Any]) -> dict[str, int]:
    """Count the programs of each verdict; unsupported C is apart from other unknown programs."""
    programs = found["programs"]
    verdicts = Counter(
        "unsupported" if program["outcome"] == "unsupported" else program["verdict"]
        for program in programs
    )
    counts = [verdicts[name] for name in ("true", "false", "unsupported", "unknown")]
    return dict(zip(COUNTS, [len(programs), *counts], strict=True))


def write_row(row: Row, path: Path) -> None:
    """Add a row to the record, or replace the row of the same set, semantics and seconds."""
    rows = pd.DataFrame([row], columns=COLUMNS)
    if path.exists():
        rows = pd.concat([pd.read_csv(path, dtype={"commit": str}), rows])
    rows = rows.astype({"seconds": float}).drop_duplicates(KEYS, keep="last").sort_values(KEYS)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as partial_file:
        rows.to_csv(partial_file, index=False, float_format="%g")


def read_commit() -> str:
    """Return the first digits of the commit, with a plus sign if the packages differ from it."""
    git = ["git", "-C", str(ROOT)]
    commit = subprocess.check_output([*git, "rev-parse", "--short=12", "HEAD"], encoding="utf-8")
    # The record itself changes with each run, so that only the packages count.
    differences = [*git, "diff", "--quiet", "HEAD", "--", "src", "packages"]
    changed = subprocess.run(differences, check=False).returncode
    return f"{commit.strip()}{'+' if changed else ''}"


if __name__ == "__main__":
    main()
