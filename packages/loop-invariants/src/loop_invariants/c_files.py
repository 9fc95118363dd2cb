"""C files and the headers in their folder, for fetching and for parsing.

Both must find the same files. Otherwise a program could change between fetching and parsing.
"""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from llmchecker.errors import UnreadableProgram

_MAX_FILE_BYTES = 1_000_000
"""Maximum size of a C file or header, in bytes."""

_LINE_JOIN = re.compile(r"\\\r?\n")
"""A backslash and line end: the line continues in the next one (C11 5.1.1.2p1)."""

_INCLUDE = re.compile(r"\binclude\b(?>[ \t\v\f]+|/\*.*?\*/)*+[\"<]([\w.+-]+)[\">]", flags=re.DOTALL)
"""A directive with a file of the same folder; comments may precede the name."""


def decode_c(content: bytes) -> str:
    """Decode the content of a C file."""
    try:
        # A byte order mark has no meaning here; compilers ignore it too.
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        # Outside of comments and strings, the preprocessor rejects these bytes anyway.
        return content.decode("latin-1")


def read_source(path: Path) -> str:
    """Read the text of a C file.

    Raises:
        UnreadableProgram: the file cannot be read, or is too large.
    """
    try:
        # As bytes: Python would convert carriage returns to line ends, compilers do not.
        with path.open("rb") as file:
            # A device has no end.
            content = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UnreadableProgram(
            f"{path}: the file cannot be read: {error}; correct the path"
        ) from error
    if len(content) > _MAX_FILE_BYTES:
        raise UnreadableProgram(
            f"{path}: the file is larger than {_MAX_FILE_BYTES:,} bytes; shorten it"
        )
    return decode_c(content)


def read_included_headers(path: Path, source: str) -> dict[str, str]:
    """Read the files of a program's folder that it includes, transitively.

    The folder is that of the given path, as for a compiler: links are not resolved. Directives of
    the text decide which of the files are really included.

    Args:
        path: path of the program.
        source: text of the program.

    Returns:
        The texts of the files, by name.

    Raises:
        UnreadableProgram: a header cannot be read, or is too large.
    """
    headers = find_included_files(source, partial(read_sibling, path.parent))
    return {name: decode_c(content) for name, content in headers.items()}


def find_included_files(source: str, read: Callable[[str], bytes | None]) -> dict[str, bytes]:
    """Find the files of a program's folder that its text includes, transitively.

    Includes in comments and in inactive parts count too, so that no included file is missing.

    Args:
        source: text of the program.
        read: returns the content of a file of the folder, or None if no such file exists.

    Returns:
        The contents of the files, by name.
    """
    included_files: dict[str, bytes] = {}
    pending_sources = [source]
    while pending_sources:
        for name in _INCLUDE.findall(_LINE_JOIN.sub("", pending_sources.pop())):
            # Headers may include each other in a cycle.
            if name in included_files:
                continue
            content = read(name)
            # Other includes are headers of the C library.
            if content is not None:
                included_files[name] = content
                pending_sources.append(decode_c(content))
    return included_files


def read_sibling(folder: Path, name: str) -> bytes | None:
    """Read a file of a folder; return None if no such file exists.

    Raises:
        UnreadableProgram: the file cannot be read, or is too large.
    """
    file = folder / name
    try:
        if not file.is_file():
            return None
        if file.stat().st_size > _MAX_FILE_BYTES:
            raise UnreadableProgram(
                f"{file}: the header is larger than {_MAX_FILE_BYTES:,} bytes; shorten it"
            )
        return file.read_bytes()
    except OSError as error:
        raise UnreadableProgram(
            f"{file}: the header cannot be read: {error}; correct it"
        ) from error
