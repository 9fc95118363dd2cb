"""Source files: a C program, and the headers in its folder."""

from functools import partial
from pathlib import Path

from llmchecker.errors import UnreadableProgram
from loop_invariants.include_search import (
    MAX_FILE_BYTES,
    decode_c,
    find_included_files,
    read_sibling,
)


def read_source(path: Path) -> str:
    """Read the text of a C file.

    Raises:
        UnreadableProgram: the file cannot be read, or is too large.
    """
    try:
        # As bytes: Python would convert carriage returns to line ends, compilers do not.
        with path.open("rb") as file:
            # A device has no end.
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UnreadableProgram(
            f"{path}: the file cannot be read: {error}; correct the path"
        ) from error
    if len(content) > MAX_FILE_BYTES:
        raise UnreadableProgram(
            f"{path}: the file is larger than {MAX_FILE_BYTES:,} bytes; shorten it"
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
