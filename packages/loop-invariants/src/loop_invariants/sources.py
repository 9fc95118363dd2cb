"""Sources of C programs: a directory on this machine, or an archive.

    path:directory
    archive:https://host/name.tar.gz     or .tgz or .zip
    archive:/file/of/this/machine.zip

A source provides the C files of one folder and the files of that folder that they include, without
changes. An archive is untrusted. It is rejected if a needed file is a link, or if any member has a
path outside the archive.
"""

import gzip
import hashlib
import io
import logging
import re
import stat
import tarfile
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO, cast

from llmchecker.errors import (
    ChecksumMismatch,
    ConfigError,
    SourceUnavailable,
    UnreadableProgram,
    UnusablePrograms,
)
from llmchecker.models.sources.downloads import UNREADABLE_ZIP, download
from llmchecker.utils.atomic_files import describe_kind, is_sha256, partial_prefix
from loop_invariants.c_files import decode_c, find_included_files, read_sibling

_FORMS = "path:directory, archive:https://….tar.gz or archive:file.zip"

_MAX_ARCHIVE_BYTES = 200 << 20
"""Maximum size of a fetched archive, in bytes."""
_MAX_UNPACKED_BYTES = 2 << 30
"""Maximum size of an unpacked archive, in bytes."""
_MAX_PROGRAM_BYTES = 1 << 20
"""Maximum size of a C file or header in an archive, in bytes."""
_MAX_PROGRAMS = 10_000
"""Maximum number of C files of an archive, and of other files in their folder."""

_ARCHIVE_SUFFIXES = (".tar.gz", ".tgz", ".zip")
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_PRINTABLE = re.compile(r"[^\x00-\x1f\x7f]+")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ProgramSource:
    """A directory of C files, or a folder of C files in an archive.

    Attributes:
        scheme: "path" or "archive".
        location: path of the directory, or of the archive: an https address or a local file.
        folder: folder inside the archive that contains the C files. The single top directory of a
            repository archive may be left out. Empty if the files are in that directory or at the
            top level.
        sha256: checksum of the programs and the files that they include, as `_compute_sha256`
            computes it. Required for an archive. It is not the checksum of the archive file,
            because a service that packs archives on demand may return different bytes each time.

    Raises:
        ConfigError: a field has another form, or the fields do not fit together.
    """

    scheme: str
    location: str
    folder: str = ""
    sha256: str | None = None

    def __post_init__(self) -> None:
        if self.scheme not in ("path", "archive") or not _PRINTABLE.fullmatch(self.location):
            # quoted, because the text may end with its colon
            raise ConfigError(f"source {str(self)!r}: the form is unknown; it must be {_FORMS}")
        if self.sha256 is not None and not is_sha256(self.sha256):
            raise ConfigError(
                f"sha256: {self.sha256!r} is no checksum; it must be "
                "64 lower-case hexadecimal digits"
            )
        # The location of a directory is already the folder with the C files.
        if self.scheme == "path":
            if self.folder:
                raise ConfigError(f"source {self}: only an archive takes a folder; remove it")
            return
        if not self.location.endswith(_ARCHIVE_SUFFIXES):
            raise ConfigError(
                f"source {self}: the ending is unknown; it must be one of "
                f"{', '.join(_ARCHIVE_SUFFIXES)}"
            )
        # Plain http does not authenticate the server.
        if "://" in self.location and not self.location.startswith("https://"):
            raise ConfigError(f"source {self}: the address is not secure; use an https:// address")
        if self.folder.startswith("/") or ".." in PurePosixPath(self.folder).parts:
            raise ConfigError(
                f"folder: {self.folder!r} is elsewhere; it must be a folder inside the archive"
            )
        # The content of an archive is untrusted, so its programs must be pinned.
        if self.sha256 is None:
            raise ConfigError(f"source {self}: sha256 is missing; add that of its programs")

    def __str__(self) -> str:
        return f"{self.scheme}:{self.location}"

    @property
    def path(self) -> Path:
        """Absolute path of the directory or local archive."""
        return Path(self.location).expanduser().absolute()

    def state(self) -> str | None:
        """Return the checksum of a directory's files, or the expected one of an archive.

        Raises:
            ConfigError: the directory contains no C file, or a file that cannot be read.
        """
        return self.sha256 if self.scheme == "archive" else _compute_sha256(_read_directory(self))


def parse_program_source(source: str, folder: str = "", sha256: str | None = None) -> ProgramSource:
    """Parse `path:…` or `archive:…`.

    Raises:
        ConfigError: the text has another form, or the arguments do not fit together.
    """
    scheme, _, location = source.partition(":")
    if source != source.strip():
        raise ConfigError(f"source {source!r}: it has spaces around it; remove them")
    return ProgramSource(scheme, location, folder, sha256)


def find_program_files(directory: str | Path) -> tuple[Path, ...]:
    """Return the C files of a directory: numbered files first, then others by name.

    Raises:
        ConfigError: the directory contains no C file.
    """
    files = sorted((f for f in Path(directory).glob("*.c") if f.is_file()), key=_sort_key)
    if not files:
        raise ConfigError(f"{directory}: there is no C file; programs are the files *.c in it")
    return tuple(files)


def _sort_key(file: Path) -> tuple[bool, int, str]:
    # Sorted by length and then by digits, numbers are in numerical order.
    is_numbered = file.stem.isascii() and file.stem.isdigit()
    return not is_numbered, len(file.stem) if is_numbered else 0, file.stem


def _compute_sha256(programs: Mapping[str, bytes]) -> str:
    """Compute a checksum of files and their names, independent of the packing.

    In a directory with only these files, `LC_ALL=C; sha256sum * | sha256sum` prints it.

    Args:
        programs: contents of the files, by name.
    """
    lines = (
        f"{hashlib.sha256(content).hexdigest()}  {name}\n"
        for name, content in sorted(programs.items())
    )
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def fetch_programs(source: ProgramSource, directory: str | Path) -> None:
    """Replace `directory` by the programs of a source, atomically.

    Raises:
        ConfigError: the source is a directory without C files, or with a file that cannot be read.
        SourceUnavailable: the archive cannot be reached or is too large.
        UnusablePrograms: the archive is damaged or unsafe, or has no C file in the folder.
        ChecksumMismatch: the sha256 of the programs differs from that of the source.
    """
    directory = Path(directory)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=directory.parent, prefix=partial_prefix()) as scratch_directory:
        if source.scheme == "path":
            files = _read_directory(source)
        else:
            files = _read_archive(source, _fetch_archive(source, Path(scratch_directory)))
        checksum = _compute_sha256(files)
        if source.sha256 not in (None, checksum):
            raise ChecksumMismatch(
                f"{source}: the programs have the sha256 {checksum}, not {source.sha256}; "
                "check both"
            )
        # The files are complete before the rename, so that no partial directory is visible.
        program_directory = Path(scratch_directory, "programs")
        program_directory.mkdir()
        for name, content in files.items():
            (program_directory / name).write_bytes(content)
        # The old directory is deleted together with the scratch directory.
        if directory.exists():
            directory.rename(Path(scratch_directory, "replaced"))
        program_directory.rename(directory)
    _log.info("%d programs of %s", sum(name.endswith(".c") for name in files), source)


def _read_directory(source: ProgramSource) -> dict[str, bytes]:
    """Read a directory's C files and the files of it that they include, by name."""
    try:
        programs = {file.name: file.read_bytes() for file in find_program_files(source.path)}
        return _add_included_files(programs, partial(read_sibling, source.path))
    except (OSError, UnreadableProgram) as error:
        raise ConfigError(f"source {source}: {error}") from error


def _add_included_files(
    programs: Mapping[str, bytes], read: Callable[[str], bytes | None]
) -> dict[str, bytes]:
    """Return programs and their included files; see `find_included_files`."""
    files = dict(programs)
    # Programs of a folder often include the same headers.
    cached_read = cache(lambda name: programs[name] if name in programs else read(name))
    for content in programs.values():
        files |= find_included_files(decode_c(content), cached_read)
    return files


def _fetch_archive(source: ProgramSource, scratch: Path) -> Path:
    """Download an archive if necessary and return its path."""
    if source.location.startswith("https://"):
        _log.info("fetching %s", source)
        return download(source.location, scratch / "archive", _MAX_ARCHIVE_BYTES)
    if not source.path.is_file():
        raise SourceUnavailable(
            f"{source}: {source.path} is {describe_kind(source.path)}, not a file; name an archive"
        )
    return source.path


@dataclass(frozen=True)
class _Member:
    """A member of an archive, before its content is read.

    Attributes:
        name: path in the archive.
        size: size in bytes that the archive declares.
        is_regular: whether it is an ordinary file: no link, and not encrypted.
        read: function that returns its content.
    """

    name: str
    size: int
    is_regular: bool
    read: Callable[[], bytes]


def _read_archive(source: ProgramSource, archive: Path) -> dict[str, bytes]:
    """Read the C files of an archive's folder and the files they include, by name."""
    programs: dict[str, bytes] = {}
    # A stream is read once, so a file is read before its includers are known.
    siblings: dict[str, bytes | UnusablePrograms] = {}
    try:
        for name, member in _iter_folder_members(source, archive):
            files = programs if name.endswith(".c") else siblings
            problem = _find_problem(member, name, files)
            # An unusable C file is an error at once; another file only if a program includes it.
            if not problem:
                files[name] = member.read()
            elif name.endswith(".c"):
                raise _build_error(source, member.name, problem)
            else:
                siblings[name] = _build_error(source, member.name, problem)
    except (tarfile.TarError, *UNREADABLE_ZIP) as error:
        raise UnusablePrograms(
            f"{source}: the archive is damaged: {error}; fetch it again"
        ) from error
    if not programs:
        raise UnusablePrograms(
            f"{source}: the folder {source.folder!r} has no C file; name another"
        )

    def read(name: str) -> bytes | None:
        content = siblings.get(name)
        if isinstance(content, UnusablePrograms):
            raise content
        return content

    return _add_included_files(programs, read)


def _iter_folder_members(source: ProgramSource, archive: Path) -> Iterator[tuple[str, _Member]]:
    """Yield the members of an archive's folder with their names in it."""
    iter_members = _iter_zip_members if source.location.endswith(".zip") else _iter_tar_members
    unpacked_size = 0
    for member in iter_members(archive):
        # The sizes are declared before unpacking, so a zip bomb is detected early.
        unpacked_size += member.size
        if unpacked_size > _MAX_UNPACKED_BYTES:
            raise UnusablePrograms(
                f"{source}: it unpacks to more than {_MAX_UNPACKED_BYTES} bytes; "
                "choose a smaller archive"
            )
        # The path is checked for each member, also outside the folder.
        parts = _split_path(source, member)
        if _is_inside(parts, source.folder):
            yield parts[-1], member


def _build_error(source: ProgramSource, member: str, problem: str) -> UnusablePrograms:
    return UnusablePrograms(f"{source}: member {member!r} {problem}; remove it")


class _BoundedStream(io.RawIOBase):
    """A stream that raises an error after the maximum number of unpacked bytes.

    The declared sizes of members are not enough: tarfile also reads headers of any length.
    """

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream, self._remaining_bytes = stream, _MAX_UNPACKED_BYTES

    def read(self, size: int = -1) -> bytes:
        """Read at most `size` bytes."""
        # A negative size reads to the end of the stream, which has no bound.
        if size < 0 or size > self._remaining_bytes:
            raise tarfile.ReadError(f"it unpacks to more than {_MAX_UNPACKED_BYTES} bytes")
        block = self._stream.read(size)
        self._remaining_bytes -= len(block)
        return block


def _iter_tar_members(path: Path) -> Iterator[_Member]:
    # As a stream: each member is read in its turn, so that nothing is unpacked twice.
    with (
        gzip.open(path) as stream,
        tarfile.open(fileobj=cast(IO[bytes], _BoundedStream(stream)), mode="r|") as archive,
    ):
        for info in archive:
            read = _build_reader(partial(archive.extractfile, info))
            yield _Member(info.name, info.size, info.isreg() and not info.issparse(), read)


def _iter_zip_members(path: Path) -> Iterator[_Member]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            # The upper half contains the Unix mode; archives made on other systems leave it 0.
            kind = stat.S_IFMT(info.external_attr >> 16)
            is_encrypted = bool(info.flag_bits & 1)
            is_regular = kind in (0, stat.S_IFREG) and not info.is_dir() and not is_encrypted
            yield _Member(
                info.filename,
                info.file_size,
                is_regular,
                _build_reader(partial(archive.open, info)),
            )


def _build_reader(open_member: Callable[[], IO[bytes] | None]) -> Callable[[], bytes]:
    def read() -> bytes:
        with open_member() or io.BytesIO() as file:
            # The declared size was checked, but the content of a damaged member may be longer.
            return file.read(_MAX_PROGRAM_BYTES)

    return read


def _split_path(source: ProgramSource, member: _Member) -> tuple[str, ...]:
    """Split a member's path; raise an error for a path outside the archive."""
    parts = PurePosixPath(member.name).parts
    if member.name.startswith("/") or ".." in parts or "\\" in member.name:
        raise UnusablePrograms(
            f"{source}: member {member.name!r} names a place outside of it; remove it"
        )
    return parts


def _is_inside(parts: tuple[str, ...], folder: str) -> bool:
    """Check that a file is in the folder itself, below at most one top directory."""
    folder_parts = PurePosixPath(folder).parts
    return bool(parts) and folder_parts in (parts[:-1], parts[1:-1])


def _find_problem(member: _Member, name: str, others: Collection[str]) -> str:
    """Return the problem that makes a member unusable; empty if it has none.

    Args:
        member: the member.
        name: name of the member in the folder.
        others: names of the members before it.
    """
    if not member.is_regular:
        return "is a link or no ordinary file"
    if not _FILE_NAME.fullmatch(name):
        return "has a name that is not made of letters, digits and _ . + -"
    if member.size > _MAX_PROGRAM_BYTES:
        return f"is larger than {_MAX_PROGRAM_BYTES} bytes"
    # Under two top directories, two members can have the same name.
    if name in others:
        return "has the name of another one"
    if len(others) == _MAX_PROGRAMS:
        return f"is one more than {_MAX_PROGRAMS}"
    return ""
