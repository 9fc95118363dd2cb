"""Results by fingerprint: what is taken from the cache is what was added, or nothing."""

import os
from pathlib import Path

import pytest

from llmchecker.utils.atomic_files import atomic_write_with_checksum, write_json_with_digest
from llmchecker.utils.result_cache import ResultCache


@pytest.fixture
def cache(tmp_path) -> ResultCache:
    return ResultCache(tmp_path / "cached")


@pytest.fixture
def outputs(tmp_path) -> list[str]:
    """A JSON file with a digest, and a text with a checksum file."""
    record, text = tmp_path / "results/a.json", tmp_path / "results/a.prism"
    write_json_with_digest({"seconds": 1}, record)
    with atomic_write_with_checksum(text) as partial:
        partial.write_text("dtmc\n")
    return [str(record), str(text)]


def read_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_result_that_was_deleted_comes_back_with_a_new_time(cache, outputs):
    """Its files and checksum files are the same, and newer than what they depend on."""
    folder = Path(outputs[0]).parent
    before = read_files(folder)
    cache.add("one", outputs)
    for path in folder.iterdir():
        os.utime(path, (1, 1))
        path.unlink()
    assert cache.restore("one", outputs)
    assert read_files(folder) == before
    assert all(path.stat().st_mtime > 1 for path in folder.iterdir())


def test_another_fingerprint_or_name_has_no_result(cache, outputs):
    """Nothing is written for inputs whose result is not in the cache."""
    cache.add("one", outputs)
    other = str(Path(outputs[0]).with_name("b.json"))
    assert not cache.restore("two", outputs)
    assert not cache.restore("one", [outputs[0], other])
    assert not Path(other).exists()


@pytest.mark.parametrize("name", ["a.json", "a.prism", "a.prism.sha256"])
def test_a_damaged_result_is_not_used(name, cache, outputs, caplog):
    """A changed byte or a lost checksum in any file leaves the outputs as they are."""
    cache.add("one", outputs)
    path = cache.directory / "one" / name
    content = path.read_bytes()
    path.unlink()
    if not name.endswith("256"):
        path.write_bytes(content.replace(b"1", b"2").replace(b"dtmc", b"mdp"))
    for output in outputs:
        Path(output).unlink()
    assert not cache.restore("one", outputs)
    assert "not used" in caplog.text
    assert not any(Path(output).exists() for output in outputs)


def test_a_replaced_output_leaves_the_cache_as_it_is(cache, outputs):
    """The cache and an output may be one file, which no write changes in place."""
    cache.add("one", outputs)
    write_json_with_digest({"seconds": 2}, outputs[0])
    assert cache.restore("one", outputs)
    assert '"seconds": 1' in Path(outputs[0]).read_text()


def test_only_named_results_are_kept(cache, outputs):
    """Pruning deletes all other results, and no output."""
    cache.add("one", outputs)
    cache.add("two", outputs)
    cache.prune({"two"})
    assert [folder.name for folder in cache.directory.iterdir()] == ["two"]
    assert all(Path(output).exists() for output in outputs)
