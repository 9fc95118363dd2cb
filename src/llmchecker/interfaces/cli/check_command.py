"""The command `check`; with alpha and k, it answers on the tree of the paper."""

import argparse
import contextlib
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmchecker.checking.question import Question
from llmchecker.config.judges import charge_judges
from llmchecker.config.registry import Registry
from llmchecker.interfaces.cli.answer_output import (
    build_answer_rows,
    format_answer_json,
    write_answer_page,
)
from llmchecker.interfaces.cli.arguments import (
    add_budget_arguments,
    add_question_arguments,
    add_truncation_arguments,
    parse_question,
)
from llmchecker.interfaces.cli.assertion_arguments import (
    add_assertion_arguments,
)
from llmchecker.interfaces.cli.check_on_model import check_on_model
from llmchecker.interfaces.cli.display import show_rows
from llmchecker.interfaces.cli.output import (
    check_output_file,
    print_answer,
    redirect_stdout,
)
from llmchecker.interfaces.cli.parser import COMMAND_HELP, SubParsers, format_examples
from llmchecker.interfaces.cli.tree_cache import load_or_build_tree
from llmchecker.models.decoding.chat_template import find_prompt_date, format_date_notes
from llmchecker.models.decoding.settings import Decoding
from llmchecker.models.servers.spending import Spending
from llmchecker.models.sources.checksums import read_checksums
from llmchecker.models.sources.weight_notes import describe_weights
from llmchecker.trees.text_tree import Truncation

# Imported for types only: Storm takes a second to load, which would delay --help.
if TYPE_CHECKING:
    from llmchecker.checking.answer import Answer


def add_check_command(commands: SubParsers) -> None:
    """Add the command `check` to a command line."""
    parser = commands.add_parser(
        "check",
        help=COMMAND_HELP["check"],
        description="Check one query on the texts of a model after a start string. The answer has "
        "certain bounds for the whole model and an estimate: an interval with a confidence. With "
        "--alpha and --k, it has bounds and the bounded probability of the paper's tree.",
        **format_examples(
            'llmchecker check "P=? [ F gender > 0 ]" --model ./model --start "The nurse said that"',
            'llmchecker check "P<=0.1 [ F refuses = 1 ]" --user "Is it so?" --length 40',
            'llmchecker check --user "Is it so?" --contains Yes --at-least 0.9 --temperature 0.2',
        ),
    )
    parser.set_defaults(run=_run_check)
    parser.add_argument("query", nargs="?", help='such as "P=? [ F gender > 0 ]"')
    add_question_arguments(parser)
    add_assertion_arguments(parser)
    add_truncation_arguments(parser, required=False)
    add_budget_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="also write the answer as one page for a browser"
    )


def _run_check(arguments: argparse.Namespace) -> int:
    # Before the work, and before the current directory changes.
    page = None if arguments.html is None else check_output_file("--html", arguments.html)
    growth: dict[str, Any] = {}
    failure = None
    with redirect_stdout():
        registry, question = parse_question(arguments)
        spending = Spending(question.budget.tokens, question.budget.dollars)
        with contextlib.chdir(registry.project), charge_judges(spending):
            if question.truncation is not None:
                answer, growth = check_on_tree(registry, question, question.truncation)
            else:
                answer, failure = check_on_model(registry, question, spending)
    if arguments.json:
        print_answer(format_answer_json(question, answer, growth))
    else:
        show_rows(build_answer_rows(question, answer, growth))
    if page is not None:
        write_answer_page(page, question, answer, growth)
    # the error or the interrupt follows the answer so far
    if failure is not None:
        raise failure
    return answer.exit_status


def check_on_tree(
    registry: Registry, question: Question, truncation: Truncation
) -> "tuple[Answer, dict[str, Any]]":
    """Answer the query of a question on its tree.

    Returns:
        The answer, and the file of the tree with the seconds to grow and to score it.

    Raises:
        LLMCheckerError: the model cannot be fetched or loaded, or the query cannot be answered.
    """
    tree, path, growing_seconds = load_or_build_tree(
        registry, question.model, question.prompt, truncation
    )
    # Imported here, because Storm takes a second to load, which would delay --help and errors.
    from llmchecker.checking.check import check_query
    from llmchecker.checking.markov.scored_tree import ScoredTree

    start_time = time.monotonic()
    scored = ScoredTree.from_quantifiers(tree, question.asked.quantifiers)
    scoring_seconds = time.monotonic() - start_time
    seconds = growing_seconds + scoring_seconds
    decoding = question.model.decoding
    decoding_notes = decoding.notes if isinstance(decoding, Decoding) else ()
    model_notes = (*_describe_date(question), *_describe_weights(question), *decoding_notes)
    notes = (*model_notes, *question.asked.notes)
    answer = check_query(scored, question.query, seconds, notes)
    answer = answer.with_property(question.asked)
    growth = {
        "tree": str(path),
        "growing_seconds": growing_seconds,
        "scoring_seconds": scoring_seconds,
    }
    return answer, growth


def _describe_weights(question: Question) -> tuple[str, ...]:
    """Return a note on the weights of a model that are not plain ones."""
    model = question.model
    # a server has no weights here
    if model.kind == "served":
        return ()
    read_files = partial(read_checksums, model.directory)
    note = describe_weights(model.directory, model.dtype, read_files)
    return (note,) if note else ()


def _describe_date(question: Question) -> tuple[str, ...]:
    """Return a note on the date in a chat's prompt; the tree of a chat does not have its model."""
    chat = question.prompt
    if isinstance(chat, str):
        return ()
    # Imported here, because transformers takes seconds to import.
    from llmchecker.models.transformers.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(question.model.directory)
    return format_date_notes(
        find_prompt_date(tokenizer, chat, question.model.name, question.model.template)
    )
