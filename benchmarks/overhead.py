"""Overhead of `snakemake --cores all` beyond the work of its jobs."""

import csv
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
COPIED = (
    *("Snakefile", "environment.yml", "profiles", "src", "workflow"),
    "packages/loop-invariants/src",
)
LINKED = ("resources",)

DEFINITIONS = {
    "cores": "cores that the run may use",
    "seconds": "wall time of `snakemake --cores all`, in a new directory in which the models lie "
    "already",
    "work_share": "of cores * seconds: what jobs say at the end of their logs that they worked, "
    "each times its threads",
    "overhead_share": "of cores * seconds: what jobs take beyond their work (starting, importing, "
    "loading models, reading and writing files), each times its threads; and all cores while no "
    "job runs",
    "between_jobs_share": "the part of the overhead in which no job runs",
    "idle_share": "the rest: cores for which there was no job while another ran",
}
"""What each figure `workflow.…` is."""

_BEGAN = re.compile(r"Job (\d+): ")
_ENDED = re.compile(r"Finished jobid: (\d+) \(Rule: (.+)\)$")
_STEPS = re.compile(r"(\d+) of (\d+) steps \(\d+%\) done$")
_WORKED = re.compile(r"worked (\d+\.\d+) s$")


@dataclass(frozen=True)
class Job:
    """When a job of a rule began and ended, in seconds of one clock."""

    rule: str
    began: float
    ended: float


@dataclass(frozen=True)
class Run:
    """A finished run of the workflow: its jobs, and its wall time in seconds."""

    jobs: tuple[Job, ...]
    seconds: float


def prepare(directory: Path, config: Path) -> None:
    """Make a directory from which the workflow runs as from a new clone, with the same models."""
    for name in COPIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, directory / name)
    for name in LINKED:
        shutil.copytree(ROOT / name, directory / name, copy_function=_link)
    shutil.copy2(config, directory / "config.yaml")


def run(directory: Path, report: Callable[[str], None]) -> Run:
    """Run `snakemake --cores all` in a directory; jobs are timed by what it prints about them.

    Args:
        report: told how many jobs are done.

    Raises:
        SystemExit: the run failed; with what it printed.
    """
    lines: list[tuple[float, str]] = []
    # extended benchmarks tell the threads of each job; models are there, whatever code fetched them
    settings = ["--benchmark-extended", "--rerun-triggers", "mtime", "--nocolor"]
    command = [sys.executable, "-m", "snakemake", "--cores", "all", *settings]
    began = time.monotonic()
    with subprocess.Popen(
        command,
        cwd=directory,
        env=os.environ | {"PYTHONUTF8": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    ) as process:
        for line in process.stdout:
            lines.append((time.monotonic(), line.rstrip("\n")))
            if _STEPS.match(line):
                report(line.strip())
    seconds = time.monotonic() - began
    if process.returncode:
        raise SystemExit("\n".join(["the workflow failed:", *(line for _, line in lines[-60:])]))
    return Run(tuple(jobs(lines)), seconds)


def jobs(lines: Iterable[tuple[float, str]]) -> list[Job]:
    """Read the jobs of a run from the lines that snakemake printed, each with its time.

    Raises:
        ValueError: not all jobs were found.
    """
    began: dict[str, float] = {}
    found, announced = [], 0
    for at, line in lines:
        if match := _BEGAN.match(line):
            began[match[1]] = at
        elif (match := _ENDED.match(line)) and match[2] not in ("all", "default"):
            found.append(Job(match[2], began[match[1]], at))
        elif match := _STEPS.match(line):
            announced = int(match[2]) - 1  # all but the target
    if len(found) != announced:
        raise ValueError(f"snakemake ran {announced} jobs, of which {len(found)} were found")
    return found


def measure(directory: Path, finished: Run, cores: int) -> dict[str, float]:
    """Return the figures of `DEFINITIONS` of a run in a directory."""
    benchmarks = directory / "results/benchmarks"
    logs = directory / "results/logs"
    threads_of_rule, threads_of_log = {}, {}
    for path in sorted(benchmarks.rglob("*.tsv")):
        with path.open(encoding="utf-8", newline="") as file:
            row = next(csv.DictReader(file, delimiter="\t"))
        threads_of_rule[row["rule_name"]] = int(row["threads"])
        threads_of_log[path.relative_to(benchmarks).with_suffix(".log")] = int(row["threads"])
    # a rule without a benchmark has one thread
    work = sum(
        worked(log) * threads_of_log.get(log.relative_to(logs), 1) for log in logs.rglob("*.log")
    )
    threads = [threads_of_rule.get(job.rule, 1) for job in finished.jobs]
    return {"cores": cores, "seconds": finished.seconds} | shares(finished, threads, work, cores)


def worked(log: Path) -> float:
    """Return the seconds that a job worked, as the last line of its log says.

    Raises:
        ValueError: the log does not say it.
    """
    last = log.read_text(encoding="utf-8").rstrip().rpartition("\n")[2]
    match = _WORKED.search(last)
    if match is None:
        raise ValueError(f"{log} does not say at its end how long the job worked")
    return float(match[1])


def shares(finished: Run, threads: Sequence[int], work: float, cores: int) -> dict[str, float]:
    """Divide the time of all cores into work, overhead and idleness.

    Args:
        threads: of each job.
        work: seconds that the jobs worked, each times its threads.
    """
    whole = cores * finished.seconds
    busy = sum(n * (job.ended - job.began) for job, n in zip(finished.jobs, threads, strict=True))
    between = cores * (finished.seconds - covered(finished.jobs))
    return {
        "work_share": work / whole,
        "overhead_share": (busy - work + between) / whole,
        "between_jobs_share": between / whole,
        "idle_share": (whole - busy - between) / whole,
    }


def covered(jobs: Iterable[Job]) -> float:
    """Return the seconds in which at least one of the jobs runs."""
    seconds, until = 0.0, float("-inf")
    for job in sorted(jobs, key=lambda job: job.began):
        seconds += max(0.0, job.ended - max(job.began, until))
        until = max(until, job.ended)
    return seconds


def _link(source: str, target: str) -> None:
    """A hard link where the file system allows it: models are large."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
