"""The command `init`: a new suite, or one from a promptfoo configuration."""

import argparse
import json
import sys
from decimal import Decimal
from pathlib import Path

from llmchecker.config.deployment import relate_name
from llmchecker.errors import ConfigError
from llmchecker.interfaces.cli.parser import COMMAND_HELP, SubParsers
from llmchecker.suites import starter
from llmchecker.suites.assertions import parse_probability
from llmchecker.suites.promptfoo.convert import convert_promptfoo
from llmchecker.utils.atomic_files import atomic_write
from llmchecker.utils.exit_status import ExitStatus

_DEFAULT_PROBABILITY = "0.95"


def add_init_command(commands: SubParsers) -> None:
    """Add the command `init` with its arguments."""
    init = commands.add_parser(
        "init",
        help=COMMAND_HELP["init"],
        description="Write a commented suite and a GitHub workflow that runs it. With --from, "
        "convert the prompts, tests and deterministic assertions of a promptfoo configuration, and "
        "list all else with its line.",
    )
    init.set_defaults(run=_run_init, error_status=3)
    init.add_argument("--from", dest="source", type=Path, help="a promptfooconfig.yaml")
    init.add_argument(
        "--at-least",
        metavar="P",
        help=f"with --from, the probability of every assertion (default: {_DEFAULT_PROBABILITY})",
    )
    init.add_argument("--model", help="the model of the suite")
    init.add_argument("--directory", type=Path, default=Path(), help="where to write")


def _run_init(arguments: argparse.Namespace) -> int:
    folder = arguments.directory
    model = None if arguments.model is None else str(relate_name(arguments.model, folder))
    files = {}
    omissions: tuple[str, ...] = ()
    if arguments.source is None:
        if arguments.at_least is not None:
            raise ConfigError("--at-least: it is for the assertions of --from; name a file there")
        # a text in a YAML file must be quoted as a directory may have any name
        files[starter.SUITE_NAME] = starter.SUITE.format(
            model=json.dumps(model or "./model", ensure_ascii=False)
        )
    else:
        probability = parse_probability("--at-least", arguments.at_least or _DEFAULT_PROBABILITY)
        # the reader of suites would read another number
        if Decimal(str(float(probability))) != probability:
            raise ConfigError(f"--at-least: {probability} has more digits than a float; shorten it")
        conversion = convert_promptfoo(arguments.source, probability, model)
        omissions = conversion.omissions
        files[starter.SUITE_NAME] = conversion.text
    files[starter.WORKFLOW_NAME] = starter.WORKFLOW
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise ConfigError(f"--directory: {existing} is a file; name a directory")
    # nothing of a user is overwritten, and nothing is written in part
    for name in files:
        if (folder / name).exists():
            raise ConfigError(f"{folder / name}: it exists; move it, or name another --directory")
    for name, text in files.items():
        with atomic_write(folder / name) as partial:
            partial.write_text(text, encoding="utf-8")
        print(folder / name)
    if omissions:
        print(f"not converted from {arguments.source}, or to be checked:", file=sys.stderr)
        print("\n".join(f"  {omission}" for omission in omissions), file=sys.stderr)
    return ExitStatus.SUCCESS
