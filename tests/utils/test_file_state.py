"""Checksums of files are computed again unless no change can have been missed."""

import hashlib
import os
import time

import pytest

from llmchecker.errors import ChecksumMismatch
from llmchecker.utils import file_state
from llmchecker.utils.file_state import (
    FileStamp,
    check_unchanged,
    compute_current_sha256,
    describe_files,
    learn_files,
)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture(autouse=True)
def no_known_states(monkeypatch):
    monkeypatch.setattr(file_state, "_known_states", {})


@pytest.mark.parametrize(("age", "is_trusted"), [(0, False), (1, False), (3, True)])
def test_a_stamp_counts_only_after_a_step_of_the_clock(tmp_path, monkeypatch, age, is_trusted):
    """A file that changed seconds before it was read may change again at the same time."""
    file = tmp_path / "file"
    stamp = FileStamp(1, 0, time.time_ns() - age * 10**9, 1, 1)
    monkeypatch.setattr(file_state, "read_stamp", lambda path: stamp)
    file.write_bytes(b"a")
    assert compute_current_sha256(file) == digest(b"a")
    file.write_bytes(b"b")
    assert compute_current_sha256(file) == digest(b"a" if is_trusted else b"b")


def test_a_change_that_restores_all_that_a_program_can_is_noticed(tmp_path):
    """Size and time of modification may stay; the time of the inode's change does not."""
    file = tmp_path / "file"
    file.write_bytes(b"a")
    os.utime(file, ns=(0, 0))
    state = describe_files({"file": file})["file"]
    # as if the file had been read long after its last change
    learn_files({"file": state | {"read": state["read"] + 60 * 10**9}}, {"file": file})
    assert compute_current_sha256(file) == digest(b"a")
    check_unchanged({file: digest(b"a")})
    time.sleep(0.02)
    file.write_bytes(b"b")
    os.utime(file, ns=(0, 0))
    assert compute_current_sha256(file) == digest(b"b")
    with pytest.raises(ChecksumMismatch, match="changed during the run"):
        check_unchanged({file: digest(b"a")})
    file.unlink()
    with pytest.raises(ChecksumMismatch, match="changed during the run"):
        check_unchanged({file: digest(b"b")})


def test_a_file_that_changes_while_it_is_read_has_no_checksum(tmp_path, monkeypatch):
    """A checksum is of one content."""
    file = tmp_path / "file"
    file.write_bytes(b"a")

    def read(path):
        file.write_bytes(b"bc")
        return digest(b"a")

    monkeypatch.setattr(file_state, "compute_sha256", read)
    with pytest.raises(ChecksumMismatch, match="changed while it was read"):
        compute_current_sha256(file)
