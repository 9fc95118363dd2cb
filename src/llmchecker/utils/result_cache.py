"""Cache of results by fingerprint, from which a later job takes them.

Snakemake deletes the outputs of a job before it runs, and again after it failed. Results in the
cache stay. A job that covers many results therefore computes only new ones, and a job that is
killed loses only the result that it was computing.
"""

import logging
import os
import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from llmchecker.errors import DamagedFile
from llmchecker.utils.atomic_files import (
    atomic_write,
    checksum_path,
    read_with_checksum,
    read_with_digest,
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ResultCache:
    """Cache of results in a directory, which has a folder for each fingerprint.

    A result is one or several files, each with a digest or a checksum file.

    Attributes:
        directory: folder of the cache; created by the first result.
    """

    directory: Path

    def restore(self, fingerprint: str, outputs: Sequence[str]) -> bool:
        """Write the files of a result, if the cache has them undamaged.

        Args:
            fingerprint: hash of all inputs that determine the result.
            outputs: the files to write.

        Returns:
            Whether the files were written.
        """
        paths = {output: self._locate(fingerprint, output) for output in outputs}
        try:
            for path in paths.values():
                has_checksum = checksum_path(path).is_file()
                (read_with_checksum if has_checksum else read_with_digest)(path)
        except FileNotFoundError:
            return False
        except DamagedFile as error:
            _log.warning("not used: %s", error)
            return False
        for output, path in paths.items():
            _link(path, Path(output))
        return True

    def add(self, fingerprint: str, outputs: Sequence[str]) -> None:
        """Add the files of a result, which stay where they are."""
        for output in outputs:
            _link(Path(output), self._locate(fingerprint, output))

    def prune(self, fingerprints: Collection[str]) -> None:
        """Delete all results but those with these fingerprints."""
        for folder in self.directory.glob("*"):
            if folder.name not in fingerprints:
                shutil.rmtree(folder, ignore_errors=True)

    def _locate(self, fingerprint: str, output: str) -> Path:
        return self.directory / fingerprint / Path(output).name


def _link(source: Path, target: Path) -> None:
    """Give a file and its checksum file a second name; the time is that of now."""
    for one, other in ((source, target), (checksum_path(source), checksum_path(target))):
        if not one.is_file():
            continue
        with atomic_write(other) as partial:
            partial.unlink()
            # files are replaced and never changed, so both names keep their content
            try:
                partial.hardlink_to(one)
            # another file system, or one without hard links
            except OSError:
                shutil.copyfile(one, partial)
            # Snakemake compares the time of an output with those of the inputs
            os.utime(partial)
