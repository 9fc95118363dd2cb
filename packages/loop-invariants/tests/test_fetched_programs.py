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

from llmchecker.errors import (
    ChecksumMismatch,
    ConfigError,
    ProgramError,
    SourceUnavailable,
    UnusablePrograms,
)
from llmchecker.models.sources.downloads import download
from loop_invariants import sources
from loop_invariants.c_files import read_included_headers, read_source
from loop_invariants.frontend.translation_unit import read_program
from loop_invariants.interpreter.simulation import run_program
from loop_invariants.ir.expressions import Semantics
from loop_invariants.sources import (
    ProgramSource,
    _compute_sha256,
    fetch_programs,
    find_program_files,
    parse_program_source,
)

CONTENT = {"10.c": b"int main() {}\n", "2.c": b"/* two */\n", "a-b.c": b"\xff\x00"}
DIGEST = _compute_sha256(CONTENT)
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


LARGE = {"l.c": b"x" * (sources._MAX_PROGRAM_BYTES + 1)}
REFUSED = {
    "another checksum": (below("sets/good", {"1.c": b""}), (), ChecksumMismatch, "the programs ha"),
    "another folder": (
        below("sets/bad"),
        (),
        UnusablePrograms,
        "the folder 'sets/good' has no C file",
    ),
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
    monkeypatch.setattr(sources, "_MAX_UNPACKED_BYTES", 4000)
    with pytest.raises(UnusablePrograms, match="unpacks to more than 4000 bytes"):
        fetch_programs(source(archive), tmp_path / "programs")
    monkeypatch.undo()
    monkeypatch.setattr(sources, "_MAX_PROGRAMS", 2)
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
    monkeypatch.setattr(sources, "_MAX_UNPACKED_BYTES", 15_000)
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
    with pytest.raises(SourceUnavailable, match="is absent, not a file"):
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
    assert [file.name for file in find_program_files(tmp_path / "programs")] == [
        "2.c",
        "10.c",
        "a-b.c",
    ]
    with pytest.raises(ChecksumMismatch):
        fetch_programs(parse_program_source(f"path:{directory}", sha256="0" * 64), tmp_path / "x")


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


BODY = "int main(void) { int x = BUG; __VERIFIER_assert(x == 0); }\n"
INCLUDING = {
    "a header": {"p.c": f'#include "config.h"\n{BODY}', "config.h": "#define BUG 1\n"},
    "a header of a header": {
        "p.c": f'#include "a.h"\n{BODY}',
        "a.h": '#include "b.h"\n',
        "b.h": "#define BUG 1\n",
    },
    "angle brackets": {"p.c": f"#include <config.h>\n{BODY}", "config.h": "#define BUG 1\n"},
    "another ending": {"p.c": f'#include "bug.inc"\n{BODY}', "bug.inc": "#define BUG 1\n"},
    "a program": {"p.c": f'#include "q.c"\n{BODY}', "q.c": "#define BUG 1\n"},
    "a comment before the name": {
        "p.c": f'# /* one */ include /* "two" */ "config.h"\n{BODY}',
        "config.h": "#define BUG 1\n",
    },
    "a joined line": {
        "p.c": f'#inc\\\nlude "con\\\nfig.h"\n{BODY}',
        "config.h": "#define BUG 1\n",
    },
    "the C library's name": {
        "p.c": f'#include "limits.h"\n#define BUG (INT_MAX == 3)\n{BODY}',
        "limits.h": "#define INT_MAX 3\n",
    },
    "the C library's name behind a comment": {
        "p.c": f'#include /**/ "limits.h"\n#define BUG (INT_MAX == 3)\n{BODY}',
        "limits.h": "#define INT_MAX 3\n",
    },
}
OUTSIDE = {
    "a missing header": {"p.c": f'#include "config.h"\n{BODY}'},
    "a folder of its own": {"p.c": f'#include "sub/a.h"\n{BODY}', "sub/a.h": "#define BUG 1\n"},
    "the folder above": {"p.c": f'#include "../a.h"\n{BODY}', "../a.h": "#define BUG 1\n"},
    "a name from a macro": {
        "p.c": f'#define NAME "limits.h"\n#include NAME\n#define BUG (INT_MAX == 3)\n{BODY}',
        "limits.h": "#define INT_MAX 3\n",
    },
    "the C library's folder": {
        "p.c": f'#define BUG 0\n#include "sys/types.h"\n{BODY}',
        "sys/types.h": "#define BUG 1\n",
    },
}


def sources_of(folder: Path, files: dict[str, str]) -> list[ProgramSource]:
    """A directory as it is, and archives of each format that hold its files."""
    write(folder, files)
    inside = {f"set/{name}": text.encode() for name, text in files.items() if "../" not in name}
    texts = {name: text.encode() for name, text in files.items() if "/" not in name}
    sources = [parse_program_source(f"path:{folder}")]
    for name in ("x.zip", "x.tgz"):
        archive = pack(folder.parent / name, inside)
        sources.append(source(archive, "set", _compute_sha256(texts)))
    return sources


@pytest.mark.few(2)
@pytest.mark.parametrize("case", INCLUDING)
def test_a_fetched_program_is_the_one_of_its_source(tmp_path, case):
    """What a program includes is fetched with it: its run fails from both, and texts are equal."""
    folder = tmp_path / "own/set"
    for number, each in enumerate(sources_of(folder, INCLUDING[case])):
        fetched = tmp_path / f"fetched{number}"
        fetch_programs(each, fetched)
        assert read_included_headers(fetched / "p.c", read_source(fetched / "p.c"))
        for program in (read_program(folder / "p.c"), read_program(fetched / "p.c")):
            assert run_program(program, Semantics.INT32).failure is not None
        assert {f.name: f.read_text() for f in fetched.iterdir()} == INCLUDING[case]


@pytest.mark.parametrize("case", OUTSIDE)
def test_a_header_that_is_not_fetched_is_refused(tmp_path, case):
    """A program is refused, with the same reason before and after fetching, if a header is not."""
    folder = tmp_path / "own/set"
    write(folder, OUTSIDE[case])
    with pytest.raises(ProgramError, match=r"p\.c:[12]: .* is not supported") as before:
        read_program(folder / "p.c")
    fetch_programs(parse_program_source(f"path:{folder}"), tmp_path / "fetched")
    with pytest.raises(ProgramError) as after:
        read_program(tmp_path / "fetched/p.c")
    assert str(after.value) == str(before.value)


def test_the_state_of_a_directory_changes_with_what_its_programs_include(tmp_path):
    """An edited, new or lost header changes the state; a file that no program includes does not."""
    files = {"p.c": '#include "a.h"\n', "a.h": '#include "b.h"\n', "b.h": "int b;\n"}
    folder = write(tmp_path / "own", files)
    named = parse_program_source(f"path:{folder}")
    states = [named.state()]
    for name, content in (("b.h", "int c;\n"), ("a.h", ""), ("a.h", files["a.h"])):
        (folder / name).write_text(content)
        states.append(named.state())
    (folder / "b.h").unlink()
    states.append(named.state())
    assert len(set(states)) == len(states) - 1
    assert states[1] == states[3]
    write(folder, {"c.h": "int c;\n", "sub/b.h": "int b;\n"})
    assert named.state() == states[-1]


def test_a_checksum_is_that_of_the_headers_too(archive, tmp_path):
    """Programs with another header than the checksum's are refused."""
    files = {"set/p.c": b'#include "a.h"\n', "set/a.h": b"int a;\n"}
    digest = _compute_sha256({"p.c": files["set/p.c"], "a.h": b"int b;\n"})
    with pytest.raises(ChecksumMismatch):
        fetch_programs(source(pack(archive, files), "set", digest), tmp_path / "programs")
    folder = write(tmp_path / "own", {"p.c": '#include "a.h"\n', "a.h": "int a;\n"})
    with pytest.raises(ChecksumMismatch):
        fetch_programs(parse_program_source(f"path:{folder}", sha256=digest), tmp_path / "programs")


HEADERS = {
    "a link": ({}, ("set/a.h",), "'set/a.h' is a link or no ordinary file"),
    "too large": (
        {"set/a.h": b"x" * (sources._MAX_PROGRAM_BYTES + 1)},
        (),
        "'set/a.h' is larger than 1048576 bytes",
    ),
    "twice": (
        {"set/a.h": b"int a;\n", "top/set/a.h": b"int b;\n"},
        (),
        "'top/set/a.h' has the name of another one",
    ),
}


@pytest.mark.parametrize("case", HEADERS)
def test_a_header_that_is_not_safe_is_refused_where_it_is_included(archive, tmp_path, case):
    """A link, a large file or a second one is no header, and harms no program without it."""
    headers, links, message = HEADERS[case]
    pack(archive, {"set/p.c": b'#include "a.h"\n', **headers}, links)
    with pytest.raises(UnusablePrograms) as caught:
        fetch_programs(source(archive, "set", DIGEST), tmp_path / "programs")
    assert message in str(caught.value)
    pack(archive, {"set/p.c": b"int x;\n", **headers}, links)
    alone = _compute_sha256({"p.c": b"int x;\n"})
    fetch_programs(source(archive, "set", alone), tmp_path / "programs")
    assert [file.name for file in (tmp_path / "programs").iterdir()] == ["p.c"]


def test_a_header_that_cannot_be_read_is_a_mistake_of_the_configuration(tmp_path):
    """A directory with a large header is refused by name before anything is fetched."""
    folder = write(tmp_path / "own", {"p.c": '#include "a.h"\n', "a.h": " " * 1_000_001})
    with pytest.raises(ConfigError, match=r"a\.h: the header is larger than 1,000,000 bytes"):
        parse_program_source(f"path:{folder}").state()


def test_the_checksum_is_what_a_shell_says(tmp_path):
    """`LC_ALL=C; sha256sum * | sha256sum` prints the checksum of programs and headers."""
    for name, content in CONTENT.items():
        (tmp_path / name).write_bytes(content)
    printed = subprocess.run(
        ["bash", "-c", "LC_ALL=C; sha256sum * | sha256sum"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout
    assert printed.split()[0] == DIGEST


BAD = [
    ({"source": "resources/programs"}, "it must be path:directory, archive:https"),
    ({"source": "path:"}, "it must be path:directory, archive:https"),
    ({"source": " path:x"}, "it has spaces around it; remove them"),
    ({"source": "path:x", "folder": "y"}, "only an archive takes a folder"),
    ({"source": "path:x", "sha256": "abc"}, "must be 64 lower-case hexadecimal digits"),
    ({"source": "archive:https://a.b/c.rar", "sha256": DIGEST}, "it must be one of .tar.gz"),
    ({"source": "archive:http://a.b/c.zip", "sha256": DIGEST}, "use an https:// address"),
    ({"source": "archive:file:///c.zip", "sha256": DIGEST}, "use an https:// address"),
    ({"source": "archive:https://a.b/c.zip"}, "sha256 is missing; add that of its programs"),
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
    with pytest.raises(SourceUnavailable, match="larger than the limit of downloads"):
        download(f"{address}/x", tmp_path / "x", 4999)
    with pytest.raises(SourceUnavailable, match="could not be fetched: HTTP Error 404"):
        download(f"{address}/y", tmp_path / "y", 5000)
    with pytest.raises(SourceUnavailable, match="could not be fetched"):
        download("http://127.0.0.1:1/x", tmp_path / "z", 5000)
