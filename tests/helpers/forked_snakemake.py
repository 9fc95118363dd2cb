"""Runs of snakemake as forks of a process that has imported its libraries once.

A run of snakemake on a small project mostly imports libraries, and so does each of its jobs. So a
job's script runs in a fork of its snakemake, as a process of the same group with the environment
that the job has. Neither process shares a module of llmchecker with another, as each project has
its own.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_SERVER = Path(__file__).with_name("snakemake_server.py")


@cache
def _start_server(hash_seed: str) -> subprocess.Popen:
    return _open_server({"PYTHONHASHSEED": hash_seed})


def _open_server(environment: Mapping[str, str], **streams: int) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-X", "utf8", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        env=os.environ | {"PYTHONPATH": "", "HF_HUB_OFFLINE": "1"} | environment,
        **streams,
    )


def open_snakemake(
    command: list[str], cwd: Path, env: Mapping[str, str], **_: object
) -> subprocess.Popen:
    """Start `python -m snakemake` as `subprocess.Popen` does, with jobs that are forks of it.

    Its output can be read while it runs. Its exit status is 0, also that of a failed run.
    """
    server = _open_server({}, stderr=subprocess.STDOUT)
    request = {
        "arguments": command[3:],
        "directory": str(cwd),
        "environment": env | {"PYTHONPATH": "", "HF_HUB_OFFLINE": "1"},
        "printed": "/dev/stdout",
    }
    print(json.dumps(request), file=server.stdin, flush=True)
    server.stdin.close()
    return server


def run_snakemake(
    arguments: list[str],
    directory: Path,
    environment: Mapping[str, str],
    *,
    hash_seed: str = "random",
) -> subprocess.CompletedProcess:
    """Run snakemake to its end; what it prints, to either stream, is in `stdout`.

    Args:
        arguments: the arguments of snakemake.
        directory: the working directory.
        environment: the whole environment of the run.
        hash_seed: the seed of the hashes of texts, as PYTHONHASHSEED.
    """
    server = _start_server(hash_seed)
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as printed:
        request = {
            "arguments": arguments,
            "directory": str(directory),
            "environment": dict(environment),
            "printed": printed.name,
        }
        print(json.dumps(request), file=server.stdin, flush=True)
        status = int(server.stdout.readline())
        return subprocess.CompletedProcess(arguments, status, printed.read())
