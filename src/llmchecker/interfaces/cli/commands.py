"""The commands of the command line, each imported only if it runs.

An import of all commands takes seconds, which would delay lists, help and first messages.
"""

import argparse
from collections.abc import Container
from importlib import import_module

from llmchecker.interfaces.cli.parser import COMMAND_HELP, create_parser

_MODULES = {
    "check": "check_command",
    "tree": "tree_command",
    "compare": "compare_command",
    "test": "suite_command",
    "init": "init_command",
    "verify": "verify_command",
    "repair": "repair_command",
    "completion": "completion_command",
    "models": "list_commands",
    "starts": "list_commands",
    "quantifiers": "list_commands",
    "queries": "list_commands",
    "summary": "summary_command",
}
"""The module of each command; it has a function `add_…_command`."""


def build_parser(names: Container[str] = frozenset(COMMAND_HELP)) -> argparse.ArgumentParser:
    """Build the parser of the named commands; its help lists the other commands too."""
    parser, commands = create_parser()
    for name, help_line in COMMAND_HELP.items():
        if name in names:
            module = import_module(f"{__package__}.{_MODULES[name]}")
            getattr(module, f"add_{name}_command")(commands)
        else:
            commands.add_parser(name, help=help_line)
    return parser
