"""Jobs of suites: verdicts of a suite on a model, and a table of all suites."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from llmchecker.checking.measurement import Measurement, find_threshold
from llmchecker.suites.cases import Case, Suite
from llmchecker.suites.html_page import write_html
from llmchecker.suites.json_lines import check_digest, read_results
from llmchecker.suites.kept_cases import keep_cases, restore_cases
from llmchecker.suites.results import SuiteResult
from llmchecker.suites.runner import select_shard
from llmchecker.suites.session import run_suite
from llmchecker.suites.verdicts import CaseResult
from llmchecker.trees.shards import Shard
from llmchecker.utils.job_logging import Stopwatch, build_status_log
from llmchecker.utils.number_format import format_count, format_number

_log = logging.getLogger(__name__)


def compute_verdicts(
    suite: Suite,
    threads: int,
    output: Any,
    kept: Path,
    code: str,
    work: Stopwatch,
    shards: Sequence[str] = (),
) -> None:
    """Run a suite; write its results and its page.

    Args:
        suite: the suite, with one model.
        threads: number of CPU threads.
        output: the files `results` and `page`.
        kept: the file of the certain results, from which the next run takes those of cases that are
            unchanged.
        code: digest of the code of the job.
        work: the stopwatch of the job.
        shards: the files of the suite's shards; empty if this job decides all cases.
    """
    log = _name_log(suite, output.results)
    _restore(suite, code, kept, log, suite.cases)
    with work():
        result = _run(suite, threads, log=log, shards=shards)
    write_html(result, output.page)
    keep_cases(suite, code, log, kept)
    log.replace(output.results)


def compute_shard(
    suite: Suite,
    shard: Shard,
    threads: int,
    results: str,
    kept: Path,
    code: str,
    work: Stopwatch,
) -> None:
    """Run a part of a suite, and write its results.

    Args:
        suite, threads, kept, work: as in `compute_verdicts`.
        shard: the part.
        results: the file of the results.
        code: that of the job of the whole suite.
    """
    log = _name_log(suite, results)
    _restore(suite, code, kept, log, select_shard(suite, shard))
    with work():
        _run(suite, threads, log=log, shard=shard)
    log.replace(results)


def _name_log(suite: Suite, results: str) -> Path:
    """Return the log of a job, from which a next job continues if this one is killed."""
    # the workflow deletes the outputs of a killed job
    return Path(f"{results}.{suite.digest[:8]}.unfinished")


def _restore(suite: Suite, code: str, kept: Path, log: Path, cases: Sequence[Case]) -> None:
    """Begin the log of a run of these cases with kept results."""
    if count := restore_cases(suite, code, kept, log, cases):
        _log.info("%s of %s kept", format_count(count, "case"), format_number(len(cases)))


def _run(suite: Suite, threads: int, **options: Any) -> SuiteResult:
    """Run a suite, with the progress in the log of the job."""
    expansion = suite.expansion.model_copy(update={"threads": threads})
    report = build_status_log(suite.name)
    return run_suite(
        replace(suite, expansion=expansion),
        report=lambda progress: report(f"{progress.done} of {progress.total} cases"),
        **options,
    )


def build_suites_table(
    files: Sequence[str], labels: Mapping[str, str], digests: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Build the table of all suites: a row for each verdict.

    The columns of the estimate are empty where samples narrowed nothing.

    Args:
        files: the files of results, as `paths.suite_file` names them.
        labels: labels of models by name.
        digests: the present digest of the suite of each file; None to take the results as they are.

    Raises:
        ConfigError: a file has results of another suite, model or version.
    """
    for file in files:
        if digests is not None:
            check_digest(file, digests[file])
    return pd.DataFrame(
        [
            {
                "suite": Path(file).parent.name,
                "model": labels[result.deployment],
                "name": result.case,
                "verdict": str(result.status),
                "threshold": _format_threshold(result),
                "certain": result.is_certain,
                "lower": result.measurement.certain.lower,
                "upper": result.measurement.certain.upper,
                **_find_estimate(result.measurement),
                "passes": result.passes,
                # relative to the folder of results, as the links of the report
                "page": f"suites/{Path(file).parent.name}/{Path(file).stem}.html",
            }
            for file in files
            for result in read_results(file)
        ]
    )


def _format_threshold(result: CaseResult) -> str:
    """Format the threshold of a case; empty for an error and for a number."""
    threshold = None if result.answer is None else find_threshold(result.answer.query)
    return "" if threshold is None else str(threshold)


def _find_estimate(measurement: Measurement) -> dict[str, float | None]:
    """Return the interval of the samples; None for ends that are only the bounds."""
    interval = measurement.sampled
    is_narrower = interval != measurement.certain
    return {
        "low": interval.lower if is_narrower else None,
        "high": interval.upper if is_narrower else None,
    }
