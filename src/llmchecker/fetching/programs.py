"""Fetching C programs from a directory of this machine or from an archive.

    path:directory
    archive:https://host/name.tar.gz     or .tgz or .zip
    archive:/file/of/this/machine.zip

Only the C files of one folder are taken from an archive, whole and unchanged. An archive is not
trusted: it is refused if such a C file is a link, or if any member names a place outside of it.
"""

import gzip
import hashlib
import io
import logging
import re
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import BinaryIO

from llmchecker.errors import ChecksumMismatch, ConfigError, SourceUnavailable, UnusablePrograms
from llmchecker.fetching.downloads import UNREADABLE_ZIP, download
from llmchecker.files import is_sha256, partial_prefix

FORMS = "path:directory, archive:https://….tar.gz or archive:file.zip"

ARCHIVE_BYTES = 200 << 20
"""The most bytes of an archive that is fetched."""
UNPACKED_BYTES = 2 << 30
"""The most bytes that an archive may unpack to."""
PROGRAM_BYTES = 1 << 20
"""The most bytes of a C file from an archive."""
MOST_PROGRAMS = 10_000
"""The most C files of an archive."""

_FORMATS = (".tar.gz", ".tgz", ".zip")
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*\.c")
_HEADER_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*\.h")
_PRINTABLE = re.compile(r"[^\x00-\x1f\x7f]+")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ProgramSource:
    """A directory of C files, or a folder of C files in an archive.

    Attributes:
        scheme: "path" or "archive".
        place: the directory, or the archive: an https address or a file of this machine.
        folder: for an archive, the folder in it that holds the C files. Archives of a repository
            put everything into one directory, whose name may be left out; empty if the C files lie
            in that directory or outside of any folder.
        sha256: the checksum of the programs, as `sha256_of_programs` computes it. An archive
            requires it. It is not the archive's own, since a service that packs archives on demand
            need not deliver the same bytes twice.

    Raises:
        ConfigError: a field has another form, or the fields do not fit together.
    """

    scheme: str
    place: str
    folder: str = ""
    sha256: str | None = None

    def __post_init__(self) -> None:
        if self.scheme not in ("path", "archive") or not _PRINTABLE.fullmatch(self.place):
            raise ConfigError(f"source {self} must be {FORMS}")
        if self.sha256 is not None and not is_sha256(self.sha256):
            raise ConfigError(
                f"sha256 is {self.sha256!r}; it must be 64 lower-case hexadecimal digits"
            )
        if self.scheme == "path":
            if self.folder:
                raise ConfigError(f"source {self}: only an archive takes a folder")
            return
        if not self.place.endswith(_FORMATS):
            raise ConfigError(f"source {self} must end in one of {', '.join(_FORMATS)}")
        if "://" in self.place and not self.place.startswith("https://"):
            raise ConfigError(f"source {self}: an archive is fetched from an https:// address only")
        if self.folder.startswith("/") or ".." in PurePosixPath(self.folder).parts:
            raise ConfigError(f"folder {self.folder!r} must be a folder inside the archive")
        if self.sha256 is None:
            raise ConfigError(f"source {self} needs the sha256 of its programs")

    def __str__(self) -> str:
        return f"{self.scheme}:{self.place}"

    @property
    def path(self) -> Path:
        """Where a directory or archive of this machine lies."""
        return Path(self.place).expanduser().absolute()

    def state(self) -> str | None:
        """What a directory's programs are now: their checksum, and the names of headers.

        For an archive it is the expected checksum.

        Raises:
            ConfigError: the directory holds no C file, or one that cannot be read.
        """
        if self.scheme == "archive":
            return self.sha256
        return " ".join((sha256_of_programs(_copied(self)), *_headers(self)))


def parse_program_source(source: str, folder: str = "", sha256: str | None = None) -> ProgramSource:
    """Read `path:…` or `archive:…`.

    Args:
        source: the text.
        folder: as in `ProgramSource`.
        sha256: as in `ProgramSource`.

    Raises:
        ConfigError: the text has another form, or the arguments do not fit together.
    """
    scheme, _, place = source.partition(":")
    if source != source.strip():
        raise ConfigError(f"source {source!r} must be {FORMS}, without spaces around it")
    return ProgramSource(scheme, place, folder, sha256)


def program_files(directory: str | Path) -> tuple[Path, ...]:
    """The C files of a directory: first those named by a number, in its order, then others by name.

    Raises:
        ConfigError: the directory holds no C file.
    """
    files = sorted((f for f in Path(directory).glob("*.c") if f.is_file()), key=_place)
    if not files:
        raise ConfigError(f"{directory} holds no C file; programs are the files *.c in it")
    return tuple(files)


def _place(file: Path) -> tuple[bool, int, str]:
    # Sorted by length and then by digits, numbers are in order.
    numbered = file.stem.isascii() and file.stem.isdigit()
    return not numbered, len(file.stem) if numbered else 0, file.stem


def sha256_of_programs(programs: Mapping[str, bytes]) -> str:
    """One checksum of C files with their names, which does not depend on how they were packed.

    In a directory that holds the files, `LC_ALL=C; sha256sum *.c | sha256sum` prints the same.

    Args:
        programs: the contents of the files by name.
    """
    lines = (
        f"{hashlib.sha256(content).hexdigest()}  {name}\n"
        for name, content in sorted(programs.items())
    )
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def fetch_programs(source: ProgramSource, directory: str | Path) -> None:
    """Make `directory` hold the programs of a source, whole or not at all.

    Raises:
        ConfigError: the source is a directory without C files, or with one that cannot be read.
        SourceUnavailable: the archive cannot be reached or is too large.
        UnusablePrograms: the archive is damaged or not safe, or has no C file in the folder.
        ChecksumMismatch: the programs do not have the sha256 of the source.
    """
    directory = Path(directory)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=directory.parent, prefix=partial_prefix()) as scratch:
        if source.scheme == "path":
            programs, headers = _copied(source), _headers(source)
        else:
            programs, headers = _unpacked(source, _archive(source, Path(scratch)))
        actual = sha256_of_programs(programs)
        if source.sha256 not in (None, actual):
            raise ChecksumMismatch(
                f"{source}: expected programs with the sha256 {source.sha256}, got {actual}"
            )
        made = Path(scratch, "programs")
        made.mkdir()
        for name, content in programs.items():
            (made / name).write_bytes(content)
        for name in headers:
            # A program that includes it is refused, and must not get a header of the library.
            (made / name).touch()
        if directory.exists():
            directory.rename(Path(scratch, "replaced"))
        made.rename(directory)
    _log.info("%d programs of %s", len(programs), source)


def _copied(source: ProgramSource) -> dict[str, bytes]:
    """The C files of a directory, by name."""
    try:
        return {file.name: file.read_bytes() for file in program_files(source.path)}
    except OSError as error:
        raise ConfigError(f"source {source}: {error}") from error


def _headers(source: ProgramSource) -> list[str]:
    """The names of the headers in a directory."""
    return sorted(file.name for file in source.path.glob("*.h"))


def _archive(source: ProgramSource, scratch: Path) -> Path:
    """The archive as a file of this machine."""
    if source.place.startswith("https://"):
        _log.info("fetching %s", source)
        return download(source.place, scratch / "archive", ARCHIVE_BYTES)
    if not source.path.is_file():
        raise SourceUnavailable(f"{source}: there is no file {source.path}")
    return source.path


@dataclass(frozen=True)
class _Member:
    """A member of an archive before it is read.

    Attributes:
        name: its path in the archive.
        size: its size in bytes, as the archive says.
        regular: whether it is an ordinary file, neither a link nor encrypted.
        read: returns its content.
    """

    name: str
    size: int
    regular: bool
    read: Callable[[], bytes]


def _unpacked(source: ProgramSource, archive: Path) -> tuple[dict[str, bytes], set[str]]:
    """The C files of an archive's folder, by name, and the names of its headers."""
    members = _members_of_zip if source.place.endswith(".zip") else _members_of_tar
    found: dict[str, bytes] = {}
    headers: set[str] = set()
    unpacked = 0
    try:
        for member in members(archive):
            unpacked += member.size
            if unpacked > UNPACKED_BYTES:
                raise UnusablePrograms(f"{source} unpacks to more than {UNPACKED_BYTES} bytes")
            parts = _parts(source, member)
            if _is_inside(parts, source.folder) and _HEADER_NAME.fullmatch(parts[-1]):
                headers.add(parts[-1])
            if _is_inside(parts, source.folder) and parts[-1].endswith(".c"):
                _demand_plain(source, member, parts[-1], found)
                found[parts[-1]] = member.read()
    except (tarfile.TarError, *UNREADABLE_ZIP) as error:
        raise UnusablePrograms(f"{source}: the archive is damaged: {error}") from error
    if not found:
        raise UnusablePrograms(f"{source} has no C file in the folder {source.folder!r}")
    return found, headers


class _Bounded(io.RawIOBase):
    """A stream that raises an error once it has delivered as much as an archive may unpack to.

    The sizes of the members are not enough, since tarfile also reads headers, of any length.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._left = stream, UNPACKED_BYTES

    def read(self, size: int = -1) -> bytes:
        """Read at most so many bytes."""
        if size < 0 or size > self._left:
            raise tarfile.ReadError(f"it unpacks to more than {UNPACKED_BYTES} bytes")
        block = self._stream.read(size)
        self._left -= len(block)
        return block


def _members_of_tar(path: Path) -> Iterator[_Member]:
    # As a stream: each member is read when it comes by, so that nothing is unpacked twice.
    with gzip.open(path) as stream, tarfile.open(fileobj=_Bounded(stream), mode="r|") as archive:
        for info in archive:
            read = _reader(archive.extractfile, info)
            yield _Member(info.name, info.size, info.isreg() and not info.issparse(), read)


def _members_of_zip(path: Path) -> Iterator[_Member]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            # The upper half holds the mode of Unix; archives made elsewhere leave it 0.
            kind = stat.S_IFMT(info.external_attr >> 16)
            encrypted = bool(info.flag_bits & 1)
            regular = kind in (0, stat.S_IFREG) and not info.is_dir() and not encrypted
            yield _Member(info.filename, info.file_size, regular, _reader(archive.open, info))


def _reader(opened: Callable, info: object) -> Callable[[], bytes]:
    def read() -> bytes:
        with opened(info) as file:
            return file.read(PROGRAM_BYTES)

    return read


def _parts(source: ProgramSource, member: _Member) -> tuple[str, ...]:
    """The parts of a member's path; a path that leads out of the archive is refused."""
    parts = PurePosixPath(member.name).parts
    if member.name.startswith("/") or ".." in parts or "\\" in member.name:
        raise UnusablePrograms(f"{source}: member {member.name!r} names a place outside of it")
    return parts


def _is_inside(parts: tuple[str, ...], folder: str) -> bool:
    """Whether a path is that of a file in the folder itself, with one more directory or none."""
    wanted = PurePosixPath(folder).parts
    return bool(parts) and wanted in (parts[:-1], parts[1:-1])


def _demand_plain(
    source: ProgramSource, member: _Member, name: str, found: Mapping[str, bytes]
) -> None:
    """Refuse a member that is not an ordinary small file with a name of its own."""
    if not member.regular:
        wrong = "is a link or no ordinary file"
    elif not _FILE_NAME.fullmatch(name):
        wrong = "has a name that is not made of letters, digits and _ . + -"
    elif member.size > PROGRAM_BYTES:
        wrong = f"is larger than {PROGRAM_BYTES} bytes"
    elif name in found:
        wrong = "has the name of another one"
    elif len(found) == MOST_PROGRAMS:
        wrong = f"is one more than {MOST_PROGRAMS}"
    else:
        return
    raise UnusablePrograms(f"{source}: member {member.name!r} {wrong}")
