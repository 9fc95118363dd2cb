"""The state of a quantifier: every file on which its scores depend counts by its content."""

import shutil
import sys
from pathlib import Path

import pytest
from helpers.changes import flip, overwrite
from test_custom_class import FILE

from llmchecker.errors import ChecksumMismatch
from llmchecker.properties.quantifier_state import check_quantifiers, hash_quantifier
from llmchecker.properties.registry import create_quantifier, find_quantifier_files

OWN = """
from pathlib import Path
import near_of_test


class Mine:
    minimum, maximum = 0, None

    def __init__(self):
        self.words = Path(__file__).parent / "words.txt"

    def __call__(self, start, continuation):
        return near_of_test.count(continuation)
"""


def write_own(folder: Path) -> dict:
    (folder / "own.py").write_text(OWN)
    (folder / "near_of_test.py").write_text("def count(text):\n    return len(text)\n")
    (folder / "words.txt").write_text("one\n")
    return {"type": "python", "file": str(folder / "own.py"), "class": "Mine"}


def write_list(folder: Path) -> dict:
    (folder / "list.txt").write_text("abc\n")
    return {"type": "words", "file": str(folder / "list.txt")}


def write_genders(folder: Path) -> dict:
    (folder / "male.txt").write_text("abc\n")
    (folder / "female.txt").write_text("xyz\n")
    return {"type": "gender", "male": f"{folder}/male.txt", "female": f"{folder}/female.txt"}


def write_schema(folder: Path) -> dict:
    (folder / "schema.json").write_text('{"title": "abc"}')
    return {"type": "json", "file": str(folder / "schema.json")}


@pytest.mark.parametrize(
    ("write", "count"),
    [(write_own, 3), (write_list, 1), (write_genders, 2), (write_schema, 1)],
    ids=["own class", "word list", "gender", "schema"],
)
def test_each_file_of_a_quantifier_counts_by_its_content(tmp_path, monkeypatch, write, count):
    """A change that keeps size and time is another state; a copy elsewhere and a touch are not."""
    folder, copy = tmp_path / "a", tmp_path / "b"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "near_of_test", raising=False)
    quantifier = create_quantifier("mine", write(folder))
    files = find_quantifier_files(quantifier)
    assert sorted(files) == sorted(path for path in folder.iterdir() if path.is_file())
    assert len(files) == count
    states = {"mine": hash_quantifier(quantifier)}
    for file in files:
        file.touch()
        check_quantifiers(states, {"mine": quantifier})
        content = file.read_bytes()
        flip(file)
        assert hash_quantifier(quantifier) not in states.values()
        with pytest.raises(ChecksumMismatch, match=f"'mine': a file changed .*{file.name}"):
            check_quantifiers(states, {"mine": quantifier})
        overwrite(file, content)
        check_quantifiers(states, {"mine": quantifier})
    if count < 3:
        shutil.copytree(folder, copy)
        assert hash_quantifier(create_quantifier("mine", write(copy))) == states["mine"]


def test_a_file_without_imports_of_its_folder_is_alone():
    """Modules of other folders are no files of a class, whoever imported them."""
    own = create_quantifier("mine", {"type": "python", "file": str(FILE), "class": "Rude"})
    assert find_quantifier_files(own) == [FILE]
