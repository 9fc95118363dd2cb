"""Which commit is fetched where the configuration names none."""

import json
from pathlib import Path

import pytest
from helpers.fake_hub import COMMIT, Hub
from helpers.sources import (
    NEWER,
    assert_nothing_left,
    serve_model,
)

from llmchecker.errors import (
    CommitMissing,
    ConfigError,
    SourceUnavailable,
)
from llmchecker.models.sources.checkpoints import ModelSource, fetch_checkpoint
from llmchecker.models.sources.source_spec import parse_source, pin_source

WITHOUT_COMMIT = ModelSource(parse_source("hf:owner/name"))


def fetched_commit(directory: Path) -> str:
    """The commit that a model directory says it is from."""
    source = json.loads((directory / "source.json").read_text())["source"]
    return parse_source(source).revision


def test_first_fetch_locks_the_newest_commit(served: Hub, tmp_path: Path) -> None:
    """The first fetch of a source without a commit takes the newest; later ones the same."""
    serve_model(served, tmp_path)
    lock = tmp_path / "locks" / "name.json"
    fetch_checkpoint(WITHOUT_COMMIT, tmp_path / "first", lock=lock)
    written = lock.read_bytes()
    served.commits.append(NEWER)
    fetch_checkpoint(WITHOUT_COMMIT, tmp_path / "second", lock=lock)
    assert fetched_commit(tmp_path / "first") == fetched_commit(tmp_path / "second") == COMMIT
    assert lock.read_bytes() == written
    about = json.loads(written)
    assert (about["repository"], about["kind"], about["commit"]) == ("owner/name", "model", COMMIT)
    assert [file.name for file in lock.parent.iterdir()] == ["name.json"]


def test_changed_or_deleted_lock(served: Hub, tmp_path: Path) -> None:
    """Another commit in the lock is fetched instead; without the lock it is the newest."""
    serve_model(served, tmp_path)
    lock = tmp_path / "name.json"
    fetch_checkpoint(WITHOUT_COMMIT, tmp_path / "m", lock=lock)
    served.commits = [COMMIT, "a" * 40, NEWER]
    lock.write_text(lock.read_text().replace(COMMIT, "a" * 40))
    fetch_checkpoint(WITHOUT_COMMIT, tmp_path / "m", lock=lock)
    assert fetched_commit(tmp_path / "m") == "a" * 40
    lock.unlink()
    fetch_checkpoint(WITHOUT_COMMIT, tmp_path / "m", lock=lock)
    assert fetched_commit(tmp_path / "m") == NEWER


def test_lock_of_another_repository(served: Hub, tmp_path: Path) -> None:
    """When the config names another repository, the lock of the old one is replaced."""
    lock = tmp_path / "name.json"
    pin_source(parse_source("hf:owner/old"), lock)
    served.commits.append(NEWER)
    assert pin_source(parse_source("hf:owner/new"), lock).revision == NEWER
    assert json.loads(lock.read_text())["repository"] == "owner/new"


def test_a_tag_is_locked_at_its_commit(served: Hub, tmp_path: Path) -> None:
    """A tag stays at the commit of its first fetch, another one has its own, and none is named."""
    serve_model(served, tmp_path)
    served.commits.append(NEWER)
    served.tags = {"v1.0": COMMIT, "refs/pr/1": NEWER}
    lock, tagged = tmp_path / "name.json", parse_source("hf:owner/name@v1.0")
    fetch_checkpoint(ModelSource(tagged), tmp_path / "m", lock=lock)
    served.tags["v1.0"] = NEWER
    fetch_checkpoint(ModelSource(tagged), tmp_path / "again", lock=lock)
    assert fetched_commit(tmp_path / "m") == fetched_commit(tmp_path / "again") == COMMIT
    assert pin_source(parse_source("hf:owner/name@refs/pr/1"), lock).revision == NEWER
    assert json.loads(lock.read_text())["revision"] == "refs/pr/1"
    absent, other = ModelSource(parse_source("hf:owner/name@v2")), tmp_path / "other.json"
    with pytest.raises(CommitMissing) as caught:
        fetch_checkpoint(absent, tmp_path / "o" / "m", lock=other)
    assert str(caught.value) == "hf:owner/name@v2: the hub's repository lacks this revision"
    assert not other.exists()


def test_source_with_a_commit_needs_no_lock(tmp_path: Path) -> None:
    """A commit in the config counts, whatever a lock says, and none is made."""
    source = parse_source(f"hf:owner/name@{NEWER}")
    assert pin_source(source, tmp_path / "name.json") == source
    assert not (tmp_path / "name.json").exists()


def test_locked_commit_that_the_hub_no_longer_has(served: Hub, tmp_path: Path) -> None:
    """When a locked commit is gone, the message names the lock and the two ways on."""
    serve_model(served, tmp_path)
    lock = tmp_path / "name.json"
    assert pin_source(WITHOUT_COMMIT.source, lock).revision == COMMIT
    served.commits = [NEWER]
    with pytest.raises(CommitMissing) as caught:
        fetch_checkpoint(WITHOUT_COMMIT, tmp_path / "o" / "m", lock=lock)
    assert str(caught.value) == (
        f"hf:owner/name@{COMMIT}: the hub's repository lacks this revision; delete {lock} "
        "to lock the newest commit, or write @commit after the source"
    )
    assert_nothing_left(tmp_path / "o" / "m")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"repository": "owner/name", "kind": "model", "commit": "main", "locked": ""}',
        '{"repository": "owner/name", "kind": "model", "commit": 3, "locked": ""}',
    ],
)
def test_damaged_lock(tmp_path: Path, content: str) -> None:
    """A file that is no lock is refused and kept, not overwritten with the newest commit."""
    lock = tmp_path / "name.json"
    lock.write_text(content)
    with pytest.raises(ConfigError, match=r"name\.json: not a lock: .*; restore it, or delete it"):
        fetch_checkpoint(WITHOUT_COMMIT, tmp_path / "o" / "m", lock=lock)
    assert lock.read_text() == content


def test_source_that_needs_a_lock_and_gets_none(tmp_path: Path) -> None:
    """Without a commit and without a place for a lock nothing is fetched."""
    with pytest.raises(ConfigError, match="no commit and no lock"):
        fetch_checkpoint(WITHOUT_COMMIT, tmp_path / "o" / "m")


def test_lock_of_a_repository_that_the_hub_refuses(served: Hub, tmp_path: Path) -> None:
    """When the hub does not tell the newest commit, the message says why, and no lock is made."""
    served.refuse_listing = (401, "RepoNotFound")
    with pytest.raises(SourceUnavailable, match="hf:owner/name: absent from the hub, or"):
        pin_source(WITHOUT_COMMIT.source, tmp_path / "name.json")
    assert not (tmp_path / "name.json").exists()
