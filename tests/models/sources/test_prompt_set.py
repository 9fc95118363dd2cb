"""Prompts are read as they were fetched, whatever they hold, and never otherwise."""

from pathlib import Path

import pytest
from helpers.damage import flipped

from llmchecker.errors import DamagedFile, UnknownName
from llmchecker.models.sources.datasets import DatasetSource, fetch_dataset
from llmchecker.models.sources.prompt_set import read_prompts
from llmchecker.models.sources.source_spec import Source

ROOT = Path(__file__).parents[3]
PAPER = ROOT.parent / "shared/data/awesome-chatgpt-prompts-153.csv"


def fetched(content: bytes, directory: Path) -> Path:
    """A data set as fetching leaves it."""
    (directory / "original.csv").write_bytes(content)
    source = DatasetSource(Source("path", str(directory / "original.csv")))
    fetch_dataset(source, directory / "prompts.csv")
    return directory / "prompts.csv"


def test_prompts_of_any_text(tmp_path):
    """Prompts are read whole: line breaks, quotes, commas, other scripts and empty ones."""
    text = 'act,prompt\n1,"a\nb, ""c"""\n2,日本語 🙂\n3,\n'
    path = fetched(text.encode(), tmp_path)
    assert read_prompts(path, "prompt") == ['a\nb, "c"', "日本語 🙂", ""]


def test_a_column_that_is_not_there(tmp_path):
    """The message names the file, the column that was asked for and those that there are."""
    path = fetched(b"act,text\n1,a\n", tmp_path)
    expected = r"prompts\.csv: no column 'prompt'; its columns are act, text"
    with pytest.raises(UnknownName, match=expected):
        read_prompts(path, "prompt")


def test_prompts_that_changed_are_refused(tmp_path):
    """A flipped bit, a file that was cut at any place, and a lost checksum are found and named."""
    content = b"act,prompt\n1,Act as a poet.\n2,Leave.\n"
    path = fetched(content, tmp_path)
    damaged = [flipped(content, bit) for bit in range(8 * len(content))]
    for other in (*damaged, *(content[:end] for end in range(len(content)))):
        path.write_bytes(other)
        with pytest.raises(DamagedFile, match=r"prompts\.csv: .* delete it"):
            read_prompts(path, "prompt")
    path.write_bytes(content)
    assert read_prompts(path, "prompt") == ["Act as a poet.", "Leave."]
    (tmp_path / "prompts.csv.sha256").unlink()
    with pytest.raises(DamagedFile, match=r"has no checksum in prompts\.csv\.sha256"):
        read_prompts(path, "prompt")


@pytest.mark.skipif(not PAPER.is_file(), reason=f"{PAPER} is absent: the prompts of the paper")
def test_the_prompts_of_the_paper(tmp_path):
    """The paper's own data set is read as 153 prompts, none of them empty."""
    prompts = read_prompts(fetched(PAPER.read_bytes(), tmp_path), "prompt")
    assert len(prompts) == 153
    assert all(prompt.strip() for prompt in prompts)
    assert prompts[0].startswith("I want you to act as a linux terminal.")
