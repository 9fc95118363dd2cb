"""JSON lines: files with a JSON object on each line, to which a run appends.

A kill cuts at most the last line short, so that a later run can continue with the others.
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from llmchecker.errors import ConfigError, DamagedFile, UnusableDataset
from llmchecker.utils.atomic_files import atomic_write

_log = logging.getLogger(__name__)

_Content = TypeVar("_Content")


@dataclass(frozen=True)
class JsonLines:
    """The content of a file of JSON lines.

    Attributes:
        objects: the objects of all whole lines.
        remainder: a last line without its end, which a kill cut short; empty without one.
    """

    objects: tuple[dict[str, Any], ...]
    remainder: str = ""


def format_line(content: Mapping[str, Any]) -> str:
    """Format an object as a line without its end."""
    return json.dumps(content, allow_nan=False)


def read_lines(path: Path) -> JsonLines:
    """Read a file of JSON lines.

    Raises:
        UnusableDataset: a whole line is not a JSON object.
        ConfigError: the file cannot be read.
    """
    objects: list[dict[str, Any]] = []
    try:
        with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            for number, line in enumerate(file, 1):
                # only the last line can lack its end
                if not line.endswith("\n"):
                    return JsonLines(tuple(objects), line)
                objects.append(_parse_object(f"{path}, line {number}", line))
    except OSError as error:
        raise _build_error(path, "read", error) from error
    return JsonLines(tuple(objects))


def resume_lines(path: Path, parse: Callable[[JsonLines], _Content], fix: str) -> _Content:
    """Read a file of JSON lines to which this run appends.

    A last line that a kill cut short is removed, so that the next line does not continue it. The
    log says so.

    Args:
        path: the file.
        parse: parses the content. It raises `KeyError`, `TypeError` or `ValueError` for content
            of another kind, and the file then stays as it is.
        fix: what the user should do with a damaged file.

    Raises:
        DamagedFile: a whole line is not a JSON object, or the content is of another kind.
        ConfigError: the file cannot be read or written.
    """
    try:
        lines = read_lines(path)
        content = parse(lines)
    except (UnusableDataset, KeyError, TypeError, ValueError) as error:
        raise DamagedFile(
            f"{path}: damaged or from another version: {error}", path, f"; {fix}"
        ) from error
    if lines.remainder:
        write_lines(path, lines.objects)
        _log.warning("%s: a kill had cut its last line short; the line is removed", path)
    return content


def write_lines(path: Path, contents: Iterable[Mapping[str, Any]]) -> None:
    """Write a file of JSON lines, in place of an older one.

    Raises:
        ConfigError: the file cannot be written.
    """
    try:
        with atomic_write(path) as partial, partial.open("w", encoding="utf-8") as file:
            file.writelines(f"{format_line(content)}\n" for content in contents)
    except OSError as error:
        raise _build_error(path, "written", error) from error


def append_line(path: Path, content: Mapping[str, Any]) -> None:
    """Append an object to a file of JSON lines.

    Raises:
        ConfigError: the file cannot be written.
    """
    line = f"{format_line(content)}\n".encode()
    try:
        # opened for each line, so that a killed run keeps each of them
        with path.open("ab", buffering=0) as file:
            # a full disk may take the beginning of a line, and refuses the rest
            while line:
                line = line[file.write(line) :]
    except OSError as error:
        raise _build_error(path, "written", error) from error


def _parse_object(place: str, line: str) -> dict[str, Any]:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UnusableDataset(f"{place}: not JSON; name another file or delete it") from error
    if not isinstance(content, dict):
        raise UnusableDataset(f"{place}: not a JSON object; name another file or delete it")
    return content


def _build_error(path: Path, act: str, error: OSError) -> ConfigError:
    return ConfigError(f"{path}: it cannot be {act}: {error.strerror}; name another file")
