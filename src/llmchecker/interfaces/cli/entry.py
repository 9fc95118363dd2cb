"""Entry point of the command, with a Ctrl-C handler before large imports."""

import signal
import sys

from llmchecker.utils.processes import install_sigint_handler


def run() -> None:
    """Run one command and exit with its status."""
    install_sigint_handler()
    # Imported after the handler is installed, because the imports take long.
    from llmchecker.interfaces.cli.light_commands import build_light_parser, is_light
    from llmchecker.interfaces.cli.parser import run_command

    if is_light(sys.argv[1:]):
        status = run_command(build_light_parser())
    else:
        from llmchecker.interfaces.cli.main import main

        status = main()
    # The output is complete, and Python could only print a traceback for an interrupt at exit.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(status)
