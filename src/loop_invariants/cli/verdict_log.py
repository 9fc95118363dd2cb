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
from llmchecker.errors import ConfigError, UnreadableProgram
from llmchecker.interfaces.cli.output import check_output_file
from loop_invariants.frontend.preprocessing.source_files import (
    read_included_headers,
    read_source,
)
from loop_invariants.verification.result import Outcome

_TEMPORARY_OUTCOMES = (Outcome.KILLED, Outcome.ESBMC_ERROR)
"""Outcomes that memory or a missing tool may cause, so that a later run tries again."""


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
        try:
            # opened for each line, so that a killed run keeps each verdict
            with self._path.open("a", encoding="utf-8") as output:
                output.write(format_line(record) + "\n")
        except OSError as error:
            raise self._build_error(f"it cannot be written: {error.strerror}") from error

    def _read(self) -> dict[tuple[str, str], dict[str, Any]]:
        try:
            content = self._path.read_bytes() if self._path.exists() else b""
            records = [self._parse(line) for line in content.splitlines(keepends=True)]
            # A kill may cut the last line short, and the next record must not continue it.
            if content and not content.endswith(b"\n"):
                with self._path.open("r+b") as output:
                    output.truncate(content.rfind(b"\n") + 1)
        except OSError as error:
            raise self._build_error(f"it cannot be read: {error.strerror}") from error
        return {
            (record["file"], record["digest"]): record
            for record in records
            if record and record["outcome"] not in _TEMPORARY_OUTCOMES
        }

    def _parse(self, line: bytes) -> dict[str, Any]:
        """Parse a line into a record; an incomplete last line has an empty one."""
        try:
            record = json.loads(line)
            if {"file", "digest", "outcome", "verdict"} <= set(record):
                return record if line.endswith(b"\n") else {}
        except (ValueError, TypeError, RecursionError):
            # Only a line that `verify` began may be cut short.
            if not line.endswith(b"\n") and b'{"program": '.startswith(line[:12]):
                return {}
        raise self._build_error("it contains other lines than verdicts")

    def _build_error(self, problem: str) -> ConfigError:
        return ConfigError(f"--resume {self._path}: {problem}; name another file")


def format_line(record: Mapping[str, Any]) -> str:
    """Format a record as one line."""
    return json.dumps(record, allow_nan=False)


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
