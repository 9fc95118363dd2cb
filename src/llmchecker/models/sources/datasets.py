"""Data sets: downloads into local CSV files, complete or absent."""

import logging
import shutil
from dataclasses import dataclass
from pathlib import Path

from llmchecker.errors import ChecksumMismatch, ConfigError, SourceUnavailable, UnusableDataset
from llmchecker.models.sources.downloads import check_hub_file, fetch_hub_dataset_file
from llmchecker.models.sources.source_spec import (
    Source,
    check_sha256,
    check_sha256_format,
    open_pinned_source,
)
from llmchecker.utils.atomic_files import atomic_write_with_checksum, describe_kind
from llmchecker.utils.csv_rows import parse_csv
from llmchecker.utils.number_format import format_count

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DatasetSource:
    """A CSV file of a data set.

    Attributes:
        source: hf: data set, or path: of a file or directory.
        file: path of the file inside the data set; required unless the source is itself a file.
        sha256: expected checksum of the file; None for any.
        rows: expected number of rows without the header; None for any number above 0.

    Raises:
        ConfigError: a pypi: or server: source, no file name, or a file that is not a .csv.
    """

    source: Source
    file: str | None = None
    sha256: str | None = None
    rows: int | None = None

    def __post_init__(self) -> None:
        check_sha256_format(self.source, self.sha256)
        if self.source.scheme in ("pypi", "server"):
            raise ConfigError(
                f"data set {self.source}: not an hf: or path: source; "
                "use hf:owner/name or path:file.csv"
            )
        # only a path: source may be a file itself
        file_name = self.file or (self.source.name if self.source.scheme == "path" else "")
        if not file_name.endswith(".csv"):
            raise ConfigError(
                f"data set {self.source}: file {self.file!r} is not a .csv file in it; "
                "name one by file"
            )

    @property
    def local_file(self) -> Path | None:
        """The file of a source on this machine, which may be absent; None for other sources."""
        if self.source.scheme != "path":
            return None
        return self.source.path / self.file if self.file else self.source.path


def fetch_dataset(dataset: DatasetSource, path: str | Path, lock: str | Path | None = None) -> None:
    """Copy the CSV file of a data set to `path` atomically, and write its sha256.

    Args:
        dataset: the data set to fetch.
        path: path of the copy.
        lock: as in `fetch_checkpoint`.

    Raises:
        SourceUnavailable: the source cannot be reached, does not exist, or denies access.
        ChecksumMismatch: the sha256, the commit or the number of rows is not the expected one.
        UnusableDataset: the file is not a CSV table in UTF-8, or has a row of another length than
            the header. A file without rows needs `rows` to be 0.
        ConfigError: a lock is required and `lock` is None.
    """
    with open_pinned_source(dataset.source, lock, "dataset") as source:
        _log.info("fetching %s", source)
        dataset_file = _find_dataset_file(source, dataset.file)
    # check the copy, so that the checks are of the stored bytes
    with atomic_write_with_checksum(path) as partial:
        shutil.copyfile(dataset_file, partial)
        check_sha256(source, partial, dataset.sha256)
        _check_rows(source, partial, dataset.rows)


def read_local_columns(dataset: DatasetSource) -> tuple[str, ...]:
    """Return the column names of a local data set, without a copy.

    Raises:
        SourceUnavailable, ChecksumMismatch, UnusableDataset: as in `fetch_dataset`.
    """
    dataset_file = _find_dataset_file(dataset.source, dataset.file)
    check_sha256(dataset.source, dataset_file, dataset.sha256)
    return tuple(_check_rows(dataset.source, dataset_file, dataset.rows))


def _find_dataset_file(source: Source, file: str | None) -> Path:
    path = DatasetSource(source, file).local_file
    if path is None:
        assert file is not None  # `DatasetSource` requires one
        path = check_hub_file(fetch_hub_dataset_file(source.name, source.revision, file))
    if not path.is_file():
        raise SourceUnavailable(
            f"data set {source}: {path} is {describe_kind(path)}, not a file; name a CSV file"
        )
    return path


def _check_rows(source: Source, file: Path, expected: int | None) -> list[str]:
    """Check that a file is a CSV table in UTF-8 with the expected number of rows.

    Returns:
        The column names.
    """
    try:
        text = file.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnusableDataset(
            f"data set {source}: not CSV in UTF-8: {error}; convert the file"
        ) from error
    header, *rows = [row.cells for row in parse_csv(f"data set {source}", text)] or [()]
    if len(set(header)) != len(header) or not header:
        raise UnusableDataset(
            f"data set {source}: the header {list(header)!r} does not name each column once; "
            "correct the first row"
        )
    for number, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise UnusableDataset(
                f"data set {source}: row {number} has {len(row)} values, but the header names "
                f"{len(header)} columns; correct the row"
            )
    if expected is not None and len(rows) != expected:
        advice = {
            "hf": f"name a commit that has so many, as in hf:{source.name}@commit, where the data "
            "set grew or shrank since",
            "path": "put the right file there",
        }
        raise ChecksumMismatch(
            f"data set {source}: {format_count(len(rows), 'row')} instead of {expected}; "
            f"{advice[source.scheme]}, or change `rows`"
        )
    # an empty table is accepted only if the configuration expects it
    if not rows and expected is None:
        raise UnusableDataset(f"data set {source}: a header and no rows; choose a table with rows")
    return list(header)
