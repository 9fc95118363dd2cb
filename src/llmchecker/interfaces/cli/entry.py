"""Entry point of the command, with a Ctrl-C handler before large imports."""

import signal
import sys
import traceback
from importlib import import_module

from llmchecker.utils.exit_status import ExitStatus
from llmchecker.utils.processes import install_sigint_handler, is_interrupt


def run(module: str = "llmchecker.interfaces.cli.main") -> None:
    """Run one command and exit with its status.

    Args:
        module: the module of the function `main`, which runs the command and returns its status.
    """
    install_sigint_handler()
    try:
        # Imported after the handler is installed, because the imports take long.
        status = import_module(module).main()
    except (KeyboardInterrupt, Exception) as error:
        # an import that Ctrl-C interrupts may raise anything
        if is_interrupt(error):
            print("interrupted", file=sys.stderr)
            sys.exit(ExitStatus.INTERRUPTED)
        # Python's own status for it would be that of a violated query.
        traceback.print_exc()
        sys.exit(ExitStatus.ERROR)
    # The output is complete, and Python could only print a traceback for an interrupt at exit.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(status)
