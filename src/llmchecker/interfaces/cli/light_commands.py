"""The commands that answer at once, without the imports of the other commands."""

import argparse
from collections.abc import Sequence

from llmchecker.interfaces.cli.list_commands import add_list_commands
from llmchecker.interfaces.cli.parser import COMMAND_HELP, create_parser
from llmchecker.interfaces.cli.summary_command import add_summary_command

_LIGHT_COMMANDS = ("models", "starts", "quantifiers", "queries", "summary")
_OPTIONS = ("-h", "--help", "-V", "--version")


def is_light(argv: Sequence[str]) -> bool:
    """Whether the parser of `build_light_parser` can run these arguments."""
    return not argv or argv[0] in (*_LIGHT_COMMANDS, *_OPTIONS)


def add_light_commands(commands: argparse._SubParsersAction) -> None:
    """Add the light commands to a command line."""
    add_list_commands(commands)
    add_summary_command(commands)


def build_light_parser() -> argparse.ArgumentParser:
    """Build the parser of the light commands; its help has the other commands too."""
    parser, commands = create_parser()
    for name, help_line in COMMAND_HELP.items():
        if name not in _LIGHT_COMMANDS:
            commands.add_parser(name, help=help_line)
    add_light_commands(commands)
    return parser
