"""The outputs of a command: standard output with the answer only, and files."""

import contextlib
import ctypes
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from llmchecker.errors import ConfigError, MachineLimit
from llmchecker.utils.atomic_files import atomic_write, check_writable


def is_terminal() -> bool:
    """Whether a person reads standard output, so that it may have colours."""
    return sys.stdout.isatty()


def escape_unencodable() -> None:
    """Escape the characters of later outputs that the terminal's encoding lacks."""
    # duck-typed, because tests replace standard output
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")


def print_answer(answer: str | Mapping[str, Any]) -> None:
    """Print a text, or fields as one JSON object."""
    escape_unencodable()
    print(answer if isinstance(answer, str) else json.dumps(answer, allow_nan=False), flush=True)


@contextlib.contextmanager
def redirect_stdout() -> Iterator[None]:
    """Redirect the output of libraries in Python and C++ to standard error."""
    sys.stdout.flush()
    # C++ writes to the descriptor itself, which Python's redirection does not reach.
    stdout_copy = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        # C buffers its output to a pipe, and would later write it to the answer's output.
        ctypes.CDLL(None).fflush(None)
        os.dup2(stdout_copy, 1)
        os.close(stdout_copy)


def check_output_file(option: str, path: Path) -> Path:
    """Check that a file can be written, and return its absolute path.

    Args:
        option: the option that names the file, for messages.
        path: the file.

    Raises:
        ConfigError: the path is a directory, or its directory is not writable.
    """
    if path.is_dir():
        raise ConfigError(f"{option}: it is the directory {path}; name a file")
    try:
        check_writable(path.absolute().parent)
    except MachineLimit as error:
        raise ConfigError(f"{option}: {error}; name a file elsewhere") from error
    return path.absolute()


def write_output_file(option: str, path: Path, text: str) -> None:
    """Write a text to the file of an option.

    Raises:
        ConfigError: the file cannot be written.
    """
    try:
        with atomic_write(path) as partial:
            partial.write_text(text, encoding="utf-8")
    except (OSError, MachineLimit) as error:
        raise ConfigError(f"{option}: {path} cannot be written: {error}") from error
