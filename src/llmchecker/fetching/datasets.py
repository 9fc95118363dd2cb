"""Fetching data sets into local CSV files, whole or absent."""

import csv
import logging
import shutil
from dataclasses import dataclass
from pathlib import Path

from llmchecker.errors import ChecksumMismatch, ConfigError, SourceUnavailable, UnusableDataset
from llmchecker.fetching.downloads import demand_intact, hub_dataset_file
from llmchecker.fetching.sources import Source, at_one_commit, demand_sha256, require_digest
from llmchecker.files import written_with_checksum

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DatasetSource:
    """A CSV file of a data set.

    Attributes:
        source: an hf: data set, or the path: of a file or directory.
        file: the file inside the data set; needed unless the source is itself a file.
        sha256: the checksum that the file must have; None for any.
        rows: the number of rows that the file must have, without the header; None for any but 0.

    Raises:
        ConfigError: a pypi: source, no file to take, or a file that is not a .csv.
    """

    source: Source
    file: str | None = None
    sha256: str | None = None
    rows: int | None = None

    def __post_init__(self) -> None:
        require_digest(self.source, self.sha256)
        if self.source.scheme in ("pypi", "server"):
            raise ConfigError(f"data set {self.source} must be an hf: or path: source")
        named = self.file or (self.source.name if self.source.scheme == "path" else "")
        if not named.endswith(".csv"):
            raise ConfigError(
                f"data set {self.source}: file is {self.file!r}; it must name a .csv file in it"
            )


def fetch_dataset(dataset: DatasetSource, path: str | Path, lock: str | Path | None = None) -> None:
    """Make `path` a copy of the CSV file of a data set, whole or not at all, and note its sha256.

    Args:
        dataset: what to fetch.
        path: where to put it.
        lock: as for `fetch_model`.

    Raises:
        SourceUnavailable: the source cannot be reached, does not exist, or refuses access.
        ChecksumMismatch: the sha256, the commit or `rows` does not fit what the source delivered.
        UnusableDataset: the file is no CSV table in UTF-8, a row is shorter or longer than the
            header, or there are no rows although `rows` is not 0.
        ConfigError: no lock is given where one is needed.
    """
    with at_one_commit(dataset.source, lock, "dataset") as source:
        _log.info("fetching %s", source)
        found = _dataset_file(source, dataset.file)
    with written_with_checksum(path) as partial:
        shutil.copyfile(found, partial)
        demand_sha256(source, partial, dataset.sha256)
        _demand_rows(source, partial, dataset.rows)


def columns_of_local(dataset: DatasetSource) -> tuple[str, ...]:
    """The names of the columns of a data set of this machine, which is checked where it lies.

    Raises:
        SourceUnavailable, ChecksumMismatch, UnusableDataset: as `fetch_dataset` raises them.
    """
    found = _dataset_file(dataset.source, dataset.file)
    demand_sha256(dataset.source, found, dataset.sha256)
    return tuple(_demand_rows(dataset.source, found, dataset.rows))


def _dataset_file(source: Source, file: str | None) -> Path:
    if source.scheme == "hf":
        found = demand_intact(hub_dataset_file(source.name, source.revision, file))
    else:
        found = source.path / file if file else source.path
    if not found.is_file():
        raise SourceUnavailable(f"data set {source}: there is no file {found}")
    return found


def _demand_rows(source: Source, file: Path, expected: int | None) -> list[str]:
    """Refuse a file that is no CSV table in UTF-8, or whose number of rows is not the expected.

    Returns:
        The names of its columns.
    """
    try:
        with file.open(encoding="utf-8", newline="") as opened:
            header, *rows = [row for row in csv.reader(opened, strict=True) if row] or [[]]
    except (UnicodeDecodeError, csv.Error) as error:
        raise UnusableDataset(
            f"data set {source}: the file is not CSV in UTF-8: {error}"
        ) from error
    if len(set(header)) != len(header) or not header:
        raise UnusableDataset(
            f"data set {source}: the first row must name each column once; it is {header!r}"
        )
    for number, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise UnusableDataset(
                f"data set {source}: row {number} has {len(row)} values, and the header names "
                f"{len(header)} columns"
            )
    if expected is not None and len(rows) != expected:
        advice = {
            "hf": f"name a commit that has so many, as in hf:{source.name}@commit, where the data "
            "set grew or shrank since",
            "path": "put the right file there",
        }
        raise ChecksumMismatch(
            f"data set {source} has {len(rows)} rows, and {expected} are expected; "
            f"{advice[source.scheme]}, or change `rows`"
        )
    if not rows and expected is None:
        raise UnusableDataset(f"data set {source} has a header and no rows")
    return header
