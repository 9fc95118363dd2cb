"""Where programs come from: what is taken of an archive, and what is refused."""

import http.server
import io
import subprocess
import tarfile
import threading
import zipfile
from pathlib import Path

import pytest
from helpers.sources import overwrite

from llmchecker.errors import ChecksumMismatch, ConfigError, SourceUnavailable, UnusablePrograms
from llmchecker.fetching import programs
from llmchecker.fetching.downloads import download
from llmchecker.fetching.programs import (
    ProgramSource,
    fetch_programs,
    parse_program_source,
    program_files,
    sha256_of_programs,
)

CONTENT = {"10.c": b"int main() {}\n", "2.c": b"/* two */\n", "a-b.c": b"\xff\x00"}
DIGEST = sha256_of_programs(CONTENT)
AROUND = {
    "top/README.md": b"read",
    "top/sets/good/notes.txt": b"none",
    "top/sets/other/x.c": b"other",
    "top/sets/good/deeper/y.c": b"deeper",
    "top/z.c": b"beside",
}


def pack(path: Path, files: dict[str, bytes], links: tuple[str, ...] = ()) -> Path:
    """An archive of files, and of members that are links to /etc/passwd."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(name, content)
            for name in links:
                link = zipfile.ZipInfo(name)
                link.external_attr = 0o120777 << 16
                archive.writestr(link, "/etc/passwd")
        return path
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for number, name in enumerate(links):
            info = tarfile.TarInfo(name)
            info.type = tarfile.SYMTYPE if number % 2 == 0 else tarfile.LNKTYPE
            info.linkname = "/etc/passwd"
            archive.addfile(info)
    return path


def below(folder: str, files: dict[str, bytes] = CONTENT) -> dict[str, bytes]:
    return {f"{folder}/{name}": content for name, content in files.items()}


def source(archive: Path, folder: str = "sets/good", sha256: str = DIGEST) -> ProgramSource:
    return parse_program_source(f"archive:{archive}", folder, sha256)


@pytest.fixture(params=["x.tar.gz", "x.tgz", "x.zip"])
def archive(request, tmp_path) -> Path:
    """Where an archive of each format is to be packed."""
    return tmp_path / request.param


@pytest.mark.parametrize("top", ["top/", "", "./"])
def test_the_c_files_of_the_folder_are_taken_and_no_others(archive, tmp_path, top):
    """With or without a directory around them, the C files right in the folder arrive whole."""
    pack(archive, AROUND | below(f"{top}sets/good"))
    fetch_programs(source(archive), tmp_path / "made/programs")
    made = {path.name: path.read_bytes() for path in (tmp_path / "made/programs").iterdir()}
    assert made == CONTENT
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["programs"]


def test_what_was_there_is_replaced_whole(archive, tmp_path):
    """Programs of an earlier source do not stay beside the new ones."""
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs/old.c").write_bytes(b"old")
    fetch_programs(source(pack(archive, below("sets/good"))), tmp_path / "programs")
    assert {path.name for path in (tmp_path / "programs").iterdir()} == CONTENT.keys()


LARGE = {"l.c": b"x" * (programs.PROGRAM_BYTES + 1)}
REFUSED = {
    "another checksum": (below("sets/good", {"1.c": b""}), (), ChecksumMismatch, "expected progr"),
    "another folder": (below("sets/bad"), (), UnusablePrograms, "has no C file in the folder"),
    "out of it": (
        below("sets/good") | {"top/../../evil.c": b""},
        (),
        UnusablePrograms,
        "'top/../../evil.c' names a place outside",
    ),
    "absolute": (
        below("sets/good") | {"/tmp/evil.c": b""},
        (),
        UnusablePrograms,
        "'/tmp/evil.c' names a place outside",
    ),
    "backslash": (
        below("sets/good") | {"sets/good/..\\evil.c": b""},
        (),
        UnusablePrograms,
        "names a place outside",
    ),
    "a link": (
        below("sets/good"),
        ("sets/good/link.c",),
        UnusablePrograms,
        "'sets/good/link.c' is a link or no ordinary file",
    ),
    "a hard link": (
        below("sets/good"),
        ("elsewhere", "sets/good/link.c"),
        UnusablePrograms,
        "'sets/good/link.c' is a link or no ordinary file",
    ),
    "a strange name": (
        below("sets/good") | {"sets/good/-x {y}.c": b""},
        (),
        UnusablePrograms,
        "has a name that is not made of letters",
    ),
    "too large": (below("sets/good", LARGE), (), UnusablePrograms, "is larger than 1048576 bytes"),
    "twice": (
        below("sets/good") | below("top/sets/good", {"2.c": b"two"}),
        (),
        UnusablePrograms,
        "has the name of another one",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_safe_or_not_the_same_is_refused(archive, tmp_path, case):
    """A refused archive says why, leaves nothing behind and nothing changed."""
    files, links, error, message = REFUSED[case]
    pack(archive, files, links)
    made = tmp_path / "made/programs"
    made.mkdir(parents=True)
    (made / "old.c").write_bytes(b"old")
    with pytest.raises(error) as caught:
        fetch_programs(source(archive), made)
    assert message in str(caught.value)
    assert str(archive) in str(caught.value)
    assert [str(path.relative_to(made.parent)) for path in sorted(made.parent.rglob("*"))] == [
        "programs",
        "programs/old.c",
    ]


def test_links_elsewhere_in_the_archive_do_no_harm(archive, tmp_path):
    """A repository may hold links where nothing is taken from."""
    pack(archive, below("sets/good"), ("README", "sets/link.c"))
    fetch_programs(source(archive), tmp_path / "programs")
    assert (tmp_path / "programs/2.c").read_bytes() == CONTENT["2.c"]


def test_bounds_hold_before_anything_is_unpacked(archive, tmp_path, monkeypatch):
    """An archive that says it holds too much, or too many programs, is refused."""
    pack(archive, below("sets/good") | {"large": b"0" * 5000})
    monkeypatch.setattr(programs, "UNPACKED_BYTES", 4000)
    with pytest.raises(UnusablePrograms, match="unpacks to more than 4000 bytes"):
        fetch_programs(source(archive), tmp_path / "programs")
    monkeypatch.undo()
    monkeypatch.setattr(programs, "MOST_PROGRAMS", 2)
    with pytest.raises(UnusablePrograms, match="is one more than 2"):
        fetch_programs(source(archive), tmp_path / "programs")


@pytest.mark.parametrize("damage", [lambda b: b[:-30], lambda b: b"no archive", lambda b: b""])
def test_a_damaged_archive_is_told(archive, tmp_path, damage):
    """A cut, foreign or empty file is called damaged."""
    pack(archive, below("sets/good"))
    archive.write_bytes(damage(archive.read_bytes()))
    with pytest.raises(UnusablePrograms, match="the archive is damaged"):
        fetch_programs(source(archive), tmp_path / "programs")


def test_a_header_that_unpacks_to_too_much_is_not_read(tmp_path, monkeypatch):
    """What a tar archive says of a member before its size is bounded as all else is."""
    archive = tmp_path / "x.tar.gz"
    with tarfile.open(archive, "w:gz", pax_headers={"comment": "x" * 20_000}) as packed:
        info = tarfile.TarInfo("sets/good/2.c")
        packed.addfile(info)
    monkeypatch.setattr(programs, "UNPACKED_BYTES", 15_000)
    with pytest.raises(UnusablePrograms, match="unpacks to more than 15000 bytes"):
        fetch_programs(source(archive), tmp_path / "programs")


@pytest.mark.parametrize("field", [(8, 10, 99, 2), (8, 10, 14, 2), (4, 6, 90, 2), (22, 24, 1, 4)])
def test_an_oddly_packed_archive_is_told(tmp_path, field):
    """A compression or version that is not known, or a wrong size, is a message."""
    archive = pack(tmp_path / "x.zip", {"sets/good/a.c": b"int x;" * 99})
    overwrite(archive, *field)
    with pytest.raises(UnusablePrograms, match="the archive is damaged"):
        fetch_programs(source(archive), tmp_path / "programs")


def test_an_archive_that_is_not_there_is_told(tmp_path):
    """The path that was looked at is named."""
    with pytest.raises(SourceUnavailable, match="there is no file"):
        fetch_programs(source(tmp_path / "x.zip"), tmp_path / "programs")


def test_programs_of_a_directory_are_copied_and_checked(tmp_path):
    """C files arrive, what else lies there does not, and a checksum holds for a directory too."""
    directory = tmp_path / "own {x}"
    directory.mkdir()
    for name, content in CONTENT.items():
        (directory / name).write_bytes(content)
    (directory / "notes.txt").write_bytes(b"")
    (directory / "folder.c").mkdir()
    fetch_programs(parse_program_source(f"path:{directory}", sha256=DIGEST), tmp_path / "programs")
    assert [file.name for file in program_files(tmp_path / "programs")] == ["2.c", "10.c", "a-b.c"]
    with pytest.raises(ChecksumMismatch):
        fetch_programs(parse_program_source(f"path:{directory}", sha256="0" * 64), tmp_path / "x")


def test_the_checksum_is_what_a_shell_says(tmp_path):
    """`LC_ALL=C; sha256sum *.c | sha256sum` prints the checksum of programs."""
    for name, content in CONTENT.items():
        (tmp_path / name).write_bytes(content)
    printed = subprocess.run(
        ["bash", "-c", "LC_ALL=C; sha256sum *.c | sha256sum"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout
    assert printed.split()[0] == DIGEST


BAD = [
    ({"source": "resources/programs"}, "must be path:directory, archive:https"),
    ({"source": "path:"}, "must be path:directory, archive:https"),
    ({"source": " path:x"}, "without spaces around it"),
    ({"source": "path:x", "folder": "y"}, "only an archive takes a folder"),
    ({"source": "path:x", "sha256": "abc"}, "must be 64 lower-case hexadecimal digits"),
    ({"source": "archive:https://a.b/c.rar", "sha256": DIGEST}, "must end in one of .tar.gz"),
    ({"source": "archive:http://a.b/c.zip", "sha256": DIGEST}, "from an https:// address only"),
    ({"source": "archive:file:///c.zip", "sha256": DIGEST}, "from an https:// address only"),
    ({"source": "archive:https://a.b/c.zip"}, "needs the sha256 of its programs"),
    (
        {"source": "archive:c.zip", "sha256": DIGEST, "folder": "../x"},
        "must be a folder inside the archive",
    ),
    (
        {"source": "archive:c.zip", "sha256": DIGEST, "folder": "/x"},
        "must be a folder inside the archive",
    ),
]


@pytest.mark.parametrize(("entry", "message"), BAD)
def test_a_bad_source_is_a_mistake_of_the_configuration(entry, message):
    """What cannot be a source is refused before anything is fetched."""
    with pytest.raises(ConfigError) as caught:
        parse_program_source(**entry)
    assert message in str(caught.value)


@pytest.fixture
def address():
    """A server on this machine that delivers 5000 bytes at /x, and nothing else."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/x" else 404)
            self.end_headers()
            self.wfile.write(b"0" * 5000)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_download_is_whole_or_told(address, tmp_path):
    """What is delivered is written; what is too large, absent or not reached is told."""
    assert download(f"{address}/x", tmp_path / "x", 5000).read_bytes() == b"0" * 5000
    with pytest.raises(SourceUnavailable, match="is larger than what is fetched"):
        download(f"{address}/x", tmp_path / "x", 4999)
    with pytest.raises(SourceUnavailable, match="could not be fetched: HTTP Error 404"):
        download(f"{address}/y", tmp_path / "y", 5000)
    with pytest.raises(SourceUnavailable, match="could not be fetched"):
        download("http://127.0.0.1:1/x", tmp_path / "z", 5000)
