"""Plug-ins are found by entry points, and those of this repository name their extra if absent."""

from importlib.metadata import EntryPoints

import pytest
from helpers.installed import install

from llmchecker.config.config import Config
from llmchecker.config.registry import Registry
from llmchecker.errors import MissingTool
from llmchecker.interfaces.cli.main import main
from llmchecker.properties.registry import create_quantifier
from llmchecker.utils import plugins
from llmchecker.utils.plugins import PLUGIN_EXTRAS, QUANTIFIERS, find_plugins

CONFIG = {"models": {"one": {"label": "One", "source": "path:docs"}}, "experiments": []}
PROGRAMS = CONFIG | {"invariants": {"programs": "path:docs"}}


@pytest.fixture
def llmchecker_alone(monkeypatch):
    """A Python in which no package with plug-ins is installed."""
    monkeypatch.setattr(plugins, "entry_points", lambda group: EntryPoints())
    plugins._read_entry_points_of.cache_clear()
    yield
    plugins._read_entry_points_of.cache_clear()


def fix(name: str, extra: str) -> str:
    """The message for a plug-in that is not installed."""
    return f"{name}: its package is missing; run pip install 'llmchecker[{extra}]'"


def test_an_absent_command_is_named_with_its_extra(llmchecker_alone, capsys):
    """`llmchecker verify` says what to install, and the list of commands has no such command."""
    with pytest.raises(SystemExit) as exit_:
        main(["verify", "x.c"])
    assert exit_.value.code == 3
    assert fix("verify", "programs") in capsys.readouterr().err
    assert main([]) == 0
    assert "verify" not in capsys.readouterr().out


def test_an_absent_section_is_named_with_its_extra(llmchecker_alone):
    """A plan with the section `invariants` says what to install; a question does not need it."""
    with pytest.raises(MissingTool) as error:
        Config.parse(PROGRAMS)
    assert str(error.value) == fix("invariants", "programs")
    assert "one" in Registry.parse(PROGRAMS).models


@pytest.mark.parametrize("entry", [("provable", {}), ("proof", {"type": "provable"})])
def test_an_absent_quantifier_is_named_with_its_extra(llmchecker_alone, entry):
    """The type `provable` says what to install."""
    with pytest.raises(MissingTool) as error:
        create_quantifier(*entry)
    assert str(error.value) == fix("provable", "programs")


def test_an_absent_format_is_named_with_its_extra(llmchecker_alone, tmp_path, capfd):
    """`llmchecker init --from promptfooconfig.yaml` says in one line what to install."""
    file = tmp_path / "promptfooconfig.yaml"
    file.write_text("prompts: [So]\ntests: [{assert: [{type: contains, value: so}]}]\n")
    assert main(["init", "--from", str(file), "--directory", str(tmp_path)]) == 3
    assert capfd.readouterr().err == f"error: {fix('promptfoo', 'promptfoo')}\n"
    assert list(tmp_path.iterdir()) == [file]


def test_the_plugins_of_this_repository_are_installed():
    """Each plug-in that an extra installs is an entry point of an installed package."""
    for group, names in PLUGIN_EXTRAS.items():
        assert names.keys() <= find_plugins(group, "plug-in").keys()


def test_a_package_that_is_installed_later_is_found(tmp_path, monkeypatch):
    """A second search reads nothing, and one after an installation finds the new package."""
    reads, read = [], plugins.entry_points

    def read_and_count(group):
        reads.append(group)
        return read(group=group)

    monkeypatch.setattr(plugins, "entry_points", read_and_count)
    monkeypatch.syspath_prepend(tmp_path)
    for _ in range(2):
        assert "late" not in find_plugins(QUANTIFIERS, "quantifier type")
    assert len(reads) == 1
    install(tmp_path, "later", "[llmchecker.quantifiers]\nlate = json:loads\n")
    assert "late" in find_plugins(QUANTIFIERS, "quantifier type")
    assert len(reads) == 2
