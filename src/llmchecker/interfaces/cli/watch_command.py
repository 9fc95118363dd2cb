"""The command `watch`: a day of a suite, compared with its results at release.

llmchecker watch suite.yaml --baseline release.jsonl
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from llmchecker.checking.figures import Figure, Row, Rows, build_text_rows
from llmchecker.config.deployment import relate_name
from llmchecker.errors import ConfigError, name_arguments
from llmchecker.interfaces.cli.arguments import (
    MODEL_HELP,
    add_server_arguments,
    check_server_options,
    name_deployment,
)
from llmchecker.interfaces.cli.display import show_rows
from llmchecker.interfaces.cli.key_options import add_key_options, collect_keys
from llmchecker.interfaces.cli.output import check_output_file, print_answer, redirect_stdout
from llmchecker.interfaces.cli.parser import COMMAND_HELP, SubParsers, format_examples
from llmchecker.suites.drift import DriftReport, watch_suite
from llmchecker.suites.suite_file import RunKeys
from llmchecker.utils import job_logging
from llmchecker.utils.exit_status import ExitStatus
from llmchecker.utils.number_format import format_count, format_number, format_upper
from llmchecker.utils.printable_text import escape_unprintable
from llmchecker.utils.section import parse_section

_LIMITS = ("passes", "seconds", "answers", "tokens", "dollars")
_DIGITS = 2


def add_watch_command(commands: SubParsers) -> None:
    """Add the command `watch` to a command line."""
    parser = commands.add_parser(
        "watch",
        help=COMMAND_HELP["watch"],
        description="Run a suite with new samples, add their evidence to that of earlier days, and "
        "report what all days refute: that the probabilities are those of the release, or that a "
        "requirement holds. Run it once a day. The exit status is 1 if a claim is refuted or the "
        "weights changed, else 0.",
        **format_examples(
            "llmchecker test suite.yaml --measure --json release.jsonl",
            "llmchecker watch suite.yaml --baseline release.jsonl --answers 20",
        ),
    )
    parser.set_defaults(run=_run_watch)
    parser.add_argument("suite", type=Path, help="the suite file, such as suite.yaml")
    parser.add_argument(
        "--baseline",
        type=Path,
        required=True,
        help="the results at release, which test --measure --json wrote",
    )
    parser.add_argument(
        "--log", type=Path, help="the file of all days (default: SUITE.watch.jsonl)"
    )
    parser.add_argument(
        "--level",
        type=float,
        default=0.01,
        help="the largest probability that a true claim is ever refuted (default: 0.01)",
    )
    parser.add_argument(
        "--margin",
        type=float,
        default=0.001,
        help="the largest difference of a probability that is no change (default: 0.001)",
    )
    parser.add_argument("--model", help=f"{MODEL_HELP}, in place of the suite's")
    add_server_arguments(parser)
    parser.add_argument("--config", type=Path, help="a configuration in place of the suite's")
    add_key_options(parser, RunKeys, _LIMITS)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _run_watch(arguments: argparse.Namespace) -> int:
    for name, number in (("level", arguments.level), ("margin", arguments.margin)):
        if not 0 <= number < 1 or (name == "level" and number == 0):
            raise ConfigError(f"--{name}: {number} is no probability below 1; write such as 0.01")
    models = []
    if arguments.model is None:
        check_server_options(arguments)
    else:
        given = name_deployment(arguments.model, arguments)
        models = [relate_name(given, arguments.suite.parent)]
    log = arguments.log or arguments.suite.with_suffix(".watch.jsonl")
    check_output_file("--log", log)
    with name_arguments("--"):
        changes = parse_section(RunKeys, collect_keys(arguments, RunKeys, _LIMITS))
    with redirect_stdout(), job_logging.show_status() as status:
        report = watch_suite(
            arguments.suite,
            baseline=arguments.baseline,
            log=log,
            level=arguments.level,
            margin=arguments.margin,
            changes=changes,
            models=models,
            config=arguments.config,
            report=lambda progress: status(
                f"{progress.cases_done:,} of {format_count(progress.cases, 'case')}"
            ),
        )
    if arguments.json:
        print_answer(_as_json(report))
    else:
        show_rows(_build_rows(report))
    return ExitStatus.VIOLATED if report.is_refuted else ExitStatus.SUCCESS


def _build_rows(report: DriftReport) -> Rows:
    """Build the rows of a report: the day, then each figure."""
    number, day = len(report.days), report.days[-1]
    rows: dict[str, Row] = build_text_rows({"day": f"{number:,} ({day.date})"})
    several = len({each.deployment for each in report.figures}) > 1
    for index, figure in enumerate(report.figures):
        name = f"{figure.deployment}: {figure.name}" if several else figure.name
        rows[escape_unprintable(name)] = tuple(_iter_figures(report, index))
    notes = [
        f"{escape_unprintable(name)}: weights or settings are not those of the release"
        for name in report.changed
    ]
    notes += [
        f"{escape_unprintable(name)}: weights, settings and packages are those of the release; "
        "nothing was run"
        for name in report.same
    ]
    notes += [f"{escape_unprintable(name)}: {reason}" for name, reason in report.unwatched]
    notes.append(
        f"each claim, about {format_count(len(report.figures), 'figure')} and however many days: "
        f"refuted wrongly with probability {format_number(report.level)} at most (Bonferroni)"
    )
    return Rows(rows, tuple(notes))


def _iter_figures(report: DriftReport, index: int) -> Iterator[Figure]:
    """Yield what the days show about a figure."""
    refutations = report.list_refutations(index)
    for number, each in refutations:
        date = report.days[number - 1].date
        yield Figure(
            f'refuted on day {number:,} ({date}): "{each.claim}"',
            f", by the evidence since day {each.since:,}",
            outcome="VIOLATED",
        )
    if not refutations:
        yield Figure("nothing refuted")
    excluded = [
        f"a {noun} of {format_upper(change, _DIGITS)} or more"
        for noun, change in (("fall", report.falls[index]), ("rise", report.rises[index]))
        if change is not None
    ]
    yield Figure(f"excluded on all days: {' and '.join(excluded) or 'no change yet'}")


def _as_json(report: DriftReport) -> dict[str, Any]:
    """Return a report as fields for JSON."""
    return {
        "day": len(report.days),
        "date": report.days[-1].date,
        "level": report.level,
        "margin": report.margin,
        "changed": list(report.changed),
        "same": list(report.same),
        "figures": [
            {
                "model": figure.deployment,
                "name": figure.name,
                "refuted": [
                    {"claim": each.claim, "day": number, "since": each.since}
                    for number, each in report.list_refutations(index)
                ],
                "least_fall": report.falls[index],
                "least_rise": report.rises[index],
            }
            for index, figure in enumerate(report.figures)
        ],
        "not_watched": [{"name": name, "reason": reason} for name, reason in report.unwatched],
    }
