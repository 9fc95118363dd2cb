"""`llmchecker test`: verdicts on standard output, files, and an exit status for scripts."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from helpers.suites import WORDS, OpenTable

import llmchecker as lc
from llmchecker.interfaces.cli import suite_command
from llmchecker.interfaces.cli.main import main
from llmchecker.suites import session
from llmchecker.suites.json_lines import JsonLinesLog

START = "The player won because"
HOLDS = "P>=1 [ F step = 0 ]"
VIOLATED = "P<=0 [ F step = 0 ]"
UNKNOWN = "P>=0.5 [ F long > 8 ]"


@pytest.fixture
def write(tmp_path, random_model, monkeypatch):
    """A function that writes a suite with requirements, and returns its path as text."""
    monkeypatch.chdir(tmp_path)

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
    assert len([line for line in printed.out.splitlines() if "case 1: P" in line]) == len(require)
    assert "All verdicts together have confidence 0.99" in printed.out


def test_unknown_requirements_can_be_allowed(write, capfd):
    """With --allow-unknown, unknown requirements do not fail the run."""
    assert main(["test", write(HOLDS, UNKNOWN), "--allow-unknown"]) == 0
    assert "UNKNOWN" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"model": "absent"}, "'absent' is no directory and no model"),
        ({"cases": [{"user": "So?", "require": [HOLDS]}]}, "no chat template; use a start string"),
    ],
)
def test_errors_have_the_status_3(write, capfd, keys, message):
    """An invalid suite and a case that fails to run exit with 3."""
    assert main(["test", write(HOLDS, **keys)]) == 3
    printed = capfd.readouterr()
    assert message in printed.out + printed.err


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
    assert main(["test", suite, *options]) == 1
    second = capfd.readouterr()
    assert first.out == second.out
    assert "0 passes" in second.err
    assert main(["test", suite, "--baseline", "r.jsonl"]) == 1
    assert "difference" not in capfd.readouterr().err


def open_table(at_text: Callable[[int], None]) -> Callable[..., OpenTable]:
    """Open a table in place of every model; a function receives the number of each text."""
    texts = count(1)

    def distribute(tokens: Sequence[int]) -> list[float]:
        at_text(next(texts))
        return [0, 0.25, 0.25, 0.5]

    return lambda *_, **__: OpenTable(lc.TableModel(WORDS, distribute))


OUTPUTS = ["--json", "r.jsonl", "--junit", "r.xml", "--markdown", "r.md", "--html", "r.html"]
LONG = {"length": 20, "budget": {"passes": 5000}}
TWO_CASES = {
    "cases": [
        {"name": "quick", "start": "once", "require": {"trivial": HOLDS}},
        {"name": "slow", "start": "once", "require": {"long": "P>=0.5 [ F long > 56 ]"}},
    ],
    **LONG,
}


def interrupt(texts: int) -> Callable[[int], None]:
    """A function that presses Ctrl-C at a text."""
    return lambda number: os.kill(os.getpid(), signal.SIGINT) if number == texts else None


def test_ctrl_c_leaves_all_outputs_and_the_next_run_continues(write, capfd, monkeypatch):
    """Ctrl-C prints and writes the verdicts so far, marked as incomplete, and exits with 130."""
    suite = write(**TWO_CASES)
    monkeypatch.setattr(session, "open_deployment", open_table(interrupt(50)))
    assert main(["test", suite, *OUTPUTS]) == 130
    printed = capfd.readouterr()
    note = "incomplete: the run ended early, 1 of 2 cases have a result"
    assert printed.out.splitlines()[0].startswith("HOLDS    quick: trivial")
    assert note in printed.out.splitlines()
    assert "slow" not in printed.out
    assert f"{note}; run the same command again to continue with r.jsonl" in printed.err
    assert printed.err.endswith("interrupted\n")
    assert "Traceback" not in printed.err
    header, *lines = map(json.loads, Path("r.jsonl").read_text().splitlines())
    assert (header["complete"], [line["status"] for line in lines]) == (False, ["HOLDS"])
    root = ElementTree.parse("r.xml").getroot()
    # a reader that knows only tests sees an error
    assert (root.get("tests"), root.get("errors")) == ("2", "1")
    assert root.findtext(".//error") == root.findtext(".//system-out") == note
    assert "1 of 2 cases" in Path("r.md").read_text()
    assert note in Path("r.html").read_text()
    texts = []
    monkeypatch.setattr(session, "open_deployment", open_table(texts.append))
    assert main(["test", suite, *OUTPUTS]) in (0, 1, 2)
    printed = capfd.readouterr()
    assert "incomplete" not in printed.out + Path("r.html").read_text()
    assert json.loads(Path("r.jsonl").read_text().splitlines()[0])["complete"]
    assert "slow: long" in printed.out


def test_ctrl_c_without_a_file_says_how_to_keep_results(write, capfd, monkeypatch):
    """Without --json, the note names the option that would keep results."""
    monkeypatch.setattr(session, "open_deployment", open_table(interrupt(50)))
    assert main(["test", write(**TWO_CASES)]) == 130
    assert "--json FILE would keep them" in capfd.readouterr().err


def test_ctrl_c_while_a_model_loads_is_short(write, capfd, monkeypatch):
    """An interrupt before the first text exits with 130, without verdicts or a traceback."""

    def load(*_, **__) -> OpenTable:
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("the interrupt came before")

    monkeypatch.setattr(session, "open_deployment", load)
    assert main(["test", write(**TWO_CASES), "--junit", "r.xml"]) == 130
    printed = capfd.readouterr()
    assert "0 of 2 cases have a result" in printed.out
    assert "Traceback" not in printed.out + printed.err
    assert ElementTree.parse("r.xml").getroot().get("errors") == "1"


def test_a_second_ctrl_c_ends_at_once(write, capfd, monkeypatch):
    """An interrupt while the outputs are written ends the command, with 130 too."""
    monkeypatch.setattr(session, "open_deployment", open_table(interrupt(50)))

    def press_again(*_) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(suite_command, "write_html", press_again)
    assert main(["test", write(**TWO_CASES), *OUTPUTS]) == 130
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.endswith("interrupted\n")
    assert "Traceback" not in printed.err


def test_an_error_that_ends_the_run_leaves_the_verdicts_so_far(write, capfd, monkeypatch):
    """A full disk after the first case is an error with status 3, after the verdicts so far."""
    added, add = [], JsonLinesLog.add

    def fail(log, case, result) -> None:
        added.append(case.name)
        if len(added) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "r.jsonl")
        add(log, case, result)

    monkeypatch.setattr(JsonLinesLog, "add", fail)
    monkeypatch.setattr(session, "open_deployment", open_table(lambda number: None))
    assert main(["test", write(**TWO_CASES), "--json", "r.jsonl"]) == 3
    printed = capfd.readouterr()
    assert "HOLDS    quick: trivial" in printed.out
    assert "1 of 2 cases have a result" in printed.out
    assert printed.err.splitlines()[-1].startswith("error: r.jsonl: cannot be used: No space left")


_SLOW_RUN = """
import sys, time
from helpers.suites import WORDS, OpenTable
import llmchecker as lc
from llmchecker.interfaces.cli import entry
from llmchecker.suites import session

def distribute(tokens):
    print("begun", file=sys.stderr, flush=True)
    time.sleep(0.01)
    return [0, 0.25, 0.25, 0.5]

session.open_deployment = lambda *_, **__: OpenTable(lc.TableModel(WORDS, distribute))
sys.argv = ["llmchecker", "test", "suite.yaml", "--json", "r.jsonl", "--junit", "r.xml"]
entry.run()
"""


@pytest.mark.few(1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_process_that_is_signalled_can_continue(write, number):
    """SIGINT to a real process writes the outputs and exits with 130; SIGTERM ends it at once, and
    the file of the results remains."""
    write(**TWO_CASES)
    root = Path(__file__).parents[3]
    run = subprocess.Popen(
        [sys.executable, "-c", _SLOW_RUN],
        env=os.environ | {"PYTHONPATH": f"{root / 'src'}:{root / 'tests'}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # what runs in the background ignores Ctrl-C, and so would all that it starts
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    while (line := run.stderr.readline()) and line != "begun\n":
        pass
    time.sleep(0.3)
    run.send_signal(number)
    out, err = run.communicate(timeout=120)
    header, *lines = map(json.loads, Path("r.jsonl").read_text().splitlines())
    assert (header["complete"], [line["case"] for line in lines]) == (False, ["quick: trivial"])
    assert "Traceback" not in err
    if number == signal.SIGTERM:
        assert run.returncode == -signal.SIGTERM
        return
    assert run.returncode == 130
    assert "1 of 2 cases have a result" in out
    assert err.endswith("interrupted\n")
    assert ElementTree.parse("r.xml").getroot().get("errors") == "1"


def test_a_report_in_an_assertion_shows_its_failures(write):
    """The representation has the counts and each failing case with its reason, on one line."""
    report = lc.suite(write(HOLDS, VIOLATED, UNKNOWN)).run()
    text = repr(report)
    assert text.startswith("<SuiteReport 1 violated, 1 unknown, 1 holds; VIOLATED case 1: P<=0")
    assert "UNKNOWN case 1: P>=0.5 [ F long > 8 ] (1 pass used; " in text
    assert "\n" not in text
    assert repr(lc.suite(write(HOLDS)).run()) == "<SuiteReport 1 holds>"


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
    assert "1 violated, 1 holds" in str(report)
    assert len(report.aggregates()) == 0
    assert lc.suite(write(HOLDS), baseline=tmp_path / "r.jsonl").run().holds
    assert [entry.verdict for entry in report.entries] == ["HOLDS, certain", "VIOLATED, certain"]


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
