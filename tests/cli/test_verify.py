"""`llmchecker verify` tells an outcome for every file, whatever becomes of the others."""

import json
import os
import signal
from pathlib import Path

import pytest

from llmchecker.cli import verify
from llmchecker.cli.main import main
from llmchecker.proving.outcomes import Outcome, Verification

NAMES = ("a", "b", "c", "d", "e")


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    for name in NAMES:
        (tmp_path / f"{name}.c").write_text("int main(void) { return 0; }")
    return tmp_path


def dying(file: Path, **_: object) -> verify.Told:
    """Die as a process does to which the system gives no more memory."""
    if file.stem in ("b", "d"):
        os.kill(os.getpid(), signal.SIGKILL)
    return verify.Told(Verification(Outcome.VERIFIED))


def out_of_memory(*_: object) -> Verification:
    raise MemoryError


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_a_worker_that_dies_ends_its_file_alone(programs, jobs, monkeypatch, capsys) -> None:
    """Each file whose worker dies is named as killed, and all others have their outcome."""
    monkeypatch.setattr(verify, "_verify", dying)
    assert main(["verify", str(programs), "--jobs", str(jobs)]) == 2
    *lines, total = capsys.readouterr().out.splitlines()
    told = {line.split("\t")[0]: line for line in lines}
    assert list(told) == list(NAMES)
    for name, line in told.items():
        expected = "killed" if name in ("b", "d") else "verified"
        assert line.split("\t")[1] == expected
    assert "where memory runs out" in told["b"]
    assert "3 verified, 2 killed" in total


def test_memory_that_runs_out_is_told(programs, monkeypatch, capsys) -> None:
    """A program that takes more memory than there is ends with a message, not with a traceback."""
    monkeypatch.setattr("llmchecker.reading.parsing.read_program", out_of_memory)
    assert main(["verify", str(programs / "a.c")]) == 2
    assert "killed" in (line := capsys.readouterr().out)
    assert "more memory than there is" in line


MIXED = {
    "false": "int main() { int n; assume(n > 0); int i = 0; while (i < n) i++; assert(i < 3); }",
    "true": "int main() { int i = 0; while (i < 9) i++; assert(i == 9); }",
    "unread": "int main() { float x = 0; }",
}


@pytest.mark.parametrize(
    ("names", "status"), [(("true",), 0), (("true", "unread"), 2), (tuple(MIXED), 1)]
)
def test_the_exit_status_tells_the_verdict(names, status, tmp_path, capsys) -> None:
    """0 if all are verified, 1 if one is false, 2 if there is no verdict on one."""
    for name in names:
        (tmp_path / f"{name}.c").write_text(MIXED[name])
    assert main(["verify", str(tmp_path)]) == status


def test_json_holds_what_is_printed(tmp_path, capsys) -> None:
    """One JSON object has verdicts, invariants with line and sources, and the run that fails."""
    for name, text in MIXED.items():
        (tmp_path / f"{name}.c").write_text(text)
    witnesses = tmp_path / "witnesses"
    arguments = ["--json", "--property", "assert", "--witness", str(witnesses)]
    assert main(["verify", str(tmp_path), *arguments]) == 1
    told = json.loads(capsys.readouterr().out)
    by_name = {p["program"]: p for p in told["programs"]}
    assert {n: p["verdict"] for n, p in by_name.items()} == {
        "false": "false",
        "true": "true",
        "unread": "unknown",
    }
    (invariant,) = by_name["true"]["invariants"]
    assert (invariant["line"], invariant["text"]) == (1, "i <= 9")
    heads = [event["values"] for event in by_name["false"]["run"] if "values" in event]
    assert [head["i"] for head in heads] == list(range(heads[0]["n"] + 1))
    assert heads[0]["n"] >= 3
    assert sorted(path.name for path in witnesses.iterdir()) == ["false.yml", "true.yml"]


def test_a_violation_is_printed_as_a_run(tmp_path, capsys) -> None:
    """Below the verdict stand the values drawn, the values at each loop's head, and what fails."""
    (tmp_path / "false.c").write_text(MIXED["false"])
    main(["verify", str(tmp_path / "false.c")])
    first, *run = capsys.readouterr().out.splitlines()
    assert first.startswith("false\tfalse\t")
    assert run[0].startswith("    n draws ")
    assert any(event.endswith("line 1, loop: i = 0, n = " + run[0].split()[-1]) for event in run)
    assert run[-1] == "    line 1: the assertion fails"


def test_rounds_that_are_alike_are_told_once(tmp_path, capsys) -> None:
    """A run of a million rounds is told in a few lines, which say how many rounds were repeated."""
    path = tmp_path / "late.c"
    path.write_text("int main() { int i = 0; while (i < 1000000) i++; assert(i < 1000000); }")
    assert main(["verify", str(path)]) == 1
    printed = capsys.readouterr().out.splitlines()
    main(["verify", str(path), "--json"])
    (told,) = json.loads(capsys.readouterr().out)["programs"]
    repeated = [event for event in told["run"] if "repeated" in event]
    heads = [event["values"]["i"] for event in told["run"] if "values" in event]
    made = len(heads) - 1 - len(repeated)
    assert made + sum(event["rounds"] * event["repeated"] for event in repeated) == 1_000_000
    assert heads[-1] == 1_000_000
    assert f"    line 1, loop: the last round {repeated[0]['repeated']:,} times more" in printed
    assert len(printed) < 30


def test_numbers_without_borders_are_not_asked_for_overflow(tmp_path, capsys) -> None:
    """Overflow is a question about machine integers, and it is answered there."""
    (tmp_path / "p.c").write_text("int main() { int i = 2147483647; i = i + 1; }")
    asked = ["verify", str(tmp_path / "p.c"), "--property", "no-overflow"]
    assert main(asked) == 2
    assert "--semantics int32" in capsys.readouterr().err
    assert main([*asked, "--semantics", "int32"]) == 1
