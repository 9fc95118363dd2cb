"""The mass of the most probable next tokens, exact on a table and on the prompts of the paper."""

from fractions import Fraction
from pathlib import Path

import pytest

from llmchecker.errors import UnknownName
from llmchecker.language_models import TableModel
from llmchecker.topk import masses, read_prompts

ROOT = Path(__file__).parent.parent
PAPER = ROOT.parent / "shared/data/awesome-chatgpt-prompts-153.csv"
EIGHTHS = {
    (0,): (1, 4, 2, 1),
    (1,): (0, 0, 8, 0),
    (0, 1): (2, 2, 2, 2),
}


def table() -> TableModel:
    """Four tokens; what follows a, b and ab is given in eighths."""
    return TableModel(
        "abcd", lambda tokens: [Fraction(eighth, 8) for eighth in EIGHTHS[tuple(tokens)]]
    )


def test_masses_are_exact():
    """The mass within k is the sum of the k largest probabilities, for every prompt and k."""
    frame = masses(table(), ["a", "b", "ab"], 4)
    assert list(frame.columns) == ["prompt", "k", "mass"]
    assert frame["prompt"].tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert frame["k"].tolist() == [1, 2, 3, 4] * 3
    eighths = [*(4, 6, 7, 8), *(8, 8, 8, 8), *(2, 4, 6, 8)]
    assert frame["mass"].tolist() == [eighth / 8 for eighth in eighths]


def test_fewer_k_than_tokens():
    """Statistics up to k = 2 are the first two of those up to k = 4."""
    assert masses(table(), ["a"], 2)["mass"].tolist() == [4 / 8, 6 / 8]


def test_k_beyond_the_vocabulary_holds_all_mass():
    """With more tokens than there are, nothing is left out."""
    frame = masses(table(), ["a"], 7)
    assert frame["k"].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert frame["mass"].tolist() == [4 / 8, 6 / 8, 7 / 8, 1, 1, 1, 1]


def test_no_prompts():
    """Without prompts there are no rows, but the columns are there."""
    frame = masses(table(), [], 3)
    assert list(frame.columns) == ["prompt", "k", "mass"]
    assert len(frame) == 0


def test_progress_counts_prompts():
    """The callback is told after every prompt how many of them are done."""
    told = []
    masses(table(), ["a", "b"], 1, lambda done, total: told.append((done, total)))
    assert told == [(1, 2), (2, 2)]


def test_prompts_of_any_text(tmp_path):
    """Prompts are read whole: line breaks, quotes, commas, other scripts and empty ones."""
    path = tmp_path / "prompts.csv"
    path.write_text('act,prompt\n1,"a\nb, ""c"""\n2,日本語 🙂\n3,\n', encoding="utf-8", newline="")
    assert read_prompts(path, "prompt") == ['a\nb, "c"', "日本語 🙂", ""]


@pytest.mark.parametrize(
    ("content", "has"), [("act,text\n1,a\n", "it has act, text"), ("", "it has")]
)
def test_a_column_that_is_not_there(content, has, tmp_path):
    """The message names the file, the column that was asked for and those that there are."""
    path = tmp_path / "prompts.csv"
    path.write_text(content)
    with pytest.raises(UnknownName, match=rf"prompts\.csv has no column 'prompt'; {has}"):
        read_prompts(path, "prompt")


@pytest.mark.skipif(not PAPER.is_file(), reason=f"{PAPER} is absent: the prompts of the paper")
def test_the_prompts_of_the_paper():
    """The paper's own data set is read as 153 prompts, none of them empty."""
    prompts = read_prompts(PAPER, "prompt")
    assert len(prompts) == 153
    assert all(prompt.strip() for prompt in prompts)
    assert prompts[0].startswith("I want you to act as a linux terminal.")
