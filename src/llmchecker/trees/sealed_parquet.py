"""Parquet files that contain their own checksum, which is checked on reading."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from llmchecker.errors import DamagedFile
from llmchecker.utils.atomic_files import BLANK_DIGEST, atomic_write_with_digest, read_with_digest

_METADATA_KEY = b"llmchecker"
"""Key of the JSON metadata in a parquet file."""

_CHECKSUM_KEY = b"checksum"


def write_parquet(
    table: pa.Table, path: str | Path, metadata: Mapping[str, Any] | None = None
) -> None:
    """Write a table atomically, with the checksum of the file in its metadata.

    The same pyarrow writes equal tables with equal `metadata` to equal files.

    Args:
        table: the table; its schema metadata is not written.
        path: path of the file.
        metadata: JSON values that `read_parquet` returns with the table.
    """
    # The schema's metadata would follow the digest in the file, and might look like a digest.
    table = table.replace_schema_metadata(None)
    with (
        atomic_write_with_digest(path) as partial,
        pq.ParquetWriter(partial, table.schema, compression="zstd") as writer,
    ):
        writer.write_table(table)
        writer.add_key_value_metadata(
            # the digest comes last, as the writer of digests replaces the last match
            {_METADATA_KEY: json.dumps(metadata or {}), _CHECKSUM_KEY: BLANK_DIGEST}
        )


@dataclass(frozen=True)
class SealedTable:
    """An open file of `write_parquet` whose checksum is correct.

    Attributes:
        path: path of the file, for messages.
        file: the file's bytes in memory, of which only requested columns are decoded.
        metadata: the JSON values that were written with the table.
    """

    path: str | Path
    file: pq.ParquetFile
    metadata: Mapping[str, Any]

    def read_columns(self, names: Sequence[str] | None = None) -> pa.Table:
        """Decode columns, by default all. Names that the file lacks are left out.

        Raises:
            DamagedFile: the file is not a table of this package.
        """
        with _translate_errors(self.path):
            # A process that ends while Arrow's threads start is aborted now and then (apache/arrow
            # issue 34314), after all work was done: these tables are small enough for one thread.
            return self.file.read(columns=names, use_threads=False)


def open_parquet(path: str | Path) -> SealedTable:
    """Read a file of `write_parquet` into memory, and check its checksum.

    The bytes are checked before they are parsed, so that no damage reaches the parser.

    Raises:
        DamagedFile: the contents differ from those written, or are not a table of this package.
    """
    contents = read_with_digest(path)
    with _translate_errors(path):
        file = pq.ParquetFile(pa.BufferReader(contents))
        return SealedTable(path, file, json.loads(file.metadata.metadata[_METADATA_KEY]))


def read_parquet(path: str | Path) -> tuple[pa.Table, Mapping[str, Any]]:
    """Read a file of `write_parquet`; return the table and its metadata.

    Raises:
        DamagedFile: the contents differ from those written, or are not a table of this package.
    """
    sealed = open_parquet(path)
    return sealed.read_columns(), sealed.metadata


@contextmanager
def _translate_errors(path: str | Path) -> Iterator[None]:
    """Convert the parser's errors to DamagedFile."""
    try:
        yield
    # a valid checksum with other contents: another writer's file
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedFile(f"{path}: not a table of this package: {error}", path) from error
