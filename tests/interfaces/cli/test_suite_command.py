"""`llmchecker test`: verdicts on standard output, files, and an exit status for scripts."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from helpers.suites import load

import llmchecker as lc
from llmchecker.interfaces.cli.arguments import parse_question
from llmchecker.interfaces.cli.commands import build_parser
from llmchecker.interfaces.cli.main import main
from llmchecker.properties.quantifiers.json_schema import _report_once
from llmchecker.suites.load import load_suite
from llmchecker.suites.suite_file import RunKeys

START = "The player won because"
HOLDS = "P>=1 [ F step = 0 ]"
VIOLATED = "P<=0 [ F step = 0 ]"
UNKNOWN = "P>=0.5 [ F long > 8 ]"


@pytest.fixture
def write(tmp_path, random_model, monkeypatch):
    """A function that writes a suite with requirements, and returns its path as text."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def write(*require: str, **keys) -> str:
        suite = {
            "model": str(random_model("gpt2")),
            "length": 2,
            "budget": {"passes": 1},
            "properties": {"long": {"type": "length", "unit": "characters"}},
            "cases": [{"start": START, "require": list(require)}],
            **keys,
        }
        (tmp_path / "suite.yaml").write_text(yaml.safe_dump(suite))
        return "suite.yaml"

    return write


@pytest.mark.parametrize(
    ("require", "status"),
    [([HOLDS], 0), ([HOLDS, VIOLATED, UNKNOWN], 1), ([HOLDS, UNKNOWN], 2)],
)
def test_the_exit_status_is_the_verdict(write, capfd, require, status):
    """0 if all hold, 1 if some are violated, 2 if some are unknown."""
    assert main(["test", write(*require)]) == status
    printed = capfd.readouterr()
    assert len([line for line in printed.out.splitlines() if "case 1: " in line]) == len(require)
    assert "Certain: proven for the whole model." in printed.out
    # nothing is known with confidence only
    assert "All verdicts together" not in printed.out


def test_unknown_requirements_can_be_allowed(write, capfd):
    """With --allow-unknown, unknown requirements do not fail the run."""
    assert main(["test", write(HOLDS, UNKNOWN), "--allow-unknown"]) == 0
    assert "UNKNOWN" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"model": "absent"}, "'absent' is no model and no directory in "),
        ({"cases": [{"user": "So?", "require": [HOLDS]}]}, "no chat template; use a start string"),
    ],
)
def test_errors_have_the_status_3(write, capfd, keys, message):
    """An invalid suite and a case that fails to run exit with 3."""
    assert main(["test", write(HOLDS, **keys)]) == 3
    printed = capfd.readouterr()
    assert message in printed.out + printed.err


def test_a_model_of_the_current_folder_takes_the_place_of_the_suites(write, capfd, tmp_path):
    """A path after --model is one of the current folder, wherever the suite is."""
    suite = Path(write(HOLDS))
    Path("model").symlink_to(yaml.safe_load(suite.read_text())["model"])
    (tmp_path / "suites").mkdir()
    suite = suite.rename("suites/suite.yaml")
    assert main(["test", str(suite), "--model", "./model"]) == 0
    assert main(["test", str(suite), "--model", "../model"]) == 0
    capfd.readouterr()
    assert main(["test", str(suite), "--model", "./absent"]) == 3
    message = (
        f"error: --model: './absent' is no model and no directory in {suite.absolute().parent};"
    )
    assert message in capfd.readouterr().err
    assert main(["test", str(suite), "--model", "./model", "--model", "./model"]) == 3
    assert "error: --model: ../model, ../model has a model twice" in capfd.readouterr().err


def test_options_of_a_server_need_a_model(write, capfd):
    """An option that describes a server is refused without --model, where it has no effect."""
    suite = write(HOLDS)
    for options in (["--api", "vllm"], ["--prices", "1 USD / 1M tokens", "2 USD / 1M tokens"]):
        assert main(["test", suite, *options]) == 3
        message = f"error: {options[0]}: it describes the model of --model, which is missing"
        assert message in capfd.readouterr().err


def test_a_configuration_that_does_not_exist_is_named(write, capfd, tmp_path):
    """The message about an absent configuration begins with its path, not with the suite's."""
    assert main(["test", write(HOLDS), "--config", "absent.yaml"]) == 3
    path = tmp_path / "absent.yaml"
    assert f"error: {path}: absent, not a configuration file; " in capfd.readouterr().err


@pytest.mark.parametrize("place", ["--prices", "--versus-prices"])
def test_a_price_without_a_unit_is_named_by_its_option(capfd, place):
    """The message about a price begins with its option on either side of a comparison."""
    models = ["--model=openai:a", "--versus-model=openai:b"]
    command = ["compare", "P=? [ F refuses = 1 ]", "--user=x", *models, place, "1", "2"]
    assert main(command) == 3
    assert f"error: {place}: '1' is no price with a unit; write" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("options", "other"),
    [
        (["--json", "a", "--junit", "a"], "--json: a is also the file of --junit"),
        (["--html", "./suite.yaml"], "--html: suite.yaml is also the file of the suite"),
        (["--baseline", "a", "--json", "a"], "--json: a is also the file of --baseline"),
    ],
)
def test_two_files_of_one_name_are_refused(write, capfd, options, other):
    """No output overwrites another one, the suite or the baseline."""
    suite = Path(write(HOLDS))
    text = suite.read_text()
    assert main(["test", str(suite), *options]) == 3
    assert f"{other}; name another file" in capfd.readouterr().err
    assert suite.read_text() == text


def test_what_a_schema_does_not_assert_is_said_once(write, capfd):
    """A format that no draft has is reported with its place on standard error by both commands."""
    schema = {"properties": {"a": {"format": "int32"}}, "items": {"format": "date"}}
    notice = "schema['properties']['a']: format 'int32' is not one of the draft"
    suite = write({"json": schema, "at_least": 0}, {"json": schema, "at_most": 1})
    model = yaml.safe_load(Path(suite).read_text())["model"]
    check = ["check", "P>=0 [ F j = 2 ]", "--model", model, "--start", START, "--length", "2"]
    quantifier = f"j={{type: json, schema: {schema}}}"
    for command in (["test", suite], [*check, "--quantifier", quantifier]):
        _report_once.cache_clear()
        assert main(command) == 0
        printed = capfd.readouterr()
        assert printed.err.count(notice) == 1
        assert "'date'" not in printed.err


def test_all_outputs_are_written_and_the_run_continues(write, capfd, tmp_path):
    """Files have the verdicts, and a second run evaluates nothing."""
    suite = write(HOLDS, VIOLATED)
    options = ["--json", "r.jsonl", "--junit", "r.xml", "--markdown", "r.md", "--html", "r.html"]
    assert main(["test", suite, *options]) == 1
    first = capfd.readouterr()
    lines = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert [line["status"] for line in lines[1:]] == ["HOLDS", "VIOLATED"]
    assert ElementTree.parse(tmp_path / "r.xml").getroot().get("failures") == "1"
    assert "❌" in (tmp_path / "r.md").read_text()
    assert "VIOLATED" in (tmp_path / "r.html").read_text()
    stored = (tmp_path / "r.jsonl").read_bytes()
    assert main(["test", suite, *options]) == 1
    assert first.out == capfd.readouterr().out
    # the seconds of another evaluation would differ
    assert (tmp_path / "r.jsonl").read_bytes() == stored
    assert main(["test", suite, "--baseline", "r.jsonl"]) == 1
    assert "difference" not in capfd.readouterr().err


def test_a_report_in_an_assertion_shows_its_failures(write):
    """The representation has the counts and each failing case with its reason, on one line."""
    report = lc.suite(write(HOLDS, VIOLATED, UNKNOWN)).run()
    text = repr(report)
    assert text.startswith(
        "<SuiteReport 1 violated (certain), 1 unknown, 1 holds (certain); VIOLATED case 1: P<=0"
    )
    assert "UNKNOWN case 1: P>=0.5 [ F long > 8 ] (0.00" in text
    assert "violates it (long = 0))" in text
    assert "\n" not in text
    assert repr(lc.suite(write(HOLDS)).run()) == "<SuiteReport 1 holds (certain)>"


def test_an_output_that_cannot_be_written_fails_before_the_run(write, capfd, tmp_path):
    """A directory in place of a file is an error before any case."""
    assert main(["test", write(HOLDS), "--junit", str(tmp_path)]) == 3
    assert "--junit: it is the directory" in capfd.readouterr().err


def test_python_gives_frames(write, tmp_path):
    """`lc.suite(…).run()` has the verdicts, and a frame with a row for each case."""
    loaded = lc.suite(write(HOLDS, VIOLATED))
    report = loaded.run(results=tmp_path / "r.jsonl")
    frame = report.frame()
    assert list(frame["status"]) == ["HOLDS", "VIOLATED"]
    assert frame["prompt"].tolist() == [START] * 2
    assert (report.holds, report.exit_status) == (False, 1)
    assert "1 violated (certain), 1 holds (certain)" in str(report)
    assert len(report.aggregates()) == 0
    assert lc.suite(write(HOLDS), baseline=tmp_path / "r.jsonl").run().holds
    assert [entry.verdict for entry in report.entries] == ["HOLDS", "VIOLATED"]
    assert all(entry.figures.endswith(", certain") for entry in report.entries)


@pytest.mark.long
def test_help_is_quick_and_names_the_outputs():
    """`llmchecker test --help` loads neither torch nor Storm."""
    code = (
        "import sys; from llmchecker.interfaces.cli.main import main\n"
        "try: main(['test', '--help'])\n"
        "except SystemExit: print([m for m in ('torch', 'stormpy') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--junit" in run.stdout
    assert run.stdout.endswith("[]\n")


def test_a_command_asks_about_whole_answers_as_a_suite_does(write):
    """--length end:9 takes the place of the suite's length, as the key `length` is read."""
    query = "P>=0.5 [ G long < 3 ]"
    (changed,) = load_suite(write(query), changes=RunKeys(length="end:9")).cases
    (written,) = load_suite(write(query, length="end:9")).cases
    assert changed.question.query == written.question.query
    assert changed.question.query.text == 'P>=0.5 [ (G long < 3) & (F "end") ]'
    assert changed.question.length == written.question.length == 9


def test_the_shell_and_a_suite_build_the_same_question(tmp_path, monkeypatch):
    """A case and the arguments of `check` with the same values are one question."""
    monkeypatch.chdir(tmp_path)
    require = [{"not_contains": "he", "at_least": "0.5"}]
    case = {"user": "Is it?", "require": require, "length": "end:3", "budget": {"passes": 9}}
    (found,) = load(tmp_path, [case], system="Be kind.", seed=4).cases
    command = ["check", "--model", f"{tmp_path}/m", "--user", "Is it?", "--system", "Be kind."]
    command += ["--not-contains", "he", "--at-least", "0.5"]
    command += ["--length", "end:3", "--passes", "9", "--seed", "4"]
    arguments = build_parser(["check"]).parse_args(command)
    _, question = parse_question(arguments)
    for name in ("prompt", "query", "truncation", "budget"):
        assert getattr(found.question, name) == getattr(question, name)
    quantifiers = found.question.asked.quantifiers
    assert dict(quantifiers) == question.asked.quantifiers
    assert found.question.model.directory == question.model.directory


def test_a_run_of_the_last_failures_has_another_budget(write, capfd):
    """--last-failed, --filter and --fail-fast choose cases; --passes replaces the suite's."""
    suite = write(HOLDS, UNKNOWN)
    assert main(["test", suite]) == 2
    capfd.readouterr()
    assert main(["test", suite, "--last-failed", "--fail-fast", "--passes", "3"]) == 2
    assert "1 unknown" in capfd.readouterr().out
    assert main(["test", suite, "--answers", "few"]) == 3
    assert "--answers: 'few' is not of type integer" in capfd.readouterr().err
    assert main(["test", suite, "--length", "ends"]) == 3
    assert "--length: 'ends' is no length; write a number" in capfd.readouterr().err
    assert main(["test", suite, "--watch", "--json", "results.jsonl"]) == 3
    assert "--watch: results of a changed suite" in capfd.readouterr().err


def test_a_watched_suite_runs_again(write, capfd, monkeypatch):
    """An invalid suite does not end the watch; each change runs the suite once more."""
    suite = Path(write(HOLDS))
    changes = iter(["nothing: 1\n", suite.read_text()])

    def change(self) -> None:
        text = next(changes, None)
        if text is None:
            raise KeyboardInterrupt
        suite.write_text(text)

    monkeypatch.setattr("llmchecker.suites.watch.WatchedSuite.wait", change)
    assert main(["test", str(suite), "--watch"]) == 130
    out, err = capfd.readouterr()
    assert out.count("1 holds") == 2
    assert "unknown key 'nothing'" in err
