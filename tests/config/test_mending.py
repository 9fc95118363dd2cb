"""What killed runs and failing disks leave is put right before the next run, with a word."""

import subprocess
import sys
from pathlib import Path

import pytest
from helpers.damage import flipped

from llmchecker.config.mending import mend, unlock
from llmchecker.files import (
    BLANK_SEAL,
    partial_prefix,
    write_sealed_json,
    written_sealed,
    written_with_checksum,
)

FILES = ["a.parquet", "a.json", "a.csv", "a.png", "a.pdf", "a.html", "a.md"]


@pytest.fixture
def results(tmp_path, monkeypatch) -> Path:
    """A directory with a whole file of every kind."""
    monkeypatch.chdir(tmp_path)
    with written_sealed("a.parquet") as partial:
        partial.write_text(f"contents {BLANK_SEAL} end")
    write_sealed_json({"a": 1}, "a.json")
    with written_with_checksum("a.csv") as partial:
        partial.write_text("a\n1\n")
    Path("a.png").write_bytes(b"\x89PNG IEND\xaeB`\x82")
    Path("a.pdf").write_bytes(b"%PDF %%EOF\n")
    Path("a.html").write_text("<html></html>")  # as the report is written
    Path("a.md").write_text("text\n")
    return tmp_path


def there() -> list[str]:
    return sorted(path.name for path in Path().iterdir())


def locked() -> None:
    """Leave a lock as Snakemake does."""
    Path(".snakemake/locks").mkdir(parents=True)
    Path(".snakemake/locks/0.output.lock").write_text("a.json\n")


def ended_process_prefix() -> str:
    """How the names begin of what a process left unfinished that has ended."""
    code = "from llmchecker.files import partial_prefix; print(partial_prefix())"
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_what_is_whole_stays(results, capsys):
    """Files that are as they were written are kept without a word, and so is what is absent."""
    before = there()
    mend([*FILES, "absent.json"], ["no-model"])
    assert there() == before
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", FILES)
def test_what_is_empty_or_cut_is_removed(name, results, capsys):
    """An emptied file goes with a word that names it, and so does a cut one; no other does."""
    others = [other for other in there() if not other.startswith(name)]
    for damaged in (b"", *([Path(name).read_bytes()[:-3]] if name != "a.md" else [])):
        Path(name).write_bytes(damaged)
        mend(FILES, [])
        assert there() == others
        assert f"made again: {name} is" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["a.parquet", "a.csv"])
def test_a_flipped_bit_is_enough(name, results, capsys):
    """A file that carries its checksum goes for a single bit."""
    Path(name).write_bytes(flipped(Path(name).read_bytes(), 3))
    mend(FILES, [])
    assert f"made again: {name} is" in capsys.readouterr().err
    assert not Path(name).exists()


def test_a_model_without_a_whole_record_is_removed(results, capsys):
    """A model whose record was cut is to be fetched again; one of other origin has no record."""
    for model, record in (
        ("cut", '{"files": '),
        ("other", None),
        ("whole", '{"files": {"a": "' + "0" * 64 + '"}}'),
    ):
        Path("resources/models", model).mkdir(parents=True)
        if record is not None:
            Path("resources/models", model, "source.json").write_text(record)
    mend([], ["cut", "other", "whole"])
    assert sorted(path.name for path in Path("resources/models").iterdir()) == ["other", "whole"]
    assert "fetched again: resources/models/cut/source.json is" in capsys.readouterr().err


def test_what_a_killed_job_left_is_removed(results):
    """Unfinished files and folders of processes that have ended go, those of living ones stay."""
    ended = ended_process_prefix()
    Path("resources/models", f"{ended}x/model").mkdir(parents=True)
    Path("results/trees").mkdir(parents=True)
    Path("results/trees", f"{ended}a.parquet").touch()
    Path("results/trees", f"{partial_prefix()}a.parquet").touch()
    Path("results/trees", "a.parquet").touch()
    mend([], [])
    assert list(Path("resources/models").iterdir()) == []
    assert sorted(path.name for path in Path("results/trees").iterdir()) == [
        f"{partial_prefix()}a.parquet",
        "a.parquet",
    ]


def test_nothing_is_touched_while_a_run_works(results):
    """Where there is a lock another run may be writing, so that even what is cut stays."""
    locked()
    Path("a.json").write_text("{")
    mend(FILES, [])
    assert Path("a.json").exists()


def test_a_lock_of_nobody_goes(results, capsys):
    """A lock goes with a word if nothing that works in the directory is called snakemake."""
    assert unlock(results)
    locked()
    assert unlock(results)
    assert not Path(".snakemake/locks").exists()
    assert "the lock of a run that was killed is removed" in capsys.readouterr().err


def test_a_lock_of_a_living_run_stays(results):
    """A lock stays while a process works in the directory that is called snakemake."""
    locked()
    code = "import sys; print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, "snakemake"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=results, **pipes) as process:
        process.stdout.readline()
        assert not unlock(results)
        process.stdin.close()
    assert Path(".snakemake/locks/0.output.lock").exists()
    assert unlock(results)
