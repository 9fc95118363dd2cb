"""ESBMC as a command: its options, its limits, and searches of a text."""

import stat
import time
from pathlib import Path

import pytest
from helpers.marks import long_cases

from loop_invariants import limited_command
from loop_invariants.frontend.original_text import build_original_text
from loop_invariants.frontend.translation_unit import SV_COMP
from loop_invariants.ir.expressions import Semantics
from loop_invariants.ir.instrumentation import Property
from loop_invariants.limits import Limit
from loop_invariants.verification.bounded_search import BoundedSearch
from loop_invariants.verification.esbmc import EsbmcAnswer, EsbmcTask, build_options, run_text


def search(text: str, required_property=Property.ASSERT, seconds: float = 20):
    """Search a text by ESBMC."""
    original = build_original_text("p", text, required_property, SV_COMP, {})
    return BoundedSearch(original, Semantics.INT32).search(seconds)


SHORT = """
extern int __VERIFIER_nondet_int(void);
extern void __VERIFIER_assert(int);
int main(void) {
    int x = 0;
    for (int i = 0; i < 5; i++) if (__VERIFIER_nondet_int() == 1000 + i) x++;
    __VERIFIER_assert(x CHECK);
    return 0;
}
"""


@pytest.mark.long
def test_a_complete_search_has_no_violation():
    """The depth that is complete is at least the number of iterations."""
    found = search(SHORT.replace("CHECK", "<= 5"))
    assert found.is_complete
    assert found.depth >= 5
    assert not found.violation


@pytest.mark.long
def test_a_violation_has_all_of_its_inputs():
    """The inputs of every iteration are reported in order, used or not."""
    found = search(SHORT.replace("CHECK", "!= 5"))
    assert found.violation
    assert found.inputs.values == (1000, 1001, 1002, 1003, 1004)


@pytest.mark.parametrize(
    ("required_property", "is_found"),
    [
        (Property.ASSERT, True),
        *long_cases((Property.REACH, False), (Property.NO_OVERFLOW, False)),
    ],
)
def test_an_index_violates_only_the_property_that_names_it(required_property, is_found):
    """Under reach and no-overflow an index out of range is no violation."""
    text = (
        "extern void reach_error(void); extern int __VERIFIER_nondet_int(void); int main(void) { "
        "int a[3] = {0}; int i = __VERIFIER_nondet_int(); if (i < 0) i = 0; if (i > 3) i = 3; "
        "a[i] = 1; if (i > 3) reach_error(); return 0; }"
    )
    found = search(text, required_property)
    assert bool(found.violation) is is_found


@pytest.mark.long
def test_recursion_beyond_the_depth_is_not_complete():
    """The unwinding assertions of recursion hold too, or the search is not complete."""
    text = (
        "#include <assert.h>\nint f(int n) { return n <= 0 ? 0 : f(n - 1) + 1; }\n"
        "int main(void) { int r = f(20); assert(r == 20); return 0; }"
    )
    original = build_original_text("p", text, Property.ASSERT, SV_COMP, {})
    assert not BoundedSearch(original, Semantics.INT32).search(20, max_depth=8).is_complete


@pytest.mark.parametrize("required_property", Property)
def test_unwinding_assertions_are_an_option_of_each_run(required_property):
    """Each command states its depth, and whether longer runs are reported."""
    with_assertions, without = (
        build_options(
            EsbmcTask(Semantics.INT32, required_property, 8, has_unwinding_assertions=has)
        )
        for has in (True, False)
    )
    assert with_assertions[with_assertions.index("--unwind") + 1] == "8"
    assert "--no-unwinding-assertions" in without
    assert "--no-unwinding-assertions" not in with_assertions


def fake(tmp_path, monkeypatch, script: str) -> None:
    """Install a script as ESBMC."""
    binary = tmp_path / "esbmc"
    binary.write_text(f"#!/bin/sh\n{script}\n")
    binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("ESBMC", str(binary))


@pytest.mark.long
def test_a_tool_that_takes_too_long_is_ended(tmp_path, monkeypatch):
    """The processor time of a tool is limited, and the limit has its name."""
    fake(tmp_path, monkeypatch, "while :; do :; done")
    verdict = run_text("int main(void) { }", [], 1.0)
    assert (verdict.answer, verdict.limits) == (EsbmcAnswer.TIMEOUT, (Limit.ESBMC_TIME,))


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("exit 3", "no output; exit status 3"),
        ("kill -SEGV $$", "no output; exit status -11"),
        ("sleep 600 & exit 4", "no output; exit status 4"),
        ("exec yes", "output and files of more than 1 MB"),
        ("while :; do head -c 400000 /dev/zero >> $$.tmp; done", "output and files of more"),
    ],
)
def test_a_tool_without_an_answer_is_an_error_with_its_reason(
    script, message, tmp_path, monkeypatch
):
    """A crash, an open pipe of a child process and a full disk each have a message."""
    monkeypatch.setattr(limited_command, "_MAX_DISK_BYTES", 1 << 20)
    fake(tmp_path, monkeypatch, script)
    verdict = run_text("int main(void) { }", [], 5.0)
    assert verdict.answer is EsbmcAnswer.ERROR
    assert verdict.message.startswith(message)


def test_nonsense_is_shortened(tmp_path, monkeypatch):
    """A message shows the beginning of an output without a verdict only."""
    fake(tmp_path, monkeypatch, "head -c 100000 /dev/urandom | tr -d '\\n'")
    verdict = run_text("int main(void) { }", [], 5.0)
    assert verdict.answer is EsbmcAnswer.ERROR
    assert 0 < len(verdict.message) <= 300


def test_a_tool_that_cannot_start_is_named(tmp_path, monkeypatch):
    """A file that is no program is an error of the run, with its path and the reason."""
    binary = tmp_path / "esbmc"
    binary.write_bytes(b"\x7fELF")
    binary.chmod(0o755)
    monkeypatch.setenv("ESBMC", str(binary))
    verdict = run_text("int main(void) { }", [], 5.0)
    assert verdict.message == f"{binary} cannot be started: Exec format error"


def is_alive(pid: int) -> bool:
    """Return whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_no_child_process_outlives_a_tool(tmp_path, monkeypatch):
    """A child process in a session of its own is killed at the end of the run."""
    pid_file = tmp_path / "pid"
    fake(tmp_path, monkeypatch, f"setsid sh -c 'echo $$ > {pid_file}; exec sleep 600' & sleep 1")
    run_text("int main(void) { }", [], 5.0)
    pid = int(pid_file.read_text())
    # a killed process ends when the system runs it again
    for _ in range(200):
        if not is_alive(pid):
            return
        time.sleep(0.05)
    pytest.fail("the child process goes on")
