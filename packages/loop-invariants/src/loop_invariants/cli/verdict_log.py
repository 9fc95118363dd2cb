"""Verdicts of programs as JSON lines, which a later run continues.

Each line is the record of a program, written as soon as its verdict is known. Its digest covers the
program, the settings and the version, so that a line never answers a changed question.
"""

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from llmchecker import __version__
from llmchecker.errors import ConfigError, DamagedFile, UnreadableProgram
from llmchecker.interfaces.cli.output import check_output_file
from llmchecker.utils.json_lines import JsonLines, append_line, resume_lines
from loop_invariants.c_files import read_included_headers, read_source
from loop_invariants.verification.result import Outcome

_TEMPORARY_OUTCOMES = (Outcome.KILLED, Outcome.ESBMC_ERROR)
"""Outcomes that memory or a missing tool may cause, so that a later run tries again."""
_KEYS = {"file", "digest", "outcome", "verdict"}
"""Keys of every record."""
_LINE_BEGINNING = '{"program": '


class VerdictLog:
    """The records of a file of JSON lines.

    Args:
        path: the file; it may be absent.

    Raises:
        ConfigError: the file contains other lines, or cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self._path = check_output_file("--resume", path)
        self._records = self._read()

    def find(self, file: Path, digest: str | None) -> dict[str, Any] | None:
        """Return the record of a program with a digest; None without one."""
        return None if digest is None else self._records.get((str(file), digest))

    def add(self, record: Mapping[str, Any]) -> None:
        """Append a record."""
        append_line(self._path, record)

    def _read(self) -> dict[tuple[str, str], dict[str, Any]]:
        if not self._path.exists():
            return {}
        try:
            return resume_lines(self._path, _parse_records, "name another file")
        except DamagedFile as error:
            raise ConfigError(
                f"--resume {self._path}: it contains other lines than verdicts; name another file"
            ) from error


def _parse_records(lines: JsonLines) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the records by file and digest, without those of temporary outcomes."""
    # only a line that `verify` began may be cut short
    is_own = _LINE_BEGINNING.startswith(lines.remainder[: len(_LINE_BEGINNING)])
    if not is_own or any(not record.keys() >= _KEYS for record in lines.objects):
        raise ValueError("a line is not a verdict")
    return {
        (record["file"], record["digest"]): record
        for record in lines.objects
        if record["outcome"] not in _TEMPORARY_OUTCOMES
    }


def compute_digest(file: Path, settings: Sequence[str]) -> str | None:
    """Compute the digest of a verification: program, headers, settings and version.

    Args:
        file: path of the program.
        settings: the settings as texts, in a fixed order.

    Returns:
        The sha256, or None if the program cannot be read.
    """
    try:
        source = read_source(file)
        headers = read_included_headers(file, source)
    except UnreadableProgram:
        return None
    parts = [__version__, *settings, source, *itertools.chain(*headers.items())]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
