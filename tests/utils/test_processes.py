"""Processes end together with the one that started them, even if that one is killed."""

import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux can do this")

COMMAND = """
import subprocess, sys, time
from llmchecker.utils.processes import DieWithParent
child = subprocess.Popen(["sleep", "600"], start_new_session=True, preexec_fn=DieWithParent())
print(child.pid, flush=True)
time.sleep(600)
"""
POOL = """
import os, time
from concurrent.futures import ProcessPoolExecutor
from llmchecker.utils.processes import WorkerInitializer, kill_children_on_error
def work(number):
    os.write(1, f"{os.getpid()}\\n".encode())  # in one piece, as the other worker writes there too
    time.sleep(600)
with ProcessPoolExecutor(2, initializer=WorkerInitializer()) as pool, kill_children_on_error():
    list(pool.map(work, range(2)))
"""
JOB = """
import os, time
from llmchecker.utils.processes import die_with_run
die_with_run()
print(os.getpid(), flush=True)
time.sleep(600)
"""
RUN = f"""
import subprocess, sys
subprocess.run(["sh", "-c", '"$0" -c "$1"; true', sys.executable, {JOB!r}])
"""


def ended(pid: int) -> bool:
    """Whether a process ends, for which it is waited as long as the slowest machine may take."""
    for _ in range(600):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False


@pytest.mark.few(3)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    ("code", "children", "arguments"),
    [(COMMAND, 1, []), (POOL, 2, []), (RUN, 1, ["snakemake"])],
    ids=["command", "pool", "job of a run"],
)
def test_children_end_with_their_parent(code, children, arguments, how):
    """Whatever ends a process, what it started ends too: commands, workers, jobs of a run."""
    command = [sys.executable, "-c", code, *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    # whoever runs tests in the background may have had Ctrl-C ignored
    heeding = {"preexec_fn": partial(signal.signal, signal.SIGINT, signal.SIG_DFL)}
    with subprocess.Popen(command, **pipes, **heeding) as process:
        try:
            started = [int(process.stdout.readline()) for _ in range(children)]
            process.send_signal(how)
            process.wait(60)
        finally:
            process.kill()
    assert all(map(ended, started))


@pytest.mark.long
def test_a_job_that_no_run_started_goes_on():
    """What was started by hand does not end with the shell that started it."""
    command = [sys.executable, "-c", RUN]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        job = int(process.stdout.readline())
        process.kill()
        process.wait()
    time.sleep(1.5)
    assert Path(f"/proc/{job}").exists()
    subprocess.run(["kill", str(job)], check=True)


_HALF_IMPORTED = """
import sys
from llmchecker.interfaces.cli import entry
from llmchecker.interfaces.cli import main

def interrupted():
    try:
        raise KeyboardInterrupt
    finally:
        try:
            import half_a_module
        except ImportError as error:
            raise RuntimeError("it cannot be saved") from error

sys.argv = ["llmchecker", "check"]
main.build_parser = lambda *_: Parser()

class Parser:
    def parse_known_args(self, argv):
        return self, []
    def run(self, arguments):
        interrupted()

entry.run()
"""


def test_what_fails_because_of_an_interrupt_is_an_interrupt():
    """If Ctrl-C leaves something behind with which nothing can be saved, one line says so."""
    run = subprocess.run(
        [sys.executable, "-c", _HALF_IMPORTED],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stdout) == (130, "interrupted\n")


_ANSWERED = """
import ctypes
import sys
from llmchecker.interfaces.cli import entry
from llmchecker.interfaces.cli import main

libc = ctypes.CDLL(None)
# the last thing that the process does, after all of Python has ended
libc.__cxa_atexit(libc.getchar, None, None)
sys.argv = ["llmchecker", "check"]
main.main = lambda: print("answered", flush=True) or 0
entry.run()
"""


@pytest.mark.long
def test_an_interrupt_after_the_answer_changes_nothing():
    """A command that has said everything ends well if Ctrl-C comes while Python ends."""
    run = subprocess.Popen(
        [sys.executable, "-c", _ANSWERED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert run.stdout.readline() == "answered\n"
    time.sleep(1)  # Python ends meanwhile
    run.send_signal(signal.SIGINT)
    printed, _ = run.communicate("\n")
    assert (run.returncode, printed) == (0, "")
