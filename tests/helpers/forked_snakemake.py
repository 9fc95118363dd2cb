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
    return subprocess.Popen(
        [sys.executable, "-X", "utf8", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        env=os.environ | {"PYTHONPATH": "", "HF_HUB_OFFLINE": "1", "PYTHONHASHSEED": hash_seed},
    )


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
