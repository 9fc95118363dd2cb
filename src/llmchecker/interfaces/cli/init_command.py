"""The command `init`: a new suite, or one from a file of another program, and its workflow."""

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from llmchecker.config.deployment import (
    Deployment,
    DeploymentName,
    relate_name,
    resolve_deployment,
)
from llmchecker.config.registry import Registry
from llmchecker.errors import ConfigError
from llmchecker.interfaces.cli.arguments import (
    MODEL_HELP,
    add_server_arguments,
    name_deployment,
)
from llmchecker.interfaces.cli.parser import COMMAND_HELP, SubParsers, format_examples
from llmchecker.properties.assertions import parse_probability
from llmchecker.suites import starter
from llmchecker.suites.formats import DEFAULT_FORMAT, DEFAULT_PROBABILITY, is_float, load_converter
from llmchecker.suites.load import find_registry
from llmchecker.utils.atomic_files import atomic_write
from llmchecker.utils.exit_status import ExitStatus
from llmchecker.utils.installation import find_install_source


def add_init_command(commands: SubParsers) -> None:
    """Add the command `init` with its arguments."""
    init = commands.add_parser(
        "init",
        help=COMMAND_HELP["init"],
        description="Write a commented suite and a GitHub workflow that runs it. With --from, "
        "convert the prompts, tests and deterministic assertions of a promptfoo configuration, and "
        "list all else with its line.",
        **format_examples(
            "llmchecker init --model ./model",
            "llmchecker init --model hf:owner/name --install git+https://github.com/owner/name@main",
            "llmchecker init --from promptfooconfig.yaml --at-least 0.9",
        ),
    )
    init.set_defaults(run=_run_init)
    init.add_argument(
        "--from",
        dest="source",
        metavar="FILE",
        type=Path,
        help="file of another program that is converted, such as promptfooconfig.yaml",
    )
    init.add_argument(
        "--format",
        metavar="NAME",
        help="with --from, the format of the file, which an installed package converts "
        f"(default: {DEFAULT_FORMAT})",
    )
    init.add_argument(
        "--at-least",
        metavar="P",
        help="with --from, the probability of every assertion (default: that of the file, or "
        f"{DEFAULT_PROBABILITY})",
    )
    init.add_argument("--model", help=f"{MODEL_HELP} (default: the only model here)")
    add_server_arguments(init)
    init.add_argument(
        "--install",
        metavar="SOURCE",
        help="what pip installs in the workflow, git+https://…@commit or a wheel "
        "(default: what this package was installed from)",
    )
    init.add_argument("--directory", type=Path, default=Path(), help="where to write")


def _run_init(arguments: argparse.Namespace) -> int:
    folder = arguments.directory
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise ConfigError(f"--directory: {existing} is a file; name a directory")
    files: dict[str, bytes] = {}
    omissions: tuple[str, ...] = ()
    registry = find_registry(folder.absolute())
    if arguments.source is None:
        if arguments.at_least is not None:
            raise ConfigError("--at-least: it is for the assertions of --from; name a file there")
        if arguments.format is not None:
            raise ConfigError("--format: it is the format of --from; name a file there")
        name, deployment = _find_deployment(arguments, registry)
        files[starter.SUITE_NAME] = starter.format_starter_suite(deployment, name).encode()
    else:
        probability = None
        if arguments.at_least is not None:
            probability = _parse_at_least(arguments.at_least)
        model = None
        if arguments.model is not None:
            model, _ = _find_deployment(arguments, registry)
        if isinstance(model, Mapping):
            raise ConfigError("--model: an address has several keys; write them in the suite")
        convert = load_converter(arguments.format or DEFAULT_FORMAT)
        conversion = convert(arguments.source, probability, model)
        omissions = conversion.omissions
        files[starter.SUITE_NAME] = conversion.text.encode()
    install_source = arguments.install or find_install_source()
    if install_source is not None:
        files |= starter.build_workflow_files(install_source)
    # nothing of a user is overwritten, and nothing is written in part
    for name in files:
        if (folder / name).exists():
            raise ConfigError(f"{folder / name}: it exists; move it, or name another --directory")
    for name, content in files.items():
        with atomic_write(folder / name) as partial:
            partial.write_bytes(content)
        print(folder / name)
    if install_source is None:
        print(
            "no workflow: the repository of this installation is unknown; give --install "
            "git+https://…@commit, or a wheel",
            file=sys.stderr,
        )
    if omissions:
        print(f"not converted from {arguments.source}, or to be checked:", file=sys.stderr)
        print("\n".join(f"  {omission}" for omission in omissions), file=sys.stderr)
    return ExitStatus.SUCCESS


def _parse_at_least(text: str) -> Decimal:
    probability = parse_probability("--at-least", text)
    if not is_float(probability):
        raise ConfigError(f"--at-least: {probability} has more digits than a float; shorten it")
    return probability


def _find_deployment(
    arguments: argparse.Namespace, registry: Registry
) -> tuple[DeploymentName, Deployment]:
    """Return the model of the arguments, and its name in the suite."""
    folder = arguments.directory
    given = arguments.model or starter.find_model(registry, Path())
    # a directory of the current folder may have no slash
    if given not in registry.models and "/" not in given and Path(given).is_dir():
        given = f"./{given}"
    asked = name_deployment(given, arguments)
    name = relate_name(asked, folder)
    # a path that is not of the current folder is of that of the suite
    is_related = name != asked or not folder.is_dir()
    deployment = resolve_deployment(
        "--model", asked, registry, folder=Path() if is_related else folder
    )
    source = deployment.model.origin
    # the suite names the commit, so that every machine has the same model
    if isinstance(name, str) and name.startswith("hf:"):
        name = str(source)
    directory = deployment.model.given_directory
    if directory is not None and not directory.is_relative_to(folder.absolute()):
        print(
            f"--model: {directory} is not in {folder.absolute()}; the runner needs it",
            file=sys.stderr,
        )
    return name, replace(deployment, name=str(name))
