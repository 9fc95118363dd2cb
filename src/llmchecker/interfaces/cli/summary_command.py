"""The command `summary`: the first answers of a run, and the path of its report.

    llmchecker summary
    llmchecker summary quick

It reads the table of answers that the run wrote, and checks its checksum.
"""

import argparse
import csv
from collections.abc import Mapping
from pathlib import Path

from llmchecker.checking.figures import Bar, Figure, Rows
from llmchecker.checking.formatting import FEW_DIGITS, format_interval
from llmchecker.errors import ConfigError
from llmchecker.interfaces.cli.output import is_terminal
from llmchecker.interfaces.cli.parser import COMMAND_HELP, SubParsers
from llmchecker.utils.atomic_files import read_with_checksum
from llmchecker.utils.exit_status import ExitStatus
from llmchecker.utils.interval import Interval
from llmchecker.utils.number_format import format_count
from llmchecker.utils.printable_text import escape_unprintable

_MAX_ANSWERS = 3
_ANSWERS, _REPORT = "results/tables/table2.csv", "results/report.html"


def add_summary_command(commands: SubParsers) -> None:
    """Add the command `summary` to a command line."""
    parser = commands.add_parser(
        "summary",
        help=COMMAND_HELP["summary"],
        description="Print the first three answers of a run, and the path of its report.",
    )
    parser.add_argument(
        "directory",
        type=Path,
        nargs="?",
        default=Path(),
        help="directory of the project (default: the current one)",
    )
    parser.set_defaults(run=_run_summary)


def _run_summary(arguments: argparse.Namespace) -> int:
    """Print the summary and return the exit status.

    Raises:
        ConfigError: the run has no table of answers.
        DamagedFile: the table does not match its checksum.
    """
    answers, report = (arguments.directory / path for path in (_ANSWERS, _REPORT))
    if not answers.is_file():
        raise ConfigError(f"{answers}: the file is missing; run `make results`")
    rows = list(csv.DictReader(read_with_checksum(answers).decode().splitlines()))
    print_answer = _draw_answer if is_terminal() else _print_answer
    for row in rows[:_MAX_ANSWERS]:
        print_answer(row)
    count = format_count(len(rows), "answer")
    # A run of other targets writes no report.
    print(f"{count}: {report.absolute() if report.is_file() else answers.absolute()}")
    return ExitStatus.SUCCESS


def _print_answer(row: Mapping[str, str]) -> None:
    """Print one answer on a line: bounds, and the interval of the estimate."""
    figures = "; ".join(f"{word} {text}" for word, text in _build_figures(row).items())
    print(escape_unprintable(f"{_format_subject(row)}: {figures}"))


def _draw_answer(row: Mapping[str, str]) -> None:
    """Print one answer on a terminal, with its intervals as bars."""
    # Imported here, because an answer in a pipe needs no rich.
    from llmchecker.interfaces.cli.terminal import print_line, print_rows

    print_line(_format_subject(row))
    print_rows(Rows({word: (figure,) for word, figure in _build_figures(row).items()}))


def _format_subject(row: Mapping[str, str]) -> str:
    return f"{row['label']}, {row['model']}: {row['query']}"


def _build_figures(row: Mapping[str, str]) -> dict[str, Figure]:
    """Build the verdict or the bounds, and any estimate, by the words of Table II."""
    lower, upper = row["lower"], row["upper"]
    # A query without =? has truth values as ends, and a verdict.
    if lower in ("True", "False"):
        outcome = row["verdict"].partition(",")[0]
        figures = {"verdict": Figure(row["verdict"], outcome=outcome)}
    else:
        figures = {"certain": _build_interval(row, lower, upper)}
    # An answer without samples has no estimate.
    if row["confidence"]:
        detail = f" with confidence {float(row['confidence']):g}"
        figures["estimate"] = _build_interval(row, row["low"], row["high"], detail)
    return figures


def _build_interval(row: Mapping[str, str], low: str, high: str, detail: str = "") -> Figure:
    interval = Interval(float(low), float(high))
    # An expected score has no axis.
    bar = Bar(interval) if row["query"].startswith("P") else None
    return Figure(format_interval(interval, FEW_DIGITS), detail, bar)
