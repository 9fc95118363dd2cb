"""The command line: one query on one model, without a run of the workflow.

    llmchecker check "P=? [ F gender > 0 ]" --start "The player won because"
    llmchecker check "P=? [ F gender > 0 ]" --model smollm2-135m --start "The player won because" \\
        --alpha 0.8 --k 15 --length 3
    llmchecker tree --query "P=? [ F gender > 0 ]" --model smollm2-135m \\
        --start "The player won because" --alpha 0.8 --k 5 --length 2 --output tree.svg
    llmchecker init --from promptfooconfig.yaml
    llmchecker test suite.yaml --junit results.xml
    llmchecker verify program.c --semantics int32
    llmchecker repair --dry-run
    llmchecker models

Standard output contains the answer only; progress, logs and errors go to standard error. The exit
status of `check` is 0 for a number and for a query that holds, 1 for a violated query and 2 for an
unknown one. `test` exits with 0 if all requirements hold, 1 if some are violated, and 2 if some are
unknown. An error has 3, and an interrupt 130. `verify` exits with 0 if all programs are verified, 1
if a program is false, and 2 otherwise. `compare` exits with 0 if the sides are decided, and else
with 2. `repair --dry-run` exits with 1 if repairs are necessary.

A config defines models, quantifiers and the settings of trees. Its paths, and the paths of models
and trees, are relative to the project. The project is the checkout that contains the config, or
else the config's folder.
"""

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from llmchecker.errors import ConfigError, MachineLimit
from llmchecker.interfaces.cli.answer_page import check_page_file, write_answer_page
from llmchecker.interfaces.cli.arguments import (
    add_budget_arguments,
    add_request_arguments,
    add_truncation_arguments,
    parse_request,
)
from llmchecker.interfaces.cli.ask_command import (
    describe_ask_costs,
    format_ask_json,
    format_ask_text,
    run_ask,
)
from llmchecker.interfaces.cli.assertion_arguments import (
    add_assertion_arguments,
    parse_asked_query,
)
from llmchecker.interfaces.cli.check_command import (
    describe_check_costs,
    draw_tree,
    format_check_json,
    format_check_text,
    run_check,
)
from llmchecker.interfaces.cli.compare_command import add_compare_command
from llmchecker.interfaces.cli.completion_command import add_completion_command
from llmchecker.interfaces.cli.exit_status import get_exit_status
from llmchecker.interfaces.cli.init_command import add_init_command
from llmchecker.interfaces.cli.light_commands import add_light_commands
from llmchecker.interfaces.cli.output import print_answer, redirect_stdout
from llmchecker.interfaces.cli.parser import COMMAND_HELP, create_parser, run_command
from llmchecker.interfaces.cli.repair_command import add_repair_command
from llmchecker.interfaces.cli.suite_command import add_test_command
from llmchecker.interfaces.cli.verify_command import add_verify_command
from llmchecker.reporting import tree_drawing
from llmchecker.utils.atomic_files import atomic_write


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    Raises:
        SystemExit: from argparse, with 0 for --help and 3 for arguments that do not parse.
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
    check.add_argument("query", nargs="?", help='such as "P=? [ F gender > 0 ]"')
    add_request_arguments(check)
    add_assertion_arguments(check)
    add_truncation_arguments(check, required=False)
    add_budget_arguments(check)
    check.add_argument("--json", action="store_true", help="print one JSON object")
    check.add_argument(
        "--html", type=Path, metavar="FILE", help="also write the answer as one page for a browser"
    )
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
    add_request_arguments(tree)
    add_truncation_arguments(tree, required=True)
    tree.add_argument(
        "--format",
        choices=tree_drawing.FORMATTERS,
        help="file format (default: by the suffix of --output, or svg)",
    )
    tree.add_argument("--output", type=Path, help="a file (default: standard output)")
    add_compare_command(commands)
    add_test_command(commands)
    add_init_command(commands)
    add_verify_command(commands)
    add_repair_command(commands)
    add_completion_command(commands, parser)
    add_light_commands(commands)
    return parser


def _run_check(arguments: argparse.Namespace) -> int:
    asked = parse_asked_query(arguments)
    if asked is None:
        raise ConfigError("check: no query; write one, or an assertion such as --contains")
    # An assertion stands for a query, which the user can extend.
    if asked.is_assertion:
        logging.info("the same as %s", asked.format_command())
    failure = None
    # Before the work, and before the current directory changes.
    page = None if arguments.html is None else check_page_file(arguments.html)
    with redirect_stdout(), parse_request(arguments) as request:
        if request.budget is None:
            answer = run_check(request)
            verdict, details = answer.verdict, describe_check_costs(answer)
            output = format_check_json(answer) if arguments.json else format_check_text(answer)
        else:
            anytime_answer = run_ask(request)
            verdict, failure = anytime_answer.result.verdict, anytime_answer.failure
            details = describe_ask_costs(anytime_answer)
            output = (
                format_ask_json(anytime_answer)
                if arguments.json
                else format_ask_text(anytime_answer)
            )
    print_answer(output)
    if page is not None:
        write_answer_page(page, request, verdict, details)
    # the error follows the answer so far
    if failure is not None:
        raise failure
    return get_exit_status(request.query, verdict)


def _run_tree(arguments: argparse.Namespace) -> int:
    output = arguments.output
    default_format = "dot" if output and output.suffix in (".dot", ".gv") else "svg"
    with redirect_stdout(), parse_request(arguments) as request:
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
