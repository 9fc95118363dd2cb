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
    """The suite has the given probability; the terminal and a comment list the rest."""
    (folder / "promptfooconfig.yaml").write_text(PROMPTFOO)
    assert main(["init", "--from", "promptfooconfig.yaml", "--at-least", "0.9"]) == 0
    omission = "  line 5: similar has no counterpart\n"
    assert omission in capfd.readouterr().err
    assert f"# {omission}" in (folder / "suite.yaml").read_text()
    (case,) = load_suite("suite.yaml").cases
    assert case.question.query.text == "P>=0.9 [ F contains = 1 ]"
    assert case.prompt == "Is Madrid in Spain?"


def test_a_converted_suite_needs_no_other_file(folder):
    """In another folder than the configuration, the suite has the rows of its table."""
    (folder / "promptfooconfig.yaml").write_text("prompts: ['{{q}}']\ntests: tests.csv\n")
    (folder / "tests.csv").write_text('q,__expected\n"Is ""it"" so?",contains:Yes\n')
    arguments = ["init", "--from", "promptfooconfig.yaml", "--directory", "out", "--model"]
    assert main([*arguments, str(folder / "model")]) == 0
    (case,) = load_suite("out/suite.yaml").cases
    assert case.prompt == 'Is "it" so?'


def test_a_configuration_without_a_counterpart_is_an_error(folder, capfd):
    """The error has each reason with its line, and no file is written."""
    (folder / "promptfooconfig.yaml").write_text(PROMPTFOO.replace("icontains", "moderation"))
    assert main(["init", "--from", "promptfooconfig.yaml"]) == 3
    error = capfd.readouterr().err
    assert "line 5: moderation has no counterpart" in error
    assert "line 5: similar has no counterpart" in error
    assert not (folder / "suite.yaml").exists()


def test_a_probability_that_a_file_cannot_hold_is_an_error(folder, capfd):
    """No other probability than that of the command line is written."""
    (folder / "promptfooconfig.yaml").write_text(PROMPTFOO)
    probability = "0.99999999999999999999"
    assert main(["init", "--from", "promptfooconfig.yaml", "--at-least", probability]) == 3
    assert f"--at-least: {probability} has more digits" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--directory", "mine/out"], "--directory: mine is a file; name a directory"),
        (["--at-least", "0.9"], "--at-least: it is for the assertions of --from"),
    ],
)
def test_arguments_without_an_effect_are_errors(folder, capfd, arguments, reason):
    """A file in place of a directory, and a probability without assertions, are refused."""
    (folder / "mine").write_text("a text")
    assert main(["init", *arguments]) == 3
    assert reason in capfd.readouterr().err.replace(f"{folder}/", "")
    assert not (folder / "suite.yaml").exists()


@pytest.mark.parametrize("source", [[], ["--from", "promptfooconfig.yaml"]])
def test_a_model_of_the_current_folder_is_found_from_the_suite(folder, source):
    """The suite in another folder names the same directory; other names stay as they are."""
    (folder / "promptfooconfig.yaml").write_text(PROMPTFOO)
    for model, written in (
        ("./model", "../../model"),
        ("./absent", "./absent"),
        ("model", "model"),
        (str(folder / "model"), str(folder / "model")),
    ):
        out = folder / "out" / str(len(list(folder.rglob("suite.yaml"))))
        assert main(["init", *source, "--directory", str(out), "--model", model]) == 0
        assert yaml.safe_load((out / "suite.yaml").read_text())["model"] == written


def test_nothing_is_overwritten(folder, capfd):
    """An existing file is an error, and no other file is written."""
    (folder / "suite.yaml").write_text("mine")
    assert main(["init"]) == 3
    assert "exists" in capfd.readouterr().err
    assert (folder / "suite.yaml").read_text() == "mine"
    assert not (folder / ".github").exists()
