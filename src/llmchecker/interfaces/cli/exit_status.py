"""Exit statuses of the commands, and a parser of arguments that uses them.

Statuses 0, 1 and 2 are answers: see `checking.decision.EXIT_STATUS`. Errors have 3 and above.
"""

import argparse
import sys
from typing import NoReturn

from llmchecker.checking.decision import EXIT_STATUS, Outcome
from llmchecker.checking.verdict import Verdict
from llmchecker.properties.logic.query import Query

EXIT_ERROR = 3
EXIT_INTERRUPTED = 130
"""The shell's exit status for SIGINT: 128 + 2."""


class ArgumentParser(argparse.ArgumentParser):
    """A parser whose status for wrong arguments is that of an error, not of an answer."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message, and exit."""
        self.print_usage(sys.stderr)
        self.exit(EXIT_ERROR, f"{self.prog}: error: {message}\n")


def get_exit_status(query: Query, verdict: Verdict) -> int:
    """Return the exit status for a verdict: 0 for a number, else that of its outcome."""
    if query.is_numeric:
        return 0
    # without bounds and estimate nothing is known
    outcome = Outcome.UNKNOWN if verdict.decision is None else verdict.decision.outcome
    return EXIT_STATUS[outcome]
