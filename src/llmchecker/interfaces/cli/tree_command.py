"""The command `tree`: the drawing of a text tree, as SVG or DOT."""

import argparse
import contextlib
import logging
import sys
from pathlib import Path

from llmchecker.checking import witnesses
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.interfaces.cli.arguments import (
    add_question_arguments,
    add_truncation_arguments,
    parse_process,
    parse_question,
)
from llmchecker.interfaces.cli.output import redirect_stdout, write_output_file
from llmchecker.interfaces.cli.parser import COMMAND_HELP, SubParsers, format_examples
from llmchecker.interfaces.cli.tree_cache import load_or_build_tree
from llmchecker.properties.property import Property
from llmchecker.reporting import tree_drawing
from llmchecker.trees.text_tree import TextTree
from llmchecker.utils.exit_status import ExitStatus


def add_tree_command(commands: SubParsers) -> None:
    """Add the command `tree` to a command line."""
    parser = commands.add_parser(
        "tree",
        help=COMMAND_HELP["tree"],
        description="Draw the text tree of a model after a start string, as SVG or DOT. With a "
        "query, the drawing also has scores and deciding states.",
        **format_examples(
            'llmchecker tree --model ./model --start "The nurse said that" --alpha 0.8 --k 3 '
            "--length 2 --output tree.svg",
        ),
    )
    parser.set_defaults(run=_run_tree)
    parser.add_argument(
        "--query", help='query whose deciding states are marked, such as "P=? [ F gender > 0 ]"'
    )
    add_question_arguments(parser)
    add_truncation_arguments(parser, required=True)
    parser.add_argument(
        "--format",
        choices=tree_drawing.FORMATTERS,
        help="file format (default: by the suffix of --output, or svg)",
    )
    parser.add_argument("--output", type=Path, help="a file (default: standard output)")


def _run_tree(arguments: argparse.Namespace) -> int:
    output = arguments.output
    default_format = "dot" if output and output.suffix in (".dot", ".gv") else "svg"
    with redirect_stdout():
        if arguments.query is None:
            registry, model, prompt, truncation = parse_process(arguments)
            asked = None
        else:
            registry, question = parse_question(arguments)
            model, prompt, truncation = question.model, question.prompt, question.truncation
            asked = question.asked
        # alpha, k and the length are required
        assert truncation is not None
        with contextlib.chdir(registry.project):
            tree, _, _ = load_or_build_tree(registry, model, prompt, truncation)
            drawing = _draw_tree(tree, asked)
    text = tree_drawing.FORMATTERS[arguments.format or default_format](drawing)
    if output is None:
        # Binary, so that the encoding of the terminal does not change the file.
        sys.stdout.buffer.write(text.encode())
        return ExitStatus.SUCCESS
    write_output_file("--output", output, text)
    return ExitStatus.SUCCESS


def _draw_tree(tree: TextTree, asked: Property | None) -> tree_drawing.Drawing:
    """Draw a tree; with a query, also scores and deciding states."""
    if asked is None:
        return tree_drawing.Drawing(tree, {}, {})
    scored = ScoredTree.from_quantifiers(tree, asked.quantifiers)
    if not witnesses.has_witnesses(asked.query):
        logging.info("no single text decides a query of this form, so no state is marked")
    deciding_states = witnesses.find_witnesses(scored, asked.query, max_witnesses=None)
    return tree_drawing.Drawing(
        tree, scored.scores, {witness.uid: witness.kind for witness in deciding_states}
    )
