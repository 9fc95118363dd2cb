"""The archive for machines without a network holds what it should, and says what that is."""

import hashlib
import subprocess
import tarfile
from pathlib import Path

import bundle
import pytest

ROOT = Path(__file__).parents[2]
TIME = 1_700_000_000


@pytest.fixture
def made(tmp_path) -> tuple[dict, dict]:
    """A source with the right to be run, and a fetched file, by their places."""
    script, weights = tmp_path / "run.sh", tmp_path / "weights"
    script.write_text("#!/bin/sh\necho there\n")
    script.chmod(0o755)
    weights.write_bytes(b"\0" * 100)
    return {"run.sh": script}, {"resources/models/one/weights": weights}


def test_an_archive_holds_every_file_with_its_checksum(made, tmp_path):
    """Unpacked, all files are as they were, `sha256sum --check` agrees, and scripts can be run."""
    bundle.write_archive(tmp_path / "a.tar", "project", *made, TIME)
    with tarfile.open(tmp_path / "a.tar") as tar:
        tar.extractall(tmp_path / "out", filter="data")
    folder = tmp_path / "out/project"
    assert (folder / "resources/models/one/weights").read_bytes() == b"\0" * 100
    assert subprocess.check_output([folder / "run.sh"], text=True) == "there\n"
    subprocess.run(["sha256sum", "--quiet", "--check", "SHA256SUMS"], cwd=folder, check=True)
    zeros = hashlib.sha256(b"\0" * 100).hexdigest()
    assert f"{zeros}  resources/models/one/weights\n" in (folder / "SHA256SUMS").read_text()


def test_equal_contents_make_equal_archives(made, tmp_path):
    """Nothing of when, where and by whom an archive is written is in it."""
    for name in ("a.tar", "b.tar"):
        bundle.write_archive(tmp_path / name, "project", *made, TIME)
        for path in tmp_path.glob("*"):
            path.touch()
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()


def test_what_was_fetched_is_newer_than_the_sources(made, tmp_path):
    """Snakemake makes again what is not newer than the script that makes it."""
    bundle.write_archive(tmp_path / "a.tar", "project", *made, TIME)
    with tarfile.open(tmp_path / "a.tar") as tar:
        times = {entry.name: entry.mtime for entry in tar}
    assert times["project/run.sh"] == TIME
    assert times["project/resources/models/one/weights"] > TIME


def test_every_pinned_package_is_asked_for():
    """Wheels are told by the name and version that constraints.txt pins, however they are spelt."""
    pins = bundle.pinned(ROOT)
    assert len(pins) > 100
    assert pins["torch"] == "2.13.0"
    name = "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"
    assert bundle.named(Path(name)) == ("torch", "2.13.0")
    name = "huggingface_hub-2.4.0-py3-none-any.whl"
    assert pins[bundle.named(Path(name))[0]] == "2.4.0"


def test_the_tracked_files_are_the_sources(tmp_path):
    """What git tracks goes into the archive, and nothing that only lies beside it."""
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    (tmp_path / "a b.txt").write_text("a")
    (tmp_path / "left.txt").write_text("b")
    subprocess.run(["git", "add", "a b.txt"], cwd=tmp_path, check=True)
    assert bundle.tracked(tmp_path) == {"a b.txt": tmp_path / "a b.txt"}


def test_results_that_are_there_are_bundled_with_their_records(tmp_path):
    """Finished results and Snakemake's records are in the archive, without caches and remains."""
    for name in (
        "results/README.md",
        "results/tables/table1.md",
        "results/distributions/one/1.parquet",
        "results/trees/.partial-here-1-a.parquet",
        "resources/datasets/prompts.csv",
        ".snakemake/metadata/cmVzdWx0cw==",
        ".snakemake/log/one.log",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a")
    tracked = {"results/README.md": tmp_path / "results/README.md"}
    assert set(bundle.results(tmp_path, tracked)) == {
        "results/tables/table1.md",
        "resources/datasets/prompts.csv",
        ".snakemake/metadata/cmVzdWx0cw==",
    }


def test_a_folder_that_was_not_fetched_is_told(tmp_path):
    """An archive without its models is not written."""
    with pytest.raises(SystemExit, match="resources/models/one holds no files; `make bundle`"):
        bundle.below(tmp_path, "resources/models/one")
