"""The lines that a run of Snakemake is shortened to."""

import signal
import subprocess
import sys
import time
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "workflow/show_stages.py"
RUN = """
Building DAG of jobs...
[Wed Jan  1 00:00:00 2020]
Job 2: Growing the tree
12:00:00 growing
1 of 4 steps (25%) done
Job 1: Drawing the tree
"""


def show(code: str) -> subprocess.CompletedProcess:
    """The result of a command in place of Snakemake."""
    command = [sys.executable, SCRIPT, sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_each_job_is_one_line():
    """Of a successful run, the output has the messages of jobs and the share before them."""
    run = show(f"import sys; sys.stderr.write({RUN!r})")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == "[  0%] Growing the tree\n[ 25%] Drawing the tree\n"


def test_a_failed_run_shows_the_end_of_its_output():
    """After a failure, the last lines and the exit status are those of Snakemake."""
    run = show(f"import sys; sys.stderr.write({RUN!r} + 'error: no memory\\n'); sys.exit(3)")
    assert run.returncode == 3
    assert run.stderr.endswith("error: no memory\n")


def test_an_interrupt_ends_the_run_and_is_reported():
    """Snakemake ends by itself after Ctrl-C, and its last lines are shown."""
    code = "import signal, time; print('Job 1: waiting', flush=True); signal.pause()"
    command = [sys.executable, SCRIPT, sys.executable, "-c", code]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as run:
        assert run.stdout.readline() == "[  0%] waiting\n"
        time.sleep(0.2)
        # as a terminal does: to all processes of the command
        subprocess.run(["kill", "-INT", "--", f"-{run.pid}"], check=True)
        _, printed = run.communicate(timeout=60)
    assert run.returncode == 128 + signal.SIGINT
    assert "KeyboardInterrupt" in printed
