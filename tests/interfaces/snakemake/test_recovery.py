"""Damaged results, unfinished files and stale locks of a project are found and repaired."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.damage import flipped

from llmchecker.interfaces.cli.main import main
from llmchecker.interfaces.snakemake.recovery import find_repairs
from llmchecker.utils.atomic_files import (
    BLANK_DIGEST,
    atomic_write_with_checksum,
    atomic_write_with_digest,
    partial_prefix,
    write_json_with_digest,
)

FILES = [
    *("results/trees/m/a.parquet", "results/checks/m/a.json", "results/tables/a.csv"),
    *("results/figures/a.png", "results/figures/a.pdf", "results/report.html"),
    "results/tables/a.md",
]


@pytest.fixture
def results(tmp_path, monkeypatch) -> Path:
    """A project with a whole file of every kind."""
    monkeypatch.chdir(tmp_path)
    for name in FILES:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
    with atomic_write_with_digest(FILES[0]) as partial:
        partial.write_text(f"contents {BLANK_DIGEST} end")
    write_json_with_digest({"a": 1}, FILES[1])
    with atomic_write_with_checksum(FILES[2]) as partial:
        partial.write_text("a\n1\n")
    Path(FILES[3]).write_bytes(b"\x89PNG IEND\xaeB`\x82")
    Path(FILES[4]).write_bytes(b"%PDF %%EOF\n")
    Path(FILES[5]).write_text("<html></html>")  # as the report is written
    Path(FILES[6]).write_text("text\n")
    return tmp_path


def contents() -> dict[str, bytes]:
    """The contents of every file by its path."""
    return {str(path): path.read_bytes() for path in Path().rglob("*") if path.is_file()}


def locked(directory: Path = Path()) -> None:
    """Leave a lock as Snakemake does."""
    (directory / ".snakemake/locks").mkdir(parents=True)
    (directory / ".snakemake/locks/0.output.lock").write_text("a.json\n")


def ended_process_prefix() -> str:
    """How the names begin of unfinished files of a process that has ended."""
    code = "from llmchecker.utils.atomic_files import partial_prefix; print(partial_prefix())"
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_a_whole_project_stays(results, capsys):
    """Whole files, logs and files of other programs are kept."""
    Path("results/logs").mkdir()
    Path("results/logs/a.json").write_text("{")
    Path("results/own.csv").write_text("a\n1\n")
    before = contents()
    assert main(["repair"]) == 0
    assert contents() == before
    assert capsys.readouterr().out == ".: nothing to repair\n"


@pytest.mark.parametrize("name", FILES)
def test_an_empty_or_cut_file_is_renamed(name, results, capsys):
    """Each damaged file is kept under a new name, and no earlier one is overwritten."""
    whole = Path(name).read_bytes()
    others = {other: content for other, content in contents().items() if other != name}
    for number, damaged in enumerate((b"", whole[:-3] if not name.endswith(".md") else b"")):
        Path(name).write_bytes(damaged)
        assert main(["repair"]) == 0
        aside = f"{name}.damaged{'-2' * number}"
        assert f"renamed to {aside}: {name}: " in capsys.readouterr().out
        others[aside] = damaged
        assert contents() == others


@pytest.mark.parametrize("name", [FILES[0], FILES[2]])
def test_a_flipped_bit_is_enough(name, results):
    """A file that carries its checksum is renamed for a single bit."""
    Path(name).write_bytes(flipped(Path(name).read_bytes(), 3))
    assert [repair.path for repair in find_repairs(Path())] == [Path(name)]


def test_a_model_without_a_whole_record_is_renamed(results):
    """A model with a cut record is renamed as a whole; one of other origin has no record."""
    for model, record in (
        ("cut", '{"files": '),
        ("other", None),
        ("whole", '{"files": {"a": "' + "0" * 64 + '"}}'),
    ):
        Path("resources/models", model).mkdir(parents=True)
        if record is not None:
            Path("resources/models", model, "source.json").write_text(record)
    for _ in range(2):
        assert main(["repair"]) == 0
        models = sorted(path.name for path in Path("resources/models").iterdir())
        assert models == ["cut.damaged", "other", "whole"]


def test_unfinished_files_of_killed_jobs_are_removed(results):
    """Unfinished files and folders of processes that have ended go, those of living ones stay."""
    ended = ended_process_prefix()
    Path("resources/models", f"{ended}x/model").mkdir(parents=True)
    Path("results/trees", f"{ended}a.parquet").touch()
    Path("results/trees", f"{partial_prefix()}a.parquet").touch()
    assert main(["repair"]) == 0
    assert list(Path("resources/models").iterdir()) == []
    names = sorted(path.name for path in Path("results/trees").iterdir())
    assert names == [f"{partial_prefix()}a.parquet", "m"]


def test_a_dry_run_changes_nothing(results, capsys):
    """With --dry-run each repair is listed, and the exit status is 1."""
    locked()
    Path(FILES[1]).write_text("{")
    Path("results/trees", f"{ended_process_prefix()}a.parquet").touch()
    before = contents()
    assert main(["repair", "--dry-run"]) == 1
    assert contents() == before
    *lines, summary = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == ["unlock", "rename", "remove"]
    assert summary == ".: 3 repairs to make; nothing was changed"


def test_another_directory_is_repaired(results, tmp_path_factory, monkeypatch):
    """A directory can be named, and one that does not exist is an error."""
    Path(FILES[1]).write_text("{")
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert main(["repair", str(results)]) == 0
    assert (results / f"{FILES[1]}.damaged").read_text() == "{"
    assert main(["repair", "absent"]) == 3


def test_a_lock_of_nobody_goes(results):
    """A lock is removed if no process in the directory is called snakemake."""
    locked()
    assert main(["repair"]) == 0
    assert not Path(".snakemake/locks").exists()


@contextlib.contextmanager
def working(*arguments: str) -> Iterator[None]:
    """Run a process with these arguments in the current directory."""
    code = "import sys; print(flush=True); sys.stdin.read()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code, *arguments], **pipes) as process:
        process.stdout.readline()
        yield
        process.stdin.close()


def test_a_file_of_a_run_is_no_run(results):
    """A lock goes while a process reads a file of Snakemake, which another word only contains."""
    locked()
    with working("results/snakemake.log", "snakemake-notes"):
        assert main(["repair"]) == 0
    assert not Path(".snakemake/locks").exists()


def test_a_project_of_that_name_is_repaired(results):
    """The name of the directory among the arguments of `repair` itself is no run."""
    project = results / "snakemake"
    locked(project)
    code = "import sys; from llmchecker.interfaces.cli.entry import run; sys.exit(run())"
    command = [sys.executable, "-c", code, "repair", "../snakemake"]
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    assert not (project / ".snakemake/locks").exists()


def test_nothing_is_touched_while_a_run_works(results, capsys):
    """A lock and all files stay while a process in the directory is called snakemake."""
    locked()
    Path(FILES[1]).write_text("{")
    before = contents()
    with working("/usr/bin/snakemake"):
        assert main(["repair"]) == 3
    assert "a run works here" in capsys.readouterr().err
    assert contents() == before
    assert main(["repair"]) == 0
