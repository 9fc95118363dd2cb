"""Installed packages add commands by entry points, and break nothing."""

import sys

import pytest
from helpers.installed import install

from llmchecker.interfaces.cli.commands import build_parser
from llmchecker.interfaces.cli.main import main

MODULE = """
def add_greeting(commands):
    parser = commands.add_parser("greet", help="greet somebody")
    parser.add_argument("name")
    parser.set_defaults(run=lambda arguments: print(f"Hello, {arguments.name}.") or 2)
"""
ENTRIES = """
[llmchecker.commands]
greet = greetings_of_test:add_greeting
lost = greetings_of_test:add_lost
check = greetings_of_test:add_greeting
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A directory on the path with a package that adds commands."""
    (tmp_path / "greetings_of_test.py").write_text(MODULE)
    install(tmp_path, "greetings", ENTRIES)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("greetings_of_test", None)


def test_an_installed_command_is_listed_and_runs(installed, capsys):
    """The list has the command with its help, and the status is that of its function."""
    assert main(["greet", "Ada"]) == 2
    assert capsys.readouterr().out == "Hello, Ada.\n"
    assert main([]) == 0
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert ["greet", "greet somebody"] in lines
    assert sum(line[:1] == ["check"] for line in lines) == 1


def test_a_command_that_cannot_be_loaded_hides_no_other(installed, capsys):
    """The list says why a command is not available, and the command itself is an error."""
    assert "lost" in (text := build_parser().format_help())
    assert "not available: the command 'lost' of the installed package greetings" in " ".join(
        text.split()
    )
    with pytest.raises(SystemExit) as exit_:
        main(["lost"])
    assert exit_.value.code == 3
    assert "loading it raised AttributeError" in capsys.readouterr().err


def test_a_command_of_this_package_reads_no_entry_points(installed, monkeypatch):
    """A named command of this package neither waits for installed packages nor fails with them."""
    build_parser(["queries"])
    assert "greetings_of_test" not in sys.modules


def test_two_packages_with_one_command_are_refused(installed, capsys):
    """Which of two packages is meant is not guessed."""
    install(installed, "others", "[llmchecker.commands]\ngreet = json:loads\n")
    with pytest.raises(SystemExit) as exit_:
        main(["greet", "Ada"])
    assert exit_.value.code == 3
    assert "command 'greet': both" in capsys.readouterr().err
