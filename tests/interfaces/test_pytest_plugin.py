"""pytest collects suites: a test for each requirement, with the verdict as the failure's text."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]


def run_pytest(folder: Path, *options: str) -> subprocess.CompletedProcess:
    """Run pytest on a folder in a process of its own, which finds the plugin as installed."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", *options],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=300,
    )


@pytest.fixture
def folder(tmp_path, random_model):
    suite = {
        "model": str(random_model("gpt2")),
        "length": 2,
        "budget": {"passes": 3},
        "cases": [
            {
                "name": "won",
                "start": "The player won because",
                "require": {
                    "ends": "P>=1 [ F step = 0 ]",
                    "never": "P<=0 [ F step = 0 ]",
                    "close": "P>=0.5 [ F length > 1 ]",
                },
            }
        ],
    }
    (tmp_path / "test_won.llm.yaml").write_text(yaml.safe_dump(suite))
    (tmp_path / "other.yaml").write_text("a: b")
    return tmp_path


def test_each_requirement_is_a_test(folder, monkeypatch, capfd):
    """A violated requirement fails with its verdict and texts, and no traceback."""
    monkeypatch.chdir(folder)
    assert pytest.main(["-p", "no:cacheprovider", "-rA"]) == 1
    printed = capfd.readouterr().out
    assert "collected 3 items" in printed
    assert "FAILED test_won.llm.yaml::won: never" in printed
    assert "VIOLATED: won: never" in printed
    assert "Traceback" not in printed


@pytest.mark.long
def test_requirements_are_collected_by_an_installed_plugin(folder):
    """A process of its own finds the plugin by its entry point, and lists each requirement."""
    run = run_pytest(folder, "--collect-only", "-q")
    assert "test_won.llm.yaml::won: never" in run.stdout


@pytest.mark.long
def test_a_run_that_fails_is_the_failure_of_each_requirement(tmp_path, monkeypatch, capfd):
    """A model that cannot be loaded is one message for each test, without a traceback."""
    (tmp_path / "m").mkdir()
    case = {"start": "once", "require": ["P>=1 [ F step = 0 ]", "P>=1 [ F step = 1 ]"]}
    (tmp_path / "test_m.llm.yaml").write_text(yaml.safe_dump({"model": "m", "cases": [case]}))
    monkeypatch.chdir(tmp_path)
    assert pytest.main(["-p", "no:cacheprovider", "-rA"]) == 1
    printed = capfd.readouterr().out
    assert printed.count("has no config.json; name a model") >= 2
    assert "Traceback" not in printed
    assert "session.py" not in printed


@pytest.mark.long
def test_an_invalid_suite_is_an_error_of_collection(folder, monkeypatch, capfd):
    """The message of a suite that cannot run has its line."""
    (folder / "test_won.llm.yaml").write_text("model: m\ncases: [{ strat: a }]\n")
    monkeypatch.chdir(folder)
    assert pytest.main(["-p", "no:cacheprovider"]) == 2
    printed = capfd.readouterr().out
    assert "line 2: cases[0]: unknown key 'strat', did you mean 'start'" in printed
    assert "Traceback" not in printed


def test_requirements_without_content_are_warned_of_at_collection(folder, monkeypatch, capfd):
    """A threshold that every number meets is a warning of pytest before any model is loaded."""
    path = folder / "test_won.llm.yaml"
    suite = yaml.safe_load(path.read_text())
    suite["cases"][0]["require"] = {"empty": "P>=0 [ F length > 1 ]"}
    path.write_text(yaml.safe_dump(suite))
    monkeypatch.chdir(folder)
    assert pytest.main(["-p", "no:cacheprovider", "--collect-only"]) == 0
    printed = capfd.readouterr().out
    assert "PytestWarning: won: empty, at least 0: every possible value meets it" in printed


@pytest.mark.long
def test_a_conftest_names_an_application(tmp_path):
    """A hook gives the models of a suite file, whose requirements gate an application."""
    case = {"name": "louvre", "user": "Where?", "require": {"paris": {"contains": "Paris"}}}
    case["require"]["paris"]["at_least"] = 0.5
    (tmp_path / "test_app.llm.yaml").write_text(yaml.safe_dump({"cases": [case]}))
    (tmp_path / "conftest.py").write_text(
        "import llmchecker as lc\n\n\ndef pytest_llmchecker_models(path):\n"
        "    return [lc.texts(lambda messages: 'Paris', name=path.name)]\n"
    )
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout
    assert "PASSED test_app.llm.yaml::louvre: paris" in done.stdout
