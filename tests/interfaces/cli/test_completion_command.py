"""Completion in the shell: the words that bash offers for a command line."""

import shutil
import subprocess
import sys

import pytest
import yaml

from llmchecker.interfaces.cli.main import main

CONFIG = {
    "models": {
        "small": {"source": "pypi:small==1"},
        "smart": {"source": "pypi:smart==1"},
        "$(touch ran)": {"source": "pypi:code==1"},
    },
    "start_strings": {
        "player": "The player won because",
        "cost": 'The cost\'s $5 `now`; (he said "no")',
        "lolita": "Lolita, light of my life,",
    },
    "quantifiers": {"gender": {}, "grade": {"type": "length"}, "polarity": {}, "g$(touch ran)": {}},
}
COMPLETE = """
source completion.bash
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_shtab_llmchecker
printf '%s\\n' "${COMPREPLY[@]}"
"""
PROGRAM = f"""\
#!{sys.executable}
from llmchecker.interfaces.cli.entry import run
run()
"""
needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")


@pytest.fixture
def project(tmp_path, monkeypatch, capsys):
    """A project as the current directory, with the program and its script for bash."""
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    program = tmp_path / "bin/llmchecker"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    assert main(["completion", "bash"]) == 0
    (tmp_path / "completion.bash").write_text(capsys.readouterr().out)
    return tmp_path


def offered(*words: str) -> list[str]:
    """The words that bash offers in place of the last one."""
    command = ["bash", "-c", COMPLETE, "bash", "llmchecker", *words]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stderr == ""
    return run.stdout.splitlines()


@pytest.mark.few(4)
@needs_bash
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ver"], ["verify"]),
        (["check", "q", "--mod"], ["--model"]),
        (["check", "q", "--model", "sm"], ["small", "smart"]),
        (["tree", "--model", ""], ["small", "smart", "\\$\\(touch\\ ran\\)"]),
        (["completion", "z"], ["zsh"]),
        (["check", "q", "--start", '"The p'], ["The player won because"]),
        (["check", "q", "--start", "The\\ p"], ["The\\ player\\ won\\ because"]),
        # a query is completed at its last word
        (["check", '"P=? [ F g'], ["P=? [ F gender", "P=? [ F grade"]),
        (["check", "'P=? [ F gender > 0 & (pol"], ["P=? [ F gender > 0 & (polarity"]),
        (["check", '"P=? [ F \\"end\\" & pol'], ['P=? [ F \\"end\\" & polarity']),
        (["tree", "--query", '"P=? [ F gr'], ["P=? [ F grade"]),
    ],
    ids=lambda words: " ".join(words),
)
def test_bash_offers_commands_options_and_names(project, words, expected):
    """Bash offers commands, options, and the names and texts of the configuration."""
    assert sorted(filter(None, offered(*words))) == sorted(expected)
    assert not (project / "ran").exists()


@pytest.mark.few(1)
@needs_bash
@pytest.mark.parametrize(("quote", "start"), [("", "The\\ c"), ("'", "The c"), ('"', "The c")])
def test_a_completed_text_is_data(project, quote, start):
    """With any quotes, bash passes the completed text to the program and runs nothing in it."""
    (word,) = filter(None, offered("check", "q", "--start", quote + start))
    command = ["bash", "-c", f"printf %s {quote}{word}{quote}"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout == CONFIG["start_strings"]["cost"]
    # a further completion of the completed text offers it again
    assert list(filter(None, offered("check", "q", "--start", quote + word))) == [word]


@needs_bash
def test_without_a_configuration_nothing_is_offered(project):
    """A directory without a configuration has no names and no message."""
    (project / "config.yaml").unlink()
    assert list(filter(None, offered("check", "q", "--model", ""))) == []


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_ask_for_names(shell, capsys):
    """The scripts of zsh and fish complete models, start strings and quantifiers by the program."""
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for names in ("models --names", "starts --texts", "quantifiers --names"):
        assert f"llmchecker {names}" in script
    assert "_llmchecker_queries" in script.split("--system", 1)[1]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_accepts_its_script(shell, tmp_path, capsys):
    """A shell that is installed finds no syntax error in its script."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    assert main(["completion", shell]) == 0
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out)
    subprocess.run([shell, "-n", script], check=True)
