"""The command `repair`: clear damaged results and stale locks."""

import argparse
from pathlib import Path

from llmchecker.interfaces.cli.parser import COMMAND_HELP, SubParsers
from llmchecker.interfaces.snakemake.recovery import Repair, RepairAction, find_repairs
from llmchecker.utils.exit_status import ExitStatus
from llmchecker.utils.number_format import format_count


def add_repair_command(commands: SubParsers) -> None:
    """Add the command `repair` to a command line."""
    parser = commands.add_parser(
        "repair",
        help=COMMAND_HELP["repair"],
        description="Rename damaged results and models to NAME.damaged, so that the next run "
        "recreates them. Remove unfinished files and the lock of a killed run. The exit status is "
        "0 without remaining damage, 1 if --dry-run found necessary repairs, and 3 if a run is "
        "active in the directory.",
    )
    parser.add_argument(
        "directory",
        type=Path,
        nargs="?",
        default=Path(),
        help="directory of the project (default: the current one)",
    )
    parser.add_argument(
        "--dry-run", "-n", action="store_true", help="list the repairs without applying them"
    )
    parser.set_defaults(run=_run_repair)


def _run_repair(arguments: argparse.Namespace) -> int:
    repairs = find_repairs(arguments.directory)
    for repair in repairs:
        print(_format_repair(repair) if arguments.dry_run else _apply_repair(repair))
    if not repairs:
        print(f"{arguments.directory}: nothing to repair")
        return ExitStatus.SUCCESS
    count = format_count(len(repairs), "repair")
    if arguments.dry_run:
        print(f"{arguments.directory}: {count} to make; nothing was changed")
        return ExitStatus.VIOLATED
    print(f"{arguments.directory}: {count} made; the next run makes renamed files again")
    return ExitStatus.SUCCESS


def _format_repair(repair: Repair) -> str:
    return f"would {repair.action} {repair.path}: {repair.reason}"


def _apply_repair(repair: Repair) -> str:
    new_path = repair.apply()
    messages = {
        RepairAction.RENAME: f"renamed to {new_path}",
        RepairAction.REMOVE: "removed",
        RepairAction.UNLOCK: "unlocked",
    }
    return f"{messages[repair.action]}: {repair.reason}"
