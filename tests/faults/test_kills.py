"""Runs and commands that are killed or interrupted lose nothing, and leave nothing running."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.project import Project
from helpers.undisturbed import check_undisturbed

pytestmark = [
    pytest.mark.slow,
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="processes are found by /proc"),
]

KILLS = 4
INTERRUPTS = 3
COMMANDS = 12
CASES = {
    "test_runs_that_are_killed_at_random_moments_lose_nothing": KILLS,
    "test_runs_that_are_interrupted_say_so_without_a_traceback": INTERRUPTS,
    "test_commands_that_are_interrupted_print_one_line": COMMANDS,
}
"""How many faults a test tries that tries more than one; docs/explanation/trust.md tells them."""

SECONDS_TO_END = 1.0
"""Jobs look for their run twice a second."""


@pytest.fixture
def moments() -> random.Random:
    """Random moments, the seed of which is printed; FAULTS_SEED repeats those of another run."""
    seed = int(os.environ.get("FAULTS_SEED", time.time_ns() % 10**6))
    print(f"FAULTS_SEED={seed}")
    return random.Random(seed)


def started(project: Project) -> subprocess.Popen:
    """A run of a project in a session of its own, as a terminal starts it."""
    return command(["-m", "snakemake", "--nocolor", "--cores", "2"], project.directory)


def command(arguments: list[str], directory: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=directory,
        env=os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONPATH": "", "PYTHONUTF8": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        start_new_session=True,
        # what runs in the background ignores Ctrl-C, and so would all that it starts
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def begun(run: subprocess.Popen, line: str) -> None:
    """Wait until a process prints a line; what was before is not this project's to tell."""
    for printed in run.stdout:
        if printed.startswith(line):
            return
    pytest.fail(f"it ended before it printed {line!r}")


def unlocked(project: Project) -> None:
    """Do what every target of make does before a run."""
    assert project.repair().returncode == 0


def working_in(directory: Path) -> list[str]:
    """The commands of the processes that work in a directory or below it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            place = (process / "cwd").resolve()
            if place.is_relative_to(directory) and (process / "cmdline").read_bytes():
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:  # it has ended
            continue
    return found


def check_all_ended(directory: Path) -> None:
    """Check that nothing works in a directory, after as long as processes may take to end."""
    # a machine that is busy with other things may take longer to end what has been killed
    until = time.monotonic() + 10 * SECONDS_TO_END
    while working_in(directory) and time.monotonic() < until:
        time.sleep(0.05)
    assert working_in(directory) == []


def test_runs_that_are_killed_at_random_moments_lose_nothing(
    fresh, undisturbed, moments, undisturbed_seconds
):
    """Killed again and again, a project ends with the results of one that was never disturbed."""
    for _ in range(KILLS):
        run = started(fresh)
        time.sleep(moments.uniform(0.1, 0.8) * undisturbed_seconds)
        run.kill()
        run.communicate()
        check_all_ended(fresh.directory)
        unlocked(fresh)
    last = fresh.snakemake("--cores", "2")
    assert last.returncode == 0, last.stdout
    assert "Traceback" not in last.stdout
    check_undisturbed(fresh, undisturbed)
    assert list(fresh.directory.rglob(".partial-*")) == []
    assert fresh.planned() == {}


def test_runs_that_are_interrupted_say_so_without_a_traceback(
    fresh, undisturbed, moments, undisturbed_seconds
):
    """Ctrl-C ends a run and its jobs, none of which shows a traceback, and the next run goes on."""
    for _ in range(INTERRUPTS):
        run = started(fresh)
        begun(run, "Assuming")  # which Snakemake prints once it has read the rules
        time.sleep(moments.uniform(0, 0.8) * undisturbed_seconds)
        os.killpg(run.pid, signal.SIGINT)
        printed, _ = run.communicate()
        assert "Traceback" not in printed, printed
        check_all_ended(fresh.directory)
        unlocked(fresh)
    last = fresh.snakemake("--cores", "2")
    assert last.returncode == 0, last.stdout
    check_undisturbed(fresh, undisturbed)


CHECK = ["check", "P=? [ F gender > 0 ]", "--start", "The player won because"]
COMMAND = [
    "-c",
    "from llmchecker.interfaces.cli.entry import run; print('begun', flush=True); run()",
]
SLOW = """
int main(void) {
  int a = 0, b = 0, n = __VERIFIER_nondet_int();
  while (a < n) { a++; b += a * a % 7; if (b > 1000) b -= a; }
  __VERIFIER_assert(b * b + a != 77);
  return 0;
}
"""


def test_commands_that_are_interrupted_print_one_line(project, moments):
    """Ctrl-C at any moment ends a command with the line `interrupted` and no traceback."""
    told = 0
    for number in range(COMMANDS):
        tree = ["--alpha", "0.9", "--k", str(3 + number), "--length", "3"]
        run = command([*COMMAND, *CHECK, *tree], project.directory)
        begun(run, "begun")
        time.sleep(moments.uniform(0.3, 6))
        run.send_signal(signal.SIGINT)
        printed, _ = run.communicate()
        assert "Traceback" not in printed, printed
        interrupted = printed.splitlines().count("interrupted")
        assert interrupted == (0 if run.returncode == 0 else 1), printed
        told += interrupted
    print(f"{told} of {COMMANDS} were interrupted before they had answered")
    assert told > 0


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_verification_ends_with_its_parent(how, tmp_path):
    """Whatever ends `llmchecker verify` on slow programs, its workers and ESBMC end with it."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for number in range(4):
        (programs / f"slow{number}.c").write_text(SLOW)
    arguments = [*COMMAND, "verify", str(programs), "--jobs", "4", "--semantics", "int32"]
    run = command(arguments, programs)
    until = time.monotonic() + 120
    while len(working_in(programs)) < 2 and time.monotonic() < until:
        assert run.poll() is None, run.communicate()[0]
        time.sleep(0.05)
    time.sleep(2)
    assert run.poll() is None, run.communicate()[0]
    assert len(working_in(programs)) > 1
    run.send_signal(how)
    began = time.monotonic()
    printed, _ = run.communicate()
    assert "Traceback" not in printed, printed
    check_all_ended(programs)
    print(f"all had ended after {time.monotonic() - began:.1f} s")
