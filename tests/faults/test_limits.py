"""What a machine has no room, memory or right for is one sentence, and the next run goes on."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers.project import ROOT
from helpers.undisturbed import TREE

from llmchecker.errors import MachineLimit
from llmchecker.utils.atomic_files import read_json_with_digest, write_json_with_digest

pytestmark = [pytest.mark.slow, pytest.mark.faults]

LIMITED = """
import resource, sys
import torch, transformers, stormpy
from pathlib import Path
from llmchecker.interfaces.cli import check_on_model, check_command, tree_cache
from llmchecker.interfaces.cli.main import main
pages = int(Path("/proc/self/statm").read_text().split()[0])
most = pages * resource.getpagesize() + {megabytes} * 2**20
resource.setrlimit(resource.RLIMIT_AS, (most, most))
sys.exit(main(sys.argv[1:]))
"""
CHECK = ["check", "P=? [ F gender > 0 ]", "--start", "The player won because"]
LARGE = [*CHECK, "--alpha", "1", "--k", "40", "--length", "4"]


@contextmanager
def mounted(directory: Path, options: str) -> Iterator[Path]:
    """Make a directory a small disk of its own, or tell why that cannot be done here."""
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(directory)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"no small disk can be made here: {made.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def test_a_full_disk_is_one_sentence(tmp_path):
    """What does not fit on a disk is named with the room that is left, and what was there stays."""
    with mounted(tmp_path / "disk", "size=64k") as disk:
        write_json_with_digest({"a": 1}, disk / "a.json")
        for _ in range(3):
            with pytest.raises(
                MachineLimit, match=r"a\.json: cannot be written: the disk is full; "
            ):
                write_json_with_digest({"a": "b" * 10**6}, disk / "a.json")
        assert read_json_with_digest(disk / "a.json") == {"a": 1}
        assert [path.name for path in disk.iterdir()] == ["a.json"]


def test_a_disk_that_can_only_be_read_is_one_sentence(tmp_path):
    """What cannot be written where a disk may only be read is named, with the reason."""
    with (
        mounted(tmp_path / "disk", "ro") as disk,
        pytest.raises(MachineLimit, match="the file system is read-only"),
    ):
        write_json_with_digest({"a": 1}, disk / "a.json")


def test_results_where_nothing_can_be_written_are_one_sentence(fresh):
    """A run whose results would lie where only can be read says so before its first job."""
    with mounted(fresh.directory / "results", "ro"):
        run = fresh.snakemake("--cores", "2")
    assert run.returncode == 1
    told = run.stdout.splitlines()[-2:]
    reason = "results: nothing can be written: the file system is read-only"
    assert told == ["The run cannot begin.", reason]


def test_a_run_on_a_full_disk_goes_on_once_there_is_room(fresh, mended):
    """A run that fills its disk says so, and loses nothing: with more room the next one goes on."""
    with mounted(fresh.directory / "results", "size=100k") as disk:
        run = fresh.snakemake("--cores", "2")
        assert run.returncode == 1
        # where the last byte goes to a whole file, Snakemake is the first to miss room, for its own
        said = ("cannot be written: the disk is full", "No space left on device")
        assert any(sentence in run.stdout for sentence in said), run.stdout
        assert list(disk.rglob(".partial-*")) == []
        subprocess.run(["mount", "-o", "remount,size=1g", str(disk)], check=True)
        mended(fresh)


def test_a_limit_of_files_is_one_sentence(project, undisturbed):
    """Where files may not become as large as a tree, a run names the file, and keeps the others."""
    tree = project.directory / f"results/trees/{TREE}.parquet"
    most = tree.stat().st_size // 2
    tree.unlink()
    code = (
        "import resource, sys\n"
        "from llmchecker.interfaces.cli.main import main\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, {most}))\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    # other than the project's tree, which would be found
    question = [*CHECK, "--alpha", "0.9", "--k", "3", "--length", "2"]
    told = _ran([sys.executable, "-c", code, *question], project.directory)
    assert told.returncode == 3
    assert "Traceback" not in told.stderr
    assert "exceeds the limit of file sizes (ulimit -f)" in told.stderr
    again = project.snakemake("--cores", "2")
    assert again.returncode == 0, again.stdout


# with more than these, the imports of torch fail in ways of their own: an ImportError, or an abort
@pytest.mark.parametrize("megabytes", [5, 10, 20])
def test_too_little_memory_is_one_sentence(megabytes, project):
    """A command that gets no more memory says so, and what would need less, without a traceback."""
    code = LIMITED.format(megabytes=megabytes)
    told = _ran([sys.executable, "-c", code, *LARGE], project.directory)
    assert told.returncode == 3, told.stderr
    assert "Traceback" not in told.stderr, told.stderr
    assert "memory" in told.stderr.splitlines()[-1]


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_a_device_that_is_not_there_is_one_sentence(device, project):
    """A model that is configured for a processor which the machine lacks is refused by its name."""
    import torch

    if torch.cuda.is_available() or torch.backends.mps.is_available():
        pytest.skip("this machine has such a device")
    config = project.directory / "config.yaml"
    config.write_text(config.read_text().replace("    label:", f"    device: {device}\n    label:"))
    code = "from llmchecker.interfaces.cli.entry import run; run()"
    told = _ran([sys.executable, "-c", code, *LARGE], project.directory)
    assert told.returncode == 3, told.stderr
    assert "Traceback" not in told.stderr
    assert device in told.stderr.splitlines()[-1].lower()


def test_a_reader_that_goes_away_is_no_traceback(project):
    """A closed pipe ends a command quietly."""
    code = "from llmchecker.interfaces.cli.entry import run; run()"
    question = [*CHECK, "--alpha", "0.8", "--k", "3", "--length", "2"]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        told = _ran([sys.executable, "-c", code, *question], project.directory, stdout=closed)
    assert "Traceback" not in told.stderr
    assert "closed before everything was written" in told.stderr


def _ran(command: list[str], directory: Path, **streams: object) -> subprocess.CompletedProcess:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONUTF8": "1"}
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    return subprocess.run(
        command, cwd=directory, env=environment, encoding="utf-8", check=False, **given
    )
