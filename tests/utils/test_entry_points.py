"""Entry points are read when the installed packages have changed, and not for each question."""

from helpers.installed import install

from llmchecker.utils import plugins
from llmchecker.utils.plugins import QUANTIFIERS, find_plugins


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
