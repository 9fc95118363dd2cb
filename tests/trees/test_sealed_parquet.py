"""Tables in files: what reading one may not do."""

import subprocess
import sys

import pyarrow as pa

from llmchecker.trees.sealed_parquet import write_parquet

_THREADS = "len(os.listdir('/proc/self/task'))"
_READS = f"""
import os, sys
from llmchecker.trees.sealed_parquet import read_parquet
before = {_THREADS}
table, _ = read_parquet(sys.argv[1])
assert table.num_columns == 20
assert {_THREADS} == before
"""


def test_reading_a_table_starts_no_threads(tmp_path):
    """A table is read by the thread that asks: a process that ends while threads of Arrow are
    starting is now and then aborted, with all its work done."""
    path = tmp_path / "table.parquet"
    write_parquet(pa.table({f"column {i}": range(100) for i in range(20)}), path)
    subprocess.run([sys.executable, "-c", _READS, str(path)], check=True)
