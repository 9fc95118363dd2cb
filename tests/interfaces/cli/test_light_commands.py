"""The commands that answer at once: what they print, and what they do not import."""

import re
import shlex
import subprocess
import sys

import pytest
import yaml

import llmchecker
from llmchecker.interfaces.cli.commands import build_parser
from llmchecker.interfaces.cli.main import main
from llmchecker.interfaces.cli.parser import COMMAND_HELP
from llmchecker.utils.atomic_files import atomic_write_with_checksum

HEAVY = """
    torch transformers stormpy z3 pandas matplotlib seaborn scipy snakemake pydantic pyarrow numpy
    textblob lark aiohttp rich tqdm
""".split()
ENTRY = """
import sys
from llmchecker.interfaces.cli.entry import run
try:
    run()
finally:
    print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)
"""
CONFIG = {
    "models": {
        "small": {"label": "Small-1", "source": "pypi:small==1"},
        "other": {"label": "Other-2", "source": "pypi:other==1"},
        "far": {"label": "Far-3", "source": "server:http://localhost:1"},
    },
    "start_strings": {
        "player": "The player won because",
        "chat": [{"role": "user", "content": "Is it?\x1b[31m"}],
    },
    "quantifiers": {"gender": {}, "yes": {"type": "pattern", "pattern": "(?i)^yes"}},
}
ANSWERS = """\
label,model,query,verdict,lower,upper,low,high,confidence
Player,Small-1,P=? [ F gender > 0 ],,0.05147,0.88588,0.05147,0.09476,0.99
Player,Small-1,P=? [ G step < 9 ],,1.0,1.0,,,
Player,Small-1,P>=0.5 [ F gender > 0 ],UNKNOWN,False,True,,,
Player,Small-1,P>=0.1 [ F gender > 0 ],"HOLDS, certain",True,True,,,
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with one fetched model of 1.5 MB, as the current directory."""
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(CONFIG, sort_keys=False))
    directory = tmp_path / "resources/models/small"
    directory.mkdir(parents=True)
    (directory / "source.json").write_text("{}")
    (directory / "model-00001-of-00002.safetensors").write_bytes(bytes(1_000_000))
    (directory / "model-00002-of-00002.safetensors").write_bytes(bytes(500_000))
    # an unfinished copy has weights, but no record
    directory.with_name("other").mkdir()
    (directory.with_name("other") / "model.safetensors").write_bytes(bytes(500_000))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines(capsys, *arguments: str, status: int = 0) -> list[str]:
    """The lines that a command prints."""
    assert main(arguments) == status
    out, err = capsys.readouterr()
    return (err if status else out).splitlines()


@pytest.mark.parametrize("command", ["", "--version", "models", "starts", "quantifiers", "queries"])
def test_a_light_command_imports_no_heavy_package(project, command):
    """No package that loads slowly is imported for a list."""
    code = ENTRY.format(heavy=HEAVY)
    arguments = [sys.executable, "-c", code, *command.split()]
    run = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert run.stdout
    assert run.stderr.splitlines() == ["[]"]


def test_the_package_runs_as_the_command():
    """`python -m llmchecker` is the command `llmchecker`, with its name and its status."""
    command = [sys.executable, "-m", "llmchecker"]
    run = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert run.stdout == f"llmchecker {llmchecker.__version__}\n"
    assert subprocess.run([*command, "chekc"], capture_output=True, check=False).returncode == 3


def test_the_help_without_imports_is_that_of_all_commands():
    """A parser without the modules of commands lists the same commands with the same lines."""
    assert build_parser(()).format_help() == build_parser().format_help()


def test_each_command_has_one_line(capsys):
    """Without a command, the output has a line with the name and the help of each."""
    printed = [line.strip().partition(" ")[::2] for line in lines(capsys)]
    assert {(name, text.strip()) for name, text in printed} >= set(COMMAND_HELP.items())


def test_the_version_is_that_of_the_package(capsys):
    """--version prints the name and the version."""
    with pytest.raises(SystemExit) as exit_:
        main(["--version"])
    assert exit_.value.code == 0
    assert capsys.readouterr().out == f"llmchecker {llmchecker.__version__}\n"


def test_models_have_their_labels_and_sizes(project, capsys):
    """A model is fetched if its record exists; its size is that of all its weight files."""
    assert [re.split(" {2,}", line) for line in lines(capsys, "models")] == [
        ["small", "Small-1", "fetched, 2 MB"],
        ["other", "Other-2", "not fetched"],
        ["far", "Far-3", "on a server"],
    ]


@pytest.mark.parametrize("command", ["models", "starts", "quantifiers"])
def test_names_are_printed_alone(project, capsys, command):
    """With --names, the output has the names of the configuration, one per line."""
    key = {"starts": "start_strings"}.get(command, command)
    assert lines(capsys, command, "--names") == list(CONFIG[key])


def test_start_strings_are_printed_without_control_characters(project, capsys):
    """A start string is on one line, and a control character is escaped."""
    player, chat = lines(capsys, "starts")
    assert player.split(maxsplit=1) == ["player", "The player won because"]
    assert "Is it?\\x1b[31m" in chat
    assert lines(capsys, "starts", "--texts") == ["The player won because"]


def test_quantifiers_have_their_types_and_settings(project, capsys):
    """A quantifier has its type, by default its name, and its settings."""
    gender, yes = lines(capsys, "quantifiers")[:2]
    assert gender.split() == ["gender", "gender"]
    assert yes.split() == ["yes", "pattern", "pattern:", "(?i)^yes"]


def test_queries_fit_on_a_screen(capsys):
    """The query language takes at most 30 lines of 100 characters."""
    printed = lines(capsys, "queries")
    assert len(printed) <= 30
    assert max(map(len, printed)) <= 100


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("models: 3", "config.yaml, line 1: models: not a mapping"),
        ("models:\n  small: 3", "config.yaml, line 2: models.small: 3 is not usable"),
        ("models: [", "config.yaml, line 1: not YAML"),
    ],
)
def test_an_unusable_section_is_an_error(project, capsys, content, message):
    """A section of another type is refused with the file and the line."""
    (project / "config.yaml").write_text(content)
    (line,) = lines(capsys, "models", status=3)
    assert message in line


def test_an_empty_section_prints_nothing(project, capsys):
    """A configuration without start strings has none to list."""
    (project / "config.yaml").write_text("models: {}\n")
    assert lines(capsys, "starts") == lines(capsys, "models") == []


def test_a_missing_configuration_is_an_error(tmp_path, monkeypatch, capsys):
    """Without a configuration, the message has the fix."""
    monkeypatch.chdir(tmp_path)
    (line,) = lines(capsys, "models", status=3)
    assert "name a configuration by --config" in line


def test_the_summary_has_three_answers_and_the_page(project, capsys):
    """Bounds are rounded outwards, and the last line has the path of the report."""
    table = project / "results/tables/table2.csv"
    with atomic_write_with_checksum(table) as partial:
        partial.write_text(ANSWERS)
    *answers, last = lines(capsys, "summary")
    assert answers == [
        "Player, Small-1: P=? [ F gender > 0 ]: certain [0.05147, 0.8859]; "
        "estimate [0.05147, 0.09476] with confidence 0.99",
        "Player, Small-1: P=? [ G step < 9 ]: certain [1, 1]",
        "Player, Small-1: P>=0.5 [ F gender > 0 ]: verdict UNKNOWN",
    ]
    assert last == f"4 answers: {table}"
    report = project / "results/report.html"
    report.touch()
    assert lines(capsys, "summary", str(project))[-1] == f"4 answers: {report}"


def test_a_damaged_table_has_no_summary(project, capsys):
    """A table that does not match its checksum, or is missing, is an error."""
    assert "results/tables/table2.csv: the file is missing" in lines(capsys, "summary", status=3)[0]
    table = project / "results/tables/table2.csv"
    with atomic_write_with_checksum(table) as partial:
        partial.write_text(ANSWERS)
    table.write_text(ANSWERS.replace("0.88588", "0.08588"))
    assert "table2.csv" in lines(capsys, "summary", status=3)[0]


@pytest.mark.parametrize("name", ["check", "compare", "init", "test", "tree"])
def test_the_examples_of_a_help_parse(name):
    """The help of a command that needs arguments ends with examples, each of which parses."""
    parser = build_parser([name])
    (commands,) = (action for action in parser._actions if action.choices)
    examples = commands.choices[name].epilog.splitlines()
    assert examples[0] == "examples:"
    for example in examples[1:]:
        program, *words = shlex.split(example)
        assert program == "llmchecker"
        assert parser.parse_args(words).run


def test_one_option_has_one_meaning_in_each_command():
    """An option of several commands has the same type in each."""
    parser = build_parser(["check", "compare", "test", "tree"])
    (commands,) = (action for action in parser._actions if action.choices)
    types = {}
    for name in ("check", "compare", "test", "tree"):
        for action in commands.choices[name]._actions:
            for option in action.option_strings:
                types.setdefault(option, set()).add(action.type)
    # the results of a suite are a file, an answer is printed
    del types["--json"]
    assert {option for option, found in types.items() if len(found) > 1} == set()
    assert {"--length", "--passes", "--seconds", "--confidence", "--seed", "--model"} <= set(types)
