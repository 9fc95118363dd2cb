"""Source files: a C program, and the headers in its folder."""

from functools import partial
from pathlib import Path

from llmchecker.errors import UnreadableProgram
from llmchecker.programs.include_search import decode_c, find_included_files, read_sibling


def read_source(path: Path) -> str:
    """Read the text of a C file.

    Raises:
        UnreadableProgram: the file cannot be read.
    """
    try:
        # As bytes: Python would convert carriage returns to line ends, compilers do not.
        return decode_c(path.read_bytes())
    except OSError as error:
        raise UnreadableProgram(
            f"{path}: the file cannot be read: {error}; correct the path"
        ) from error


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
