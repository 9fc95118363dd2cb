"""Installed packages convert files of other programs to suites."""

import sys

import pytest
from helpers.installed import install

from llmchecker.interfaces.cli.main import main

MODULE = """
from llmchecker.suites.formats import Conversion

def convert(path, probability, model):
    omissions = (f"line 1: {path.read_text()} has no counterpart",)
    return Conversion(omissions, f"# {probability} of {model}")
"""
ENTRIES = """
[llmchecker.suite_formats]
quiz = quizzes_of_test:convert
lost = quizzes_of_test:lost
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with a file of a format that an installed package converts."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site/quizzes_of_test.py").write_text(MODULE)
    install(tmp_path / "site", "quizzes", ENTRIES)
    monkeypatch.syspath_prepend(tmp_path / "site")
    (tmp_path / "quiz.txt").write_text("a riddle")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("quizzes_of_test", None)


def test_a_format_of_an_installed_package_is_converted(folder, capfd):
    """The suite is what the function of the package returns, and its omissions are listed."""
    assert main(["init", "--from", "quiz.txt", "--format", "quiz", "--at-least", "0.9"]) == 0
    assert (folder / "suite.yaml").read_text() == "# 0.9 of None"
    assert "  line 1: a riddle has no counterpart\n" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("quizz", "suite format 'quizz': unknown, did you mean 'quiz'?"),
        ("lost", "the suite format 'lost' of the installed package quizzes: loading it raised"),
    ],
)
def test_a_format_that_cannot_be_loaded_is_an_error(folder, capfd, name, message):
    """A misspelt format and a package without its function are refused by name."""
    assert main(["init", "--from", "quiz.txt", "--format", name]) == 3
    assert message in capfd.readouterr().err
    assert not (folder / "suite.yaml").exists()
