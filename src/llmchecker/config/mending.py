"""What killed runs and failing disks leave, put right before the next run.

`make` calls this module before it calls snakemake, which would stop at the lock of a run that was
killed:

    python -m llmchecker.config.mending [directory]
"""

import os
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from llmchecker.config import paths
from llmchecker.errors import DamagedFile
from llmchecker.fetching.checksums import demand_record
from llmchecker.files import beside, left_behind, read_sealed, read_with_checksum
from llmchecker.processes import is_running

_READERS = {
    ".parquet": read_sealed,
    ".json": read_sealed,
    **dict.fromkeys((".csv", ".svg", ".prism", ".jani"), read_with_checksum),
}
"""What reads files of a suffix only if they are whole."""

_ENDS = {".png": b"IEND\xaeB`\x82", ".pdf": b"%%EOF\n", ".html": b"</html>"}
"""How files of a suffix end that nothing reads but a person; all others hold at least something."""


def unlock(directory: Path) -> bool:
    """Remove the lock that a run left in a directory which no process of this machine works in.

    Returns:
        Whether there is no lock now.
    """
    locks = directory / ".snakemake/locks"
    if not _is_locked(directory):
        return True
    if is_running("snakemake", directory):
        return False
    shutil.rmtree(locks)
    _say(f"the lock of a run that was killed is removed from {directory}")
    return True


def mend(files: Iterable[str | Path], models: Collection[str]) -> None:
    """Remove what is damaged, so that this run makes it again, and what killed jobs left.

    Nothing is touched while another run writes in this directory.

    Args:
        files: results and intermediate files.
        models: names of models. One whose record is damaged is fetched again, since nothing tells
            whether its weights are those that were fetched.
    """
    if _is_locked(Path()):
        return
    for path in map(Path, files):
        try:
            _demand_whole(path)
        except DamagedFile as error:
            _say(f"made again: {error}")
            path.unlink(missing_ok=True)
            beside(path).unlink(missing_ok=True)
    for directory in map(Path, map(paths.model_directory, models)):
        try:
            demand_record(directory)
        except DamagedFile as error:
            _say(f"fetched again: {error}")
            shutil.rmtree(directory)
    for path in _left_behind("results", "resources", "config"):
        _say(f"removed, since a job that was killed left it unfinished: {path}")
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _is_locked(directory: Path) -> bool:
    locks = directory / ".snakemake/locks"
    return locks.is_dir() and any(locks.iterdir())


def _demand_whole(path: Path) -> None:
    """Raise DamagedFile if a file is there and not as it was written, as far as one can tell."""
    if not path.is_file():
        return
    if path.suffix in _READERS:
        _READERS[path.suffix](path)
        return
    end = _ENDS.get(path.suffix, b"")
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - len(end)))
        if size == 0 or file.read(len(end)) != end:
            raise DamagedFile(f"{path} is {'cut' if size else 'empty'}")


def _left_behind(*folders: str) -> Iterator[Path]:
    """What is unfinished of processes that have ended, in folders and below them."""
    for folder in folders:
        for place, directories, files in os.walk(folder):
            found = [name for name in (*directories, *files) if left_behind(name)]
            directories[:] = [name for name in directories if name not in found]
            yield from (Path(place, name) for name in found)


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr)


if __name__ == "__main__":
    unlock(Path(*sys.argv[1:]))
