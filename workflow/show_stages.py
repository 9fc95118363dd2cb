"""Run a command of Snakemake, and show each job as one line.

    python workflow/show_stages.py snakemake --cores all

A line has the share of finished jobs and the message of the rule. If the run fails, the end of
Snakemake's output follows. The exit status is that of Snakemake.
"""

import re
import signal
import subprocess
import sys
from collections import deque

_MAX_LINES = 60
"""Maximum number of lines of output after a failure."""

_MESSAGE = re.compile(r"Job \d+: (.+)")
_PROGRESS = re.compile(r"\d+ of \d+ steps \((\d+)%\) done")


def main(command: list[str]) -> int:
    """Run the command and return its exit status."""
    process = subprocess.Popen(
        command, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, errors="replace"
    )
    # Ctrl-C reaches Snakemake too, which ends its jobs and reports that.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: process.terminate())
    last_lines = deque(maxlen=_MAX_LINES)
    percent = 0
    for line in process.stdout:
        last_lines.append(line)
        if match := _PROGRESS.match(line):
            percent = int(match[1])
        elif match := _MESSAGE.match(line):
            print(f"[{percent:3}%] {match[1]}", flush=True)
    status = process.wait()
    if status != 0:
        sys.stderr.writelines(last_lines)
    # A shell reports a signal as 128 plus its number.
    return 128 - status if status < 0 else status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
