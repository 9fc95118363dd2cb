"""`llmchecker test` that ends early: the verdicts so far are kept, and the next run continues."""

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
from helpers.suites import WORDS, OpenTable, write_suite

import llmchecker as lc
from llmchecker.interfaces.cli import suite_command
from llmchecker.interfaces.cli.main import main
from llmchecker.suites import session
from llmchecker.suites.json_lines import JsonLinesLog

OUTPUTS = ["--json", "r.jsonl", "--junit", "r.xml", "--markdown", "r.md", "--html", "r.html"]
SUITE = {
    "length": 20,
    "budget": {"passes": 5000},
    "properties": {"long": {"type": "length", "unit": "characters"}},
    "cases": [
        {"name": "quick", "start": "once", "require": {"trivial": "P>=1 [ F step = 0 ]"}},
        {"name": "slow", "start": "once", "require": {"long": "P>=0.5 [ F long > 56 ]"}},
    ],
}


@pytest.fixture
def suite(tmp_path, monkeypatch) -> str:
    """A suite in the current directory, whose first case is decided without a text."""
    monkeypatch.chdir(tmp_path)
    return write_suite(tmp_path, SUITE).name


def open_table(at_text: Callable[[int], None]) -> Callable[..., OpenTable]:
    """Open a table in place of every model; a function receives the number of each text."""
    texts = count(1)

    def distribute(tokens: Sequence[int]) -> list[float]:
        at_text(next(texts))
        return [0, 0.25, 0.25, 0.5]

    return lambda *_, **__: OpenTable(lc.TableModel(WORDS, distribute))


def interrupt(texts: int) -> Callable[[int], None]:
    """A function that presses Ctrl-C at a text."""
    return lambda number: os.kill(os.getpid(), signal.SIGINT) if number == texts else None


def test_ctrl_c_leaves_all_outputs_and_the_next_run_continues(suite, capfd, monkeypatch):
    """Ctrl-C prints and writes the verdicts so far, marked as incomplete, and exits with 130."""
    monkeypatch.setattr(session, "open_model", open_table(interrupt(50)))
    assert main(["test", suite, *OUTPUTS]) == 130
    printed = capfd.readouterr()
    note = "incomplete: the run ended early with 1 of 2 results"
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
    assert root.findtext(".//error") == root.findtext("testsuite/system-out") == note
    assert "1 of 2 results" in Path("r.md").read_text()
    assert note in Path("r.html").read_text()
    texts = []
    monkeypatch.setattr(session, "open_model", open_table(texts.append))
    assert main(["test", suite, *OUTPUTS]) in (0, 1, 2)
    printed = capfd.readouterr()
    assert "incomplete" not in printed.out + Path("r.html").read_text()
    assert json.loads(Path("r.jsonl").read_text().splitlines()[0])["complete"]
    assert "slow: long" in printed.out


def test_ctrl_c_without_a_file_says_how_to_keep_results(suite, capfd, monkeypatch):
    """Without --json, the note names the option that would keep results."""
    monkeypatch.setattr(session, "open_model", open_table(interrupt(50)))
    assert main(["test", suite]) == 130
    assert "--json FILE would keep them" in capfd.readouterr().err


def test_ctrl_c_while_a_model_loads_is_short(suite, capfd, monkeypatch):
    """An interrupt before the first text exits with 130, without verdicts or a traceback."""

    def load(*_, **__) -> OpenTable:
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("the interrupt came before")

    monkeypatch.setattr(session, "open_model", load)
    assert main(["test", suite, "--junit", "r.xml"]) == 130
    printed = capfd.readouterr()
    assert "with 0 of 2 results" in printed.out
    assert "Traceback" not in printed.out + printed.err
    assert ElementTree.parse("r.xml").getroot().get("errors") == "1"


def test_a_second_ctrl_c_ends_at_once(suite, capfd, monkeypatch):
    """An interrupt while the outputs are written ends the command, with 130 too."""
    monkeypatch.setattr(session, "open_model", open_table(interrupt(50)))

    def press_again(*_) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(suite_command, "write_html", press_again)
    assert main(["test", suite, *OUTPUTS]) == 130
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.endswith("interrupted\n")
    assert "Traceback" not in printed.err


def test_an_error_that_ends_the_run_leaves_the_verdicts_so_far(suite, capfd, monkeypatch):
    """A full disk after the first case is an error with status 3, after the verdicts so far."""
    added, add = [], JsonLinesLog.add

    def fail(log, case, result) -> None:
        added.append(case.name)
        if len(added) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "r.jsonl")
        add(log, case, result)

    monkeypatch.setattr(JsonLinesLog, "add", fail)
    monkeypatch.setattr(session, "open_model", open_table(lambda number: None))
    assert main(["test", suite, "--json", "r.jsonl"]) == 3
    printed = capfd.readouterr()
    assert "HOLDS    quick: trivial" in printed.out
    assert "with 1 of 2 results" in printed.out
    assert printed.err.splitlines()[-1].startswith("error: r.jsonl: cannot be used: No space left")


_SLOW_RUN = """
import sys, time
from helpers.suites import WORDS, OpenTable
import llmchecker as lc
from llmchecker.interfaces.cli import entry
from llmchecker.suites import session

def distribute(tokens):
    print("begun", file=sys.stderr, flush=True)
    time.sleep(0.1)
    return [0, 0.25, 0.25, 0.5]

session.open_model = lambda *_, **__: OpenTable(lc.TableModel(WORDS, distribute))
sys.argv = ["llmchecker", "test", "suite.yaml", "--json", "r.jsonl", "--junit", "r.xml"]
entry.run()
"""


@pytest.mark.long
@pytest.mark.few(1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_process_that_is_signalled_can_continue(suite, number):
    """SIGINT to a real process writes the outputs and exits with 130; SIGTERM ends it at once, and
    the file of the results remains."""
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
    assert "with 1 of 2 results" in out
    assert err.endswith("interrupted\n")
    assert ElementTree.parse("r.xml").getroot().get("errors") == "1"
