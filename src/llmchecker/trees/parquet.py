"""Tables in parquet files that carry a checksum of themselves, which reading them checks."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from llmchecker.errors import DamagedFile
from llmchecker.files import BLANK_SEAL, read_sealed, written_sealed

_ABOUT = b"llmchecker"
"""Under this key the metadata of a file says what the table is about, as JSON."""

_CHECKSUM = b"checksum"


def write_parquet(
    table: pa.Table, path: str | Path, about: Mapping[str, Any] | None = None
) -> None:
    """Write a table whole or not at all, sealed with the checksum of the file.

    Equal tables with equal `about` make equal files, as long as the same pyarrow writes them.

    Args:
        about: what else belongs to the table; it comes back when the file is read.
    """
    # The metadata of the schema would come after the seal, and might look like one.
    table = table.replace_schema_metadata(None)
    with (
        written_sealed(path) as partial,
        pq.ParquetWriter(partial, table.schema, compression="zstd") as writer,
    ):
        writer.write_table(table)
        writer.add_key_value_metadata({_ABOUT: json.dumps(about or {}), _CHECKSUM: BLANK_SEAL})


def read_parquet(path: str | Path) -> tuple[pa.Table, dict[str, Any]]:
    """Read what `write_parquet` wrote: the table, and what it is about.

    The bytes are checked before they are parsed, so that no damage reaches the parser.

    Raises:
        DamagedFile: a bit of the file is not what was written, or it is no such table.
    """
    contents = read_sealed(path)
    try:
        file = pq.ParquetFile(pa.BufferReader(contents))
        # A process that ends while Arrow's threads start is aborted now and then (apache/arrow
        # issue 34314), after all work was done: these tables are small enough for one thread.
        table = file.read(use_threads=False)
        return table, json.loads(file.metadata.metadata[_ABOUT])
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedFile(f"{path} is not a table of this package: {error}") from error
