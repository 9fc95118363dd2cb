"""Files of C text: a program, and the headers that lie beside it."""

import re
from pathlib import Path

from llmchecker.errors import UnreadableProgram

_INCLUDED = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[\"<]([\w.+-]+)[\">]", flags=re.MULTILINE)

_LARGEST = 1_000_000
"""The most bytes of a header."""


def stored_text(path: Path) -> str:
    """The text of a C file.

    Raises:
        UnreadableProgram: the file cannot be read.
    """
    try:
        # As bytes, since Python would turn carriage returns into line ends, and compilers do not.
        stored = path.read_bytes()
    except OSError as error:
        raise UnreadableProgram(f"{path} cannot be read: {error}") from error
    try:
        # A mark of the byte order says nothing more; compilers leave it out too.
        return stored.decode("utf-8-sig")
    except UnicodeDecodeError:
        # Such bytes are refused outside of comments and strings, whatever they stand for.
        return stored.decode("latin-1")


def headers_beside(path: Path, source: str) -> dict[str, str]:
    """The texts of the headers in a file's own folder that it or they include, by name.

    Which of them are really included, their directives tell.

    Args:
        path: the file.
        source: its text.

    Raises:
        UnreadableProgram: a header cannot be read, or is large.
    """
    found: dict[str, str] = {}
    waiting = [source]
    while waiting:
        for name in _INCLUDED.findall(waiting.pop()):
            header = path.resolve().parent / name
            if name in found or not header.is_file():
                continue
            if header.stat().st_size > _LARGEST:
                raise UnreadableProgram(f"{header} is larger than {_LARGEST:,} bytes")
            found[name] = stored_text(header)
            waiting.append(found[name])
    return found
