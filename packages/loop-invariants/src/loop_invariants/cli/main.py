"""The command `loop-invariants`, which llmchecker offers as `llmchecker verify`.

    loop-invariants program.c
    loop-invariants prove program.c --invariant 'line 7: 2*s == i*(i-1)'
    loop-invariants program.c --model ./model --witness program.yml
    loop-invariants directory/of/programs --jobs 2 --without relations

The module imports no package that loads slowly, because llmchecker lists its commands with it.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from llmchecker import __version__
from llmchecker.interfaces.cli import entry
from llmchecker.interfaces.cli.parser import ArgumentParser, run_command
from loop_invariants.ir.expressions import Semantics
from loop_invariants.ir.instrumentation import Property
from loop_invariants.verification.result import BUILTIN_SOURCES, check_seconds

_DESCRIPTION = (
    "Verify C programs without a model. The programs and their runs suggest loop invariants, Z3 "
    "proves them, and ESBMC confirms the result."
)


def run() -> None:
    """Run `loop-invariants` and exit with its status."""
    entry.run("loop_invariants.cli.main")


def main(argv: Sequence[str] | None = None) -> int:
    """Verify the programs of the arguments and return the exit status.

    Raises:
        SystemExit: from argparse, with 0 for --help and 3 for arguments that do not parse.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    # A command that proves may say so: `loop-invariants prove file.c --invariant ...`.
    if len(arguments) > 1 and arguments[0] == "prove" and not Path("prove").exists():
        del arguments[0]
    parser = ArgumentParser(prog="loop-invariants", description=_DESCRIPTION)
    parser.add_argument("-V", "--version", action="version", version=f"%(prog)s {__version__}")
    _add_arguments(parser)
    return run_command(parser, arguments)


def add_verify_command(commands: "argparse._SubParsersAction[ArgumentParser]") -> None:
    """Add the command `verify` to the command line of llmchecker."""
    parser = commands.add_parser(
        "verify",
        help="verify C programs with suggested loop invariants",
        description=_DESCRIPTION,
    )
    _add_arguments(parser)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, help="C file, or directory of C files")
    parser.add_argument(
        "--semantics",
        type=Semantics,
        choices=list(Semantics),
        default=Semantics.INT32,
        help="machine integers of 32 bits that wrap, or the paper's mathematical integers "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--seconds",
        type=_parse_seconds,
        default=60.0,
        help="time limit of one program in seconds by the clock (default: %(default)g)",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        help="number of parallel programs (default: the machine's cores, here %(default)s)",
    )
    parser.add_argument(
        "--without",
        action="append",
        choices=[str(source) for source in BUILTIN_SOURCES],
        default=[],
        help="disabled source of candidates; repeatable",
    )
    parser.add_argument(
        "--invariant",
        action="append",
        metavar="TEXT",
        default=[],
        help="invariant of the loop in a line, as 'line 7: 2*s == i*(i-1)'; repeatable. Each "
        "counts with its proof only",
    )
    parser.add_argument(
        "--model",
        help="language model that proposes invariants: a name of the configuration, a directory, "
        "hf:owner/name, or a provider's model. Each counts with its proof only",
    )
    parser.add_argument(
        "--answers",
        type=int,
        choices=range(1, 31),
        metavar="N",
        help="answers of the model to each of two prompts for a loop, from 1 to 30 (default: 10)",
    )
    parser.add_argument("--seed", type=int, help="seed of the answers (default: 0)")
    parser.add_argument(
        "--property",
        type=Property,
        choices=list(Property),
        default=Property.ASSERT,
        help="property to verify: every assertion, no call of reach_error, or no signed overflow "
        "and division by zero (default: %(default)s)",
    )
    parser.add_argument(
        "--errors",
        metavar="NAMES",
        default="sv-comp",
        help="errors that are named otherwise, separated by commas: the sets cbmc, cpachecker, "
        "klee, seahorn, sv-comp, or check(c), fail(), LABEL: (default: %(default)s)",
    )
    parser.add_argument(
        "--witness",
        type=Path,
        metavar="FILE",
        help="write the invariants of the proof of one program as a correctness witness of SV-COMP "
        "(format 2.0)",
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print one JSON object")
    output.add_argument(
        "--jsonl", action="store_true", help="print a JSON object for each program, on a line"
    )
    parser.add_argument(
        "--resume",
        type=Path,
        metavar="FILE",
        help="JSON lines: skip the programs with a verdict in this file, and add the others",
    )
    parser.set_defaults(run=_run)


def _parse_seconds(text: str) -> float:
    """Parse the argument of `--seconds`."""
    try:
        return check_seconds(float(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from error


def _run(arguments: argparse.Namespace) -> int:
    # Imported here, because the list of commands needs only the parser.
    from loop_invariants.cli.verify_command import run_verify

    return run_verify(arguments)
