"""Data sets are fetched whole or not at all."""

import json
from pathlib import Path

import pytest
from helpers.fake_hub import COMMIT, Hub
from helpers.sources import (
    NEWER,
    assert_nothing_left,
    digest,
)

from llmchecker.errors import (
    ChecksumMismatch,
    ConfigError,
    SourceUnavailable,
    UnusableDataset,
)
from llmchecker.models.sources.datasets import DatasetSource, fetch_dataset
from llmchecker.models.sources.source_spec import Source, parse_source

CSV = 'act,prompt\nпоэт,"Write, please"\npoet,"Or\nnot"\n'.encode()


def test_dataset_of_this_machine(tmp_path: Path) -> None:
    """A CSV file is copied byte by byte, named by itself or inside a directory."""
    (tmp_path / "prompts.csv").write_bytes(CSV)
    alone = DatasetSource(Source("path", str(tmp_path / "prompts.csv")))
    fetch_dataset(alone, tmp_path / "a.csv")
    inside = DatasetSource(Source("path", str(tmp_path)), "prompts.csv", digest(CSV))
    fetch_dataset(inside, tmp_path / "b.csv")
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes() == CSV


def test_dataset_of_the_hub(served: Hub, tmp_path: Path) -> None:
    """The named CSV file of a data set on the hub is fetched at its revision."""
    served.files = {"prompts.csv": CSV}
    source = parse_source(f"hf:owner/prompts@{COMMIT}")
    dataset = DatasetSource(source, "prompts.csv", digest(CSV))
    fetch_dataset(dataset, tmp_path / "o" / "a.csv")
    assert (tmp_path / "o" / "a.csv").read_bytes() == CSV
    with pytest.raises(SourceUnavailable, match="no such file"):
        fetch_dataset(DatasetSource(source, "other.csv"), tmp_path / "p" / "a.csv")
    served.files["gated.csv"] = CSV
    served.members = frozenset()
    page = f"{served.address}/datasets/owner/prompts"
    with pytest.raises(SourceUnavailable, match=f"gated.* open {page} and accept"):
        fetch_dataset(DatasetSource(source, "gated.csv"), tmp_path / "p" / "a.csv")
    assert not (tmp_path / "p").exists()


def test_dataset_is_locked(served: Hub, tmp_path: Path) -> None:
    """A data set without a commit is locked like a model."""
    served.files = {"prompts.csv": CSV}
    dataset = DatasetSource(parse_source("hf:owner/prompts"), "prompts.csv", rows=2)
    fetch_dataset(dataset, tmp_path / "a.csv", tmp_path / "lock.json")
    served.commits.append(NEWER)
    fetch_dataset(dataset, tmp_path / "b.csv", tmp_path / "lock.json")
    assert (tmp_path / "b.csv").read_bytes() == CSV
    about = json.loads((tmp_path / "lock.json").read_text())
    assert (about["kind"], about["commit"]) == ("dataset", COMMIT)


def test_dataset_with_another_number_of_rows(served: Hub, tmp_path: Path) -> None:
    """A data set that does not have the expected rows is refused: how many, and what to do."""
    served.files = {"prompts.csv": CSV}
    dataset = DatasetSource(parse_source("hf:owner/prompts"), "prompts.csv", rows=153)
    with pytest.raises(ChecksumMismatch) as caught:
        fetch_dataset(dataset, tmp_path / "o" / "a.csv", tmp_path / "lock.json")
    assert str(caught.value) == (
        f"data set hf:owner/prompts@{COMMIT}: 2 rows instead of 153; name a commit that "
        "has so many, as in hf:owner/prompts@commit, where the data set grew or shrank since, or "
        "change `rows`"
    )
    assert_nothing_left(tmp_path / "o" / "a.csv")


@pytest.mark.parametrize(
    ("contents", "rows"),
    [
        ("act,prompt\n", 0),
        ("act,prompt\na,b\n", 1),
        ("act,prompt\na,b", 1),
        ('act,prompt\r\na,"two\nlines, ""quoted"""\r\n\r\nc,d\r\n', 2),
    ],
)
def test_rows_are_counted_as_csv(tmp_path: Path, contents: str, rows: int) -> None:
    """Rows are those of the CSV format, not lines; the header and empty lines do not count."""
    (tmp_path / "p.csv").write_text(contents, newline="")
    source = Source("path", str(tmp_path / "p.csv"))
    fetch_dataset(DatasetSource(source, rows=rows), tmp_path / "a.csv")
    with pytest.raises(ChecksumMismatch, match=f"{rows} rows? instead of {rows + 1}; put"):
        fetch_dataset(DatasetSource(source, rows=rows + 1), tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("source", "file", "sha256", "error"),
    [
        ("prompts.csv", None, digest(b""), ChecksumMismatch),
        ("prompts.csv", None, "abc", ConfigError),
        ("missing.csv", None, None, SourceUnavailable),
        ("prompts.parquet", None, None, ConfigError),
        (".", None, None, ConfigError),
    ],
)
def test_dataset_that_cannot_be_had(tmp_path: Path, source, file, sha256, error) -> None:
    """A data set that is wrong, missing or not CSV leaves no file behind."""
    (tmp_path / "prompts.csv").write_bytes(CSV)
    (tmp_path / "o").mkdir()

    def fetch() -> None:
        place = Source("path", f"{tmp_path}/{source}")
        fetch_dataset(DatasetSource(place, file, sha256), tmp_path / "o" / "a")

    with pytest.raises(error):
        fetch()
    assert_nothing_left(tmp_path / "o" / "a")


def test_dataset_in_a_wheel() -> None:
    """A wheel is no source of data sets."""
    with pytest.raises(ConfigError, match="hf: or path:"):
        DatasetSource(Source("pypi", "w", "1"), "a.csv")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"act,prompt\n", "a header and no rows"),
        (b"", "does not name each column once"),
        (b"\n\n", "does not name each column once"),
        (b"prompt,prompt\na,b\n", "does not name each column once"),
        (b"act,prompt\na,b\nc\n", "row 2 has 1 values, but the header names 2 columns"),
        (b"act,prompt\na,b,c\n", "row 1 has 3 values, but the header names 2 columns"),
        ("act,prompt\na,caf\u00e9\n".encode("latin-1"), "not CSV in UTF-8: 'utf-8' codec can't"),
        (b'act,prompt\na,"b\n', "line 2: not CSV: a quote is not closed"),
    ],
)
def test_dataset_that_is_no_table(tmp_path: Path, content: bytes, message: str) -> None:
    """Rows that are short or missing, and text that is not UTF-8, are refused when fetched."""
    (tmp_path / "prompts.csv").write_bytes(content)
    dataset = DatasetSource(Source("path", str(tmp_path / "prompts.csv")))
    with pytest.raises(UnusableDataset, match=message):
        fetch_dataset(dataset, tmp_path / "o" / "a.csv")
    assert_nothing_left(tmp_path / "o" / "a.csv")
