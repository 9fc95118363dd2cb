"""Exit statuses of all commands.

The module imports no package, so that it is available where an import failed.
"""

from enum import IntEnum


class ExitStatus(IntEnum):
    """The exit status of a command."""

    SUCCESS = 0
    """An answer that holds or is a number, or a finished command."""
    VIOLATED = 1
    """A violated query or requirement, a false program, or necessary repairs."""
    UNKNOWN = 2
    """An answer that is not decided."""
    ERROR = 3
    """An error, which is no answer. Python's own status 1 would be that of a violated query."""
    INTERRUPTED = 130
    """Ctrl-C: the shell's status for SIGINT, 128 + 2."""
