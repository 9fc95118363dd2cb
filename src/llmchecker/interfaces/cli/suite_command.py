"""The command `test`: run a suite, print its verdicts and write its outputs."""

import argparse
import logging
import sys
from pathlib import Path

from llmchecker.config.deployment import relate_name
from llmchecker.errors import ConfigError, LLMCheckerError, name_arguments
from llmchecker.interfaces.cli.arguments import (
    MODEL_HELP,
    add_server_arguments,
    check_server_options,
    name_deployment,
)
from llmchecker.interfaces.cli.key_options import add_key_options, collect_keys
from llmchecker.interfaces.cli.output import (
    check_output_file,
    is_terminal,
    print_answer,
    redirect_stdout,
)
from llmchecker.interfaces.cli.parser import COMMAND_HELP, SubParsers, format_examples
from llmchecker.suites.cases import Case, CaseKey, Suite
from llmchecker.suites.entries import build_entries
from llmchecker.suites.html_page import write_html
from llmchecker.suites.inspect_log import write_inspect_log
from llmchecker.suites.junit import write_junit
from llmchecker.suites.load import load_suite
from llmchecker.suites.markdown_summary import write_markdown
from llmchecker.suites.notes import describe_incomplete
from llmchecker.suites.results import SuiteResult
from llmchecker.suites.runner import SuiteProgress
from llmchecker.suites.sarif import write_sarif
from llmchecker.suites.selection import read_last_failed, select_by_name, write_last_failed
from llmchecker.suites.session import SuiteRun
from llmchecker.suites.suite_file import RunKeys
from llmchecker.suites.terminal_table import (
    format_end,
    format_name,
    format_table,
    has_several_models,
    select_entries,
)
from llmchecker.suites.verdicts import Status
from llmchecker.suites.warnings import list_warnings
from llmchecker.suites.watch import WatchedSuite
from llmchecker.utils import job_logging
from llmchecker.utils.number_format import format_count
from llmchecker.utils.printable_text import escape_unprintable
from llmchecker.utils.processes import is_interrupt
from llmchecker.utils.section import parse_section


def add_test_command(commands: SubParsers) -> None:
    """Add the command `test` with its arguments."""
    test = commands.add_parser(
        "test",
        help=COMMAND_HELP["test"],
        description="Decide the requirements of a suite, each certainly or with a confidence that "
        "holds for all together. The exit status is 0 if all hold, 1 if some are violated, 2 if "
        "some are unknown, and 3 after an error.",
        **format_examples(
            "llmchecker test suite.yaml",
            "llmchecker test suite.yaml --model ./model --filter refund --fail-fast",
            "llmchecker test suite.yaml --last-failed --passes 5000",
            "llmchecker test suite.yaml --junit results.xml --json results.jsonl",
        ),
    )
    test.set_defaults(run=_run_test)
    test.add_argument("suite", type=Path, help="the suite file, such as suite.yaml")
    test.add_argument(
        "--model",
        action="append",
        default=[],
        help=f"{MODEL_HELP}, in place of the suite's; repeatable",
    )
    add_server_arguments(test)
    test.add_argument("--config", type=Path, help="a configuration in place of the suite's")
    test.add_argument(
        "--baseline", type=Path, help="compare with results that --json wrote in an earlier run"
    )
    test.add_argument(
        "--measure",
        action="store_true",
        help="use the whole budget of each case, also after its decision, as a release that watch "
        "compares with",
    )
    test.add_argument("--allow-unknown", action="store_true", help="exit with 0 if only unknown")
    _add_selection_arguments(test.add_argument_group("selection of cases"))
    group = test.add_argument_group("keys in place of the suite's")
    add_key_options(group, RunKeys)
    outputs = test.add_argument_group("outputs")
    outputs.add_argument("--junit", type=Path, metavar="FILE", help="JUnit XML")
    outputs.add_argument(
        "--sarif", type=Path, metavar="FILE", help="SARIF: annotations at lines of the suite"
    )
    outputs.add_argument(
        "--inspect", type=Path, metavar="FOLDER", help="a log of inspect_ai, for inspect view"
    )
    outputs.add_argument(
        "--json", type=Path, metavar="FILE", help="JSON lines; a later run continues there"
    )
    outputs.add_argument("--markdown", type=Path, metavar="FILE", help="a summary in Markdown")
    outputs.add_argument("--html", type=Path, metavar="FILE", help="a page without network")


def _add_selection_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--filter", metavar="TEXT", help="only cases with this in their name")
    group.add_argument(
        "--last-failed",
        action="store_true",
        help="only cases that did not hold in the last run; all if all did",
    )
    group.add_argument(
        "--fail-fast", action="store_true", help="end at the first violated case or error"
    )
    group.add_argument(
        "--watch", action="store_true", help="run again when the suite or a file of it changes"
    )


def _run_test(arguments: argparse.Namespace) -> int:
    _check_outputs(arguments)
    if not arguments.watch:
        return _run_once(arguments)
    # a changed suite does not continue the results of the former one
    if arguments.json is not None:
        raise ConfigError("--watch: results of a changed suite need another file; omit --json")
    others = tuple(path for path in (arguments.config, arguments.baseline) if path is not None)
    watched = WatchedSuite(arguments.suite, others)
    while True:
        try:
            _run_once(arguments)
        except LLMCheckerError as error:
            print(f"error: {error}", file=sys.stderr)
        print(f"waiting for a change of {arguments.suite}; Ctrl-C ends", file=sys.stderr)
        watched.wait()


def _run_once(arguments: argparse.Namespace) -> int:
    """Run the suite, and return the exit status."""
    if not arguments.model:
        check_server_options(arguments)
    selected: frozenset[CaseKey] | None = None

    def select(suite: Suite) -> list[Case]:
        nonlocal selected
        selected = _select_cases(arguments, suite)
        return [case for case in suite.cases if selected is None or case.key in selected]

    with redirect_stdout():
        suite = load_suite(
            arguments.suite,
            models=[
                relate_name(name_deployment(name, arguments), arguments.suite.parent)
                for name in arguments.model
            ],
            models_place="--model",
            config=arguments.config,
            has_baseline=arguments.baseline is not None,
            is_measuring=arguments.measure,
            changes=_collect_changes(arguments),
            select=select,
        )
        run = SuiteRun(
            suite,
            log=arguments.json,
            baseline=arguments.baseline,
            selected=selected,
            is_failing_fast=arguments.fail_fast,
            is_measuring=arguments.measure,
        )
        # answers may cost hours and money
        for warning in list_warnings(suite):
            logging.warning("%s", escape_unprintable(warning))
    try:
        with redirect_stdout(), job_logging.show_status() as status:
            run.finish(report=lambda progress: status(_format_progress(progress)))
    except (KeyboardInterrupt, Exception) as error:
        # the verdicts so far are right; a model that cannot be loaded leaves none
        if is_interrupt(error) or run.result.finished_count:
            _show_result(run.result, arguments)
            logging.warning(_describe_continuation(run.result, arguments.json))
        raise
    _show_result(run.result, arguments)
    write_last_failed(arguments.suite, suite, run.result)
    return run.result.counts.exit_status(arguments.allow_unknown)


def _collect_changes(arguments: argparse.Namespace) -> RunKeys:
    """Return the keys in place of the suite's."""
    with name_arguments("--"):
        return parse_section(RunKeys, collect_keys(arguments, RunKeys))


def _select_cases(arguments: argparse.Namespace, suite: Suite) -> frozenset[CaseKey] | None:
    """Return the cases to run; None for all."""
    selected = None if arguments.filter is None else select_by_name(suite, arguments.filter)
    if arguments.last_failed:
        failed = read_last_failed(arguments.suite, suite)
        if failed is not None:
            selected = failed if selected is None else (failed & selected) or selected
    return selected


def _check_outputs(arguments: argparse.Namespace) -> None:
    """Check before a run of hours that its outputs can be written, each to a file of its own."""
    known = {arguments.suite.resolve(): "the suite"}
    if arguments.baseline is not None:
        known[arguments.baseline.resolve()] = "--baseline"
    if arguments.inspect is not None and arguments.inspect.is_file():
        raise ConfigError(f"--inspect: {arguments.inspect} is a file; name a folder")
    for name in ("junit", "sarif", "json", "markdown", "html"):
        if (path := getattr(arguments, name)) is None:
            continue
        check_output_file(f"--{name}", path)
        # a device, such as /dev/stdout, takes several
        other = known.setdefault(path.resolve(), f"--{name}")
        if other != f"--{name}" and (path.is_file() or not path.exists()):
            raise ConfigError(f"--{name}: {path} is also the file of {other}; name another file")


def _show_result(result: SuiteResult, arguments: argparse.Namespace) -> None:
    """Write the output files of a result, and print it."""
    _write_outputs(result, arguments)
    _print_result(result)


def _describe_continuation(result: SuiteResult, log: Path | None) -> str:
    """Describe how a later run continues one that ended early."""
    if log is None:
        return f"{describe_incomplete(result)}; --json FILE would keep them for a next run"
    return f"{describe_incomplete(result)}; run the same command again to continue with {log}"


def _print_result(result: SuiteResult) -> None:
    """Print the verdicts, failures first, and the summary."""
    if not is_terminal():
        print_answer(format_table(result))
        return
    # Imported here, because an answer in a pipe needs no rich.
    from llmchecker.interfaces.cli.terminal import BAD, GOOD, OPEN, print_line, print_outcome

    styles = {Status.HOLDS: GOOD, Status.VIOLATED: BAD, Status.ERROR: BAD, Status.UNKNOWN: OPEN}
    entries = build_entries(result)
    shown, with_model = select_entries(entries), has_several_models(result)
    for entry in shown:
        outcome = entry.verdict, styles.get(entry.status, "bold")
        name = format_name(entry, with_model)
        lines = [line for line in (entry.about, *entry.lines) if line]
        print_outcome(outcome, name, row=entry.row, lines=lines)
    for line in format_end(result, entries, len(entries) - len(shown)):
        print_line(line)


def _write_outputs(result: SuiteResult, arguments: argparse.Namespace) -> None:
    if arguments.junit is not None:
        write_junit(result, arguments.junit, allow_unknown=arguments.allow_unknown)
    if arguments.sarif is not None:
        write_sarif(result, arguments.sarif, allow_unknown=arguments.allow_unknown)
    if arguments.inspect is not None:
        write_inspect_log(result, arguments.inspect)
    if arguments.markdown is not None:
        write_markdown(result, arguments.markdown)
    if arguments.html is not None:
        write_html(result, arguments.html)


def _format_progress(progress: SuiteProgress) -> str:
    """Format the progress of a run on one line."""
    parts = [
        f"{progress.cases_done:,} of {format_count(progress.cases, 'case')}",
        f"{format_count(progress.decided, 'requirement')} decided",
    ]
    # a model that returns texts alone has no passes
    if progress.passes:
        parts.append(format_count(progress.passes, "pass"))
    if progress.seconds_left is not None:
        parts.append(f"about {progress.seconds_left:,.0f} s left")
    return ", ".join(parts)
