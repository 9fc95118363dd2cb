"""The command `judge-check`: the errors of a judge, and the share of texts that people call good.

llmchecker judge-check labels.csv --model ./judge --question "Is the text polite?"
llmchecker judge-check labels.csv --judge polite --label
"""

import argparse
import contextlib
import sys
from pathlib import Path
from typing import Any

from llmchecker.checking.budget import Budget, build_budget
from llmchecker.checking.figures import Bar, Figure, Row, Rows, TextList
from llmchecker.checking.formatting import format_interval
from llmchecker.config.deployment import DeploymentName, resolve_deployment
from llmchecker.config.judges import create_quantifier_or_judge
from llmchecker.config.models import ModelConfig
from llmchecker.config.project import DEFAULT_CONFIG
from llmchecker.config.registry import Registry
from llmchecker.errors import (
    ConfigError,
    UnknownName,
    UnusableDataset,
    did_you_mean,
    name_arguments,
    prefix_errors,
)
from llmchecker.interfaces.cli.arguments import (
    MODEL_HELP,
    add_server_arguments,
    name_deployment,
)
from llmchecker.interfaces.cli.display import show_rows
from llmchecker.interfaces.cli.key_options import add_key_options
from llmchecker.interfaces.cli.output import print_answer, redirect_stdout
from llmchecker.interfaces.cli.parser import COMMAND_HELP, SubParsers, format_examples
from llmchecker.properties.quantifiers.judge import Judge
from llmchecker.suites.judge_check import (
    JudgeMeasurement,
    LabelledText,
    Share,
    measure_judge,
    read_labelled_texts,
)
from llmchecker.suites.labelling import ask_for_labels
from llmchecker.utils.exit_status import ExitStatus
from llmchecker.utils.number_format import format_count, format_number
from llmchecker.utils.printable_text import escape_unprintable, shorten

_SETTINGS = ("question", "rubric", "scale", "share")
"""Options that are settings of a judge."""
_DIGITS = 3
_MAX_DIFFERENCES = 10
"""Largest number of texts in the output whose grade is not their label."""
_MAX_CHARACTERS = 80


def add_judge_check_command(commands: SubParsers) -> None:
    """Add the command `judge-check` to a command line."""
    parser = commands.add_parser(
        "judge-check",
        help=COMMAND_HELP["judge-check"],
        description="Measure a judge on labelled texts: its agreement with the labels, precision, "
        "recall and errors, each with an exact confidence interval. Texts without a label are "
        "graded too: an interval has the share of all texts that people would call good.",
        **format_examples(
            'llmchecker judge-check labels.csv --model ./judge --question "Is the text polite?"',
            "llmchecker judge-check labels.csv --judge polite --label",
        ),
    )
    parser.set_defaults(run=_run_judge_check)
    parser.add_argument(
        "file",
        type=Path,
        help="CSV, JSON lines or parquet file with the columns text, label and, if wanted, prompt; "
        "a label may be empty",
    )
    parser.add_argument(
        "--label",
        action="store_true",
        help="first ask for labels of texts without one, in random order, and write them into the "
        "CSV file",
    )
    parser.add_argument("--judge", metavar="NAME", help="a judge of the configuration")
    parser.add_argument("--model", help=f"{MODEL_HELP}, as a judge of its own")
    add_server_arguments(parser)
    parser.add_argument("--question", help="a question about the text, answered by yes or no")
    parser.add_argument("--rubric", help="what to judge the text by")
    parser.add_argument("--scale", help='the answers to the rubric, such as "1 to 5" or yes/no')
    parser.add_argument(
        "--share", type=float, help="the least probability of the scale (default: 0.5)"
    )
    parser.add_argument(
        "--grade", type=int, help="the least good grade (default: the greatest of the scale)"
    )
    add_key_options(parser, Budget, ("confidence",))
    parser.add_argument("--config", type=Path, default=Path(DEFAULT_CONFIG), help="configuration")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _run_judge_check(arguments: argparse.Namespace) -> int:
    with name_arguments("--"):
        confidence = build_budget(confidence=arguments.confidence).confidence
    path = arguments.file.absolute()
    with redirect_stdout():
        # a model that the command line names needs no configuration
        has_config = arguments.judge is not None or arguments.config.is_file()
        registry = Registry.read(arguments.config) if has_config else Registry()
        judge = _find_judge(arguments, registry)
        grades = judge.grades.values()
        good_grade = max(grades) if arguments.grade is None else arguments.grade
        if good_grade not in grades:
            known = ", ".join(map(str, sorted(set(grades))))
            raise ConfigError(f"--grade: {good_grade} is not on the scale; it has {known}")
        # before the model is loaded
        texts = read_labelled_texts(path, judge, needs_labels=not arguments.label)
        if arguments.label:
            ask_for_labels(path, judge, texts, _ask_for_label, _print_line)
            texts = read_labelled_texts(path, judge, needs_labels=False)
            if all(each.label is None for each in texts):
                raise UnusableDataset(f"--label: no label was given; label a text of {path.name}")
        with contextlib.chdir(registry.project):
            measurement = measure_judge(judge, texts, good_grade, confidence)
    if arguments.json:
        print_answer(measurement.as_json())
    else:
        show_rows(_build_rows(measurement))
    return ExitStatus.SUCCESS


def _find_judge(arguments: argparse.Namespace, registry: Registry) -> Judge:
    """Return the judge of the arguments, without loading its model."""
    settings: dict[str, Any] = {
        name: value for name in _SETTINGS if (value := getattr(arguments, name)) is not None
    }
    if arguments.judge is not None:
        if unused := [*settings, *(["model"] if arguments.model is not None else [])]:
            raise ConfigError(f"--{unused[0]}: --judge names a judge with settings; remove either")
        judges: dict[str, Judge] = {
            name: each for name, each in registry.quantifiers.items() if isinstance(each, Judge)
        }
        if arguments.judge not in judges:
            hint = did_you_mean(arguments.judge, judges) or ";"
            raise UnknownName(
                f"--judge: {arguments.judge!r} is no judge of the configuration{hint} known are "
                f"{', '.join(judges) or 'none'}"
            )
        return judges[arguments.judge]
    if arguments.model is None:
        raise ConfigError("--model: it is missing; name a model, or a judge by --judge")

    def find_model(name: DeploymentName) -> ModelConfig:
        return resolve_deployment("--model", name, registry).model

    name = name_deployment(arguments.model, arguments)
    with prefix_errors("judge-check"):
        judge = create_quantifier_or_judge(
            "judge", {**settings, "model": name}, find_model, registry.expansion
        )
    assert isinstance(judge, Judge)
    return judge


def _ask_for_label(text: LabelledText, missing: int) -> str | None:
    """Ask for the label of a text; None at an empty line or the end of the input."""
    prompt = f"{escape_unprintable(text.prompt)}\n" if text.prompt else ""
    _print_line(f"\n{prompt}{escape_unprintable(text.text)}")
    _print_line(f"label, or nothing to end ({format_count(missing, 'text')} left):")
    return sys.stdin.readline().strip() or None


def _print_line(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _build_rows(measurement: JudgeMeasurement) -> Rows:
    labels = measurement.agreement.total
    figures: dict[str, Row] = {
        "judge": (Figure(escape_unprintable(measurement.judge)),),
        "good texts": (
            Figure(
                format_interval(measurement.good, _DIGITS),
                f" with confidence {format_number(measurement.confidence)}, of these "
                f"{format_count(measurement.total, 'text')} by {format_count(labels, 'label')}",
                Bar(measurement.good),
            ),
        ),
        "agreement": _build_row(measurement.agreement, measurement.confidence),
        "precision": _build_row(measurement.precision, measurement.confidence),
        "recall": _build_row(measurement.recall, measurement.confidence),
        "false passes": _build_row(measurement.false_pass, measurement.confidence),
        "false fails": _build_row(measurement.false_fail, measurement.confidence),
        "good grade": (Figure(f"{measurement.good_grade} or more"),),
    }
    notes = []
    if measurement.ungraded:
        count = format_count(measurement.ungraded, "text")
        notes.append(f"{count} without a grade: the judge's answer is not on the scale")
    shown = measurement.differences[:_MAX_DIFFERENCES]
    texts = tuple(
        (
            f"{each.label} → {'none' if grade is None else grade}",
            f'"{escape_unprintable(shorten(each.text, _MAX_CHARACTERS))}"',
        )
        for each, grade in shown
    )
    count = format_count(len(measurement.differences), "text")
    texts_list = TextList(f"{count} with another grade (label → grade):", texts)
    return Rows(figures, tuple(notes), (texts_list,) if texts else ())


def _build_row(share: Share, confidence: float) -> Row:
    """Build the figure of a share, with its numbers of texts."""
    if share.value is None:
        return (Figure("unknown", ", of no texts"),)
    return (
        Figure(
            f"{format_number(share.value, _DIGITS)} in {format_interval(share.interval, _DIGITS)}",
            f" with confidence {format_number(confidence)}, {share.hits:,} of "
            f"{format_count(share.total, 'text')}",
            Bar(share.interval),
        ),
    )
