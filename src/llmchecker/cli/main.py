"""The command line: one question to one model, without a run of the workflow.

    llmchecker check "P=? [ F gender > 0 ]" --start "The player won because"
    llmchecker check "P=? [ F gender > 0 ]" --model smollm2-135m --start "The player won because" \\
        --alpha 0.8 --k 15 --length 3
    llmchecker tree --query "P=? [ F gender > 0 ]" --model smollm2-135m \\
        --start "The player won because" --alpha 0.8 --k 5 --length 2 --output tree.svg
    llmchecker verify program.c --semantics int32

Only the answer goes to standard output; progress, logs and errors go to standard error. The exit
status is 0 with an answer, 2 if the question cannot be answered as asked, and 130 after an
interrupt. `verify` exits with 0 if all programs are verified, 1 if one is false, and else 2.

A config defines models, quantifiers and how trees are grown. Its paths, and those of models and
trees, are relative to the project: the checkout that holds the config, or else the config's folder.
"""

import argparse
import contextlib
import ctypes
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from llmchecker import logs
from llmchecker.cli.answers import answer_as_json, answer_as_text, draw_task, solve_task
from llmchecker.cli.inquiries import inquire_task, inquiry_as_json, inquiry_as_text
from llmchecker.cli.question import add_effort, add_task, task_asked
from llmchecker.cli.verify import add_verify
from llmchecker.errors import ConfigError, MachineLimit
from llmchecker.files import written_whole
from llmchecker.processes import is_interrupt
from llmchecker.publication import drawing

EXIT_ERROR = 2
EXIT_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    Raises:
        SystemExit: from argparse, with 0 for --help and 2 for arguments that do not parse.
    """
    arguments = argument_parser().parse_args(argv)
    with logs.shell_log():
        try:
            status = arguments.run(arguments)
            sys.stdout.flush()  # a closed pipe is met here rather than when Python ends
            return status
        except (KeyboardInterrupt, Exception) as error:
            if is_interrupt(error):
                print("interrupted", file=sys.stderr)
                return EXIT_INTERRUPTED
            if (message := logs.in_one_sentence(error)) is None:
                raise
            print(f"error: {message}", file=sys.stderr)
            if isinstance(error, BrokenPipeError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else Python writes to it once more
            return EXIT_ERROR


def argument_parser() -> argparse.ArgumentParser:
    """The commands and their arguments."""
    parser = argparse.ArgumentParser(
        prog="llmchecker", description="Proofs about what a language model writes."
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    check = commands.add_parser(
        "check",
        help="answer one query on what a model writes after a text",
        description="Answer one query on what a model writes after a text: bounds for the whole "
        "model, which are certain, and an estimate with a confidence interval. With --alpha and "
        "--k: the value on the tree of the paper, and bounds.",
    )
    check.set_defaults(run=_check)
    check.add_argument("query", help='such as "P=? [ F gender > 0 ]"')
    add_task(check, truncated=False)
    add_effort(check)
    check.add_argument(
        "--json", action="store_true", help="print one JSON object, and nothing else"
    )
    tree = commands.add_parser(
        "tree",
        help="draw what a model writes after a text",
        description="Draw the tree of what a model writes after a text, as SVG or DOT. With a "
        "query, also show the scores of the texts and the states that decide the query.",
    )
    tree.set_defaults(run=_tree)
    tree.add_argument(
        "--query", help='mark the states that decide it, as in "P=? [ F gender > 0 ]"'
    )
    add_task(tree, truncated=True)
    tree.add_argument("--format", choices=drawing.WRITERS, help="default: that of --output, or svg")
    tree.add_argument("--output", type=Path, help="a file (default: standard output)")
    add_verify(commands)
    return parser


def _check(arguments: argparse.Namespace) -> int:
    with _standard_output_kept_clean(), task_asked(arguments) as task:
        if task.effort is None:
            answered = solve_task(task)
            shown = answer_as_json(answered) if arguments.json else answer_as_text(answered)
        else:
            inquiry = inquire_task(task)
            shown = inquiry_as_json(inquiry) if arguments.json else inquiry_as_text(inquiry)
    if hasattr(sys.stdout, "reconfigure"):
        # A model may write characters that the terminal's encoding lacks.
        sys.stdout.reconfigure(errors="backslashreplace")
    print(shown if isinstance(shown, str) else json.dumps(shown, allow_nan=False))
    return 0


def _tree(arguments: argparse.Namespace) -> int:
    output = arguments.output
    by_suffix = "dot" if output and output.suffix in (".dot", ".gv") else "svg"
    with _standard_output_kept_clean(), task_asked(arguments) as task:
        drawn = draw_task(task)
    text = drawing.WRITERS[arguments.format or by_suffix](drawn)
    if output is None:
        sys.stdout.buffer.write(text.encode())
        return 0
    try:
        with written_whole(output) as partial:
            partial.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--output: {output} cannot be written: {error}") from error
    except MachineLimit as error:
        raise ConfigError(f"--output: {error}") from error
    return 0


@contextlib.contextmanager
def _standard_output_kept_clean() -> Iterator[None]:
    """Send what libraries print to standard error, whether they are written in Python or C++."""
    sys.stdout.flush()
    # C++ writes to the descriptor itself, which Python's redirection does not reach.
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        # C buffers what it prints into a pipe, and would write it to the answer's output later.
        ctypes.CDLL(None).fflush(None)
        os.dup2(kept, 1)
        os.close(kept)
