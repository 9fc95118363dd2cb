"""Files are whole or absent, and told apart by their checksums."""

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from helpers.damage import flipped

from llmchecker.errors import DamagedFile, MachineLimit
from llmchecker.utils.atomic_files import (
    BLANK_DIGEST,
    atomic_write,
    atomic_write_with_checksum,
    atomic_write_with_digest,
    check_writable,
    compute_sha256,
    describe_kind,
    is_sha256,
    is_stale_partial,
    partial_prefix,
    read_json,
    read_json_with_digest,
    read_with_checksum,
    read_with_digest,
    write_json,
    write_json_with_digest,
)


def names(directory) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def fail_halfway(path, failure) -> None:
    with atomic_write(path) as partial:
        partial.write_text("half")
        raise failure


def test_a_file_appears_when_the_block_ends(tmp_path):
    """Until the block ends nothing is at the path; then the whole file is, and nothing else."""
    path = tmp_path / "new/folder/table.csv"
    with atomic_write(path) as partial:
        partial.write_text("a")
        assert not path.exists()
        assert partial.parent == path.parent
    assert path.read_text() == "a"
    assert names(path.parent) == ["table.csv"]


def test_the_temporary_file_keeps_the_suffix(tmp_path):
    """A writer that chooses a format by the suffix sees that of the path."""
    with atomic_write(tmp_path / "figure.svg") as partial:
        partial.write_text("a")
    assert partial.suffix == ".svg"
    assert partial.name != "figure.svg"


def test_a_link_stays_a_link(tmp_path):
    """What a link leads to is written, there or not, beside what it leads to."""
    (tmp_path / "there").mkdir()
    for name in ("old", "new"):
        (tmp_path / name).symlink_to(tmp_path / "there" / name)
    (tmp_path / "there/old").write_text("old")
    for name in ("old", "new"):
        with atomic_write(tmp_path / name) as partial:
            partial.write_text("a")
            assert partial.parent == tmp_path / "there"
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / "there" / name).read_text() == "a"
    assert names(tmp_path / "there") == ["new", "old"]


def test_a_device_stays_a_device(tmp_path):
    """What is written to the null device is gone, and the device is still one."""
    with atomic_write("/dev/null") as partial:
        partial.write_text("a")
    assert Path("/dev/null").is_char_device()
    (tmp_path / "null").symlink_to("/dev/null")
    with atomic_write(tmp_path / "null") as partial:
        partial.write_text("a")
    assert (tmp_path / "null").is_symlink()
    assert (tmp_path / "null").is_char_device()


def test_a_full_device_is_told(tmp_path):
    """A device that takes nothing stays what it is, and the message names it and the reason."""
    with (
        pytest.raises(MachineLimit, match=r"/dev/full: .*: the disk is full; correct this"),
        atomic_write("/dev/full") as partial,
    ):
        partial.write_text("a")
    assert Path("/dev/full").is_char_device()


def test_a_named_pipe_is_written_through(tmp_path):
    """A reader of a named pipe gets the whole contents, and the pipe stays one."""
    pipe = tmp_path / "pipe.svg"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    with atomic_write(pipe) as partial:
        assert partial.suffix == ".svg"
        partial.write_text("a" * 200_000)
    reader.join()
    assert read == ["a" * 200_000]
    assert names(tmp_path) == ["pipe.svg"]
    assert pipe.is_fifo()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_the_right_to_write_is_told(tmp_path):
    """A folder that this user may not write, or make, is named."""
    check_writable(tmp_path / "a/b")
    tmp_path.chmod(0o500)
    for folder in (tmp_path, tmp_path / "a/b"):
        with pytest.raises(MachineLimit, match=f"{folder}: nothing can be written: this user"):
            check_writable(folder)
    tmp_path.chmod(0o700)


def test_a_folder_is_not_replaced(tmp_path):
    """A folder where a file should be is an error, and stays."""
    (tmp_path / "a.txt").mkdir()
    with (
        pytest.raises(MachineLimit, match=r"a\.txt: cannot be written: it is a directory"),
        atomic_write(tmp_path / "a.txt") as partial,
    ):
        partial.write_text("a")
    assert names(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").is_dir()


def test_a_file_beyond_a_limit_is_told(tmp_path):
    """A size that the system does not allow is told with the file's name; the older file stays."""
    path = tmp_path / "a.txt"
    path.write_text("old")
    kept = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, kept[1]))
    try:
        with (
            pytest.raises(MachineLimit, match=r"a\.txt: cannot be written: it exceeds"),
            atomic_write(path) as partial,
        ):
            partial.write_bytes(bytes(20_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, kept)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_what_a_killed_process_left_is_recognised(tmp_path):
    """The name of something unfinished tells whether its process still runs on this machine."""
    assert not is_stale_partial(f"{partial_prefix()}a.json")
    code = "from llmchecker.utils.atomic_files import partial_prefix; print(partial_prefix())"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert is_stale_partial(f"{ended.stdout.strip()}a.json")
    for other in ("a.json", ".partial-a.json", ".partial-elsewhere-999999999-a.json"):
        assert not is_stale_partial(other)


@pytest.mark.parametrize("content", ["", "{", '{"a": 1', "[1]", "3", "\xff", "[" * 100_000])
def test_a_damaged_json_file_is_named(content, tmp_path):
    """A file that is cut, empty, of another kind or nested without end is damaged, by name."""
    (tmp_path / "a.json").write_text(content, encoding="latin-1")
    with pytest.raises(DamagedFile, match=r"a\.json: damaged or from an older version"):
        read_json(tmp_path / "a.json")


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_failure_leaves_nothing(failure, tmp_path):
    """A block that raises, for whatever reason, leaves no file behind."""
    with pytest.raises(failure):
        fail_halfway(tmp_path / "a.txt", failure)
    assert names(tmp_path) == []


def test_a_failure_leaves_the_older_file(tmp_path):
    """A block that raises does not touch the file that was there."""
    (tmp_path / "a.txt").write_text("old")
    with pytest.raises(ValueError, match="stop"):
        fail_halfway(tmp_path / "a.txt", ValueError("stop"))
    assert names(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"


def test_an_older_file_is_replaced(tmp_path):
    """A block that succeeds replaces the file that was there."""
    (tmp_path / "a.txt").write_text("old and longer")
    with atomic_write(tmp_path / "a.txt") as partial:
        partial.write_text("new")
    assert (tmp_path / "a.txt").read_text() == "new"


def test_a_file_is_readable_by_others(tmp_path):
    """The file has the usual mode, not that of a temporary file."""
    with atomic_write(tmp_path / "a.txt") as partial:
        partial.write_text("a")
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o644


def test_writers_at_the_same_time(tmp_path):
    """Of several writers of one path, a reader sees one's whole file at any time."""
    path = tmp_path / "a.txt"
    contents = [str(number) * 100_000 for number in range(4)]
    path.write_text(contents[0])
    ready = threading.Barrier(len(contents))

    def write(content: str) -> None:
        ready.wait()
        for _ in range(25):
            with atomic_write(path) as partial:
                partial.write_text(content)

    writers = [threading.Thread(target=write, args=(content,)) for content in contents]
    for writer in writers:
        writer.start()
    seen = set()
    while any(writer.is_alive() for writer in writers):
        seen.add(path.read_text())
    for writer in writers:
        writer.join()
    seen.add(path.read_text())
    assert seen <= set(contents)
    assert names(tmp_path) == ["a.txt"]


def test_json_reads_back(tmp_path):
    """What is written as JSON reads back, and people can read it, in any script."""
    content = {"query": 'P=? [ F "end" ]', "text": "línea\n日本語 🙂", "value": 0.1 + 0.2}
    write_json(content, tmp_path / "a.json")
    assert read_json(tmp_path / "a.json") == content
    written = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert "日本語 🙂" in written
    assert json.loads(written) == content


def test_a_json_file_that_was_cut_or_is_none_is_named(tmp_path):
    """A record that lost its end, is nested too deeply or is a list is refused by its name."""
    path = tmp_path / "record.json"
    write_json({"files": {"a": "b"}}, path)
    whole = path.read_bytes()
    for content in (whole[:-3], b"", b"\xff", b"[" * 100_000, b'{"a":' * 100_000, b"[]", b"3"):
        path.write_bytes(content)
        with pytest.raises(DamagedFile, match=r"record\.json: .* (complete JSON|no keys)"):
            read_json(path)


def test_sealed_json_reads_back_and_no_bit_of_it_may_change(tmp_path):
    """JSON with a seal reads back without it; flipped, cut or without a seal it is refused."""
    content = {"text": "sha256:" + "0" * 64, "value": 0.1}
    path = tmp_path / "a.json"
    write_json_with_digest(content, path)
    assert read_json_with_digest(path) == content
    whole = path.read_bytes()
    for other in (*(flipped(whole, bit) for bit in range(8 * len(whole))), whole[:-1], b"{}"):
        path.write_bytes(other)
        with pytest.raises(DamagedFile, match=r"a\.json"):
            read_json_with_digest(path)
    write_json(content, path)
    with pytest.raises(DamagedFile, match="does not match its checksum"):
        read_json_with_digest(path)


def test_what_json_does_not_have_is_not_written(tmp_path):
    """A number that is none stops the writer, and the older file stays."""
    write_json({"value": 1.0}, tmp_path / "a.json")
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json({"value": float("nan")}, tmp_path / "a.json")
    assert read_json(tmp_path / "a.json") == {"value": 1.0}
    assert names(tmp_path) == ["a.json"]


def test_a_checksum_is_what_a_shell_says(tmp_path):
    """`sha256sum` prints the checksum of a file, and only such digits have its form."""
    (tmp_path / "a").write_bytes(bytes(range(256)) * 9000)
    command = ["sha256sum", tmp_path / "a"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert compute_sha256(tmp_path / "a") == printed.split()[0]
    assert is_sha256(printed.split()[0])
    for other in ("", "0" * 63, "0" * 65, "A" * 64, "0" * 64 + "\n", None, 5):
        assert not is_sha256(other)


def sealed(path, before: str, after: str) -> bytes:
    """Write a sealed file, and return what is in it."""
    with atomic_write_with_digest(path) as partial:
        partial.write_text(f"{before}{BLANK_DIGEST}{after}")
    return path.read_bytes()


@pytest.mark.parametrize("before", ["", "a text\n", f"{BLANK_DIGEST} is no seal\n", "sha256:" * 9])
def test_a_sealed_file_is_read_as_it_is(before, tmp_path):
    """A sealed file is what was written with a checksum in it, whatever text stands before that."""
    contents = sealed(tmp_path / "file", before, "\n")
    assert contents.startswith(before.encode() + b"sha256:")
    assert read_with_digest(tmp_path / "file") == contents


@pytest.mark.parametrize("before", ["a text\n", f"{BLANK_DIGEST}\n"])
def test_any_damage_to_a_sealed_file_is_found(before, tmp_path):
    """A flipped bit, a missing or an added end, and a missing file are never let pass."""
    path = tmp_path / "file"
    contents = sealed(path, before, " the end\n")
    damaged = [flipped(contents, bit) for bit in range(8 * len(contents))]
    damaged += [contents[:end] for end in range(len(contents))]
    for other in (*damaged, contents + b"\n", contents + contents):
        path.write_bytes(other)
        with pytest.raises(DamagedFile, match="file: damaged or from an older version"):
            read_with_digest(path)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        read_with_digest(path)


def test_a_file_without_a_place_for_its_seal_is_not_written(tmp_path):
    """A writer that forgets the seal is told so, and leaves nothing behind."""
    with (
        pytest.raises(ValueError, match="blank seal"),
        atomic_write_with_digest(tmp_path / "file") as partial,
    ):
        partial.write_text("a text")
    assert names(tmp_path) == []


def test_a_checksum_beside_a_file_is_one_that_a_shell_checks(tmp_path):
    """`sha256sum -c` takes the file beside, and reading takes what was written."""
    with atomic_write_with_checksum(tmp_path / "a.csv") as partial:
        partial.write_text("a\n1\n")
    assert names(tmp_path) == ["a.csv", "a.csv.sha256"]
    subprocess.run(["sha256sum", "-c", "--strict", "a.csv.sha256"], cwd=tmp_path, check=True)
    assert read_with_checksum(tmp_path / "a.csv") == b"a\n1\n"


@pytest.mark.parametrize("name", ["a.csv", "a.csv.sha256"])
def test_any_damage_to_a_file_or_to_its_checksum_is_found(name, tmp_path):
    """Neither another file nor another checksum passes, but a new file with its own does."""
    with atomic_write_with_checksum(tmp_path / "a.csv") as partial:
        partial.write_text("a\n1\n")
    content = (tmp_path / name).read_bytes()
    bits = range(8 * min(len(content), 64))
    for other in (*(flipped(content, bit) for bit in bits), content[:-2][:63], b""):
        (tmp_path / name).write_bytes(other)
        with pytest.raises(DamagedFile, match=r"a\.csv: damaged or from an older version"):
            read_with_checksum(tmp_path / "a.csv")
    with atomic_write_with_checksum(tmp_path / "a.csv") as partial:
        partial.write_text("other")
    assert read_with_checksum(tmp_path / "a.csv") == b"other"


def test_a_checksum_does_not_outlive_its_file(tmp_path):
    """Where writing fails the older file stays, and no checksum vouches for it any more."""
    with atomic_write_with_checksum(tmp_path / "a.csv") as partial:
        partial.write_text("old")
    with pytest.raises(KeyboardInterrupt), atomic_write_with_checksum(tmp_path / "a.csv"):
        raise KeyboardInterrupt
    assert names(tmp_path) == ["a.csv"]


def test_a_path_of_another_kind_is_described(tmp_path):
    """A message about a path says whether it is absent, a broken link, a folder or a device."""
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    assert describe_kind(tmp_path / "nothing") == "absent"
    assert describe_kind(tmp_path / "link") == "a broken link"
    assert describe_kind(tmp_path / "pipe") == "a pipe"
    assert describe_kind(tmp_path) == "a directory"
    assert describe_kind("/dev/zero") == "a device"
