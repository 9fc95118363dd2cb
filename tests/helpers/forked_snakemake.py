"""Runs of snakemake as forks of a process that has imported its libraries once.

A run of snakemake on a small project mostly imports libraries. The process imports no module of
llmchecker, as each project has its own.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_SERVER = """
import json, os, sys
import docutils.core, huggingface_hub, jinja2, lark, pyarrow.parquet, pydantic, regex, requests
import snakemake.cli
from snakemake_interface_report_plugins.registry import ReportPluginRegistry

ReportPluginRegistry()
for line in sys.stdin:
    request = json.loads(line)
    child = os.fork()
    if child == 0:
        os.setsid()
        os.chdir(request["directory"])
        os.environ.clear()
        os.environ.update(request["environment"])
        for stream, path in enumerate([os.devnull, request["printed"], request["printed"]]):
            os.dup2(os.open(path, os.O_RDWR | os.O_APPEND), stream)
        sys.argv[1:] = request["arguments"]
        snakemake.cli.main()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@cache
def _start_server() -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-X", "utf8", "-c", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        env=os.environ | {"PYTHONPATH": ""},
    )


def run_snakemake(
    arguments: list[str], directory: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess:
    """Run snakemake to its end; what it prints, to either stream, is in `stdout`."""
    server = _start_server()
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
