"""A Slurm of one node, this machine, for as long as a test needs it."""

import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

SBIN = ("/usr/sbin", "/sbin")
PROGRAMS = ("munged", "mungekey", "slurmctld", "slurmd", "sinfo", "srun", "scancel", "setpriv")
SECONDS_TO_WAIT = 60

# cgroups, a data base and a service manager are not needed for one node
CONF = """\
ClusterName=llmchecker
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={directory}/munge.socket
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
# finished jobs stay visible, since no accounting remembers them
MinJobAge=3600
ReturnToService=2
GresTypes=gpu
{node} NodeAddr=127.0.0.1 Port={node_port} Gres=gpu:1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""

# a device that every machine has stands for a GPU: it is granted, never opened
GRES = "Name=gpu File=/dev/null\n"

# inside a job the plugin takes all SLURM_ variables, SLURM_CONF too, from the call of srun
SRUN = """\
#!/bin/sh
SLURM_CONF='{configuration}' exec '{srun}' "$@"
"""


@contextmanager
def one_node(directory: Path) -> Iterator[dict[str, str]]:
    """Run munge and Slurm by hand, and yield the environment in which its commands find it.

    Everything lies in `directory`; neither root nor a service is needed. Jobs and daemons are
    stopped whatever happens. FileNotFoundError if Slurm is not installed; RuntimeError, with what
    the daemons logged, if it does not start.
    """
    programs = _programs()
    environment = _write_configuration(directory, programs)
    munge = directory / "munge"
    subprocess.run([programs["mungekey"], "--create", f"--keyfile={munge}.key"], check=True)
    munged = ["munged", "--foreground", f"--key-file={munge}.key", f"--socket={munge}.socket"]
    munged += [f"--pid-file={munge}.pid", f"--seed-file={munge}.seed"]
    # munge would refuse a directory that only its owner may enter, as tests have them
    munged += ["--force"]
    starts = [
        (munged, Path(f"{munge}.socket").exists),
        (["slurmctld", "-D"], lambda: _state(environment) != ""),
        (["slurmd", "-D"], lambda: _state(environment) == "idle"),
    ]
    with ExitStack() as daemons:
        for (name, *options), is_up in starts:
            command = [programs["setpriv"], "--pdeathsig=TERM", programs[name], *options]
            log = directory / f"{name}.log"
            daemon = daemons.enter_context(_running(command, log, environment))
            if not _wait(lambda d=daemon, up=is_up: up() or d.poll() is not None) or not is_up():
                raise RuntimeError(f"{name} does not start\n{logs(directory)}")
        daemons.callback(_cancel_jobs, environment)
        yield environment


def logs(directory: Path) -> str:
    """Every log below a directory, each under its name."""
    found = sorted(directory.rglob("*.log"))
    return "\n".join(f"--- {path}\n{path.read_text(errors='replace')}" for path in found)


def _programs() -> dict[str, str]:
    search = os.pathsep.join([os.environ["PATH"], *SBIN])
    programs = {name: shutil.which(name, path=search) for name in PROGRAMS}
    missing = ", ".join(name for name, path in programs.items() if path is None)
    if missing:
        raise FileNotFoundError(f"{missing} not found. Debian: apt-get install slurm-wlm munge")
    return programs


def _write_configuration(directory: Path, programs: dict[str, str]) -> dict[str, str]:
    """Write the files of a cluster, and return the variables that name them."""
    # no free port is promised to stay free, but nobody else is likely to take it at once
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        controller_port, node_port = first.getsockname()[1], second.getsockname()[1]
    hardware = subprocess.run(
        [programs["slurmd"], "-C"], check=True, capture_output=True, encoding="utf-8"
    )
    configuration, srun = directory / "slurm.conf", directory / "bin/srun"
    conf = CONF.format(
        host=socket.gethostname().split(".")[0],
        user=pwd.getpwuid(os.getuid()).pw_name,
        directory=directory,
        controller_port=controller_port,
        node_port=node_port,
        node=hardware.stdout.splitlines()[0],
    )
    for name in ("state", "spool", "bin"):
        (directory / name).mkdir()
    configuration.write_text(conf, encoding="utf-8")
    (directory / "gres.conf").write_text(GRES, encoding="utf-8")
    srun.write_text(SRUN.format(configuration=configuration, srun=programs["srun"]))
    srun.chmod(0o755)
    path = os.pathsep.join([str(srun.parent), os.environ["PATH"], *SBIN])
    return {"PATH": path, "SLURM_CONF": str(configuration)}


@contextmanager
def _running(
    command: list[str], log: Path, environment: dict[str, str]
) -> Iterator[subprocess.Popen]:
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command, stdout=stream, stderr=subprocess.STDOUT, env=os.environ | environment
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _state(environment: dict[str, str]) -> str:
    """The state of the node; empty while the controller does not answer."""
    command = ["sinfo", "--noheader", "--format=%T"]
    return subprocess.run(
        command, env=os.environ | environment, capture_output=True, encoding="utf-8"
    ).stdout.strip()


def _cancel_jobs(environment: dict[str, str]) -> None:
    """End what still runs: a job outlives the daemon that started it."""
    for state in ("PENDING", "RUNNING"):
        subprocess.run(["scancel", f"--state={state}"], env=os.environ | environment)
    _wait(lambda: _state(environment) == "idle")


def _wait(condition: Callable[[], bool]) -> bool:
    """Whether a condition came true in time."""
    end = time.monotonic() + SECONDS_TO_WAIT
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.2)
    return True
