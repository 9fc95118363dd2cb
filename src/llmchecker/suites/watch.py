"""Changes of a suite and of the files that it names."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from llmchecker.config.yaml_reader import read_yaml
from llmchecker.errors import LLMCheckerError

_SECONDS_BETWEEN_LOOKS = 0.3

_Snapshot = dict[Path, tuple[int, int] | None]


class WatchedSuite:
    """A suite file with its configuration and the files that it names, at a time.

    Args:
        path: the suite file.
        others: further files, such as a configuration.
    """

    def __init__(self, path: Path, others: tuple[Path, ...] = ()) -> None:
        self._path, self._others = path, others
        self._snapshot = self._take_snapshot()

    def has_changed(self) -> bool:
        """Return whether a file changed, appeared or disappeared since the last call."""
        previous, self._snapshot = self._snapshot, self._take_snapshot()
        return previous != self._snapshot

    def wait(self) -> None:
        """Wait until a file changes."""
        while not self.has_changed():
            time.sleep(_SECONDS_BETWEEN_LOOKS)

    def _take_snapshot(self) -> _Snapshot:
        files = {self._path, *self._others}
        # an editor may be in the middle of a change
        try:
            content = read_yaml(self._path).content
        except LLMCheckerError:
            content = {}
        for text in _iter_texts(content):
            # a prompt may be longer than any name of a file
            path = self._path.parent / text.removeprefix("path:")
            if "\n" not in text and len(text) < 500 and path.is_file():
                files.add(path)
        return {file: _get_stat(file) for file in files}


def _iter_texts(value: Any) -> Iterator[str]:
    """Yield every text in the content of a suite file."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _iter_texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _iter_texts(item)


def _get_stat(file: Path) -> tuple[int, int] | None:
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size
