"""Where the command begins: Ctrl-C is one line from here on, before anything large is imported."""

import signal
import sys

from llmchecker.processes import tell_interrupts


def run() -> None:
    """Run one command and exit with its status."""
    tell_interrupts()
    from llmchecker.cli.main import main

    status = main()
    # All is said, and while Python ends nobody can tell of an interrupt any more.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(status)
