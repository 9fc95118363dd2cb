"""The commands of the command line, each imported only if it runs.

An import of all commands takes seconds, which would delay lists, help and first messages. Installed
packages add commands by entry points: functions that add a parser, as `add_check_command` does.
Their modules load fast, because the list of commands needs them.
"""

import argparse
from collections.abc import Collection
from importlib import import_module

from llmchecker import __version__
from llmchecker.errors import ConfigError
from llmchecker.interfaces.cli.parser import COMMAND_HELP, ArgumentParser, SubParsers
from llmchecker.utils.plugins import COMMANDS, find_missing_plugin, find_plugins, load_plugin

_MODULES = {
    "check": "check_command",
    "tree": "tree_command",
    "compare": "compare_command",
    "test": "suite_command",
    "watch": "watch_command",
    "judge-check": "judge_check_command",
    "init": "init_command",
    "repair": "repair_command",
    "completion": "completion_command",
    "models": "list_commands",
    "starts": "list_commands",
    "quantifiers": "list_commands",
    "queries": "list_commands",
    "summary": "summary_command",
}
"""The module of each command; it has a function `add_…_command`."""


def build_parser(names: Collection[str] = frozenset(COMMAND_HELP)) -> argparse.ArgumentParser:
    """Build the parser of the named commands; its help lists the other commands too.

    Commands of installed packages are added unless a single command of this package is named, which
    needs no list.
    """
    parser: argparse.ArgumentParser = ArgumentParser(
        prog="llmchecker", description="Prove statements about the texts of a language model."
    )
    # With -V the options are as wide as the names of commands, so that each has one line.
    parser.add_argument("-V", "--version", action="version", version=f"%(prog)s {__version__}")
    commands: SubParsers = parser.add_subparsers(
        dest="command", metavar="command", title="commands"
    )
    for name, help_line in COMMAND_HELP.items():
        if name in names:
            module = import_module(f"{__package__}.{_MODULES[name]}")
            getattr(module, f"add_{name.replace('-', '_')}_command")(commands)
        else:
            commands.add_parser(name, help=help_line)
    if len(names) != 1 or not set(names) <= COMMAND_HELP.keys():
        _add_installed_commands(parser, commands, names)
    return parser


def _add_installed_commands(
    parser: argparse.ArgumentParser,
    commands: SubParsers,
    names: Collection[str],
) -> None:
    try:
        plugins = find_plugins(COMMANDS, "command")
    except ConfigError as error:
        parser.error(str(error))
    for name in names:
        if (message := find_missing_plugin(COMMANDS, name)) is not None:
            parser.error(message)
    for name, entry in plugins.items():
        # No installed package replaces a command of this package.
        if name in COMMAND_HELP:
            continue
        try:
            load_plugin(entry, "command")(commands)
        # A package that cannot be loaded must not hide the other commands.
        except ConfigError as error:
            if name in names:
                parser.error(str(error))
            commands.add_parser(name, help=f"not available: {error}".replace("%", "%%"))
