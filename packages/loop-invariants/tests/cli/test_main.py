"""`loop-invariants` is the command of the package, and `llmchecker verify` the same."""

import json
from importlib.metadata import entry_points

import pytest

from llmchecker.interfaces.cli.main import main as run_llmchecker
from loop_invariants import Provable
from loop_invariants.cli.main import main

PROGRAM = "int main() { int i = 0; while (i < 9) i++; assert(i == 9); }"


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "counts.c"
    path.write_text(PROGRAM)
    return path


def read_answer(text: str) -> dict:
    """The answer of a command, without its seconds."""
    answer = json.loads(text)
    for entry in answer["programs"]:
        del entry["seconds"]
    return answer


@pytest.mark.long
def test_both_commands_give_one_answer(program, capsys):
    """The command of this package and that of llmchecker print the same and have one status."""
    assert main([str(program), "--json"]) == 0
    first = read_answer(capsys.readouterr().out)
    assert run_llmchecker(["verify", str(program), "--json"]) == 0
    assert read_answer(capsys.readouterr().out) == first
    assert first["summary"] == {"verified": 1}


def test_both_commands_have_the_same_options(capsys):
    """The help of both has the same options."""
    texts = []
    for run, arguments in ((main, ["--help"]), (run_llmchecker, ["verify", "--help"])):
        with pytest.raises(SystemExit):
            run(arguments)
        texts.append(capsys.readouterr().out)
    first, second = ({word for word in t.split() if word.startswith("--")} for t in texts)
    assert first == second | {"--version"}


def test_the_installed_package_registers_what_it_adds():
    """The entry points of the installed package are those of this source."""
    (verify,) = entry_points(group="llmchecker.commands", name="verify")
    assert verify.value == "loop_invariants.cli.main:add_verify_command"
    (provable,) = entry_points(group="llmchecker.quantifiers", name="provable")
    assert provable.load() is Provable
