"""The command line: one query on one model, without a run of the workflow.

    llmchecker check "P=? [ F gender > 0 ]" --start "The player won because"
    llmchecker check "P=? [ F gender > 0 ]" --model smollm2-135m --start "The player won because" \\
        --alpha 0.8 --k 15 --length 3
    llmchecker tree --query "P=? [ F gender > 0 ]" --model smollm2-135m \\
        --start "The player won because" --alpha 0.8 --k 5 --length 2 --output tree.svg
    llmchecker verify program.c --semantics int32
    llmchecker repair --dry-run
    llmchecker models

Standard output contains the answer only; progress, logs and errors go to standard error. The exit
status is 0 with an answer, 2 if the request cannot be answered, and 130 after an interrupt.
`verify` exits with 0 if all programs are verified and 1 if a program is false. Otherwise it exits
with 2, for example for a program without an assertion. `repair --dry-run` exits with 1 if repairs
are necessary.

A config defines models, quantifiers and the settings of trees. Its paths, and the paths of models
and trees, are relative to the project. The project is the checkout that contains the config, or
else the config's folder.
"""

import argparse
import contextlib
import ctypes
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from llmchecker.errors import ConfigError, MachineLimit
from llmchecker.interfaces.cli.arguments import (
    add_budget_arguments,
    add_request_arguments,
    parse_request,
)
from llmchecker.interfaces.cli.ask_command import format_ask_json, format_ask_text, run_ask
from llmchecker.interfaces.cli.check_command import (
    draw_tree,
    format_check_json,
    format_check_text,
    run_check,
)
from llmchecker.interfaces.cli.completion_command import add_completion_command
from llmchecker.interfaces.cli.light_commands import add_light_commands
from llmchecker.interfaces.cli.parser import COMMAND_HELP, create_parser, run_command
from llmchecker.interfaces.cli.repair_command import add_repair_command
from llmchecker.interfaces.cli.verify_command import add_verify_command
from llmchecker.reporting import tree_drawing
from llmchecker.utils.atomic_files import atomic_write


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    Raises:
        SystemExit: from argparse, with 0 for --help and 2 for arguments that do not parse.
    """
    return run_command(_build_parser(), argv)


def _build_parser() -> argparse.ArgumentParser:
    """Build the parser of all commands and their arguments."""
    parser, commands = create_parser()
    check = commands.add_parser(
        "check",
        help=COMMAND_HELP["check"],
        description="Check one query on the texts of a model after a start string. The answer has "
        "certain bounds for the whole model and an estimate with a confidence interval. With "
        "--alpha and --k, it has bounds and the value on the tree of the paper.",
    )
    check.set_defaults(run=_run_check)
    check.add_argument("query", help='query, such as "P=? [ F gender > 0 ]"')
    add_request_arguments(check, requires_truncation=False)
    add_budget_arguments(check)
    check.add_argument("--json", action="store_true", help="print one JSON object")
    tree = commands.add_parser(
        "tree",
        help=COMMAND_HELP["tree"],
        description="Draw the text tree of a model after a start string, as SVG or DOT. With a "
        "query, the drawing also has scores and deciding states.",
    )
    tree.set_defaults(run=_run_tree)
    tree.add_argument(
        "--query", help='query whose deciding states are marked, such as "P=? [ F gender > 0 ]"'
    )
    add_request_arguments(tree, requires_truncation=True)
    tree.add_argument(
        "--format",
        choices=tree_drawing.FORMATTERS,
        help="file format (default: by the suffix of --output, or svg)",
    )
    tree.add_argument("--output", type=Path, help="file to write (default: standard output)")
    add_verify_command(commands)
    add_repair_command(commands)
    add_completion_command(commands, parser)
    add_light_commands(commands)
    return parser


def _run_check(arguments: argparse.Namespace) -> int:
    with _redirect_stdout(), parse_request(arguments) as request:
        if request.budget is None:
            answer = run_check(request)
            output = format_check_json(answer) if arguments.json else format_check_text(answer)
        else:
            anytime_answer = run_ask(request)
            output = (
                format_ask_json(anytime_answer)
                if arguments.json
                else format_ask_text(anytime_answer)
            )
    if hasattr(sys.stdout, "reconfigure"):
        # A model may generate characters that the terminal's encoding lacks.
        sys.stdout.reconfigure(errors="backslashreplace")
    print(output if isinstance(output, str) else json.dumps(output, allow_nan=False))
    return 0


def _run_tree(arguments: argparse.Namespace) -> int:
    output = arguments.output
    default_format = "dot" if output and output.suffix in (".dot", ".gv") else "svg"
    with _redirect_stdout(), parse_request(arguments) as request:
        drawing = draw_tree(request)
    text = tree_drawing.FORMATTERS[arguments.format or default_format](drawing)
    if output is None:
        # Binary, so that the encoding of the terminal does not change the file.
        sys.stdout.buffer.write(text.encode())
        return 0
    try:
        with atomic_write(output) as partial:
            partial.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--output: {output} cannot be written: {error}") from error
    except MachineLimit as error:
        raise ConfigError(f"--output: {error}") from error
    return 0


@contextlib.contextmanager
def _redirect_stdout() -> Iterator[None]:
    """Redirect the output of libraries in Python and C++ to standard error."""
    sys.stdout.flush()
    # C++ writes to the descriptor itself, which Python's redirection does not reach.
    stdout_copy = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        # C buffers its output to a pipe, and would later write it to the answer's output.
        ctypes.CDLL(None).fflush(None)
        os.dup2(stdout_copy, 1)
        os.close(stdout_copy)
