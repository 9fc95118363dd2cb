"""`llmchecker init` writes a suite that loads and a workflow, and overwrites nothing."""

import pytest
import yaml

from llmchecker.interfaces.cli.main import main
from llmchecker.suites.load import load_suite

PROMPTFOO = """
prompts: ["Is {{city}} in {{country}}?"]
tests:
  - vars: { city: Madrid, country: Spain }
    assert: [{ type: icontains, value: "yes" }, { type: similar, value: "so" }]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text("{}")
    return tmp_path


def test_the_new_suite_loads(folder, capfd):
    """The commented suite is valid, and the workflow is YAML that runs it."""
    assert main(["init"]) == 0
    assert capfd.readouterr().out.split() == ["suite.yaml", ".github/workflows/llmchecker.yaml"]
    suite = load_suite("suite.yaml")
    assert len(suite.cases) == 2
    workflow = yaml.safe_load((folder / ".github/workflows/llmchecker.yaml").read_text())
    assert "llmchecker test suite.yaml" in workflow["jobs"]["suite"]["steps"][-2]["run"]


def test_a_promptfoo_configuration_is_converted(folder, capfd):
    """The suite has the probability of the command line, and omissions have lines."""
    (folder / "promptfooconfig.yaml").write_text(PROMPTFOO)
    assert main(["init", "--from", "promptfooconfig.yaml", "--at-least", "0.9"]) == 0
    assert "line 5: similar has no counterpart" in capfd.readouterr().err
    (case,) = load_suite("suite.yaml").cases
    assert case.query.text == "P>=0.9 [ F contains = 1 ]"
    assert case.prompt == "Is Madrid in Spain?"


def test_nothing_is_overwritten(folder, capfd):
    """An existing file is an error, and no other file is written."""
    (folder / "suite.yaml").write_text("mine")
    assert main(["init"]) == 3
    assert "exists" in capfd.readouterr().err
    assert (folder / "suite.yaml").read_text() == "mine"
    assert not (folder / ".github").exists()
