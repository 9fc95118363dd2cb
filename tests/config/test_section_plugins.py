"""Installed packages add sections to a configuration by entry points."""

import sys
from pathlib import Path

import pytest
from helpers.installed import install

from llmchecker.config.config import Config
from llmchecker.config.plugins import extend_keys
from llmchecker.errors import ConfigError

ROOT = Path(__file__).parents[2]
CONFIG = {
    "models": {"one": {"label": "One", "source": "path:docs"}},
    "experiments": [],
}
MODULE = """
from llmchecker.utils.section import Section
from pydantic import Field

class Poems(Section):
    \'\'\'Poems to rhyme.

    More about them.
    \'\'\'
    lines: int = Field(ge=1)
    models: tuple = ()

    def complete(self, models):
        return self.model_copy(update={"models": tuple(models)})
"""
ENTRIES = """
[llmchecker.config_sections]
poems = poems_of_test:Poems
lost = poems_of_test:Lost
suites = poems_of_test:Poems
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A directory on the path with a package that adds sections."""
    (tmp_path / "poems_of_test.py").write_text(MODULE)
    install(tmp_path, "poems", ENTRIES)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("poems_of_test", None)


def test_a_section_of_an_installed_package_is_validated_and_completed(installed):
    """Its class validates its keys, and its method has the models of the configuration."""
    section = Config.parse(CONFIG | {"poems": {"lines": 4}}).sections["poems"]
    assert (section.lines, section.models) == (4, ("one",))
    assert extend_keys({"poems"}).model_fields["poems"].description == "Poems to rhyme."


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"poems": {"lines": 0}}, r"poems\.lines: 0 is too small"),
        ({"poems": {"lnes": 1}}, "poems: unknown key 'lnes', did you mean 'lines'"),
        ({"poems": None}, "poems: "),
        ({"peoms": {}}, "unknown key 'peoms', did you mean 'poems'"),
        ({"lost": {}}, "the section 'lost' of the installed package poems: loading it raised"),
    ],
)
def test_an_invalid_section_is_refused_as_any_other(installed, change, message):
    """The message has the path of the key and its problem."""
    with pytest.raises(ConfigError, match=message):
        Config.parse(CONFIG | change)


def test_a_section_that_is_absent_is_not_loaded(installed):
    """A configuration without the section neither loads the package nor fails with it."""
    assert Config.parse(CONFIG).sections == {}
    assert "poems_of_test" not in sys.modules


def test_no_package_replaces_a_section(installed):
    """The sections of this package stay what they are."""
    assert Config.parse(CONFIG | {"suites": {}}).suites == {}
