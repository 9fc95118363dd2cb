"""Mistakes on the command line: options given twice, and mistyped words, are named with a fix."""

import argparse
import re

import pytest

from llmchecker.interfaces.cli.commands import build_parser
from llmchecker.interfaces.cli.main import main
from llmchecker.properties.registry import BUILTIN_TYPES
from loop_invariants.cli import main as loop_invariants


def iter_options() -> list[tuple[str, argparse.Action]]:
    """All options of all commands that take a fixed number of values and keep the last."""
    commands = next(
        action
        for action in build_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    return [
        (name, action)
        for name, parser in commands.choices.items()
        for action in parser._actions
        if action.option_strings
        and not isinstance(action, argparse._AppendAction)
        and action.nargs in (None, 1, 2, "+")
    ]


OPTIONS = iter_options()
TEXTS = ("contains", "icontains", "not-contains", "not-icontains")


def test_every_command_has_options_with_one_value():
    """The options of this test are those of all commands, also of installed packages."""
    assert {"check", "compare", "tree", "test", "verify", "init"} <= {name for name, _ in OPTIONS}


@pytest.mark.parametrize("command", sorted({name for name, _ in OPTIONS}))
def test_an_option_given_twice_is_named(command, capsys):
    """Whatever option of a command has two values, none is dropped silently."""
    for name, action in OPTIONS:
        if name != command:
            continue
        value = next(iter(action.choices)) if action.choices else "1"
        given = [action.option_strings[-1], *[str(value)] * (action.nargs == 2), str(value)]
        with pytest.raises(SystemExit) as ended:
            main([command, *given, *given])
        assert ended.value.code == 3
        assert f"error: {given[0]}: given twice, " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["chek"], "invalid choice: 'chek', did you mean 'check'? See llmchecker --help"),
        (["judgecheck"], "did you mean 'judge-check'?"),
        (["completion", "bahs"], "did you mean 'bash'?"),
        (["check", "--stop-strings", "x", "--user=y"], "--stop-strings: stops are a setting"),
        (["check", "q", "--stop-strings", "x", "--user=y"], "x: stops are a setting of a model"),
        (
            ["check", "--regex", "x", "--user=y"],
            "--regex, did you mean '--matches'?",
        ),
        (["zzz"], "invalid choice: 'zzz' (choose from"),
    ],
)
def test_a_mistyped_word_has_a_hint(words, message, capsys):
    """An unknown command, choice or option names the one that is meant, or the reason."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 3
    assert message in capsys.readouterr().err


def test_all_types_are_listed_without_a_configuration(tmp_path, monkeypatch, capsys):
    """`quantifiers` prints the types in any folder; a named file must exist."""
    monkeypatch.chdir(tmp_path)
    assert main(["quantifiers"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Types, with their settings:"
    names = {line.split()[0] for line in lines[1:] if line.startswith("  ")}
    assert set(BUILTIN_TYPES) <= names
    assert main(["quantifiers", "--names"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["quantifiers", "--config", "absent.yaml"]) == 3
    assert "absent.yaml: absent" in capsys.readouterr().err


@pytest.mark.parametrize("kind", TEXTS)
def test_two_texts_are_one_assertion_of_another_kind(kind, capsys):
    """The message has the assertion about both texts, with both, as a shell reads it."""
    with pytest.raises(SystemExit):
        main(["check", f"--{kind}", "Yes", f"--{kind}", "it is"])
    err = capsys.readouterr().err
    assert f"; write --{kind}-all Yes 'it is', or --{kind}-any; see" in err


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--contains=a", "--quantifier=b={type: gender}", "--quantifier=b"], "--quantifier b"),
    ],
)
def test_a_quantifier_given_twice_is_named(options, named, capsys):
    """Two quantifiers of one name are an error, not the last of them."""
    assert main(["check", "--start", "x", *options]) == 3
    assert f"error: {named}: given twice; " in capsys.readouterr().err


def test_a_parser_reads_several_command_lines(capsys):
    """Options of an earlier command line do not count, also of a parser that is used again."""
    parser = build_parser(["models"])
    for config in ("a", "b"):
        assert str(parser.parse_args(["models", "--config", config]).config) == config
    with pytest.raises(SystemExit):
        parser.parse_args(["models", "--config", "a", "--conf", "b"])
    assert "--config: given twice, a and b; keep one" in capsys.readouterr().err


def test_the_command_of_the_other_package_names_them_too(capsys):
    """`loop-invariants` has the parser of `llmchecker`."""
    with pytest.raises(SystemExit):
        loop_invariants.main(["x.c", "--seconds", "1", "--seconds", "2"])
    assert re.search("--seconds: given twice, 1.0 and 2.0; keep one", capsys.readouterr().err)
