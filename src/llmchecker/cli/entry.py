"""Where the command begins: Ctrl-C is one line from here on, before anything large is imported."""

import sys

from llmchecker.processes import tell_interrupts


def run() -> None:
    """Run one command and exit with its status."""
    tell_interrupts()
    from llmchecker.cli.main import main

    sys.exit(main())
