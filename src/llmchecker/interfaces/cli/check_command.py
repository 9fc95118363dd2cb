"""The command `check`; with alpha and k, it answers on the tree of the paper."""

import argparse
import contextlib
import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from llmchecker.checking import formatting
from llmchecker.checking.figures import Row, build_text_rows
from llmchecker.config.question import Question
from llmchecker.config.registry import Registry
from llmchecker.errors import ConfigError
from llmchecker.interfaces.cli.answer_page import write_answer_page
from llmchecker.interfaces.cli.arguments import (
    add_budget_arguments,
    add_question_arguments,
    add_truncation_arguments,
    parse_question,
)
from llmchecker.interfaces.cli.ask_command import (
    build_ask_rows,
    describe_ask_costs,
    format_ask_json,
    run_ask,
)
from llmchecker.interfaces.cli.assertion_arguments import (
    add_assertion_arguments,
    parse_asked_query,
)
from llmchecker.interfaces.cli.exit_status import get_exit_status
from llmchecker.interfaces.cli.output import (
    check_output_file,
    print_answer,
    redirect_stdout,
    show_display,
)
from llmchecker.interfaces.cli.parser import COMMAND_HELP
from llmchecker.interfaces.cli.tree_cache import CachedTree, load_or_build_tree
from llmchecker.models.decoding.chat_template import start_as_json
from llmchecker.models.decoding.settings import decoding_as_json
from llmchecker.properties import scores
from llmchecker.trees.text_tree import TextTree

if TYPE_CHECKING:
    from llmchecker.checking.answer import Answer


@dataclass(frozen=True)
class _AnsweredQuestion:
    """A question, its answer, and the times of this run.

    Attributes:
        question: the question.
        cached_tree: the tree of the answer.
        answer: the answer; its `encode_seconds` include the expansion, the scoring and the
            construction of the chain, as far as this run did them.
        scoring_seconds: duration of the scoring by all quantifiers of the query, in seconds.
    """

    question: Question
    cached_tree: CachedTree
    answer: "Answer"
    scoring_seconds: float


def add_check_command(commands: argparse._SubParsersAction) -> None:
    """Add the command `check` to a command line."""
    parser = commands.add_parser(
        "check",
        help=COMMAND_HELP["check"],
        description="Check one query on the texts of a model after a start string. The answer has "
        "certain bounds for the whole model and an estimate: an interval with a confidence. With "
        "--alpha and --k, it has bounds and the bounded probability of the paper's tree.",
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
    asked = parse_asked_query(arguments)
    if asked is None:
        raise ConfigError("check: no query; write one, or an assertion such as --contains")
    # An assertion stands for a query, which the user can extend.
    if asked.is_assertion:
        logging.info("the same as %s", asked.format_command())
    failure = None
    # Before the work, and before the current directory changes.
    page = None if arguments.html is None else check_output_file("--html", arguments.html)
    with redirect_stdout():
        registry, question = parse_question(arguments, asked)
        with contextlib.chdir(registry.project):
            if question.budget is None:
                checked = run_check(registry, question)
                answer, costs = checked.answer, _describe_check_costs(checked)
                rows, fields = _build_check_rows(checked), _format_check_json(checked)
            else:
                asked_model = run_ask(registry, question)
                answer, failure = asked_model.answer, asked_model.failure
                costs = describe_ask_costs(asked_model)
                rows, fields = build_ask_rows(asked_model), format_ask_json(asked_model)
    if arguments.json:
        print_answer(fields)
    else:
        show_display(formatting.build_display(answer, rows))
    if page is not None:
        write_answer_page(page, question, answer, costs)
    # the error follows the answer so far
    if failure is not None:
        raise failure
    return get_exit_status(answer)


def run_check(registry: Registry, question: Question) -> _AnsweredQuestion:
    """Answer the query of a question on its tree.

    Raises:
        LLMCheckerError: the model cannot be fetched or loaded, or the query cannot be answered.
    """
    cached_tree = load_or_build_tree(registry, question)
    tree = cached_tree.tree
    start_time = time.monotonic()
    values = score_quantifiers(question, tree)
    scoring_seconds = time.monotonic() - start_time
    # Imported here, because Storm takes a second to load, which would delay --help and errors.
    from llmchecker.checking.check import check_query

    ranges = question.checked_query.ranges
    answer = check_query(
        tree, values, question.query, ranges, cached_tree.seconds + scoring_seconds
    )
    return _AnsweredQuestion(question, cached_tree, answer, scoring_seconds)


def score_quantifiers(question: Question, tree: TextTree) -> dict[str, np.ndarray]:
    """Return the scores of all states for each quantifier of the query, by name."""
    values = {}
    for name, quantifier in question.checked_query.quantifiers.items():
        logging.info("scoring %d states: %s", len(tree), name)
        values[name] = scores.score_tree(quantifier, tree, name)
    return values


def _format_check_json(checked: _AnsweredQuestion) -> dict[str, Any]:
    """Return the fields of answer and question; an unknown bound is null."""
    question, cached_tree = checked.question, checked.cached_tree
    details = {
        "model": question.model.name,
        "decoding": decoding_as_json(question.model.decoding),
        "start": start_as_json(question.prompt),
        "alpha": question.truncation.alpha,
        "k": question.truncation.k,
        "tree": str(cached_tree.path),
        "growing_seconds": cached_tree.seconds,
        "scoring_seconds": checked.scoring_seconds,
    }
    return checked.answer.as_json() | details


def _describe_check_costs(checked: _AnsweredQuestion) -> dict[str, str]:
    """Return the seconds and the tree of an answer as texts, each by its name."""
    cached_tree = checked.cached_tree
    # A tree from the cache took no time in this run.
    growth_text = (
        f"growing {cached_tree.seconds:.1f}" if cached_tree.seconds else "tree from the cache"
    )
    return {
        "seconds": f"{growth_text}, scoring {checked.scoring_seconds:.1f}, "
        f"checking {checked.answer.costs.check_seconds:.1f}",
        "tree": str(cached_tree.path),
    }


def _build_check_rows(checked: _AnsweredQuestion) -> dict[str, Row]:
    """Build the rows of the question and the figures of its answer."""
    question = checked.question
    figures = formatting.build_rows(checked.answer)
    return {
        "query": figures.pop("query"),
        **build_text_rows(
            {
                "model": f"{question.model.display_name()}, {question.truncation}",
                "text": question.formatted_start,
            }
        ),
        **figures,
        **build_text_rows(_describe_check_costs(checked)),
    }
