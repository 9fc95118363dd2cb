"""The command `compare`: one query on two models, start strings or decodings.

    llmchecker compare "P=? [ F gender > 0 ]" --start "The nurse said that" \\
        --versus-start "The doctor said that"

The exit status is 0 if it is decided which side has the greater answer, and 2 if it is not.
"""

import argparse
import contextlib
import math
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from llmchecker.checking import comparison_formatting
from llmchecker.checking.comparison import SideLabel
from llmchecker.checking.decision import ComparisonOutcome
from llmchecker.checking.question import Question
from llmchecker.config.judges import charge_judges
from llmchecker.config.opening import load_opened_model, open_model
from llmchecker.config.registry import Registry
from llmchecker.errors import InterruptedCheck
from llmchecker.interfaces.cli.arguments import (
    add_budget_arguments,
    add_question_arguments,
    add_versus_arguments,
    parse_question,
    parse_versus,
)
from llmchecker.interfaces.cli.assertion_arguments import (
    add_assertion_arguments,
)
from llmchecker.interfaces.cli.check_on_model import (
    catch_interrupt,
    format_status,
    mark_interrupted,
)
from llmchecker.interfaces.cli.display import show_rows
from llmchecker.interfaces.cli.output import print_answer, redirect_stdout
from llmchecker.interfaces.cli.parser import COMMAND_HELP, SubParsers, format_examples
from llmchecker.models.decoding.chat_template import start_as_json
from llmchecker.models.decoding.settings import decoding_as_json
from llmchecker.models.lazy_model import LazyModel
from llmchecker.models.servers.spending import Spending
from llmchecker.utils import job_logging
from llmchecker.utils.exit_status import ExitStatus

# Imported for types only: Storm and torch take seconds to load, which would delay --help.
if TYPE_CHECKING:
    from llmchecker.checking.answer import Answer
    from llmchecker.checking.comparison import Comparison


def add_compare_command(commands: SubParsers) -> None:
    """Add the command `compare` to a command line."""
    parser = commands.add_parser(
        "compare",
        help=COMMAND_HELP["compare"],
        description="Compare the answers to one query of two models, texts or decodings: the "
        "difference, first minus second, with certain bounds and a confidence interval. The exit "
        "status is 0 if it is decided which answer is greater, and 2 if it is not.",
        **format_examples(
            'llmchecker compare "P=? [ F gender > 0 ]" --start "The nurse said that" '
            '--versus-start "The doctor said that"',
            'llmchecker compare --refuses --user "Is it so?" --model ./old --versus-model ./new',
        ),
    )
    parser.add_argument("query", nargs="?", help='such as "P=? [ F gender > 0 ]"')
    add_question_arguments(parser)
    add_assertion_arguments(parser, has_thresholds=False)
    add_versus_arguments(parser)
    add_budget_arguments(parser)
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object, and nothing else"
    )
    parser.set_defaults(run=_run_compare)


def _run_compare(arguments: argparse.Namespace) -> int:
    with redirect_stdout():
        registry, first = parse_question(arguments)
        versus = parse_versus(arguments, registry, first)
        with contextlib.chdir(registry.project):
            spending = Spending(versus.budget.tokens, versus.budget.dollars)
            with charge_judges(spending):
                comparison, failure = _compare(registry, first, versus, spending)
    if arguments.json:
        print_answer(_format_json(first, versus, comparison))
    else:
        sides = tuple(map(_describe_words, (first, versus)))
        show_rows(comparison_formatting.build_rows(replace(comparison, sides=sides)))
    # the error or the interrupt follows the answer so far
    if failure is not None:
        raise failure
    is_unknown = comparison.outcome == ComparisonOutcome.UNKNOWN
    return ExitStatus.UNKNOWN if is_unknown else ExitStatus.SUCCESS


def _compare(
    registry: Registry, first: Question, versus: Question, spending: Spending
) -> "tuple[Comparison, InterruptedCheck | KeyboardInterrupt | None]":
    """Compare the answers to the query of two questions.

    Returns:
        The comparison, and what ended it early: the error of a model that failed after it had
        evaluated texts, or Ctrl-C.

    Raises:
        LLMCheckerError: a model cannot be fetched or loaded, or the query cannot be compared.
    """
    # Imported here, because Storm and torch take seconds to load, which would delay --help.
    from llmchecker.checking.comparison_run import check_comparable, compare_answers

    check_comparable(first.asked)
    sides = _open_sides(registry, first, versus, spending)
    failure: InterruptedCheck | KeyboardInterrupt | None = None
    with job_logging.show_status() as status, catch_interrupt() as is_cancelled:
        try:
            comparison = compare_answers(
                *sides,
                is_cancelled=is_cancelled,
                watch=lambda progress: status(f"difference: {format_status(progress, versus)}"),
            )
        # the answer so far is right, so it is shown with the error
        except InterruptedCheck as error:
            comparison, failure = error.result, error
        was_interrupted = is_cancelled()
    if was_interrupted:
        comparison = replace(comparison, first=mark_interrupted(comparison.first))
        failure = failure or KeyboardInterrupt()
    return comparison, failure


def _open_sides(
    registry: Registry, first: Question, versus: Question, spending: Spending
) -> tuple[Question, Question]:
    """Return both questions with their models loaded.

    Models that return texts alone share the spending.
    """

    opened = open_model(first.model, registry.expansion, spending)
    other = (
        # Two decodings of one model share its weights.
        replace(
            opened,
            decoding=versus.model.decoding,
            template=versus.model.template,
            shared_from=opened,
        )
        if isinstance(opened, LazyModel) and first.model.directory == versus.model.directory
        else open_model(versus.model, registry.expansion, spending)
    )
    return (
        replace(first, model=load_opened_model(opened)),
        replace(versus, model=load_opened_model(other)),
    )


def _format_json(first: Question, versus: Question, comparison: "Comparison") -> dict[str, Any]:
    """Return the fields of the comparison and of both sides; an absent value is null."""
    return {
        "query": first.query.text,
        "quantifiers": comparison.first.quantifiers,
        "assertion": comparison.first.assertion,
        "L": first.length,
        "first": _describe_side(first, comparison.first),
        "versus": _describe_side(versus, comparison.versus),
        # JSON has no infinity
        "lower": None if math.isinf(comparison.lower) else comparison.lower,
        "upper": None if math.isinf(comparison.upper) else comparison.upper,
        "low": comparison.low,
        "high": comparison.high,
        "confidence": comparison.confidence,
        "outcome": comparison.outcome.value,
        "certainty": comparison.certainty,
        "forecast": None if comparison.forecast is None else asdict(comparison.forecast),
        "passes": comparison.passes,
        "seconds": comparison.seconds,
        "answers": comparison.answers,
        "seed": first.budget.seed,
    }


def _describe_words(question: Question) -> SideLabel:
    model = question.model
    return SideLabel(model.label, model.describe_decoding(), question.prompt)


def _describe_side(question: Question, answer: "Answer") -> dict[str, Any]:
    """Return the fields of one side."""
    names = "lower upper estimate low high confidence samples ended notes passes answers".split()
    fields = answer.as_json()
    return {
        "model": question.model.name,
        "decoding": decoding_as_json(question.model.decoding),
        "template": question.model.template.as_json,
        "start": start_as_json(question.prompt),
        **{name: fields[name] for name in names},
    }
